//! Allocator of the upper half's addresses.
//!
//! The kernel must never choose an address for the upper half, so every mapping gets one here: first fit, from the
//! bottom, over [ARENA_START, ARENA_END). Nothing is reserved with the kernel (a large reservation fails under `ulimit
//! -v`). Adjacent used ranges are merged, so the sorted table stays short. It lives in its own lazily touched mapping:
//! no malloc. The lock is safe in signal handlers (see `sys/spin_lock.rs`).
//!
//! # Safety
//! Zeros are an entry of the table, as its declaration shows.
#![allow(unsafe_code)]

use crate::error::LoadError;
use crate::sys::spin_lock::Spin;
use crate::sys::zeros::{self, InChild, Zeros};
use crate::sys::{proc_maps, syscall, vectors};
use contract::{ARENA_END, ARENA_START};

/// Page size of x86-64.
pub const PAGE: usize = 4096;
/// Size and alignment of a transparent huge page.
const HUGE: usize = 2 << 20;
/// Start of the range for first-fit mappings (below it are the gate, the clocks and the vDSO).
const FIRST_FIT_START: usize = ARENA_START + 0x100_0000;
/// Start of the heap (`brk`).
pub const BRK_START: usize = 14 << 40;
/// Maximum end of the heap.
pub const BRK_END: usize = 15 << 40;
/// Top of the initial thread's stack.
pub const STACK_TOP: usize = ARENA_END - (1 << 30);
/// Lowest address to which the initial thread's stack may grow.
pub const STACK_BOTTOM: usize = STACK_TOP - (64 << 30);

/// Capacity of the table: more used ranges than the kernel allows mappings (`vm.max_map_count`, by default 65530).
const CAPACITY: usize = 1 << 18;

#[derive(Clone, Copy)]
struct Range {
    start: usize,
    end: usize,
}

// SAFETY: two integers.
unsafe impl Zeros for Range {}

struct Table {
    /// Room for [`CAPACITY`] ranges; empty before [`start`].
    ranges: &'static mut [Range],
    len: usize,
}

static TABLE: Spin<Table> = Spin::new(Table {
    ranges: &mut [],
    len: 0,
});

/// Rounds up to whole pages; None when that overflows.
pub fn page_up(n: usize) -> Option<usize> {
    Some(n.checked_add(PAGE - 1)? & !(PAGE - 1))
}

impl Table {
    fn slice(&self) -> &[Range] {
        &self.ranges[..self.len]
    }

    /// Replaces `count` entries from `at` by `with`.
    fn splice(&mut self, at: usize, count: usize, with: &[Range]) {
        if self.len - count + with.len() > CAPACITY {
            syscall::complain(
                "stasis: the application's address space is too fragmented; giving up\n",
            );
            syscall::exit_group(120);
        }
        let (from, to) = (at + count, at + with.len());
        vectors::copy_within(self.ranges, from..self.len, to);
        for (range, new) in self.ranges[at..to].iter_mut().zip(with) {
            *range = *new;
        }
        self.len = self.len - count + with.len();
    }

    fn take(&mut self, start: usize, end: usize) {
        let ranges = self.slice();
        let first = ranges.partition_point(|r| r.end < start);
        let last = ranges.partition_point(|r| r.start <= end);
        let merged = ranges[first..last]
            .iter()
            .fold(Range { start, end }, |a, r| Range {
                start: a.start.min(r.start),
                end: a.end.max(r.end),
            });
        self.splice(first, last - first, &[merged]);
    }

    fn free(&mut self, start: usize, end: usize) {
        let ranges = self.slice();
        let first = ranges.partition_point(|r| r.end <= start);
        let last = ranges.partition_point(|r| r.start < end);
        if first >= last {
            return;
        }
        let head = Range {
            start: ranges[first].start,
            end: start,
        };
        let tail = Range {
            start: end,
            end: ranges[last - 1].end,
        };
        let mut rest = [head; 2];
        let mut n = 0;
        for piece in [head, tail] {
            if piece.start < piece.end {
                rest[n] = piece;
                n += 1;
            }
        }
        self.splice(first, last - first, &rest[..n]);
    }

