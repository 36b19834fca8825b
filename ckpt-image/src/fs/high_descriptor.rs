//! Descriptors with high numbers for image files.
//!
//! # Safety
//! The only unsafe call takes ownership of the new descriptor that fcntl(F_DUPFD_CLOEXEC) has returned.
#![allow(unsafe_code)]

use nix::fcntl::{fcntl, FcntlArg};
use std::fs::File;
use std::io;
use std::os::fd::FromRawFd;

/// Lowest descriptor number of an image file. A restart gives the lower numbers to the application's files
/// while it still reads its image.
const HIGH: i32 = 512;

/// Moves a file to a high descriptor number. The first such number takes a process with several threads 5
/// to 10 ms, in which the kernel enlarges its table.
pub fn high(low: File) -> io::Result<File> {
    let high = fcntl(&low, FcntlArg::F_DUPFD_CLOEXEC(HIGH))?;
    // SAFETY: fcntl(F_DUPFD_CLOEXEC) has just returned this descriptor, so nothing else owns it.
    Ok(unsafe { File::from_raw_fd(high) })
}
