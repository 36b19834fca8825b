//! Memory for the checkpoint agent when the process can have none: a program may have used up all that its limits
//! allow. Whatever the lower half asks of the C library and does not get comes from a reserve, which is there from
//! the beginning and costs nothing until it is used. With it a checkpoint is taken, or given up for want of
//! something larger, for which there is an error; without it the process would be aborted for a few bytes.
//!
//! # Safety
//! The reserve is one heap under one lock, in a region that is nobody else's. What was allocated there is known by
//! its address, and goes back there; all else is the C library's.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use dlmalloc::Dlmalloc;

/// What there is.
const BYTES: usize = 16 << 20;
/// More at once is for who can bear to be refused.
const LARGE: usize = 4 << 20;

#[global_allocator]
static ALLOCATOR: Reserve = Reserve;

/// The C library's allocator with the reserve behind it.
struct Reserve;

#[repr(C, align(4096))]
struct Region(UnsafeCell<MaybeUninit<[u8; BYTES]>>);

// SAFETY: only the heap uses it, under its lock.
unsafe impl Sync for Region {}

static REGION: Region = Region(UnsafeCell::new(MaybeUninit::uninit()));
/// So much of it is the heap's.
static TAKEN: AtomicUsize = AtomicUsize::new(0);
static HEAP: Mutex<Dlmalloc<Pages>> = Mutex::new(Dlmalloc::new_with_allocator(Pages));

/// Where the heap has its memory from.
struct Pages;

// SAFETY: each part of the region is given once, and never taken back.
unsafe impl dlmalloc::Allocator for Pages {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        let more = |taken: usize| taken.checked_add(size).filter(|taken| *taken <= BYTES);
        match TAKEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(from) => (region().start.wrapping_add(from) as *mut u8, size, 0),
            Err(_) => (std::ptr::null_mut(), 0, 0),
        }
    }

    fn remap(&self, _: *mut u8, _: usize, _: usize, _: bool) -> *mut u8 {
        std::ptr::null_mut()
    }

    fn free_part(&self, _: *mut u8, _: usize, _: usize) -> bool {
        false
    }

    fn free(&self, _: *mut u8, _: usize) -> bool {
        false
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

fn region() -> Range<usize> {
    let start = REGION.0.get() as usize;
    start..start + BYTES
}

fn heap() -> MutexGuard<'static, Dlmalloc<Pages>> {
    HEAP.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_reserved(pointer: *mut u8) -> bool {
    region().contains(&(pointer as usize))
}

fn reserved(layout: Layout) -> *mut u8 {
    match layout.size() {
        0..=LARGE => {
            let mut heap = heap();
            // SAFETY: any size and alignment of a valid layout will do.
            unsafe { heap.malloc(layout.size(), layout.align()) }
        }
        _ => std::ptr::null_mut(),
    }
}

// SAFETY: both allocators fulfil the contract, and each gets back what it gave.
unsafe impl GlobalAlloc for Reserve {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on to the caller.
        match unsafe { System.alloc(layout) } {
            none if none.is_null() => reserved(layout),
            some => some,
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on to the caller; what the reserve gives has so many bytes.
        unsafe {
            match System.alloc_zeroed(layout) {
                none if none.is_null() => {
                    let some = reserved(layout);
                    if !some.is_null() {
                        some.write_bytes(0, layout.size());
                    }
                    some
                }
                some => some,
            }
        }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: passed on to the caller.
        unsafe {
            match is_reserved(pointer) {
                true => heap().free(pointer, layout.size(), layout.align()),
                false => System.dealloc(pointer, layout),
            }
        }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: passed on to the caller; what is copied both have.
        unsafe {
            if !is_reserved(pointer) {
                let some = System.realloc(pointer, layout, size);
                if !some.is_null() {
                    return some;
                }
            }
            let wanted = Layout::from_size_align_unchecked(size, layout.align());
            let some = self.alloc(wanted);
            if !some.is_null() {
                pointer.copy_to_nonoverlapping(some, layout.size().min(size));
                self.dealloc(pointer, layout);
            }
            some
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_reserve_gives_can_be_used_grown_and_given_back() {
        let layout = Layout::array::<u8>(1000).unwrap();
        for _ in 0..2 * BYTES / LARGE {
            let bytes = reserved(layout);
            assert!(is_reserved(bytes));
            // SAFETY: so many bytes are there, and each allocation is given back once.
            unsafe {
                bytes.write_bytes(7, 1000);
                // The C library has some now.
                let more = ALLOCATOR.realloc(bytes, layout, 2 * LARGE);
                assert!(!is_reserved(more));
                assert_eq!(std::slice::from_raw_parts(more, 1000), [7; 1000]);
                ALLOCATOR.dealloc(more, Layout::array::<u8>(2 * LARGE).unwrap());
                let large = reserved(Layout::array::<u8>(LARGE).unwrap());
                assert!(is_reserved(large));
                ALLOCATOR.dealloc(large, Layout::array::<u8>(LARGE).unwrap());
            }
        }
        assert!(reserved(Layout::array::<u8>(LARGE + 1).unwrap()).is_null());
    }
}
