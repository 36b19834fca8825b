//! Memory for one converted array argument: on the stack while the array is short, so that the
//! usual MPI_Waitall allocates nothing, else from the upper half's allocator.
//!
//! # Safety
//! Entries are written by `fill` before anybody gets a pointer to them, and the pointer is used
//! only while the scratch lives: the generated wrappers keep it in a local until they return.
#![allow(unsafe_code)]

use core::mem::MaybeUninit;

/// Entries that need no allocation.
pub const INLINE: usize = 16;

/// One converted array.
pub struct Scratch<T: Copy> {
    inline: [MaybeUninit<T>; INLINE],
    heap: Vec<T>,
}

impl<T: Copy> Scratch<T> {
    /// An empty one. It must not move once it is filled.
    #[inline(always)]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Scratch {
            inline: [MaybeUninit::uninit(); INLINE],
            heap: Vec::new(),
        }
    }

    /// Fills it with `len` entries and tells where they are.
    #[inline(always)]
    pub fn fill(&mut self, len: usize, entry: impl FnMut(usize) -> T) -> *mut T {
        if len <= INLINE {
            let mut entry = entry;
            for (index, place) in self.inline.iter_mut().enumerate().take(len) {
                place.write(entry(index));
            }
            self.inline.as_mut_ptr().cast()
        } else {
            self.heap = (0..len).map(entry).collect();
            self.heap.as_mut_ptr()
        }
    }

    /// The `len` entries with which it was filled.
    #[inline(always)]
    pub fn entries(&self, len: usize) -> &[T] {
        if len <= INLINE {
            // SAFETY: `fill` wrote that many; see the module's head.
            unsafe { core::slice::from_raw_parts(self.inline.as_ptr().cast(), len) }
        } else {
            &self.heap
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Scratch, INLINE};

    #[test]
    fn short_and_long() {
        for len in [0, 1, INLINE, INLINE + 1, 1000] {
            let mut scratch = Scratch::new();
            let entries = scratch.fill(len, |index| index * 3);
            // SAFETY: `fill` wrote `len` entries there.
            let entries = unsafe { core::slice::from_raw_parts(entries, len) };
            assert!(entries
                .iter()
                .enumerate()
                .all(|(index, &entry)| entry == index * 3));
        }
    }
}
