//! Mutexes of the members of a window on one node, in memory of a window of MPI_Win_allocate_shared below. The
//! library's own atomic operations need the target's help if no network does them, and a rank that computes, or waits
//! for a processor, gives none.
//!
//! At the cut no rank holds a mutex (see [`changing`](super::passive_target::changing)), so none is saved: a restart
//! makes them anew, or does without if the members are on several nodes then.
//!
//! # Safety
//! Crossings get locals and live windows. The words are in the lower half's memory as long as its window lives.
#![allow(unsafe_code)]

use crate::crossing::mpi_result::check;
use crate::crossing::stubs;
use crate::object::lower_handle::{named, Fresh};
use crate::object::win::node_mutexes::{NodeMutex, NodeMutexes};
use crate::object::win::WinBody;
use crate::object::{Comm, Info};
use core::sync::atomic::Ordering;

impl NodeMutexes {
    /// Makes them in the window `below`, where the library finds that the members share memory. All members call this.
    pub(crate) fn make(
        &self,
        comm: &'static Comm,
        mut below: Fresh<'_, WinBody>,
    ) -> Result<(), i32> {
        let all = comm.body.size as usize * size_of::<NodeMutex>();
        let own = if comm.body.rank == 0 { all as isize } else { 0 };
        let unit = size_of::<NodeMutex>() as i32;
        let (mut start, no_hints) = (0_usize, Info::null());
        let base = (&raw mut start).cast();
        let place = below.place();
        // SAFETY: places for an address and a word.
        let made =
            unsafe { named::MPI_Win_allocate_shared(own, unit, no_hints, comm, base, place) };
        if check(made).is_err() {
            return Ok(());
        }
        let (mut bytes, mut unit) = (0, 0);
        let (bytes, unit) = (&raw mut bytes, &raw mut unit);
        // SAFETY: places for two numbers and an address.
        check(unsafe { named::MPI_Win_shared_query(&below, 0, bytes, unit, base) })?;
        if comm.body.rank == 0 {
            // SAFETY: the first member has room for all, which no other member knows of before the barrier.
            unsafe { core::ptr::write_bytes(start as *mut u8, 0, all) };
        }
        check(named::MPI_Barrier(comm))?;
        self.below.take(below);
        self.first.store(start, Ordering::Relaxed);
        Ok(())
    }

    /// Gives them up.
    ///
    /// # Safety
    /// Crosses; all members do the same, and nobody uses them any more.
    pub(crate) unsafe fn free(&self) -> Result<(), i32> {
        if self.first.swap(0, Ordering::Relaxed) == 0 {
            return Ok(());
        }
        // SAFETY: passed on; a live window.
        check(unsafe { stubs::MPI_Win_free(self.below.place()) })
    }
}
