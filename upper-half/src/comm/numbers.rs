//! Collective operations on numbers of Stasis itself. All members of the communicator call them, inside a counted
//! collective operation.
//!
//! # Safety
//! Crossings pass arrays with their lengths.
#![allow(unsafe_code)]

use crate::crossing::mpi_result::check;
use crate::object::lower_handle::{named, Below};
use crate::object::{Comm, CommBody, Datatype, Op};
use contract::abi::*;

fn long() -> &'static Datatype {
    Datatype::at(datatype::INT64_T as u32)
}

/// The greatest of all members' values, place by place.
pub(crate) fn greatest<const N: usize>(
    comm: impl Below<CommBody>,
    own: [i64; N],
) -> Result<[i64; N], i32> {
    let (mut all, max) = (own, Op::at(op::MAX as u32));
    let (from, to) = (own.as_ptr().cast(), all.as_mut_ptr().cast());
    // SAFETY: arrays of N entries.
    check(unsafe { named::MPI_Allreduce(from, to, N as i32, long(), max, comm) })?;
    Ok(all)
}

/// The numbers of all members, by rank.
pub(crate) fn gather<const N: usize>(
    comm: &'static Comm,
    own: [i64; N],
) -> Result<Vec<[i64; N]>, i32> {
    let (mut all, count) = (vec![[0; N]; comm.body.size as usize], N as i32);
    let (from, to) = (own.as_ptr().cast(), all.as_mut_ptr().cast());
    // SAFETY: N entries of each member, and room for as many from every member.
    check(unsafe { named::MPI_Allgather(from, count, long(), to, count, long(), comm) })?;
    Ok(all)
}

/// Gives all members the numbers of `root`. The arrays have the same length.
pub(crate) fn tell(comm: &'static Comm, root: i32, numbers: &mut [u32]) -> Result<(), i32> {
    let (buffer, length) = (numbers.as_mut_ptr().cast(), numbers.len() as i32);
    let uint = Datatype::at(datatype::UINT32_T as u32);
    // SAFETY: the array is passed with its length.
    check(unsafe { named::MPI_Bcast(buffer, length, uint, root, comm) })
}
