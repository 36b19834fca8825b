//! Files (MPI-IO), carried across a checkpoint.
//!
//! A file keeps what opened it: a communicator of its own, a duplicate of the application's, which a
//! restart makes again like any other and whose clock counts the collective operations on the file;
//! its name, mode, hints and atomicity; and its view (`view.rs`). Reading and writing are the
//! library's below: the front crosses, and the drain completes what was started (requests like those
//! of sends or of collectives). Split collective operations are done as a whole by their first half
//! (`split.rs`). What the cut notes, and how a restart opens the file again, is in `carry.rs`.
//!
//! Two modes are served here and not below. MPI_MODE_DELETE_ON_CLOSE: a library may unlink the file
//! as soon as it is open, but it must outlive the kill of the job; so it is deleted when the
//! application closes it. MPI_MODE_SEQUENTIAL: a library lets nobody seek in such a file, but a
//! restart must.
//!
//! # Safety
//! Out parameters are the application's, as MPI prescribes them; crossings pass words of live files
//! and communicators, and pointers to locals.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // MPI's own contracts, see the head

mod carry;
mod disk;
mod kept;
mod split;
mod view;

use crate::code::{check, code_of, give};
use crate::comm_create::construct;
use crate::errhandler::{Current, Handler};
use crate::lower::{self, named, Fresh};
use crate::message::{collective_begin, collective_end};
use crate::object::{Body, Comm, Datatype, File, Info, Op};
use crate::sync::Lock;
use crate::{comm_free, info, object_table};
use carry::Cut;
use contract::abi::*;
use contract::HandleKind;
use core::ffi::{c_char, CStr};
use core::sync::atomic::{AtomicBool, Ordering};
use disk::Name;
use split::Split;
use std::ffi::CString;
use view::View;

pub(crate) use carry::{at_cut, check_names, refusal, reopen};
pub(crate) use kept::forget_kept;
pub use split::*;
pub use view::{file_get_view, file_set_view};

/// Modes that are not the library's below, see the module's head.
const OUR_MODES: i32 = MODE_DELETE_ON_CLOSE | MODE_SEQUENTIAL;

/// Body of a file.
pub struct FileBody {
    errhandler: Current,
    hints: Lock<Vec<(CString, CString)>>,
    /// The file's own; the null communicator for the null file.
    comm: &'static Comm,
    name: Name,
    /// As the application gave it.
    amode: i32,
    view: Lock<View>,
    atomic: AtomicBool,
    /// This process has used the shared pointer: only then is it asked for, since asking makes some
    /// libraries create a file for it beside the file.
    shared: AtomicBool,
    /// The split collective operation that was begun and not ended, and its status.
    split: Lock<Option<(Split, Status)>>,
    cut: Lock<Cut>,
}

impl Body for FileBody {
    const KIND: HandleKind = HandleKind::File;
    const CAPACITY: u32 = 1 << 16;
    const NULL: usize = file::FILE_NULL;
    const PREDEFINED: &'static [(&'static str, usize)] = file::ALL;
    object_table!(FileBody);

    fn predefined(_index: u32) -> Self {
        FileBody::with(
            Current::predefined(errhandler::ERRORS_RETURN),
            Comm::null(),
            Name::none(),
            0,
        )
    }

    fn retire(file: &'static File) {
        file.body.view.lock().release();
    }
}

impl FileBody {
    fn with(errhandler: Current, comm: &'static Comm, name: Name, amode: i32) -> FileBody {
        FileBody {
            errhandler,
            hints: Lock::new(Vec::new()),
            comm,
            name,
            amode,
            view: Lock::new(View::initial()),
            atomic: AtomicBool::new(false),
            // Opening moves the shared pointer to the end.
            shared: AtomicBool::new(amode & MODE_APPEND != 0),
            split: Lock::new(None),
            cut: Lock::new(Cut::default()),
        }
    }

    /// What is to be done on an error.
    pub fn handler(&self) -> Handler {
        self.errhandler.handler()
    }

    pub(crate) fn errhandler(&self) -> &Current {
        &self.errhandler
    }

    /// The communicator whose clock counts collective operations on the file.
    pub fn comm(&self) -> &'static Comm {
        self.comm
    }

    /// Whether only the shared pointer may be used.
    #[inline(always)]
    pub fn is_sequential(&self) -> bool {
        self.amode & MODE_SEQUENTIAL != 0
    }

    /// The shared pointer is about to be used.
    #[inline(always)]
    pub fn shares_pointer(&self) {
        self.shared.store(true, Ordering::Relaxed);
    }

    fn is_writable(&self) -> bool {
        self.amode & (MODE_WRONLY | MODE_RDWR) != 0
    }

    /// Takes hints; those of the same key are replaced.
    fn take_hints(&self, info: &'static Info) {
        let mut hints = self.hints.lock();
        for (key, value) in info.body.entries() {
            match hints.iter_mut().find(|hint| hint.0 == key) {
                Some(hint) => hint.1 = value,
                None => hints.push((key, value)),
            }
        }
    }
}

/// The greatest of all members' values, place by place.
unsafe fn greatest<const N: usize>(comm: &'static Comm, own: [i64; N]) -> Result<[i64; N], i32> {
    let mut all = own;
    // SAFETY: arrays of N entries; all members call this.
    check(unsafe {
        named::MPI_Allreduce(
            own.as_ptr().cast(),
            all.as_mut_ptr().cast(),
            N as i32,
            Datatype::at(datatype::INT64_T as u32),
            Op::at(op::MAX as u32),
            comm,
        )
    })?;
    Ok(all)
}

