//! Units of displacements. The application gives displacements in units of the target's choice; the windows below
//! count in bytes, so that each element of a datatype can be reached by itself (see
//! [`accumulate`](super::accumulate)).
//!
//! # Safety
//! As for `window`.
#![allow(unsafe_code)]

use super::shared::gather;
use crate::object::Comm;
use contract::abi::PROC_NULL;

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
        // SAFETY: passed on.
        let all = unsafe { gather(comm, [i64::from(own)])? };
        let all: Box<[i32]> = all.iter().map(|[unit]| *unit as i32).collect();
        Ok(match all.iter().all(|unit| *unit == own) {
            true => Units::Same(own),
            false => Units::Each(all),
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
