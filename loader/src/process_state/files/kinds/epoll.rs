//! Epoll instances and the descriptors that they watch.

use crate::error::{CaptureError, RestoreError};
use crate::process_state::files::look::Look;
use crate::sys::descriptor::checked;
use crate::sys::{c_library, syscall};
use nix::sys::epoll::{Epoll, EpollCreateFlags};
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::OwnedFd;

/// One entry of an interest list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    /// Descriptor of the open file that is watched.
    fd: i32,
    events: u32,
    data: u64,
}

/// Captures the interest list; `all` are the application's descriptors.
pub fn capture(look: &Look, all: &[i32]) -> Result<Vec<Watch>, CaptureError> {
    let mut watches: Vec<Watch> = Vec::new();
    // Entries refer to open files: a number appears twice if it was closed and used again.
    let mut before: Vec<i32> = Vec::new();
    for line in look.info.lines().filter(|line| line.starts_with("tfd:")) {
        let Some((fd, events, data)) = parse(line) else {
            let text = format!("unexpected line in fdinfo: '{line}'");
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

/// Whether the descriptor `own` refers to the open file of the n-th entry with the number `fd`.
fn is_watched(epoll: i32, fd: i32, nth: usize, own: i32) -> bool {
    let result = syscall::kcmp_epoll(epoll, fd, nth as i32, own);
    // Without permission for kcmp, the number decides.
    result == 0 || syscall::is_err(result) && own == fd && nth == 0
}

/// Creates an instance with an empty interest list.
pub fn make() -> Result<OwnedFd, RestoreError> {
    let made = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(io::Error::from);
    Ok(made
        .map_err(RestoreError::system("creating an epoll instance"))?
        .0)
}

/// Restores the interest list; all watched files are at their numbers. A file that is `optional` may now be of a kind
/// that cannot be watched.
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
        let add = libc::EPOLL_CTL_ADD;
        let added = checked(c_library::epoll_ctl(epoll, add, watch.fd, Some(&mut event)));
        match added {
            // A standard file may now be of another kind, which is always ready.
            Err(error) if error.raw_os_error() == Some(libc::EPERM) && optional(watch.fd) => {}
            result => {
                let what = format!("watching descriptor {} with epoll again", watch.fd);
                result.map_err(RestoreError::system(&what))?;
            }
        }
    }
    Ok(())
}
