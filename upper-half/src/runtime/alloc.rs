//! The allocator of this library. It never uses the application's malloc: a drain runs while the application's threads
//! are stopped anywhere, even inside malloc. Its memory comes from plain mmap calls made in the upper half, so that the
//! loader puts it into the arena and it is saved.
//!
//! # Safety
//! `Global` hands every request to one `Dlmalloc` under one lock; `Pages` gives it fresh anonymous mappings that belong
//! to no other code, and each part of the reserve once.
#![allow(unsafe_code)]

use crate::runtime::syscall;
use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use dlmalloc::Dlmalloc;

/// Where the allocator's memory comes from.
struct Pages;

/// For a program that has used up all memory that it may have: what this library notes of messages and requests
/// is little, and must be had in a checkpoint, too. Takes none until it is used.
const RESERVE: usize = 4 << 20;

#[repr(C, align(4096))]
struct Reserve(UnsafeCell<MaybeUninit<[u8; RESERVE]>>);

// SAFETY: only the heap uses it, and each part once.
unsafe impl Sync for Reserve {}

static REGION: Reserve = Reserve(UnsafeCell::new(MaybeUninit::zeroed()));
/// Bytes of the region that the heap has.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// The next `size` bytes of the reserve.
fn reserved(size: usize) -> Option<*mut u8> {
    let more = |taken: usize| taken.checked_add(size).filter(|taken| *taken <= RESERVE);
    let from = TAKEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    Some(REGION.0.get().cast::<u8>().wrapping_add(from.ok()?))
}

// SAFETY: alloc returns fresh, zeroed, page-aligned memory; the rest either declines or unmaps
// exactly what it is told to.
unsafe impl dlmalloc::Allocator for Pages {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        match syscall::map(size).or_else(|| reserved(size)) {
            Some(address) => (address, size, 0),
            None => (core::ptr::null_mut(), 0, 0),
        }
    }

    fn remap(&self, _: *mut u8, _: usize, _: usize, _: bool) -> *mut u8 {
        core::ptr::null_mut()
    }

    fn free_part(&self, _: *mut u8, _: usize, _: usize) -> bool {
        false
    }

    fn free(&self, address: *mut u8, size: usize) -> bool {
        let reserve = REGION.0.get() as usize;
        if (reserve..reserve + RESERVE).contains(&(address as usize)) {
            return false;
        }
        // SAFETY: dlmalloc frees only whole segments that it no longer uses.
        unsafe { syscall::unmap(address, size) }
    }

    fn can_release_part(&self, _: u32) -> bool {
        false
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        4096
    }
}

/// The global allocator of every library that contains the upper half.
pub struct Global {
    held: AtomicBool,
    heap: UnsafeCell<Dlmalloc<Pages>>,
}

// SAFETY: the heap is only used by `with`, under the lock.
unsafe impl Sync for Global {}

impl Global {
    /// An empty heap.
    pub const fn new() -> Self {
        Global {
            held: AtomicBool::new(false),
            heap: UnsafeCell::new(Dlmalloc::new_with_allocator(Pages)),
        }
    }

    #[inline]
    fn with<R>(&self, use_heap: impl FnOnce(&mut Dlmalloc<Pages>) -> R) -> R {
        while self
            .held
            .compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            core::hint::spin_loop();
        }
        // SAFETY: the flag is ours.
        let result = use_heap(unsafe { &mut *self.heap.get() });
        self.held.store(false, Ordering::Release);
        result
    }
}

impl Default for Global {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: Dlmalloc fulfils the contract of GlobalAlloc, and `with` serialises its use.
unsafe impl GlobalAlloc for Global {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: dlmalloc accepts any size and alignment of a valid layout.
        self.with(|heap| unsafe { heap.malloc(layout.size(), layout.align()) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        self.with(|heap| unsafe { heap.calloc(layout.size(), layout.align()) })
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller gives back what `alloc` gave with this layout.
        self.with(|heap| unsafe { heap.free(pointer, layout.size(), layout.align()) });
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: as for `dealloc`.
        self.with(|heap| unsafe { heap.realloc(pointer, layout.size(), layout.align(), new_size) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_kept_and_used_again() {
        let heap = Global::new();
        let small = Layout::from_size_align(24, 8).expect("a layout");
        let aligned = Layout::from_size_align(100, 256).expect("a layout");
        // SAFETY: blocks are used within their layouts and freed once.
        unsafe {
            let a = heap.alloc(aligned);
            assert_eq!(a as usize % 256, 0);
            let b = heap.alloc(small);
            b.write_bytes(7, 24);
            let b = heap.realloc(b, small, 1 << 22);
            assert_eq!(core::slice::from_raw_parts(b, 24), [7; 24]);
            heap.dealloc(b, Layout::from_size_align(1 << 22, 8).expect("a layout"));
            heap.dealloc(a, aligned);
            // Which block comes next is the allocator's affair; that there are few of them is not.
            let mut places: Vec<_> = (0..1000)
                .map(|_| {
                    let again = heap.alloc(aligned);
                    heap.dealloc(again, aligned);
                    again
                })
                .collect();
            places.sort_unstable();
            places.dedup();
            assert!(places.len() <= 2, "{} blocks for one", places.len());
        }
    }
}
