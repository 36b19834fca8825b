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

/// Range that a clone of `len` bytes to `at` replaces. A length of 0 means up to the end of the source.
pub fn cloned(at: u64, len: u64) -> Range<u64> {
    match len {
        0 => at..u64::MAX,
        len => span(at, len),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clone_without_a_length_reaches_to_the_end() {
        assert_eq!(cloned(4096, 8192), 4096..12288);
        assert_eq!(cloned(4096, 0), 4096..u64::MAX);
    }
}
