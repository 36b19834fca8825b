//! Memory of MPI_Win_allocate_shared: one file in /dev/shm, without a name once all have it, that
//! every member maps as a whole. Segments lie one behind the other, in the order of ranks, as MPI
//! asks for. A checkpoint treats it as any memory that ranks share.
//!
//! # Safety
//! As for `window`; system calls are given local paths and addresses that are ours.
#![allow(unsafe_code)]

use crate::code::check;
use crate::lower::named;
use crate::object::{Comm, Datatype, Op};
use crate::system;
use contract::abi::*;
use core::ffi::c_void;
use std::ffi::CString;

/// One member's part.
#[derive(Clone, Copy)]
pub(super) struct Segment {
    /// Where it is mapped in this process; 0 if it is nowhere.
    pub(super) start: usize,
    pub(super) bytes: isize,
    pub(super) unit: i32,
}

/// The parts of all members, by rank.
pub(super) struct Segments {
    start: usize,
    bytes: usize,
    parts: Box<[Segment]>,
}

const PAGE: usize = 4096;

impl Segments {
    /// Makes the memory. With `apart`, who has asked for parts that need not lie together is told that those of
    /// no bytes are nowhere, as by MPI libraries.
    ///
    /// # Safety
    /// Crosses; all members do the same, inside a counted collective operation.
    pub(super) unsafe fn make(
        comm: &'static Comm,
        bytes: isize,
        unit: i32,
        apart: bool,
    ) -> Result<Segments, i32> {
        // SAFETY: passed on.
        unsafe {
            let sizes = gather(comm, [bytes as i64, i64::from(unit)])?;
            let total: usize = sizes.iter().map(|[bytes, _]| *bytes as usize).sum();
            let total = total.max(1).next_multiple_of(PAGE);
            // The first member's process id makes the name one that no other job has.
            let mut creator = [system::process_id()];
            let (buffer, int) = (creator.as_mut_ptr().cast(), int());
            check(named::MPI_Bcast(buffer, 1, int, 0, comm))?;
            let name = name(creator[0], comm.body.id);
            let mut start = None;
            if comm.body.rank == 0 {
                start = system::map_shared(&name, total, true);
            }
            check(named::MPI_Barrier(comm))?;
            if comm.body.rank != 0 {
                start = system::map_shared(&name, total, false);
            }
            let all_have_it = everywhere(comm, start.is_some());
            if comm.body.rank == 0 {
                system::unlink(&name);
            }
            match (start, all_have_it?) {
                (Some(start), true) => Ok(Segments::lay_out(start as usize, total, &sizes, apart)),
                (start, _) => {
                    if let Some(start) = start {
                        system::unmap(start, total);
                    }
                    Err(ERR_RMA_SHARED)
                }
            }
        }
    }

    fn lay_out(start: usize, bytes: usize, sizes: &[[i64; 2]], apart: bool) -> Segments {
        let mut next = start;
        let part = |&[bytes, unit]: &[i64; 2]| {
            let start = if apart && bytes == 0 { 0 } else { next };
            next += bytes as usize;
            Segment {
                start,
                bytes: bytes as isize,
                unit: unit as i32,
            }
        };
        Segments {
            start,
            bytes,
            parts: sizes.iter().map(part).collect(),
        }
    }

    /// The part of a rank that exists.
    pub(super) fn of(&self, rank: i32) -> Segment {
        self.parts[rank as usize]
    }

    /// The part of the lowest rank that has memory: what MPI_PROC_NULL asks for.
    pub(super) fn first_used(&self) -> Segment {
        let used = self.parts.iter().find(|part| part.bytes > 0);
        *used.unwrap_or(&Segment {
            start: 0,
            bytes: 0,
            unit: 1,
        })
    }

    /// Gives the memory back.
    ///
    /// # Safety
    /// Nobody may use it any more.
    pub(super) unsafe fn unmap(&self) {
        // SAFETY: passed on.
        unsafe { system::unmap(self.start as *mut u8, self.bytes) };
    }
}

fn name(creator: i32, id: u64) -> CString {
    let name = format!("/dev/shm/stasis-{creator}-{id:016x}");
    CString::new(name).unwrap_or_default()
}

fn int() -> &'static Datatype {
    Datatype::at(datatype::INT as u32)
}

/// Everyone's numbers, by rank.
///
/// # Safety
/// Crosses; all members do the same, inside a counted collective operation.
pub(super) unsafe fn gather<const N: usize>(
    comm: &'static Comm,
    own: [i64; N],
) -> Result<Vec<[i64; N]>, i32> {
    let (mut all, count) = (vec![[0; N]; comm.body.size as usize], N as i32);
    let long = Datatype::at(datatype::INT64_T as u32);
    let (from, to): (*const c_void, *mut c_void) = (own.as_ptr().cast(), all.as_mut_ptr().cast());
    // SAFETY: so many numbers of each.
    check(unsafe { named::MPI_Allgather(from, count, long, to, count, long, comm) })?;
    Ok(all)
}

/// Whether all members say yes.
unsafe fn everywhere(comm: &'static Comm, yes: bool) -> Result<bool, i32> {
    let (own, mut all) = (i32::from(yes), 0_i32);
    let and = Op::at(op::LAND as u32);
    let (from, to) = ((&raw const own).cast(), (&raw mut all).cast());
    // SAFETY: one number of each.
    check(unsafe { named::MPI_Allreduce(from, to, 1, int(), and, comm) })?;
    Ok(all != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_one_behind_the_other() {
        for (apart, first) in [(false, 0x1000), (true, 0)] {
            let segments = Segments::lay_out(0x1000, 4096, &[[0, 1], [24, 8], [8, 4]], apart);
            let starts: Vec<_> = (0..3).map(|rank| segments.of(rank).start).collect();
            assert_eq!(starts, [first, 0x1000, 0x1018]);
            assert_eq!(segments.first_used().start, 0x1000);
            assert_eq!(segments.first_used().bytes, 24);
        }
    }
}
