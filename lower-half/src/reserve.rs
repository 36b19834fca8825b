//! Memory for the checkpoint agent when the process can get none, because the program has used up its limits.
//! Allocations of the lower half that the C library refuses come from a reserve. The reserve is mapped at the start and
//! costs nothing until it is used. With it a checkpoint succeeds, or is given up with an error because a larger
//! allocation fails. Without it a failed allocation of a few bytes would abort the process.
//!
//! The MPI library also allocates memory of the C library, for the messages and the collective operations of a drain.
//! If an allocation fails, Open MPI 4.1 crashes or hangs. So a part of the process's address space (RLIMIT_AS) is
//! reserved for the time of a checkpoint: [`Ballast`].
//!
//! # Safety
//! The reserve is one heap under one lock, in a region that nothing else uses. Memory of the reserve is recognised by
//! its address and freed there. All other memory belongs to the C library.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use dlmalloc::Dlmalloc;

use dump::AnonymousMapping;

/// Bytes in the reserve.
const BYTES: usize = 16 << 20;
/// Largest allocation from the reserve. Callers that need more must handle a failure.
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
/// Bytes of the reserve that the heap uses.
static TAKEN: AtomicUsize = AtomicUsize::new(0);
static HEAP: Mutex<Dlmalloc<Pages>> = Mutex::new(Dlmalloc::new_with_allocator(Pages));

/// Memory source of the heap.
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
        // SAFETY: passed on to the caller; what the reserve gives has the layout's size.
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

/// Address space that is held while no checkpoint is taken. It is less than the 64 MiB that glibc maps for the arena of
/// a thread, so that no thread can map one in its place.
pub struct Ballast(Mutex<Option<AnonymousMapping>>);

impl Ballast {
    const BYTES: usize = 48 << 20;

    /// Reserves the address space.
    pub fn new() -> Self {
        let ballast = Ballast(Mutex::new(None));
        ballast.hold();
        ballast
    }

    fn held(&self) -> MutexGuard<'_, Option<AnonymousMapping>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Releases the address space, so that the MPI library can use it. First has the loader note the memory
    /// that is in use without the checkpoint.
    pub fn let_go(&self) {
        let mut held = self.held();
        if held.is_some() {
            loader::note_use(Self::BYTES as u64);
        }
        *held = None;
    }

    /// Reserves the address space again. After a failure the next checkpoint has none.
    pub fn hold(&self) {
        let mut held = self.held();
        if held.is_none() {
            *held = AnonymousMapping::new(Self::BYTES, libc::PROT_NONE).ok();
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
            // SAFETY: the layout has 1,000 bytes, and each allocation is given back once.
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
