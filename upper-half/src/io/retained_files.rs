//! Retained files: a close that deletes a file (MPI_MODE_DELETE_ON_CLOSE) after a checkpoint in which the file was
//! open. A restart from that checkpoint needs it, so the file is renamed instead, and the restart finds it under the
//! new name. It is removed at the second checkpoint since, or in MPI_Finalize.

use crate::io::posix_file;
use crate::object::File;
use crate::runtime::lock::Lock;
use crate::runtime::syscall;
use std::ffi::CString;

/// A file under its other name.
struct RetainedFile {
    path: CString,
    /// Checkpoints since it got that name. The set of the first is not whole yet when it is counted.
    cuts: u32,
}

static RETAINED: Lock<Vec<RetainedFile>> = Lock::new(Vec::new());

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
pub(crate) fn retain(file: &'static File) -> bool {
    let (Some(path), Some(other)) = (file.body.name.path(), other_name(file)) else {
        return false;
    };
    let renamed = posix_file::rename(path, &other).is_ok();
    if renamed {
        RETAINED.lock().push(RetainedFile {
            path: other,
            cuts: 0,
        });
    }
    renamed
}

/// At a restart: gives a file its own name again, if it has the other.
pub(crate) fn give_back(file: &'static File) {
    if let (Some(path), Some(other)) = (file.body.name.path(), other_name(file)) {
        // It is usually not there: then the file was not closed.
        let _ = posix_file::rename(&other, path);
    }
}

/// At a cut: removes what only older checkpoints need.
pub(crate) fn count_cut() {
    RETAINED.lock().retain_mut(|kept| {
        kept.cuts += 1;
        let stays = kept.cuts < CUTS;
        if !stays {
            syscall::unlink(&kept.path);
        }
        stays
    });
}

/// In MPI_Finalize: removes all.
pub(crate) fn remove_retained() {
    for kept in RETAINED.lock().drain(..) {
        syscall::unlink(&kept.path);
    }
}
