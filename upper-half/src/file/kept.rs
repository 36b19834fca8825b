//! Files that the application has closed and with that deleted (MPI_MODE_DELETE_ON_CLOSE) after a
//! checkpoint in which they were open. A restart from it needs them, so they only get another name
//! beside their own, under which the restart finds them. They go when a second checkpoint was taken
//! since, or the application calls MPI_Finalize.
//!
//! # Safety
//! As for `disk.rs`.
#![allow(unsafe_code)]

use super::disk;
use crate::object::File;
use crate::sync::Lock;
use crate::system;
use std::ffi::CString;

/// A file under its other name.
struct Kept {
    path: CString,
    /// Checkpoints since it got that name. The set of the first is not whole yet when it is counted.
    cuts: u32,
}

static KEPT: Lock<Vec<Kept>> = Lock::new(Vec::new());

const CUTS: u32 = 2;

/// The other name of a file, which it alone has.
fn other_name(file: &'static File) -> Option<CString> {
    let path = file.body.name.path()?.to_bytes();
    let slash = path.iter().rposition(|&byte| byte == b'/')?;
    let (directory, base) = path.split_at(slash + 1);
    let id = format!("-{:016x}", file.body.comm.body.id);
    CString::new([directory, b".stasis-", base, id.as_bytes()].concat()).ok()
}

/// Gives a closed file its other name; whether that was possible.
pub(super) fn keep(file: &'static File) -> bool {
    let (Some(path), Some(other)) = (file.body.name.path(), other_name(file)) else {
        return false;
    };
    let renamed = disk::rename(path, &other).is_ok();
    if renamed {
        KEPT.lock().push(Kept {
            path: other,
            cuts: 0,
        });
    }
    renamed
}

/// At a restart: gives a file its own name again, if it has the other.
pub(super) fn give_back(file: &'static File) {
    if let (Some(path), Some(other)) = (file.body.name.path(), other_name(file)) {
        // It is usually not there: then the file was not closed.
        let _ = disk::rename(&other, path);
    }
}

/// At a cut: removes what only older checkpoints need.
pub(super) fn count_cut() {
    KEPT.lock().retain_mut(|kept| {
        kept.cuts += 1;
        let stays = kept.cuts < CUTS;
        if !stays {
            system::unlink(&kept.path);
        }
        stays
    });
}

/// In MPI_Finalize: removes all.
pub(crate) fn forget_kept() {
    for kept in KEPT.lock().drain(..) {
        system::unlink(&kept.path);
    }
}
