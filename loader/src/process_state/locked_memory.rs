//! Memory that the program has locked (`mlock`, `MAP_LOCKED`, `mlockall`). A restart locks it again where that is
//! allowed. A lock changes how fast a program is, not what it computes.

use crate::interpose::syscalls::{future_locks, set_future_locks};
use crate::sys::syscall;
use core::ops::Range;
use serde::{Deserialize, Serialize};

/// The capability by which no limit holds for locks.
const CAP_IPC_LOCK: u32 = 14;

/// Locked memory. The version of the section *locked memory* (`ckpt-image/src/format/section.rs`) changes with any
/// change here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockedMemory {
    ranges: Vec<LockedRange>,
    /// Flags of `mlockall` for memory that is mapped later.
    future: i32,
    /// Bytes that the process was allowed to lock.
    allowed: u64,
}

/// A range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct LockedRange {
    start: u64,
    end: u64,
    /// Each page is locked when it is touched (MLOCK_ONFAULT).
    on_fault: bool,
}

impl LockedMemory {
    /// The locks of the stopped program, if there are any. `ranges` are locked, by MLOCK_ONFAULT where the second part
    /// says so.
    pub fn capture(ranges: impl Iterator<Item = (Range<u64>, bool)>) -> Option<LockedMemory> {
        let locked = ranges.map(|(range, on_fault)| LockedRange {
            start: range.start,
            end: range.end,
            on_fault,
        });
        let (ranges, future) = (locked.collect::<Vec<_>>(), future_locks());
        (future != 0 || !ranges.is_empty()).then(|| LockedMemory {
            ranges,
            future,
            allowed: allowed(),
        })
    }

    /// Locks the memory again, whose mappings are complete. Returns a warning if not all of it is locked.
    pub(super) fn lock(&self) -> Option<String> {
        let mut refused = None;
        let mut unlocked = 0;
        for range in &self.ranges {
            let len = range.end - range.start;
            let place = |flags| [range.start as usize, len as usize, flags, 0, 0, 0];
            // This touches no page, so only rights and limits can refuse it.
            let result = syscall::plain(libc::SYS_mlock2, place(libc::MLOCK_ONFAULT as usize));
            if syscall::is_err(result) {
                unlocked += len;
                refused = Some(syscall::io_error(result));
            } else if !range.on_fault {
                // An error is one of pages that cannot be touched, such as guard pages. They are locked all the same.
                syscall::plain(libc::SYS_mlock2, place(0));
            }
        }
        if let Some(why) = refused {
            return Some(format!(
                "{} KiB of memory that the program had locked (mlock) are not locked here: {why}; raise the limit \
                 (`ulimit -l`) where that matters",
                unlocked >> 10
            ));
        }
        // Under a smaller limit, the program could map no more memory.
        if self.future != 0 && allowed() < self.allowed {
            return Some(
                "the program locks all memory that it maps (mlockall), and is not allowed to lock as much here: what \
                 it maps from now on is not locked; raise the limit (`ulimit -l`) where that matters"
                    .to_owned(),
            );
        }
        set_future_locks(self.future);
        None
    }
}

/// Bytes that this process may lock.
fn allowed() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    match effective.is_some_and(|set| set >> CAP_IPC_LOCK & 1 != 0) {
        true => u64::MAX,
        false => syscall::limit(libc::RLIMIT_MEMLOCK)[0],
    }
}
