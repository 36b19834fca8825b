//! Graph topologies.
//!
//! # Safety
//! Crossings get a place for the lower handle of what they make. The table does not know the length of an array of
//! edges, so it comes as a pointer.
#![allow(unsafe_code)]

use crate::argument::{pass, App, Input, Out, Output};
use crate::comm::construct::construct;
use crate::comm::topology::{answer, identity_map};
use crate::object::comm::topology::{Graph, Topology};
use crate::object::lower_handle::named;
use crate::object::Comm;
use contract::abi::*;

pub(crate) fn graph(comm: &'static Comm) -> Result<&'static Graph, i32> {
    match &comm.body.topology {
        Some(Topology::Graph(graph)) => Ok(graph),
        _ if comm.body.size == 0 => Err(ERR_COMM),
        _ => Err(ERR_TOPOLOGY),
    }
}

/// MPI_Graph_create.
///
/// # Safety
/// As MPI prescribes: `index` has `nnodes` entries, and there are as many edges at `edges` as the last of them says.
pub unsafe fn graph_create(
    comm: &'static Comm,
    nnodes: i32,
    index: Input<'_, i32>,
    edges: *const i32,
    reorder: i32,
    new: &mut &'static Comm,
) -> i32 {
    if comm.body.inter {
        return ERR_COMM;
    }
    let ends = index.to_vec();
    let n = ends
        .last()
        .map_or(0, |&end| usize::try_from(end).unwrap_or(0));
    // SAFETY: the caller's promise.
    let targets: Input<'_, i32> = unsafe { pass(App((edges, n))) };
    let shape = Graph {
        index: ends,
        edges: targets.to_vec(),
    };
    let index = index.as_ptr();
    Out::from(new).give(construct(
        comm,
        "graph",
        false,
        // SAFETY: the caller's promise.
        |made| unsafe {
            named::MPI_Graph_create(comm, nnodes, index, edges, reorder, made.place())
        },
        |_| Ok(Some(Topology::Graph(shape))),
    ))
}

/// MPI_Graph_map: ranks stay as they are.
pub fn graph_map(
    comm: &'static Comm,
    nnodes: i32,
    _index: Input<'_, i32>,
    _edges: *const i32,
    newrank: Out<'_, i32>,
) -> i32 {
    identity_map(comm, nnodes, newrank)
}

/// MPI_Graphdims_get.
pub fn graphdims_get(
    comm: &'static Comm,
    mut nnodes: Out<'_, i32>,
    mut nedges: Out<'_, i32>,
) -> i32 {
    answer(|| {
        let graph = graph(comm)?;
        nnodes.set(graph.index.len() as i32);
        nedges.set(graph.edges.len() as i32);
        Ok(())
    })
}

/// MPI_Graph_get.
pub fn graph_get(
    comm: &'static Comm,
    _maxindex: i32,
    _maxedges: i32,
    mut index: Output<'_, i32>,
    mut edges: Output<'_, i32>,
) -> i32 {
    answer(|| {
        let graph = graph(comm)?;
        index.fill(graph.index.iter().copied());
        edges.fill(graph.edges.iter().copied());
        Ok(())
    })
}

/// MPI_Graph_neighbors_count.
pub fn graph_neighbors_count(comm: &'static Comm, rank: i32, mut count: Out<'_, i32>) -> i32 {
    answer(|| {
        let found = graph(comm)?.neighbours(rank).ok_or(ERR_RANK)?;
        count.set(found.len() as i32);
        Ok(())
    })
}

/// MPI_Graph_neighbors.
pub fn graph_neighbors(
    comm: &'static Comm,
    rank: i32,
    _maxneighbors: i32,
    mut neighbors: Output<'_, i32>,
) -> i32 {
    answer(|| {
        let found = graph(comm)?.neighbours(rank).ok_or(ERR_RANK)?;
        neighbors.fill(found.iter().copied());
        Ok(())
    })
}
