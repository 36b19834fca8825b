//! An allocator that records the largest request.
//!
//! # Safety
//! It forwards every call to the system allocator and only counts.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The global allocator of a test.
pub struct Largest;

static LARGEST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is forwarded to the system allocator unchanged, and counting does not allocate.
unsafe impl GlobalAlloc for Largest {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Relaxed);
        // SAFETY: the system allocator has the same contract, and the caller keeps it for this `layout`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: `at` came from the system allocator with this `layout`, because `alloc` above forwards to
        // it.
        unsafe { System.dealloc(at, layout) }
    }
}

/// The result of `work`, and the bytes of the largest request meanwhile.
pub fn largest_of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    LARGEST.store(0, Relaxed);
    let result = work();
    (result, LARGEST.load(Relaxed))
}

/// The largest request that reading this number of bytes justifies. It covers buffers of fixed size, the
/// largest advance allocation of serde, and one table entry for every byte, as its shortest encoding.
pub fn justified(bytes: usize) -> usize {
    (2 << 20) + 64 * bytes
}
