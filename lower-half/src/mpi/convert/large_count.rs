//! Large counts for a library that has no functions with large counts. Counts that fit an int are passed to the
//! ordinary form of the function; a larger one is refused with the name of the function.
//!
//! # Safety
//! As for `array`.
#![allow(unsafe_code)]
#![allow(dead_code)] // a library with large counts needs none of this

use core::ffi::{c_int, c_void};

use contract::abi;
use mpi_sys::MPI_Comm;

use super::array::Room;
use super::error;
use crate::mpi::service;

/// A large count as an int, if it fits.
#[inline(always)]
pub fn one(count: impl TryInto<c_int>) -> Option<c_int> {
    count.try_into().ok()
}

/// `n` large counts, or displacements, as ints, if all fit. Null stays null.
///
/// # Safety
/// `counts` must be null or valid for reads of `n`.
pub unsafe fn all<T: Copy + TryInto<c_int>>(
    room: &mut Room<c_int>,
    counts: *const T,
    n: usize,
) -> Option<*const c_int> {
    if counts.is_null() {
        return Some(core::ptr::null());
    }
    // SAFETY: i < n, for which the counts are valid.
    let count = |i| unsafe { counts.add(i).read() };
    let fit = (0..n).all(|i| one(count(i)).is_some());
    fit.then(|| room.fill(n, |i| one(count(i)).unwrap_or(0)).cast_const())
}

/// `n` on the root of a collective operation, 0 on other ranks, where the root's arguments are not significant.
pub fn at_root(comm: MPI_Comm, root: i32, n: usize) -> usize {
    let (mut inter, mut rank) = (0, mpi_sys::MPI_UNDEFINED);
    // SAFETY: locals; an invalid communicator is reported by the library to the caller.
    unsafe {
        mpi_sys::MPI_Comm_test_inter(comm, &mut inter);
        mpi_sys::MPI_Comm_rank(comm, &mut rank);
    }
    let here = match inter {
        0 => root == rank,
        _ => root == abi::ROOT,
    };
    if here {
        n
    } else {
        0
    }
}

/// `n`, or 0 if the send buffer is MPI_IN_PLACE, where the send arguments are not significant.
pub fn unless_in_place(sendbuf: *const c_void, n: usize) -> usize {
    match sendbuf as usize {
        abi::IN_PLACE => 0,
        _ => n,
    }
}

/// The error of a large-count function whose counts do not fit an int, if the library has only the int form.
#[cold]
pub fn too_large(name: &str) -> i32 {
    let text = format!(
        "{name} is not supported by Stasis for more than 2147483647 elements over an MPI library \
         that has no large counts: use one that has (docs/not-supported.md)"
    );
    service::say(text.as_bytes());
    error::unsupported()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_narrowed_if_all_fit() {
        let mut room = Room::new();
        let large: Vec<i64> = (0..40).collect();
        // SAFETY: as many counts as said.
        unsafe {
            let narrowed = |room: &mut _, counts: &[i64]| {
                let start = all(room, counts.as_ptr(), counts.len())?;
                Some(core::slice::from_raw_parts(start, counts.len()).to_vec())
            };
            assert_eq!(narrowed(&mut room, &large), Some((0..40).collect()));
            assert_eq!(narrowed(&mut room, &[1, -1]), Some(vec![1, -1]));
            assert_eq!(narrowed(&mut room, &[1, 1 << 31]), None);
        }
        assert_eq!(one(i64::from(i32::MAX) + 1), None);
    }
}
