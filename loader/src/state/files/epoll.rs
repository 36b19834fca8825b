//! What epoll instances watch.
//!
//! # Safety
//! System calls on descriptors, with locals for memory.
#![allow(unsafe_code)]

use super::descriptor::{checked, fresh, Look};
use crate::error::{CaptureError, RestoreError};
use crate::raw;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::OwnedFd;

/// One entry of an interest list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    /// A descriptor of the open file that is watched.
    fd: i32,
    events: u32,
    data: u64,
}

/// Notes what is watched; `all` are the application's descriptors.
pub fn capture(look: &Look, all: &[i32]) -> Result<Vec<Watch>, CaptureError> {
    let mut watches: Vec<Watch> = Vec::new();
    // Entries are of open files: a number may come twice if it was closed and used again.
    let mut before: Vec<i32> = Vec::new();
    for line in look.info.lines().filter(|line| line.starts_with("tfd:")) {
        let Some((fd, events, data)) = parse(line) else {
            let text = format!("fdinfo says '{line}'");
            return Err(look.failed(io::Error::other(text)));
        };
        let nth = before.iter().filter(|&&other| other == fd).count();
        before.push(fd);
        let mut likely = std::iter::once(&fd)
            .filter(|fd| all.contains(fd))
            .chain(all);
        match likely.find(|&&own| is_watched(look.fd, fd, nth, own)) {
            Some(&fd) => watches.push(Watch { fd, events, data }),
            None => {
                return look.refuse(format!(
                    "an epoll instance that watches descriptor {fd}, which is closed in this \
                     process but open in another"
                ))
            }
        }
    }
    Ok(watches)
}

/// `tfd: 7 events: 19 data: 7 pos:0 ...`, the last two in hexadecimal.
fn parse(line: &str) -> Option<(i32, u32, u64)> {
    let mut words = line.split_whitespace();
    let mut after = |name| {
        words.by_ref().find(|word| *word == name)?;
        words.next()
    };
    Some((
        after("tfd:")?.parse().ok()?,
        u32::from_str_radix(after("events:")?, 16).ok()?,
        u64::from_str_radix(after("data:")?, 16).ok()?,
    ))
}

/// Whether the descriptor `own` is of the open file behind the n-th entry of number `fd`.
fn is_watched(epoll: i32, fd: i32, nth: usize, own: i32) -> bool {
    const KCMP_EPOLL_TFD: usize = 7;
    let slot = [epoll, fd, nth as i32];
    let pid = raw::getpid() as usize;
    let slot_at = slot.as_ptr() as usize;
    let args = [pid, pid, KCMP_EPOLL_TFD, own as usize, slot_at, 0];
    // SAFETY: three words, which are only read.
    let result = unsafe { raw::syscall(libc::SYS_kcmp as usize, args) };
    // Where kcmp may not be used the number has to do.
    result == 0 || raw::is_err(result) && own == fd && nth == 0
}

/// Makes an instance that watches nothing yet.
pub fn make() -> Result<OwnedFd, RestoreError> {
    // SAFETY: the descriptor is fresh.
    let made = unsafe { fresh(libc::epoll_create1(libc::EPOLL_CLOEXEC)) };
    made.map_err(RestoreError::system("making an epoll instance anew"))
}

/// Watches again. Everything that is watched is in its place; what is `optional` need not be of a
/// kind that can be watched any more.
pub fn watch(
    epoll: i32,
    watches: &[Watch],
    optional: impl Fn(i32) -> bool,
) -> Result<(), RestoreError> {
    for watch in watches {
        let mut event = libc::epoll_event {
            events: watch.events,
            u64: watch.data,
        };
        // SAFETY: a local that is only read.
        let added = checked(unsafe {
            libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, watch.fd, &raw mut event)
        });
        match added {
            // A standard file may be of another kind now: one that is always ready.
            Err(error) if error.raw_os_error() == Some(libc::EPERM) && optional(watch.fd) => {}
            result => {
                let what = format!("watching descriptor {} with epoll again", watch.fd);
                result.map_err(RestoreError::system(&what))?;
            }
        }
    }
    Ok(())
}
