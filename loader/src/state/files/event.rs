//! Counters from eventfd, and sets of signals from signalfd.
//!
//! # Safety
//! System calls that read and write eight bytes in locals, and make descriptors.
#![allow(unsafe_code)]

use super::descriptor::{fresh, poll, Look};
use crate::error::{CaptureError, RestoreError};
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// A counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    count: u64,
    /// Reading takes one at a time.
    semaphore: bool,
}

impl Event {
    /// Notes it.
    pub fn capture(look: &Look) -> Result<Event, CaptureError> {
        let count = look.need("eventfd-count", |text| u64::from_str_radix(text, 16).ok())?;
        let semaphore = match look.field("eventfd-semaphore") {
            Some(text) => text != "0",
            None => reads_one(look.fd, count).map_err(|e| look.failed(e))?,
        };
        Ok(Event { count, semaphore })
    }

    /// Makes it anew.
    pub fn make(&self) -> Result<OwnedFd, RestoreError> {
        let flags = libc::EFD_CLOEXEC
            | if self.semaphore {
                libc::EFD_SEMAPHORE
            } else {
                0
            };
        let made = || {
            // SAFETY: the descriptor is fresh.
            let event = unsafe { fresh(libc::eventfd(0, flags)) }?;
            add(event.as_raw_fd(), self.count)?;
            Ok(event)
        };
        made().map_err(RestoreError::system("making an eventfd anew"))
    }
}

fn add(fd: i32, count: u64) -> io::Result<()> {
    if count == 0 {
        return Ok(());
    }
    // SAFETY: eight bytes.
    match unsafe { libc::write(fd, (&raw const count).cast(), 8) } {
        8 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn take(fd: i32) -> io::Result<u64> {
    let mut taken = 0_u64;
    // SAFETY: eight bytes.
    match unsafe { libc::read(fd, (&raw mut taken).cast(), 8) } {
        8 => Ok(taken),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Kernels before 6.5 do not tell: the counter is made 2 or more, read, and put back. Nobody else
/// reads it meanwhile, and no read or write blocks.
fn reads_one(fd: i32, count: u64) -> io::Result<bool> {
    let start = count.max(2);
    add(fd, start - count)?;
    let taken = take(fd)?;
    let left = start - taken;
    if left > count {
        take(fd)?;
    } else {
        add(fd, count - left)?;
    }
    Ok(taken == 1)
}

/// The signals that a signalfd takes.
pub fn signals(look: &Look) -> Result<u64, CaptureError> {
    look.need("sigmask", |text| u64::from_str_radix(text, 16).ok())
}

/// Makes a signalfd.
pub fn make_signals(mask: u64) -> Result<OwnedFd, RestoreError> {
    // SAFETY: eight bytes are the kernel's signal set, which is only read.
    let made = unsafe {
        let (any, size, flags) = (-1, size_of::<u64>(), libc::SFD_CLOEXEC);
        fresh(libc::syscall(libc::SYS_signalfd4, any, &raw const mask, size, flags) as i32)
    };
    made.map_err(RestoreError::system("making a signalfd anew"))
}

/// Makes an inotify instance that watches nothing.
pub fn make_inotify() -> Result<OwnedFd, RestoreError> {
    // SAFETY: the descriptor is fresh.
    let made = unsafe { fresh(libc::inotify_init1(libc::IN_CLOEXEC)) };
    made.map_err(RestoreError::system("making an inotify instance anew"))
}

/// Whether an inotify instance has anything in it: watches, or events to be read.
pub fn inotify_is_empty(look: &Look) -> io::Result<bool> {
    let watches = look.info.lines().any(|line| line.starts_with("inotify "));
    Ok(!watches && poll(look.fd, libc::POLLIN)? == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_semaphore_is_told_by_reading() {
        for semaphore in [false, true] {
            for count in [0, 1, 2, 3, 1000] {
                let event = Event { count, semaphore }.make().unwrap();
                assert_eq!(reads_one(event.as_raw_fd(), count).unwrap(), semaphore);
                let after = Event::capture(&Look::at(event.as_raw_fd()).unwrap()).unwrap();
                assert_eq!(after, Event { count, semaphore });
            }
        }
    }
}
