//! Files (MPI-IO), carried across a checkpoint.
//!
//! A file keeps what opened it: a communicator of its own, its name, mode, hints and atomicity, and its view
//! (`view.rs`). The communicator is a duplicate of the application's: a restart makes it again like any other, and its
//! clock counts the collective operations on the file. The library below reads and writes: the front crosses, and the
//! drain completes what was started (requests like those of sends or of collectives). The first half of a split
//! collective operation does all of it (`split_collective.rs`). `checkpoint.rs` notes the state at the cut, and opens
//! the file again at a restart.
//!
//! Two modes are served here and not below. MPI_MODE_DELETE_ON_CLOSE: a library may unlink the file as soon as it is
//! open, but it must outlive the kill of the job; so it is deleted when the application closes it. MPI_MODE_SEQUENTIAL:
//! libraries forbid to seek in such a file, but a restart must.
//!
//! # Safety
//! Crossings that write a lower handle or an array get the place of a local, or of a file's lower handle.
#![allow(unsafe_code)]

pub(crate) mod checkpoint;
mod posix_file;
pub(crate) mod retained_files;
mod split_collective;
mod view;

pub use split_collective::*;
pub use view::{file_get_view, file_set_view};

use crate::argument::Out;
use crate::comm::construct::construct;
use crate::comm::numbers::greatest;
use crate::crossing::mpi_result::{check, code_of};
use crate::crossing::stubs;
use crate::object::comm::closing::farewell;
use crate::object::errhandler::Current;
use crate::object::file::{FileBody, FileName, OUR_MODES};
use crate::object::info::{crossing_info, make_info};
use crate::object::lower_handle::{named, Fresh};
use crate::object::{Comm, File, Info};
use crate::quiesce::collective_gate::{collective_begin, collective_end};
use crate::quiesce::retractable::first_call;
use crate::quiesce::{collective, Inputs};
use contract::abi::*;
use core::ffi::CStr;
use core::sync::atomic::Ordering;

/// MPI_File_open.
pub fn file_open(
    comm: &'static Comm,
    name: &CStr,
    amode: i32,
    info: &'static Info,
    out: &mut &'static File,
) -> i32 {
    if comm.body.size == 0 || comm.body.inter {
        return ERR_COMM;
    }
    if amode & MODE_SEQUENTIAL != 0 && amode & MODE_RDWR != 0 {
        return ERR_AMODE;
    }
    let made = construct(
        comm,
        "file",
        false,
        |made| named::MPI_Comm_dup(comm, made),
        |_| Ok(None),
    );
    let own = match made {
        Ok(own) => own,
        Err(code) => return code,
    };
    let token = collective_begin(own);
    let opened = open_below(own, name, amode, info, token.fresh());
    collective_end(token);
    if opened.is_err() {
        farewell(own);
    }
    Out::from(out).give(opened)
}

/// Opens the file in the lower half. If one process cannot, none does, since a restart could not make a file again that
/// only some members have.
fn open_below(
    comm: &'static Comm,
    name: &CStr,
    amode: i32,
    info: &'static Info,
    mut made: Fresh<'_, FileBody>,
) -> Result<&'static File, i32> {
    let below = crossing_info(info);
    let amode_below = amode & !OUR_MODES;
    let code = named::MPI_File_open(comm, name, amode_below, &below, &mut made);
    let [worst] = greatest(comm, [i64::from(code)])?;
    check(code)?;
    check(worst as i32)?;
    let name = FileName::of_open_file(name);
    let errhandler = Current::same_as(&File::null().body.errhandler);
    let file = File::make_of(made, FileBody::with(errhandler, comm, name, amode))?;
    file.body.take_hints(info);
    file.body.note_identity();
    Ok(file)
}

/// MPI_File_close.
pub fn file_close(file: &mut &'static File) -> i32 {
    let given = *file;
    if given.is_null() {
        return ERR_FILE;
    }
    let comm = given.body.comm;
    // A library that closes a file makes its members wait for each other, too. But a checkpoint could not ask it about
    // a file that is closed in part.
    let (token, met) = first_call(comm, &mut |code| *code = named::MPI_Barrier(comm));
    let mut code = match met {
        // SAFETY: the place of a live file's lower handle.
        SUCCESS => unsafe { stubs::MPI_File_close(given.lower_ptr()) },
        code => code,
    };
    if code == SUCCESS && given.body.amode & MODE_DELETE_ON_CLOSE != 0 {
        code = code_of(delete(given));
    } else if code == SUCCESS && comm.body.rank == 0 && given.body.is_writable() {
        if let Some(path) = given.body.name.path() {
            posix_file::note_written(path);
        }
    }
    collective_end(token);
    if !given.is_below() {
        farewell(comm);
        given.release();
        *file = File::null();
    }
    code
}

/// Deletes a file that all have closed, before any goes on; unless a checkpoint may need it.
fn delete(file: &'static File) -> Result<(), i32> {
    let comm = file.body.comm;
    check(named::MPI_Barrier(comm))?;
    let mut code = SUCCESS;
    if comm.body.rank == 0 && !(file.body.cut.lock().is_noted() && retained_files::retain(file)) {
        code = named::MPI_File_delete(file.body.name.for_mpi(), Info::null());
    }
    check(named::MPI_Barrier(comm))?;
    check(code)
}

/// MPI_File_get_amode.
pub fn file_get_amode(file: &'static File, mut amode: Out<'_, i32>) -> i32 {
    if file.is_null() {
        return ERR_FILE;
    }
    amode.set(file.body.amode);
    SUCCESS
}

/// MPI_File_set_atomicity.
pub fn file_set_atomicity(file: &'static File, flag: i32) -> i32 {
    if file.is_null() {
        return ERR_FILE;
    }
    let code = collective(file.body.comm, Inputs::Stay, &mut |code| {
        *code = named::MPI_File_set_atomicity(file, flag);
    });
    if code == SUCCESS {
        file.body.atomic.store(flag != 0, Ordering::Relaxed);
    }
    code
}

/// MPI_File_get_atomicity.
pub fn file_get_atomicity(file: &'static File, mut flag: Out<'_, i32>) -> i32 {
    if file.is_null() {
        return ERR_FILE;
    }
    flag.set(i32::from(file.body.atomic.load(Ordering::Relaxed)));
    SUCCESS
}

/// MPI_File_set_info. Hints are kept for MPI_File_get_info and for a restart. The library below does not get them.
pub fn file_set_info(file: &'static File, info: &'static Info) -> i32 {
    if file.is_null() {
        return ERR_FILE;
    }
    file.body.take_hints(info);
    SUCCESS
}

/// MPI_File_get_info.
pub fn file_get_info(file: &'static File, out: &mut &'static Info) -> i32 {
    if file.is_null() {
        return ERR_FILE;
    }
    let hints = file.body.hints.lock().clone();
    Out::from(out).give(make_info(hints))
}
