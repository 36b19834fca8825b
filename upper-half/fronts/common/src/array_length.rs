//! Lengths of the arrays in an argument list.
//!
//! # Safety
//! An array of counts is read as its caller says.
#![allow(unsafe_code)]

use contract::abi;
use upper_half::object::Comm;

/// Number of entries of an array whose length is an argument. A negative count gives 0 entries; the function that
/// checks the count refuses it.
#[inline(always)]
pub fn entries(count: impl TryInto<usize>) -> usize {
    count.try_into().unwrap_or(0)
}

/// Sum of `n` counts.
///
/// # Safety
/// `counts` must be valid for reading `n` entries.
pub unsafe fn total(counts: *const i64, n: usize) -> i64 {
    (0..n).fold(0, |sum: i64, i| {
        // SAFETY: i < n, and the caller promises that `counts` is valid for `n` entries.
        sum.saturating_add(unsafe { counts.add(i).read() })
    })
}

/// First element and length of the block of process `rank` in a receive buffer of blocks of `count` elements.
pub fn block(count: impl Into<i64>, rank: i32) -> (i64, i64) {
    let count = count.into();
    (count.saturating_mul(i64::from(rank)), count)
}

/// The same for lists of lengths and places. Null lists give the length `i64::MAX`, which no buffer has. The library
/// refuses such a call.
///
/// # Safety
/// Each of `counts` and `places` is null, or has more than `rank` entries.
pub unsafe fn listed_block<C, P>(counts: *const C, places: *const P, rank: i32) -> (i64, i64)
where
    C: Copy + Into<i64>,
    P: Copy + TryInto<i64>,
{
    if counts.is_null() || places.is_null() {
        return (0, i64::MAX);
    }
    let at = entries(rank);
    // SAFETY: the caller promises an entry for `rank`.
    let (count, place) = unsafe { (*counts.add(at), *places.add(at)) };
    (place.try_into().unwrap_or(0), count.into())
}

/// Number of processes that a collective operation on `comm` addresses. For an intercommunicator it is the size of the
/// remote group.
pub fn collective_size(comm: &'static Comm) -> usize {
    let (mut inter, mut size) = (0, 0);
    upper_half::comm_test_inter(comm, (&mut inter).into());
    if inter != 0 {
        upper_half::comm_remote_size(comm, (&mut size).into());
    } else {
        upper_half::comm_size(comm, (&mut size).into());
    }
    entries(size)
}

/// Number of topology neighbours from which the calling process receives (`incoming`) or to which it sends. It is 0
/// without a topology.
pub fn neighbours(comm: &'static Comm, incoming: bool) -> usize {
    let (mut topology, mut rank, mut count, mut out, mut weighted) = (abi::UNDEFINED, 0, 0, 0, 0);
    upper_half::topo_test(comm, (&mut topology).into());
    match topology {
        abi::CART => {
            upper_half::cartdim_get(comm, (&mut count).into());
            count *= 2;
        }
        abi::GRAPH => {
            upper_half::comm_rank(comm, (&mut rank).into());
            upper_half::graph_neighbors_count(comm, rank, (&mut count).into());
        }
        abi::DIST_GRAPH => {
            upper_half::dist_graph_neighbors_count(
                comm,
                (&mut count).into(),
                (&mut out).into(),
                (&mut weighted).into(),
            );
            if !incoming {
                count = out;
            }
        }
        _ => {}
    }
    entries(count)
}
