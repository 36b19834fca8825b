//! Absolute names of files for the undo journal.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Whether the path is in /dev, /proc or no directory, and so is not a file of the job. Objects of shared memory are
/// files: a restart makes only those again that were mapped at the cut.
pub fn is_device(path: &Path) -> bool {
    let of_kernel = path.starts_with("/dev") || path.starts_with("/proc");
    !path.is_absolute() || of_kernel && !path.starts_with("/dev/shm")
}

pub fn link_of(fd: i32) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/thread-self/fd/{fd}")).ok()
}

/// Absolute name of the file for a call; the last component is resolved only if `follow`.
pub fn name_of(directory: i32, path: &CStr, follow: bool) -> Option<PathBuf> {
    let given = Path::new(OsStr::from_bytes(path.to_bytes()));
    let path = match directory {
        libc::AT_FDCWD => given.to_owned(),
        _ if given.is_absolute() => given.to_owned(),
        fd => link_of(fd)?.join(given),
    };
    let mut whole = resolve(&path)?;
    // A dangling link leads to the file that the call will create.
    for _ in 0..MOST_LINKS {
        match std::fs::read_link(&whole) {
            Ok(target) if follow => whole = resolve(&whole.parent()?.join(target))?,
            _ => break,
        }
    }
    (!is_device(&whole)).then_some(whole)
}

/// Links that the kernel follows at most.
pub const MOST_LINKS: u32 = 40;

/// Resolves all links in the path, except perhaps in its last component.
fn resolve(path: &Path) -> Option<PathBuf> {
    let parent = path.parent()?;
    let parent = match parent.as_os_str().is_empty() {
        true => Path::new("."),
        false => parent,
    };
    Some(parent.canonicalize().ok()?.join(path.file_name()?))
}