/// MPI_File_open.
pub unsafe fn file_open(
    comm: &'static Comm,
    name: *const c_char,
    amode: i32,
    info: &'static Info,
    out: *mut &'static File,
) -> i32 {
    if comm.body.size == 0 || comm.body.inter {
        return ERR_COMM;
    }
    if amode & MODE_SEQUENTIAL != 0 && amode & MODE_RDWR != 0 {
        return ERR_AMODE;
    }
    // SAFETY: MPI's contract: a NUL-terminated string, and the same arguments in all processes.
    unsafe {
        let duplicate = |word| named::MPI_Comm_dup(comm, word);
        let own = match construct(comm, "file", false, duplicate, |_| Ok(None)) {
            Ok(own) => own,
            Err(code) => return code,
        };
        let token = collective_begin(own);
        let opened = open_below(own, name, amode, info, token.fresh());
        collective_end(token);
        if opened.is_err() {
            comm_free::farewell(own);
        }
        give(opened, out)
    }
}

/// Opens the file in the lower half. If some process could not, none has: a file that not all
/// members have could not be made again.
unsafe fn open_below(
    comm: &'static Comm,
    name: *const c_char,
    amode: i32,
    info: &'static Info,
    mut made: Fresh<'_, FileBody>,
) -> Result<&'static File, i32> {
    // SAFETY: passed on.
    unsafe {
        let below = info::crossing_info(info);
        let amode_below = amode & !OUR_MODES;
        let code = named::MPI_File_open(comm, name, amode_below, &below, made.place());
        let [worst] = greatest(comm, [i64::from(code)])?;
        check(code)?;
        check(worst as i32)?;
        let name = Name::of_open_file(CStr::from_ptr(name));
        let errhandler = Current::same_as(&File::null().body.errhandler);
        let file = File::make_of(made, FileBody::with(errhandler, comm, name, amode))?;
        file.body.take_hints(info);
        Ok(file)
    }
}

/// MPI_File_close.
pub unsafe fn file_close(file: *mut &'static File) -> i32 {
    // SAFETY: MPI's contract for an inout parameter.
    let given = unsafe { *file };
    if given.is_null() {
        return ERR_FILE;
    }
    let comm = given.body.comm;
    let token = collective_begin(comm);
    // SAFETY: a live file's word; the handle is given up.
    unsafe {
        let mut code = lower::MPI_File_close(given.lower_ptr());
        if code == SUCCESS && given.body.amode & MODE_DELETE_ON_CLOSE != 0 {
            code = code_of(delete(given));
        } else if code == SUCCESS && comm.body.rank == 0 && given.body.is_writable() {
            if let Some(path) = given.body.name.path() {
                disk::note_written(path);
            }
        }
        collective_end(token);
        if !given.is_below() {
            comm_free::farewell(comm);
            given.release();
            *file = File::null();
        }
        code
    }
}

/// Deletes a file that all have closed, before any goes on; unless a checkpoint may need it.
unsafe fn delete(file: &'static File) -> Result<(), i32> {
    let comm = file.body.comm;
    // SAFETY: all members call this.
    unsafe {
        check(named::MPI_Barrier(comm))?;
        let mut code = SUCCESS;
        if comm.body.rank == 0 && !(file.body.cut.lock().is_noted() && kept::keep(file)) {
            code = named::MPI_File_delete(file.body.name.for_mpi().as_ptr(), Info::null());
        }
        check(named::MPI_Barrier(comm))?;
        check(code)
    }
}

/// MPI_File_get_amode.
pub unsafe fn file_get_amode(file: &'static File, amode: *mut i32) -> i32 {
    if file.is_null() {
        return ERR_FILE;
    }
    // SAFETY: MPI's contract for an out parameter.
    unsafe { *amode = file.body.amode };
    SUCCESS
}

/// MPI_File_set_atomicity.
pub unsafe fn file_set_atomicity(file: &'static File, flag: i32) -> i32 {
    if file.is_null() {
        return ERR_FILE;
    }
    let token = collective_begin(file.body.comm);
    // SAFETY: a live file's word.
    let code = unsafe { named::MPI_File_set_atomicity(file, flag) };
    if code == SUCCESS {
        file.body.atomic.store(flag != 0, Ordering::Relaxed);
    }
    collective_end(token);
    code
}

/// MPI_File_get_atomicity.
pub unsafe fn file_get_atomicity(file: &'static File, flag: *mut i32) -> i32 {
    if file.is_null() {
        return ERR_FILE;
    }
    // SAFETY: MPI's contract for an out parameter.
    unsafe { *flag = i32::from(file.body.atomic.load(Ordering::Relaxed)) };
    SUCCESS
}

/// MPI_File_set_info. Hints are kept for MPI_File_get_info and for a restart; the library below is
/// not told.
pub fn file_set_info(file: &'static File, info: &'static Info) -> i32 {
    if file.is_null() {
        return ERR_FILE;
    }
    file.body.take_hints(info);
    SUCCESS
}

/// MPI_File_get_info.
pub unsafe fn file_get_info(file: &'static File, out: *mut &'static Info) -> i32 {
    if file.is_null() {
        return ERR_FILE;
    }
    let hints = file.body.hints.lock().clone();
    // SAFETY: passed on.
    unsafe { info::give(hints, out) }
}
