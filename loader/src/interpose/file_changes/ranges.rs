//! Byte ranges of a file that a call changes.

use core::ops::Range;

/// Range of `len` bytes from `at` on.
pub fn span(at: u64, len: u64) -> Range<u64> {
    at..at.saturating_add(len)
}

/// Range of existing bytes that a call of `fallocate` changes.
pub fn allocated(mode: i32, at: u64, len: u64) -> Range<u64> {
    const SHIFTS: i32 = libc::FALLOC_FL_COLLAPSE_RANGE | libc::FALLOC_FL_INSERT_RANGE;
    const CLEARS: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE;
    match mode {
        mode if mode & SHIFTS != 0 => at..u64::MAX,
        mode if mode & CLEARS != 0 => span(at, len),
        _ => u64::MAX..u64::MAX,
    }
}
