//! Units of displacements. The application gives displacements in units of the target's choice; the windows below
//! count in bytes, so that each element of a datatype can be reached by itself (see
//! [`accumulate`](super::accumulate)).
//!
//! # Safety
//! As for `window`.
#![allow(unsafe_code)]

use crate::code::check;
use crate::lower;
use crate::object::{Comm, Datatype};
use contract::abi::{datatype, PROC_NULL};
use core::ffi::c_void;

/// The units of all members, in bytes.
pub(super) enum Units {
    /// All have the same.
    Same(i32),
    /// By rank.
    Each(Box<[i32]>),
}

impl Units {
    /// Those of all members.
    ///
    /// # Safety
    /// Crosses; all members do the same, inside a counted collective operation.
    pub(super) unsafe fn gather(comm: &'static Comm, own: i32) -> Result<Units, i32> {
        let mut all = vec![own; comm.body.size as usize];
        let int = Datatype::at(datatype::INT as u32).lower();
        let (from, to): (*const c_void, *mut c_void) =
            ((&raw const own).cast(), all.as_mut_ptr().cast());
        // SAFETY: one number of each.
        check(unsafe { lower::MPI_Allgather(from, 1, int, to, 1, int, comm.lower()) })?;
        Ok(match all.iter().all(|unit| *unit == own) {
            true => Units::Same(own),
            false => Units::Each(all.into()),
        })
    }

    /// That of a rank; of any number for who is none.
    #[inline(always)]
    pub(super) fn of(&self, rank: i32) -> isize {
        match self {
            Units::Same(unit) => *unit as isize,
            Units::Each(_) if rank == PROC_NULL => 1,
            Units::Each(units) => units.get(rank as usize).map_or(1, |unit| *unit as isize),
        }
    }
}
