//! Distributed graph topologies.
//!
//! # Safety
//! Crossings get a place for the lower handle of what they make. An array of weights may be one of two special values
//! instead, and the table does not know the length of some arrays: both come as pointers.
#![allow(unsafe_code)]
#![allow(clippy::too_many_arguments)] // MPI's own signatures

use crate::argument::{pass, App, Input, Out, Output};
use crate::comm::construct::construct;
use crate::comm::topology::answer;
use crate::crossing::mpi_result::check;
use crate::object::comm::topology::{DistGraph, Topology};
use crate::object::info::crossing_info;
use crate::object::lower_handle::temporary::with;
use crate::object::lower_handle::{named, Fresh};
use crate::object::{Comm, CommBody, Info};
use contract::abi::*;

fn dist_graph(comm: &'static Comm) -> Result<&'static DistGraph, i32> {
    match &comm.body.topology {
        Some(Topology::DistGraph(graph)) => Ok(graph),
        _ if comm.body.size == 0 => Err(ERR_COMM),
        _ => Err(ERR_TOPOLOGY),
    }
}

/// MPI_Dist_graph_create_adjacent.
///
/// # Safety
/// As MPI prescribes: all arrays have as many entries as the degrees say. Those of weights may be MPI_UNWEIGHTED or
/// MPI_WEIGHTS_EMPTY instead.
pub unsafe fn dist_graph_create_adjacent(
    comm: &'static Comm,
    indegree: i32,
    sources: Input<'_, i32>,
    sourceweights: *const i32,
    outdegree: i32,
    destinations: Input<'_, i32>,
    destweights: *const i32,
    info: &'static Info,
    reorder: i32,
    new: &mut &'static Comm,
) -> i32 {
    if comm.body.inter {
        return ERR_COMM;
    }
    // None for MPI_UNWEIGHTED.
    let given = |weights: *const i32, n: i32| match weights as usize {
        UNWEIGHTED => None,
        WEIGHTS_EMPTY => Some(Vec::new()),
        _ => {
            let n = usize::try_from(n).unwrap_or(0);
            // SAFETY: the caller's promise.
            let weights: Input<'_, i32> = unsafe { pass(App((weights, n))) };
            Some(weights.to_vec())
        }
    };
    let (of_sources, of_destinations) = (
        given(sourceweights, indegree),
        given(destweights, outdegree),
    );
    let shape = DistGraph {
        sources: sources.to_vec(),
        destinations: destinations.to_vec(),
        weights: of_sources.zip(of_destinations),
    };
    Out::from(new).give(construct(
        comm,
        "dist_graph",
        false,
        |made| {
            // SAFETY: the caller's promise.
            with(crossing_info(info), |info| unsafe {
                named::MPI_Dist_graph_create_adjacent(
                    comm,
                    indegree,
                    sources.as_ptr(),
                    sourceweights,
                    outdegree,
                    destinations.as_ptr(),
                    destweights,
                    info,
                    reorder,
                    made.place(),
                )
            })
        },
        |_| Ok(Some(Topology::DistGraph(shape))),
    ))
}

/// MPI_Dist_graph_create. Only the library below knows which neighbours this process has.
///
/// # Safety
/// As MPI prescribes: there are `n` sources and degrees, and as many destinations and weights as the sum of the
/// degrees. The weights may be MPI_UNWEIGHTED or MPI_WEIGHTS_EMPTY instead.
pub unsafe fn dist_graph_create(
    comm: &'static Comm,
    n: i32,
    sources: Input<'_, i32>,
    degrees: Input<'_, i32>,
    destinations: *const i32,
    weights: *const i32,
    info: &'static Info,
    reorder: i32,
    new: &mut &'static Comm,
) -> i32 {
    if comm.body.inter {
        return ERR_COMM;
    }
    Out::from(new).give(construct(
        comm,
        "dist_graph",
        false,
        |made| {
            // SAFETY: the caller's promise.
            with(crossing_info(info), |info| unsafe {
                named::MPI_Dist_graph_create(
                    comm,
                    n,
                    sources.as_ptr(),
                    degrees.as_ptr(),
                    destinations,
                    weights,
                    info,
                    reorder,
                    made.place(),
                )
            })
        },
        |made| Ok(Some(Topology::DistGraph(neighbours_below(made)?))),
    ))
}

/// This process's neighbours in a distributed graph, as the lower half has them.
fn neighbours_below(made: &Fresh<'_, CommBody>) -> Result<DistGraph, i32> {
    let (mut indegree, mut outdegree, mut weighted) = (0, 0, 0);
    check(named::MPI_Dist_graph_neighbors_count(
        made,
        &mut indegree,
        &mut outdegree,
        &mut weighted,
    ))?;
    let mut sources = vec![0; indegree as usize];
    let mut destinations = vec![0; outdegree as usize];
    let mut source_weights = vec![0; indegree as usize];
    let mut dest_weights = vec![0; outdegree as usize];
    // SAFETY: the arrays have as many entries as the degrees say.
    check(unsafe {
        named::MPI_Dist_graph_neighbors(
            made,
            indegree,
            sources.as_mut_ptr(),
            source_weights.as_mut_ptr(),
            outdegree,
            destinations.as_mut_ptr(),
            dest_weights.as_mut_ptr(),
        )
    })?;
    Ok(DistGraph {
        sources,
        destinations,
        weights: (weighted != 0).then_some((source_weights, dest_weights)),
    })
}

/// MPI_Dist_graph_neighbors_count.
pub fn dist_graph_neighbors_count(
    comm: &'static Comm,
    mut indegree: Out<'_, i32>,
    mut outdegree: Out<'_, i32>,
    mut weighted: Out<'_, i32>,
) -> i32 {
    answer(|| {
        let graph = dist_graph(comm)?;
        indegree.set(graph.sources.len() as i32);
        outdegree.set(graph.destinations.len() as i32);
        weighted.set(i32::from(graph.weights.is_some()));
        Ok(())
    })
}

/// MPI_Dist_graph_neighbors.
///
/// # Safety
/// As MPI prescribes: both arrays of weights have room for as many entries as the maxima say, or are MPI_UNWEIGHTED or
/// MPI_WEIGHTS_EMPTY.
pub unsafe fn dist_graph_neighbors(
    comm: &'static Comm,
    maxindegree: i32,
    mut sources: Output<'_, i32>,
    sourceweights: *mut i32,
    maxoutdegree: i32,
    mut destinations: Output<'_, i32>,
    destweights: *mut i32,
) -> i32 {
    let give = |weights: &[i32], place: *mut i32, max: i32| {
        if place as usize > WEIGHTS_EMPTY {
            let max = usize::try_from(max).unwrap_or(0);
            // SAFETY: the caller's promise.
            let mut place: Output<'_, i32> = unsafe { pass(App((place, max))) };
            place.fill(weights.iter().copied());
        }
    };
    answer(|| {
        let graph = dist_graph(comm)?;
        sources.fill(graph.sources.iter().copied());
        destinations.fill(graph.destinations.iter().copied());
        if let Some((of_sources, of_destinations)) = &graph.weights {
            give(of_sources, sourceweights, maxindegree);
            give(of_destinations, destweights, maxoutdegree);
        }
        Ok(())
    })
}
