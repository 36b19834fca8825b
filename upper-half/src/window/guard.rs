//! Words by which the members of a window on one node keep each other off, in memory of a window of
//! MPI_Win_allocate_shared below: an atomic operation of the library's needs its target's help where that has no
//! network to do it, and a rank that computes, or waits for a processor, gives none.
//!
//! At the cut nobody holds a word (see [`changing`](super::lock::changing)), so none is saved: a restart makes them
//! anew, or does without where the members are on several nodes then.
//!
//! # Safety
//! As for `window`. The words are in the lower half's memory as long as its window lives.
#![allow(unsafe_code)]

use crate::code::check;
use crate::lower::{self, named, Fresh, Slot};
use crate::object::{Comm, Info, WinBody};
use core::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

/// One member's word, alone in its cache line.
#[repr(C, align(64))]
struct Guard(AtomicI64);

/// The words of a window's members.
#[derive(Default)]
pub(super) struct Guards {
    /// Where they lie, by rank; 0 if there are none.
    first: AtomicUsize,
    /// The window below that they lie in.
    below: Slot<WinBody>,
}

impl Guards {
    /// The word of a rank that exists.
    pub(super) fn of(&self, rank: i32) -> Option<&'static AtomicI64> {
        match self.first.load(Ordering::Relaxed) {
            0 => None,
            // SAFETY: as many as there are ranks, until `free`.
            first => Some(unsafe { &(*(first as *const Guard).add(rank as usize)).0 }),
        }
    }

    /// Those from before a restart are none.
    pub(super) fn forget(&self) {
        self.first.store(0, Ordering::Relaxed);
    }

    /// Makes them, where the library finds that the members share memory.
    ///
    /// # Safety
    /// Crosses; all members do the same.
    pub(super) unsafe fn make(&self, comm: &'static Comm) -> Result<(), i32> {
        let all = comm.body.size as usize * size_of::<Guard>();
        let own = if comm.body.rank == 0 { all as isize } else { 0 };
        let unit = size_of::<Guard>() as i32;
        let mut start = 0_usize;
        let base = (&raw mut start).cast();
        // SAFETY: locals; the words are set before anyone knows where they are.
        unsafe {
            // Nothing parks where windows are made.
            let mut below = Fresh::<WinBody>::null();
            let no_hints = Info::null();
            let made =
                named::MPI_Win_allocate_shared(own, unit, no_hints, comm, base, below.place());
            if check(made).is_err() {
                return Ok(());
            }
            let (mut bytes, mut unit) = (0, 0);
            let (bytes, unit) = (&raw mut bytes, &raw mut unit);
            check(named::MPI_Win_shared_query(&below, 0, bytes, unit, base))?;
            if comm.body.rank == 0 {
                core::ptr::write_bytes(start as *mut u8, 0, all);
            }
            check(named::MPI_Barrier(comm))?;
            self.below.take(below);
        }
        self.first.store(start, Ordering::Relaxed);
        Ok(())
    }

    /// Gives them up.
    ///
    /// # Safety
    /// Crosses; all members do the same, and nobody uses them any more.
    pub(super) unsafe fn free(&self) -> Result<(), i32> {
        if self.first.swap(0, Ordering::Relaxed) == 0 {
            return Ok(());
        }
        // SAFETY: passed on; a live window.
        check(unsafe { lower::MPI_Win_free(self.below.place()) })
    }
}
