//! Files across a checkpoint: what the cut notes of each, and how a restart opens it again.
//!
//! The cut comes when nothing is under way in any rank. Then nothing here depends on another rank,
//! so a checkpoint that is given up in the middle leaves nobody waiting: pointers and size are asked
//! for locally, and the data is brought to the disk by the kernel (MPI_File_sync is collective, and
//! some libraries have a barrier in it; all it would add to this is that barrier).
//!
//! # Safety
//! Runs on one thread while all others are parked; words are those of live files, or are set here.
#![allow(unsafe_code)]

use super::{disk, greatest, kept, FileBody, OUR_MODES};
use crate::code::check;
use crate::info::CrossingInfo;
use crate::lower::{named, service, Fresh};
use crate::object::{Body, File};
use crate::{error, info};
use contract::abi::*;
use core::sync::atomic::Ordering;

/// What only makes sense when a file is opened for the first time.
const FIRST_MODES: i32 = MODE_CREATE | MODE_EXCL | MODE_APPEND;

/// A position that was not noted.
const NONE: i64 = -1;

/// What a file is like at the cut.
#[derive(Clone, Copy)]
pub(super) struct Cut {
    /// Bytes; [`NONE`] before the first cut.
    size: i64,
    /// The process's own pointer, in etypes of the view; [`NONE`] where it may not be used.
    position: i64,
    /// The shared pointer; [`NONE`] if this process never used it.
    shared: i64,
}

impl Default for Cut {
    fn default() -> Cut {
        Cut {
            size: NONE,
            position: NONE,
            shared: NONE,
        }
    }
}

impl Cut {
    /// Whether there was one since the file was opened.
    pub(super) fn is_noted(&self) -> bool {
        self.size != NONE
    }
}

/// An error class, and what could not be made.
type Failure = (i32, String);

/// All open files. Members of two files come to them in the same order.
fn by_id() -> Vec<&'static File> {
    let mut files: Vec<_> = FileBody::table().dynamic().collect();
    files.sort_unstable_by_key(|file| file.body.comm.body.id);
    files
}

impl FileBody {
    /// How messages name it.
    fn describe(&self) -> String {
        format!("the file {}", self.name.for_mpi().to_string_lossy())
    }

    /// The error number if the file is no longer found under its name.
    fn gone(&self) -> Option<i32> {
        self.name.path().and_then(|path| disk::exists(path).err())
    }
}

fn say(text: &str) {
    // SAFETY: the service reads the text.
    unsafe { service::message(text.as_ptr(), text.len()) };
}

/// Why no checkpoint may be taken now; `None` when it may.
pub(crate) fn refusal() -> Option<String> {
    let file = by_id()
        .into_iter()
        .find(|file| file.body.gone().is_some())?;
    Some(format!(
        "{} is open (MPI_File_open) but is no longer found under that name: a restart could not \
         open it; ask again when it is closed, or back in its place",
        file.body.describe()
    ))
}

/// Notes what a restart will need of each file, and brings what was written to the disk. Returns 0
/// or an error class: the checkpoint is to be given up then.
pub(crate) fn at_cut() -> i32 {
    kept::count_cut();
    for file in by_id() {
        // SAFETY: see the module's head.
        if let Err(code) = unsafe { note(file) } {
            let text = error::text_of(code).unwrap_or_default();
            say(&format!("checkpoint: {}: {text}", file.body.describe()));
            return code;
        }
        if let Err(number) = write_out(&file.body) {
            say(&format!(
                "checkpoint: {}: its data could not be written to the disk (error {number} of \
                 fsync); is the disk full?",
                file.body.describe()
            ));
            return ERR_IO;
        }
    }
    SUCCESS
}

