//! Counters of eventfd, signal sets of signalfd, and inotify instances without watches.
//!
//! # Safety
//! A system call that reads eight bytes in a local and creates a descriptor.
#![allow(unsafe_code)]

use crate::error::{CaptureError, RestoreError};
use crate::process_state::files::look::Look;
use crate::sys::c_library;
use crate::sys::descriptor::{checked, fresh, poll};
use nix::sys::eventfd::EfdFlags;
use nix::sys::inotify::{InitFlags, Inotify};
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// An eventfd counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventFd {
    count: u64,
    /// Semaphore mode: a read decrements by one.
    semaphore: bool,
}

impl EventFd {
    /// Captures the counter.
    pub fn capture(look: &Look) -> Result<EventFd, CaptureError> {
        let count = look.need("eventfd-count", |text| u64::from_str_radix(text, 16).ok())?;
        let semaphore = match look.field("eventfd-semaphore") {
            Some(text) => text != "0",
            None => reads_one(look.fd, count).map_err(|e| look.failed(e))?,
        };
        Ok(EventFd { count, semaphore })
    }

    /// Creates the eventfd again.
    pub fn make(&self) -> Result<OwnedFd, RestoreError> {
        let mut flags = EfdFlags::EFD_CLOEXEC;
        flags.set(EfdFlags::EFD_SEMAPHORE, self.semaphore);
        let made = || {
            let event = OwnedFd::from(nix::sys::eventfd::EventFd::from_flags(flags)?);
            add(event.as_raw_fd(), self.count)?;
            Ok(event)
        };
        made().map_err(RestoreError::system("creating an eventfd"))
    }
}

fn add(fd: i32, count: u64) -> io::Result<()> {
    if count == 0 {
        return Ok(());
    }
    checked(c_library::eventfd_write(fd, count)).map(drop)
}

fn take(fd: i32) -> io::Result<u64> {
    let mut taken = 0_u64;
    checked(c_library::eventfd_read(fd, &mut taken))?;
    Ok(taken)
}

/// Detects semaphore mode, which kernels before 6.5 do not report: the counter is raised to 2 or more, read, and
/// restored. No other thread reads it meanwhile, and no read or write blocks.
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

/// Signal set of a signalfd.
pub fn signals(look: &Look) -> Result<u64, CaptureError> {
    look.need("sigmask", |text| u64::from_str_radix(text, 16).ok())
}

/// Creates a signalfd.
pub fn make_signals(mask: u64) -> Result<OwnedFd, RestoreError> {
    // SAFETY: the kernel's signal set has eight bytes, which are only read.
    let made = unsafe {
        let (any, size, flags) = (-1, size_of::<u64>(), libc::SFD_CLOEXEC);
        fresh(libc::syscall(libc::SYS_signalfd4, any, &raw const mask, size, flags) as i32)
    };
    made.map_err(RestoreError::system("creating a signalfd"))
}

/// Creates an inotify instance without watches.
pub fn make_inotify() -> Result<OwnedFd, RestoreError> {
    let made = Inotify::init(InitFlags::IN_CLOEXEC).map_err(io::Error::from);
    Ok(made
        .map_err(RestoreError::system("creating an inotify instance"))?
        .into())
}

/// Whether an inotify instance has neither watches nor unread events.
pub fn inotify_is_empty(look: &Look) -> io::Result<bool> {
    let watches = look.info.lines().any(|line| line.starts_with("inotify "));
    Ok(!watches && poll(look.fd, libc::POLLIN)? == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn semaphore_mode_is_detected_by_reading() {
        for semaphore in [false, true] {
            for count in [0, 1, 2, 3, 1000] {
                let event = EventFd { count, semaphore }.make().unwrap();
                assert_eq!(reads_one(event.as_raw_fd(), count).unwrap(), semaphore);
                let after = EventFd::capture(&Look::at(event.as_raw_fd()).unwrap()).unwrap();
                assert_eq!(after, EventFd { count, semaphore });
            }
        }
    }
}
