//! Functions for topologies of all kinds.

use crate::argument::Out;
use crate::crossing::mpi_result::code_of;
use crate::object::comm::topology::Topology;
use crate::object::Comm;
use contract::abi::*;

/// Runs a query that gives an error code or nothing.
pub(crate) fn answer(query: impl FnOnce() -> Result<(), i32>) -> i32 {
    code_of(query())
}

/// MPI_Topo_test.
pub fn topo_test(comm: &'static Comm, mut status: Out<'_, i32>) -> i32 {
    if comm.body.size == 0 {
        return ERR_COMM;
    }
    let kind = match &comm.body.topology {
        None => UNDEFINED,
        Some(Topology::Cart(_)) => CART,
        Some(Topology::Graph(_)) => GRAPH,
        Some(Topology::DistGraph(_)) => DIST_GRAPH,
    };
    status.set(kind);
    SUCCESS
}

/// The answer of a map function for `size` processes: ranks stay as they are.
pub(crate) fn identity_map(comm: &'static Comm, size: i32, mut newrank: Out<'_, i32>) -> i32 {
    if comm.body.size == 0 {
        return ERR_COMM;
    }
    if size < 0 || size > comm.body.size {
        return ERR_DIMS;
    }
    let rank = comm.body.rank;
    newrank.set(if rank < size { rank } else { UNDEFINED });
    SUCCESS
}
