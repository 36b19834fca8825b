//! Files that the library opens for the application. The loader gets each of them, so that it records the library's
//! writes (`loader/src/interpose/file_changes/library_writes.rs`).
//!
//! # Safety
//! Names are strings with their NUL, as the upper half passes them on; communicators are live.
#![allow(unsafe_code)]

use core::ffi::{c_char, CStr};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::anyhow;
use contract::abi;
use job_spec::ExitCode;
use loader::file_changes::mpi_files::{self, FileId, Opening};

use crate::console;

/// The open files, by the lower handle.
static OPEN: Mutex<Option<HashMap<usize, Vec<FileId>>>> = Mutex::new(None);

fn open() -> MutexGuard<'static, Option<HashMap<usize, Vec<FileId>>>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the files that are opened now belong to another job, too, of which this one is a copy.
static SHARED: AtomicBool = AtomicBool::new(false);

/// Tells whether another job, of which this one is a copy, has the files that are opened from now on.
pub fn share_files(shared: bool) {
    SHARED.store(shared, Ordering::Release);
}

/// A file is about to be opened. Returns `None` for a file that is opened for reading.
pub unsafe fn opening(name: *const c_char, amode: i32) -> Option<Opening> {
    let writes = amode & (abi::MODE_WRONLY | abi::MODE_RDWR) != 0;
    // SAFETY: see the module's head.
    let name = unsafe { CStr::from_ptr(name) };
    if writes && SHARED.load(Ordering::Acquire) {
        console::tell(&anyhow!(
            "the first job has {} open by MPI_File_open for writing, and its copy would write it, too. Its content is as \
             it was; a copy is possible from a checkpoint at which it is closed",
            name.to_string_lossy()
        ));
        std::process::exit(ExitCode::Image.number());
    }
    writes.then(|| Opening::begin(name, amode & abi::MODE_CREATE != 0))
}

/// The open has succeeded or failed. One process creates the file, before or after others have looked for it, so their
/// observations are combined. All ranks of the communicator call this.
pub unsafe fn opened(
    opening: Option<Opening>,
    comm: mpi_sys::MPI_Comm,
    amode: i32,
) -> Option<(Opening, u32)> {
    let opening = opening?;
    let own = opening.absent();
    let mut all = own;
    if amode & abi::MODE_CREATE != 0 {
        // SAFETY: locals; after a failure this process uses its own observation.
        unsafe {
            mpi_sys::MPI_Allreduce(
                (&raw const own).cast(),
                (&raw mut all).cast(),
                1,
                mpi_sys::RSMPI_UINT32_T,
                mpi_sys::RSMPI_BOR,
                comm,
            );
        }
    }
    Some((opening, all))
}

/// The file is open and has this lower handle.
pub fn keep(opened: Option<(Opening, u32)>, file: usize) {
    if let Some((opening, absent)) = opened {
        let ids = opening.end(absent);
        open().get_or_insert_default().insert(file, ids);
    }
}

/// The file was closed.
pub fn closed(file: usize) {
    let ids = open().as_mut().and_then(|files| files.remove(&file));
    for id in ids.into_iter().flatten() {
        mpi_files::closed(id);
    }
}

/// A file is about to be deleted.
pub unsafe fn deleting(name: *const c_char) {
    // SAFETY: see the module's head.
    mpi_files::deleting(unsafe { CStr::from_ptr(name) });
}
