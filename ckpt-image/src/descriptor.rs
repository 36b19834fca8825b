//! Descriptors with high numbers.
//!
//! # Safety
//! The one unsafe call takes what fcntl(F_DUPFD_CLOEXEC) has returned: a descriptor that is nobody's yet.
#![allow(unsafe_code)]

use nix::fcntl::{fcntl, FcntlArg};
use std::fs::File;
use std::io;
use std::os::fd::FromRawFd;

/// No number below is given to an image: a restart gives the low ones to the application's files while it still reads
/// its image.
const HIGH: i32 = 512;

/// The same file by a high number. The first such number takes a process of several threads 5 to 10 ms, in which the
/// kernel enlarges its table.
pub fn high(low: File) -> io::Result<File> {
    let high = fcntl(&low, FcntlArg::F_DUPFD_CLOEXEC(HIGH))?;
    // SAFETY: see the head of this file.
    Ok(unsafe { File::from_raw_fd(high) })
}
