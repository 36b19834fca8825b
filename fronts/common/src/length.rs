//! How long the arrays of an argument list are.
//!
//! # Safety
//! The core functions called here write to locals whose addresses they are given.
#![allow(unsafe_code)]

use contract::abi;
use upper_half::object::Comm;

/// Entries of an array whose length is an argument; a negative count has none (and is refused by
/// whoever checks the count).
#[inline(always)]
pub fn entries(count: impl TryInto<usize>) -> usize {
    count.try_into().unwrap_or(0)
}

/// What `n` counts add up to.
///
/// # Safety
/// `counts` must be valid for reads of `n`.
pub unsafe fn total(counts: *const i64, n: usize) -> i64 {
    (0..n).fold(0, |sum: i64, i| {
        // SAFETY: i < n.
        sum.saturating_add(unsafe { counts.add(i).read() })
    })
}

/// Processes that a collective on `comm` addresses: those of the remote group for an
/// intercommunicator.
pub fn collective_size(comm: &'static Comm) -> usize {
    let (mut inter, mut size) = (0, 0);
    // SAFETY: both pointers lead to locals.
    unsafe {
        upper_half::comm_test_inter(comm, &mut inter);
        if inter != 0 {
            upper_half::comm_remote_size(comm, &mut size);
        } else {
            upper_half::comm_size(comm, &mut size);
        }
    }
    entries(size)
}

/// Topology neighbours of the calling process, from which it receives (`incoming`) or to which it
/// sends; none without a topology.
pub fn neighbours(comm: &'static Comm, incoming: bool) -> usize {
    let (mut topology, mut rank, mut count, mut out, mut weighted) = (abi::UNDEFINED, 0, 0, 0, 0);
    // SAFETY: all pointers lead to locals.
    unsafe {
        upper_half::topo_test(comm, &mut topology);
        match topology {
            abi::CART => {
                upper_half::cartdim_get(comm, &mut count);
                count *= 2;
            }
            abi::GRAPH => {
                upper_half::comm_rank(comm, &mut rank);
                upper_half::graph_neighbors_count(comm, rank, &mut count);
            }
            abi::DIST_GRAPH => {
                upper_half::dist_graph_neighbors_count(comm, &mut count, &mut out, &mut weighted);
                if !incoming {
                    count = out;
                }
            }
            _ => {}
        }
    }
    entries(count)
}
