//! An allocator that remembers the largest piece it was asked for.
//!
//! # Safety
//! It hands every call on to the system's and only counts.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// To be made the global allocator.
pub struct Largest;

static LARGEST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: see the head of this file.
unsafe impl GlobalAlloc for Largest {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Relaxed);
        // SAFETY: the caller's promises, handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises, handed on.
        unsafe { System.dealloc(at, layout) }
    }
}

/// What `work` returns, and the bytes of the largest piece that was asked for meanwhile.
pub fn largest_of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    LARGEST.store(0, Relaxed);
    let result = work();
    (result, LARGEST.load(Relaxed))
}

/// The largest piece that reading so many bytes justifies: buffers of fixed size, what serde takes in
/// advance at most, and for every byte the entry of a table that it may be the shortest encoding of.
pub fn justified(bytes: usize) -> usize {
    (2 << 20) + 64 * bytes
}
