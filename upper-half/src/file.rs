//! Files. They work, but their state across a checkpoint is not built yet: while one is open,
//! checkpoints are refused (`latch.rs`).
//!
//! # Safety
//! Out parameters are the application's, as MPI prescribes them; crossings pass words of live files.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // MPI's own contracts, see the head

use crate::comm_create::{check, group_below};
use crate::errhandler::{Current, Handler};
use crate::object::{Body, File, Info};
use crate::sync::Lock;
use crate::{info, lower, object_table};
use contract::abi::*;
use contract::HandleKind;
use std::ffi::CString;
use std::sync::Arc;

/// Body of a file.
pub struct FileBody {
    errhandler: Current,
    info: Lock<Vec<(CString, CString)>>,
}

impl Body for FileBody {
    const KIND: HandleKind = HandleKind::File;
    const CAPACITY: u32 = 1 << 16;
    const NULL: usize = file::FILE_NULL;
    const PREDEFINED: &'static [(&'static str, usize)] = file::ALL;
    object_table!(FileBody);

    fn predefined(_index: u32) -> Self {
        FileBody::with(Current::predefined(errhandler::ERRORS_RETURN))
    }
}

impl FileBody {
    fn with(errhandler: Current) -> FileBody {
        FileBody {
            errhandler,
            info: Lock::new(Vec::new()),
        }
    }

    /// The body of a file that is opened now: it has the error handler of MPI_FILE_NULL.
    pub(crate) fn opened() -> FileBody {
        FileBody::with(Current::same_as(&File::null().body.errhandler))
    }

    /// What is to be done on an error.
    pub fn handler(&self) -> Handler {
        self.errhandler.handler()
    }

    pub(crate) fn errhandler(&self) -> &Current {
        &self.errhandler
    }
}

/// World ranks of the group that opened the file.
pub(crate) unsafe fn members(file: &'static File) -> Result<Arc<[u32]>, i32> {
    let mut group = 0;
    // SAFETY: a local, and a live file's word.
    unsafe {
        check(lower::MPI_File_get_group(file.lower(), &raw mut group))?;
        group_below(group)
    }
}

/// MPI_File_set_info. Hints are kept for MPI_File_get_info; the library below is not told.
pub fn file_set_info(file: &'static File, info: &'static Info) -> i32 {
    if file.is_null() {
        return ERR_FILE;
    }
    *file.body.info.lock() = info.body.entries();
    SUCCESS
}

/// MPI_File_get_info.
pub unsafe fn file_get_info(file: &'static File, out: *mut &'static Info) -> i32 {
    if file.is_null() {
        return ERR_FILE;
    }
    let entries = file.body.info.lock().clone();
    // SAFETY: passed on.
    unsafe { info::give(entries, out) }
}
