//! Files across a checkpoint: the state that the cut notes of each, and opening it again at a restart.
//!
//! The cut comes when nothing is under way in any rank. Then nothing here depends on another rank, so a checkpoint that
//! is given up in the middle leaves no rank waiting: pointers and size are asked for locally, and the kernel writes the
//! data to the disk (MPI_File_sync is collective, and some libraries have a barrier in it, which is all that it would
//! add).

use crate::comm::numbers::greatest;
use crate::crossing::mpi_result::check;
use crate::crossing::report::message;
use crate::error::class;
use crate::io::{posix_file, retained_files};
use crate::object::file::{CutState, FileBody, NONE, OUR_MODES};
use crate::object::info::crossing_entries;
use crate::object::lower_handle::temporary::CrossingInfo;
use crate::object::lower_handle::{named, Fresh, Unparked};
use crate::object::table::Body;
use crate::object::File;
use contract::abi::*;
use core::sync::atomic::Ordering;

/// What only makes sense when a file is opened for the first time.
const FIRST_MODES: i32 = MODE_CREATE | MODE_EXCL | MODE_APPEND;

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

    /// The error number if there is nothing under the file's name.
    fn gone(&self) -> Option<i32> {
        self.name
            .path()
            .and_then(|path| posix_file::exists(path).err())
    }

    /// Whether the name leads elsewhere than when the file was opened: to nothing, or to another file.
    fn has_lost_its_name(&self) -> bool {
        let Some(path) = self.name.path() else {
            return false;
        };
        posix_file::identity(path).ok() != *self.identity.lock()
    }

    /// Notes what the name of the file, which was just opened, leads to.
    pub(super) fn note_identity(&self) {
        let path = self.name.path();
        *self.identity.lock() = path.and_then(|path| posix_file::identity(path).ok());
    }
}

/// Why no checkpoint may be taken now; `None` when it may.
pub(crate) fn refusal() -> Option<String> {
    let file = by_id()
        .into_iter()
        .find(|file| file.body.has_lost_its_name())?;
    Some(format!(
        "{} is open (MPI_File_open) but is no longer found under that name: a restart could not \
         open it; ask again when it is closed, or back in its place",
        file.body.describe()
    ))
}

/// Notes what a restart will need of each file, and brings what was written to the disk. Returns 0
/// or an error class: the checkpoint is to be given up then.
pub(crate) fn at_cut() -> i32 {
    retained_files::count_cut();
    for file in by_id() {
        if let Err(code) = note(file) {
            let text = class::text_of(code).unwrap_or_default();
            message(&format!("checkpoint: {}: {text}", file.body.describe()));
            return code;
        }
        if let Err(number) = write_out(&file.body) {
            message(&format!(
                "checkpoint: {}: its data could not be written to the disk (error {number} of \
                 fsync); is the disk full?",
                file.body.describe()
            ));
            return ERR_IO;
        }
    }
    SUCCESS
}

fn note(file: &'static File) -> Result<(), i32> {
    let body = &file.body;
    let mut cut = CutState::default();
    // None of these is collective.
    check(named::MPI_File_get_size(file, &mut cut.size))?;
    if !body.is_sequential() {
        check(named::MPI_File_get_position(file, &mut cut.position))?;
    }
    if body.shared.load(Ordering::Relaxed) {
        check(named::MPI_File_get_position_shared(file, &mut cut.shared))?;
    }
    *body.cut.lock() = cut;
    Ok(())
}

fn write_out(body: &FileBody) -> Result<(), i32> {
    match body.name.path() {
        Some(path) if body.is_writable() => posix_file::sync(path),
        _ => Ok(()),
    }
}

/// First of all at a restart: whether the files are there. One rank looks for each.
pub(crate) fn check_names() -> Result<(), Failure> {
    let first = |file: &&File| file.body.comm.body.rank == 0;
    for file in by_id().into_iter().filter(first) {
        if file.body.amode & MODE_DELETE_ON_CLOSE != 0 {
            retained_files::give_back(file);
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

/// Opens all files again. All ranks call this, after the datatypes and communicators were created again.
pub(crate) fn reopen(unparked: &Unparked) -> Result<(), Failure> {
    let mut pointers = Vec::new();
    for file in by_id() {
        pointers.push((file, reopen_one(file, unparked)?));
    }
    // Opening a file and giving it a view set its shared pointer to the beginning. In some libraries all handles of one
    // file have one shared pointer (Open MPI keeps it in a lock file with the file's name), so the pointers come last.
    for (file, shared) in pointers.into_iter().filter(|(_, shared)| *shared != NONE) {
        check(named::MPI_File_seek_shared(file, shared, SEEK_SET))
            .map_err(|code| (code, put_back(&file.body, "")))?;
    }
    Ok(())
}

/// Opens a file again, and returns its shared pointer at the cut, [`NONE`] if no process has used it.
fn reopen_one(file: &'static File, unparked: &Unparked) -> Result<i64, Failure> {
    let body = &file.body;
    let failed = |code| (code, put_back(body, ""));
    let hints = crossing_entries(&body.hints.lock());
    let mut now = 0;
    let noted = *body.cut.lock();
    let mut made = unparked.fresh();
    check(named::MPI_File_open(
        body.comm,
        body.name.for_mpi(),
        body.amode & !(OUR_MODES | FIRST_MODES),
        &hints,
        &mut made,
    ))
    .map_err(failed)?;
    check(named::MPI_File_get_size(&made, &mut now)).map_err(failed)?;
    let [size, shared, now] =
        greatest(body.comm, [noted.size, noted.shared, now]).map_err(failed)?;
    if now < size {
        let why = format!(" with {size} bytes and has {now} now");
        return Err((ERR_IO, put_back(body, &why)));
    }
    // The job writes again what it had written after the checkpoint.
    if now > size && body.is_writable() {
        check(named::MPI_File_set_size(&made, size)).map_err(failed)?;
    }
    place(body, &made, noted.position, &hints).map_err(failed)?;
    file.take(made);
    body.note_identity();
    Ok(shared)
}

/// View, atomicity and the process's own pointer.
fn place(
    body: &FileBody,
    made: &Fresh<'_, FileBody>,
    position: i64,
    hints: &CrossingInfo,
) -> Result<(), i32> {
    let view = body.view.lock().clone();
    check(named::MPI_File_set_view(
        made,
        view.disp,
        view.etype,
        view.filetype,
        &view.datarep,
        hints,
    ))?;
    if body.atomic.load(Ordering::Relaxed) {
        check(named::MPI_File_set_atomicity(made, 1))?;
    }
    if position != NONE {
        check(named::MPI_File_seek(made, position, SEEK_SET))?;
    }
    Ok(())
}