    fn is_free(&self, start: usize, end: usize) -> bool {
        let ranges = self.slice();
        let at = ranges.partition_point(|r| r.end <= start);
        at == ranges.len() || ranges[at].start >= end
    }

    fn first_fit(&mut self, len: usize, align: usize) -> Option<usize> {
        let up = |n: usize| (n + align - 1) & !(align - 1);
        let mut at = up(FIRST_FIT_START);
        for range in self.slice() {
            if range.end <= at {
                continue;
            }
            if range.start >= at && range.start - at >= len {
                break;
            }
            at = up(range.end.max(FIRST_FIT_START));
        }
        let end = at.checked_add(len)?;
        if end > ARENA_END {
            return None;
        }
        self.take(at, end);
        Some(at)
    }
}

/// Creates an empty table with the fixed parts marked used.
pub fn start() -> Result<(), LoadError> {
    let mut table = TABLE.lock();
    if table.ranges.is_empty() {
        let ranges = zeros::map(CAPACITY, InChild::Copied);
        table.ranges = ranges.map_err(|source| LoadError::System {
            what: "mmap of a table",
            source,
        })?;
    }
    table.len = 0;
    table.take(BRK_START, BRK_END);
    table.take(STACK_BOTTOM - PAGE, STACK_TOP + PAGE);
    Ok(())
}

/// Marks all current mappings in the arena as used (after an image was mapped).
pub fn take_mapped() -> Result<(), LoadError> {
    let maps = proc_maps::read().map_err(|source| LoadError::System {
        what: "reading /proc/self/maps",
        source,
    })?;
    for m in maps
        .iter()
        .filter(|m| m.start >= ARENA_START && m.end <= ARENA_END)
    {
        TABLE.lock().take(m.start, m.end);
    }
    Ok(())
}

/// Chooses a free range of `len` bytes (whole pages) and marks it used.
pub fn find(len: usize, align: usize) -> Option<usize> {
    TABLE.lock().first_fit(len, align.max(PAGE))
}

/// Alignment that the kernel would choose for an anonymous mapping of this size.
pub fn natural_align(len: usize) -> usize {
    if len >= HUGE && len & (HUGE - 1) == 0 {
        HUGE
    } else {
        PAGE
    }
}

/// Marks the range used if it is free and in the arena; returns whether it was.
pub fn claim(start: usize, len: usize) -> bool {
    let Some(end) = start.checked_add(len) else {
        return false;
    };
    if start < FIRST_FIT_START || end > ARENA_END {
        return false;
    }
    let mut table = TABLE.lock();
    let free = table.is_free(start, end);
    if free {
        table.take(start, end);
    }
    free
}

/// Marks a range used (parts below the arena are not tracked).
pub fn take(start: usize, end: usize) {
    let (start, end) = (start.max(ARENA_START), end.min(ARENA_END));
    if start < end {
        TABLE.lock().take(start, end);
    }
}

/// Marks a range free again. The fixed parts stay used.
pub fn free(start: usize, end: usize) {
    let (start, end) = (start.max(FIRST_FIT_START), end.min(ARENA_END));
    if start < end {
        let mut table = TABLE.lock();
        table.free(start, end);
        if end > BRK_START {
            table.take(BRK_START, BRK_END);
            table.take(STACK_BOTTOM - PAGE, STACK_TOP + PAGE);
        }
    }
}

/// Holds the lock of the table during `f` (a fork: the child must not inherit a held lock).
pub fn with_lock<R>(f: impl FnOnce() -> R) -> R {
    let _guard = TABLE.lock();
    f()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_merges_splits_and_reuses() {
        start().expect("table");
        let a = find(3 * PAGE, PAGE).expect("room");
        let b = find(PAGE, PAGE).expect("room");
        assert_eq!(b, a + 3 * PAGE);
        free(a + PAGE, a + 2 * PAGE);
        assert!(!claim(a, PAGE));
        assert_eq!(find(PAGE, PAGE), Some(a + PAGE));
        free(a, b + PAGE);
        assert_eq!(find(HUGE, HUGE).expect("room") % HUGE, 0);
        let table = TABLE.lock();
        assert!(table.slice().windows(2).all(|w| w[0].end < w[1].start));
    }
}
