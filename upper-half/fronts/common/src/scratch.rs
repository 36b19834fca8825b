//! Memory for one converted array argument. An array of at most 16 entries is on the stack, so that the usual
//! MPI_Waitall allocates nothing. A longer one comes from the upper half's allocator.
//!
//! # Safety
//! `fill` writes the entries before it returns a pointer to them. The pointer is used only while the scratch lives: the
//! generated wrappers keep the scratch in a local until they return.
#![allow(unsafe_code)]

use core::mem::MaybeUninit;

/// Number of entries that need no allocation.
pub const INLINE: usize = 16;

/// Memory of one converted array.
pub struct Scratch<T: Copy> {
    inline: [MaybeUninit<T>; INLINE],
    heap: Vec<T>,
}

impl<T: Copy> Scratch<T> {
    /// An empty scratch. It must not move after [`Scratch::fill`].
    #[inline(always)]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Scratch {
            inline: [MaybeUninit::uninit(); INLINE],
            heap: Vec::new(),
        }
    }

    /// Writes `len` entries and returns the address of the first.
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

    /// The `len` entries that [`Scratch::fill`] wrote; `len` must be the same.
    #[inline(always)]
    pub fn entries(&self, len: usize) -> &[T] {
        if len <= INLINE {
            // SAFETY: `fill` wrote the first `len` entries of `inline`, so they are initialised.
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
            // SAFETY: `fill` wrote `len` entries at that address, and `scratch` has not moved since.
            let entries = unsafe { core::slice::from_raw_parts(entries, len) };
            assert!(entries
                .iter()
                .enumerate()
                .all(|(index, &entry)| entry == index * 3));
        }
    }
}
