//! Standard input, output and error, as the launcher gave them. They are the new job's after a
//! restart. And the numbers themselves: what is put where.
//!
//! # Safety
//! `dup3` and `close` at a number are for callers that own what is there: the launcher's standard
//! file, or what holds the number for the application.
#![allow(unsafe_code)]

use super::descriptor::{checked, duplicate, fcntl, open, stat, Look};
use super::place;
use crate::state::lock_of;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Mutex;

/// Device and inode of each, where it was open.
static GIVEN: Mutex<[Option<(u64, u64)>; 3]> = Mutex::new([None; 3]);

/// Notes what the launcher's standard files are. To be called before the application can replace
/// them.
pub fn note() {
    let identity = |fd| stat(fd).ok().map(|s| (s.st_dev, s.st_ino));
    *lock_of(&GIVEN) = [identity(0), identity(1), identity(2)];
}

/// Which of the launcher's files this is, if one.
pub fn which(look: &Look) -> Option<i32> {
    if is_given(look.fd, look.identity()) {
        return Some(look.fd);
    }
    let given = *lock_of(&GIVEN);
    let is = |n: &i32| given[*n as usize] == Some(look.identity());
    // Elsewhere: a pipe, a socket or a terminal is known by its identity. A file or device may just
    // as well have been opened by its name.
    let known = matches!(look.mode(), libc::S_IFIFO | libc::S_IFSOCK)
        || look.mode() == libc::S_IFCHR && place::is_terminal(look.facts.st_rdev);
    // On a terminal all three are one: what is written to is not the input.
    let order = if look.writable() {
        [1, 2, 0]
    } else {
        [0, 1, 2]
    };
    order.into_iter().find(|n| known && is(n))
}

/// Whether the launcher gave this file at this number.
pub fn is_given(fd: i32, identity: (u64, u64)) -> bool {
    let given = *lock_of(&GIVEN);
    let at = usize::try_from(fd).ok().and_then(|n| given.get(n));
    at == Some(&Some(identity))
}

/// Gives each number that the launcher left closed to /dev/null, so that nothing else gets it.
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

/// Descriptors of the launcher's files that stay when their numbers are used for others.
pub fn keep() -> io::Result<[OwnedFd; 3]> {
    Ok([duplicate(0)?, duplicate(1)?, duplicate(2)?])
}

/// Puts an open file at a number, in the place of what is there.
pub fn place_at(from: i32, to: i32, cloexec: bool) -> io::Result<()> {
    let flags = if cloexec { libc::O_CLOEXEC } else { 0 };
    // SAFETY: see the module's head.
    checked(unsafe { libc::dup3(from, to, flags) }).map(drop)
}

/// Closes what is at a number.
pub fn close(fd: i32) {
    // SAFETY: see the module's head.
    unsafe { libc::close(fd) };
}

/// Lets descriptors up to this number be used, as far as the hard limit allows; where it does not,
/// using it will say so.
pub fn raise_limit(highest: i32) {
    let wanted = highest as u64 + 1;
    // SAFETY: the kernel reads and writes a local, for which zero is valid.
    unsafe {
        let mut limit: libc::rlimit = core::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 && limit.rlim_cur < wanted {
            limit.rlim_cur = wanted.min(limit.rlim_max);
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}
