//! Standard input, output and error of the launcher. After a restart those of the new launcher replace them.

use super::reopen_by_path;
use crate::interpose::descriptors::launcher_stdio;
use crate::process_state::files::look::Look;
use crate::sys::descriptor::{duplicate, fcntl, open, place_at};
use nix::sys::resource::{getrlimit, setrlimit, Resource};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

/// Number of the launcher's standard file that this is, if any.
pub fn which(look: &Look) -> Option<i32> {
    if launcher_stdio::is_given(look.fd, look.identity()) {
        return Some(look.fd);
    }
    let given = launcher_stdio::given();
    let is = |n: &i32| given[*n as usize] == Some(look.identity());
    // On another number, a pipe, socket or terminal is identified by device and inode. The program may as well have
    // opened a file or a device by its name.
    let known = matches!(look.mode(), libc::S_IFIFO | libc::S_IFSOCK)
        || look.mode() == libc::S_IFCHR && reopen_by_path::is_terminal(look.facts.st_rdev);
    // On a terminal all three are the same file, so a writable descriptor is not taken for the input.
    let order = if look.writable() {
        [1, 2, 0]
    } else {
        [0, 1, 2]
    };
    order.into_iter().find(|n| known && is(n))
}

/// Opens /dev/null at each standard number that the launcher left closed, so that no other file gets it.
pub fn occupy() -> io::Result<()> {
    for fd in (0..3).filter(|&fd| fcntl(fd, libc::F_GETFD, 0).is_err()) {
        let null = open(Path::new("/dev/null"), libc::O_RDWR)?;
        if null.as_raw_fd() == fd {
            std::mem::forget(null);
        } else {
            place_at(null.as_raw_fd(), fd, true)?;
        }
    }
    Ok(())
}

/// Duplicates of the launcher's files, which stay when their numbers are reused.
pub fn keep() -> io::Result<[OwnedFd; 3]> {
    Ok([duplicate(0)?, duplicate(1)?, duplicate(2)?])
}

/// Raises the limit of descriptors to this number, as far as the hard limit allows. If it does not, the later use of
/// the number fails with a message.
pub fn raise_limit(highest: i32) {
    let wanted = highest as u64 + 1;
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        if soft < wanted {
            let _ = setrlimit(Resource::RLIMIT_NOFILE, wanted.min(hard), hard);
        }
    }
}