unsafe fn note(file: &'static File) -> Result<(), i32> {
    let body = &file.body;
    let mut cut = Cut::default();
    // SAFETY: a live file's word, and pointers to locals; none of these is collective.
    unsafe {
        check(named::MPI_File_get_size(file, &raw mut cut.size))?;
        if !body.is_sequential() {
            check(named::MPI_File_get_position(file, &raw mut cut.position))?;
        }
        if body.shared.load(Ordering::Relaxed) {
            check(named::MPI_File_get_position_shared(
                file,
                &raw mut cut.shared,
            ))?;
        }
    }
    *body.cut.lock() = cut;
    Ok(())
}

fn write_out(body: &FileBody) -> Result<(), i32> {
    match body.name.path() {
        Some(path) if body.is_writable() => disk::sync(path),
        _ => Ok(()),
    }
}

/// First of all at a restart: whether the files are there. One rank looks for each.
pub(crate) fn check_names() -> Result<(), Failure> {
    let first = |file: &&File| file.body.comm.body.rank == 0;
    for file in by_id().into_iter().filter(first) {
        if file.body.amode & MODE_DELETE_ON_CLOSE != 0 {
            kept::give_back(file);
        }
        if file.body.gone().is_some() {
            return Err((ERR_NO_SUCH_FILE, put_back(&file.body, "")));
        }
    }
    Ok(())
}

/// What could not be made, and what to do about it.
fn put_back(body: &FileBody, why: &str) -> String {
    format!(
        "{}, which was open at the checkpoint{why} (put it back as it was and restart again),",
        body.describe()
    )
}

/// Opens all files again.
///
/// # Safety
/// Crosses; datatypes and communicators are made anew, and all ranks are here.
pub(crate) unsafe fn reopen() -> Result<(), Failure> {
    for file in by_id() {
        // SAFETY: passed on.
        unsafe { reopen_one(file) }?;
    }
    Ok(())
}

unsafe fn reopen_one(file: &'static File) -> Result<(), Failure> {
    let body = &file.body;
    let failed = |code| (code, put_back(body, ""));
    let hints = info::crossing_entries(&body.hints.lock());
    let mut now = 0;
    let noted = *body.cut.lock();
    // SAFETY: words that were just made, and pointers to locals. All members do the same.
    unsafe {
        // Nothing parks before the program goes on.
        let mut made = Fresh::<FileBody>::null();
        check(named::MPI_File_open(
            body.comm,
            body.name.for_mpi().as_ptr(),
            body.amode & !(OUR_MODES | FIRST_MODES),
            &hints,
            made.place(),
        ))
        .map_err(failed)?;
        check(named::MPI_File_get_size(&made, &raw mut now)).map_err(failed)?;
        let [size, shared, now] =
            greatest(body.comm, [noted.size, noted.shared, now]).map_err(failed)?;
        if now < size {
            let why = format!(" with {size} bytes and has {now} now");
            return Err((ERR_IO, put_back(body, &why)));
        }
        // What the killed job wrote after the checkpoint will be written again.
        if now > size && body.is_writable() {
            check(named::MPI_File_set_size(&made, size)).map_err(failed)?;
        }
        place(body, &made, noted.position, shared, &hints).map_err(failed)?;
        file.take(made);
    }
    Ok(())
}

/// View, atomicity and pointers.
unsafe fn place(
    body: &FileBody,
    made: &Fresh<'_, FileBody>,
    position: i64,
    shared: i64,
    hints: &CrossingInfo,
) -> Result<(), i32> {
    let view = body.view.lock().clone();
    // SAFETY: passed on.
    unsafe {
        check(named::MPI_File_set_view(
            made,
            view.disp,
            view.etype,
            view.filetype,
            view.datarep.as_ptr(),
            hints,
        ))?;
        if body.atomic.load(Ordering::Relaxed) {
            check(named::MPI_File_set_atomicity(made, 1))?;
        }
        if position != NONE {
            check(named::MPI_File_seek(made, position, SEEK_SET))?;
        }
        if shared != NONE {
            check(named::MPI_File_seek_shared(made, shared, SEEK_SET))?;
        }
    }
    Ok(())
}
