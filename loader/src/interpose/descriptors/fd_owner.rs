//! Owner of each file descriptor: the upper or the lower half.
//!
//! Both halves share one descriptor table. The application may close or replace only its own; those of the lower half
//! do not exist for it (EBADF), so `closefrom` does not disconnect the MPI library.

use crate::interpose::file_changes::watched_fds;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Whether other processes may share the application's open files.
static SHARED: AtomicBool = AtomicBool::new(false);

/// Records that the application has forked, or was executed with open files.
pub fn note_shared() {
    SHARED.store(true, Ordering::Relaxed);
}

/// Whether the application ever has.
pub fn may_be_shared() -> bool {
    SHARED.load(Ordering::Relaxed)
}

const LIMIT: usize = 1 << 20;
static OWNED: [AtomicU64; LIMIT / 64] = [const { AtomicU64::new(0) }; LIMIT / 64];

fn place(fd: i32) -> Option<(&'static AtomicU64, u64)> {
    let fd = usize::try_from(fd).ok().filter(|&fd| fd < LIMIT)?;
    Some((&OWNED[fd / 64], 1 << (fd % 64)))
}

/// Whether the application owns it. Numbers beyond the table count as the application's.
pub fn is_owned(fd: i32) -> bool {
    place(fd).is_none_or(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
}

/// Makes the application the owner; returns whether it was not before.
pub fn own(fd: i32) -> bool {
    watched_fds::forget(fd);
    place(fd).is_some_and(|(word, bit)| word.fetch_or(bit, Ordering::Relaxed) & bit == 0)
}

/// Ends the application's ownership.
pub fn disown(fd: i32) {
    watched_fds::forget(fd);
    if let Some((word, bit)) = place(fd) {
        word.fetch_and(!bit, Ordering::Relaxed);
    }
}

/// All owned numbers from `first` to `last`.
pub fn owned(first: i32, last: i32) -> impl Iterator<Item = i32> {
    let last = last.min(LIMIT as i32 - 1);
    let mut at = first.max(0);
    core::iter::from_fn(move || {
        while at <= last {
            let fd = at as usize;
            let word = OWNED[fd / 64].load(Ordering::Relaxed) >> (fd % 64);
            if word == 0 {
                at = ((fd / 64 + 1) * 64) as i32;
                continue;
            }
            at = at.saturating_add(word.trailing_zeros() as i32);
            if at > last {
                return None;
            }
            let found = at;
            at += 1;
            return Some(found);
        }
        None
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn iterates_over_words() {
        for fd in [70, 71, 200, 640] {
            super::own(fd);
        }
        assert_eq!(super::owned(71, 640).collect::<Vec<_>>(), [71, 200, 640]);
        assert_eq!(super::owned(72, 639).collect::<Vec<_>>(), [200]);
        super::disown(200);
        assert!(!super::is_owned(200));
    }
}
