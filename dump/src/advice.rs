//! Advice to the kernel about memory whose content it does not change, or that holds nothing.
//!
//! # Safety
//! The callers advise on mappings of the upper half, whose threads are stopped, with values that only concern children,
//! and on memory of their own to which nothing refers.
#![allow(unsafe_code)]

use std::ops::Range;

/// Gives the advice. Returns whether the kernel accepts it.
pub fn advise(range: &Range<u64>, advice: libc::c_int) -> bool {
    let len = (range.end - range.start) as usize;
    // SAFETY: see the head of this file.
    unsafe { libc::madvise(range.start as *mut libc::c_void, len, advice) == 0 }
}
