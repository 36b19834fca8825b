//! Process topologies. Dimensions, edges and neighbours are kept with the communicator and answer
//! all queries, so that answers are the same before and after a restart under another library.
//!
//! # Safety
//! Arrays and out parameters are the application's, as MPI prescribes them; crossings pass words of
//! live objects.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // MPI's own contracts, see the head
#![allow(clippy::too_many_arguments)] // MPI's own signatures

use crate::code::{check, code_of, give};
use crate::comm_create::construct;
use crate::object::{Comm, Info};
use crate::slices::{input, output};
use crate::{info, lower};
use contract::abi::*;

/// A Cartesian grid; the last dimension varies fastest with the rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cart {
    pub(crate) dims: Vec<i32>,
    pub(crate) periods: Vec<i32>,
}

/// A graph as MPI_Graph_create describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    pub(crate) index: Vec<i32>,
    pub(crate) edges: Vec<i32>,
}

/// This process's neighbours in a distributed graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DistGraph {
    pub(crate) sources: Vec<i32>,
    pub(crate) destinations: Vec<i32>,
    /// Weights of sources and of destinations; none in an unweighted graph.
    pub(crate) weights: Option<(Vec<i32>, Vec<i32>)>,
}

/// The topology of a communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// MPI_CART.
    Cart(Cart),
    /// MPI_GRAPH.
    Graph(Graph),
    /// MPI_DIST_GRAPH.
    DistGraph(DistGraph),
}

impl Topology {
    /// Number of neighbours of rank `rank` (of the calling process, for a distributed graph).
    pub(crate) fn neighbours(&self, rank: i32, incoming: bool) -> i32 {
        let n = match self {
            Topology::Cart(cart) => 2 * cart.dims.len(),
            Topology::Graph(graph) => graph.neighbours(rank).map_or(0, <[i32]>::len),
            Topology::DistGraph(graph) if incoming => graph.sources.len(),
            Topology::DistGraph(graph) => graph.destinations.len(),
        };
        n as i32
    }
}

impl Cart {
    fn size(&self) -> i32 {
        self.dims.iter().product()
    }

    fn coords(&self, rank: i32) -> Vec<i32> {
        let mut rest = rank;
        let mut coords: Vec<i32> = self
            .dims
            .iter()
            .rev()
            .map(|dim| {
                let coord = rest % dim;
                rest /= dim;
                coord
            })
            .collect();
        coords.reverse();
        coords
    }

    /// The rank at coordinates, which wrap where the grid is periodic.
    fn rank(&self, coords: &[i32]) -> Result<i32, i32> {
        let mut rank = 0;
        for ((&dim, &period), &coord) in self.dims.iter().zip(&self.periods).zip(coords) {
            let inside = (0..dim).contains(&coord);
            if !inside && period == 0 {
                return Err(ERR_ARG);
            }
            rank = rank * dim + coord.rem_euclid(dim);
        }
        Ok(rank)
    }

    fn neighbour(&self, rank: i32, direction: usize, displacement: i32) -> i32 {
        let mut coords = self.coords(rank);
        coords[direction] = coords[direction].saturating_add(displacement);
        self.rank(&coords).unwrap_or(PROC_NULL)
    }
}

impl Graph {
    fn neighbours(&self, rank: i32) -> Option<&[i32]> {
        let rank = usize::try_from(rank).ok()?;
        let end = *self.index.get(rank)?;
        let start = match rank {
            0 => 0,
            _ => *self.index.get(rank - 1)?,
        };
        self.edges
            .get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
    }
}

fn cart(comm: &'static Comm) -> Result<&'static Cart, i32> {
    match &comm.body.topology {
        Some(Topology::Cart(cart)) => Ok(cart),
        _ if comm.body.size == 0 => Err(ERR_COMM),
        _ => Err(ERR_TOPOLOGY),
    }
}

fn graph(comm: &'static Comm) -> Result<&'static Graph, i32> {
    match &comm.body.topology {
        Some(Topology::Graph(graph)) => Ok(graph),
        _ if comm.body.size == 0 => Err(ERR_COMM),
        _ => Err(ERR_TOPOLOGY),
    }
}

fn dist_graph(comm: &'static Comm) -> Result<&'static DistGraph, i32> {
    match &comm.body.topology {
        Some(Topology::DistGraph(graph)) => Ok(graph),
        _ if comm.body.size == 0 => Err(ERR_COMM),
        _ => Err(ERR_TOPOLOGY),
    }
}

/// Runs a query that gives an error code or nothing.
fn answer(query: impl FnOnce() -> Result<(), i32>) -> i32 {
    code_of(query())
}

/// MPI_Cart_create.
pub unsafe fn cart_create(
    comm: &'static Comm,
    ndims: i32,
    dims: *const i32,
    periods: *const i32,
    reorder: i32,
    new: *mut &'static Comm,
) -> i32 {
    if comm.body.inter {
        return ERR_COMM;
    }
    // SAFETY: see the module's head.
    unsafe {
        let shape = Cart {
            dims: input(dims, ndims).to_vec(),
            periods: input(periods, ndims).to_vec(),
        };
        let made = construct(
            comm,
            "cart",
            false,
            |word| lower::MPI_Cart_create(comm.lower(), ndims, dims, periods, reorder, word),
            |_| Ok(Some(Topology::Cart(shape))),
        );
        give(made, new)
    }
}

/// MPI_Cart_sub.
pub unsafe fn cart_sub(
    comm: &'static Comm,
    remain_dims: *const i32,
    new: *mut &'static Comm,
) -> i32 {
    let grid = match cart(comm) {
        Ok(grid) => grid,
        Err(code) => return code,
    };
    // SAFETY: see the module's head; there is one flag for each dimension.
    unsafe {
        let remain = input(remain_dims, grid.dims.len() as i32);
        let kept = |all: &[i32]| {
            all.iter()
                .zip(remain)
                .filter(|(_, &remain)| remain != 0)
                .map(|(&value, _)| value)
                .collect()
        };
        let shape = Cart {
            dims: kept(&grid.dims),
            periods: kept(&grid.periods),
        };
        let made = construct(
            comm,
            "cart_sub",
            false,
            |word| lower::MPI_Cart_sub(comm.lower(), remain_dims, word),
            |_| Ok(Some(Topology::Cart(shape))),
        );
        give(made, new)
    }
}

/// MPI_Graph_create.
pub unsafe fn graph_create(
    comm: &'static Comm,
    nnodes: i32,
    index: *const i32,
    edges: *const i32,
    reorder: i32,
    new: *mut &'static Comm,
) -> i32 {
    if comm.body.inter {
        return ERR_COMM;
    }
    // SAFETY: see the module's head; the last entry of `index` is the number of edges.
    unsafe {
        let index_ = input(index, nnodes).to_vec();
        let edges_ = input(edges, index_.last().copied().unwrap_or(0)).to_vec();
        let shape = Graph {
            index: index_,
            edges: edges_,
        };
        let made = construct(
            comm,
            "graph",
            false,
            |word| lower::MPI_Graph_create(comm.lower(), nnodes, index, edges, reorder, word),
            |_| Ok(Some(Topology::Graph(shape))),
        );
        give(made, new)
    }
}

/// A weights argument: none for MPI_UNWEIGHTED.
unsafe fn weights(pointer: *const i32, n: i32) -> Option<Vec<i32>> {
    match pointer as usize {
        UNWEIGHTED => None,
        WEIGHTS_EMPTY => Some(Vec::new()),
        // SAFETY: passed on.
        _ => Some(unsafe { input(pointer, n) }.to_vec()),
    }
}

/// MPI_Dist_graph_create_adjacent.
pub unsafe fn dist_graph_create_adjacent(
    comm: &'static Comm,
    indegree: i32,
    sources: *const i32,
    sourceweights: *const i32,
    outdegree: i32,
    destinations: *const i32,
    destweights: *const i32,
    info: &'static Info,
    reorder: i32,
    new: *mut &'static Comm,
) -> i32 {
    if comm.body.inter {
        return ERR_COMM;
    }
    // SAFETY: see the module's head.
    unsafe {
        let source_weights = weights(sourceweights, indegree);
        let shape = DistGraph {
            sources: input(sources, indegree).to_vec(),
            destinations: input(destinations, outdegree).to_vec(),
            weights: source_weights.zip(weights(destweights, outdegree)),
        };
        let made = construct(
            comm,
            "dist_graph",
            false,
            |word| {
                let info = info::crossing_info(info);
                lower::MPI_Dist_graph_create_adjacent(
                    comm.lower(),
                    indegree,
                    sources,
                    sourceweights,
                    outdegree,
                    destinations,
                    destweights,
                    info.word(),
                    reorder,
                    word,
                )
            },
            |_| Ok(Some(Topology::DistGraph(shape))),
        );
        give(made, new)
    }
}

/// MPI_Dist_graph_create. Which neighbours this process has, only the library below knows.
pub unsafe fn dist_graph_create(
    comm: &'static Comm,
    n: i32,
    sources: *const i32,
    degrees: *const i32,
    destinations: *const i32,
    weights: *const i32,
    info: &'static Info,
    reorder: i32,
    new: *mut &'static Comm,
) -> i32 {
    if comm.body.inter {
        return ERR_COMM;
    }
    // SAFETY: see the module's head.
    unsafe {
        let made = construct(
            comm,
            "dist_graph",
            false,
            |word| {
                let info = info::crossing_info(info);
                lower::MPI_Dist_graph_create(
                    comm.lower(),
                    n,
                    sources,
                    degrees,
                    destinations,
                    weights,
                    info.word(),
                    reorder,
                    word,
                )
            },
            |word| Ok(Some(Topology::DistGraph(neighbours_below(word)?))),
        );
        give(made, new)
    }
}

/// This process's neighbours in a distributed graph, as the lower half has them.
unsafe fn neighbours_below(word: usize) -> Result<DistGraph, i32> {
    let (mut indegree, mut outdegree, mut weighted) = (0, 0, 0);
    // SAFETY: locals, of the sizes that the first call gives.
    unsafe {
        check(lower::MPI_Dist_graph_neighbors_count(
            word,
            &raw mut indegree,
            &raw mut outdegree,
            &raw mut weighted,
        ))?;
        let mut sources = vec![0; indegree as usize];
        let mut destinations = vec![0; outdegree as usize];
        let mut source_weights = vec![0; indegree as usize];
        let mut dest_weights = vec![0; outdegree as usize];
        check(lower::MPI_Dist_graph_neighbors(
            word,
            indegree,
            sources.as_mut_ptr(),
            source_weights.as_mut_ptr(),
            outdegree,
            destinations.as_mut_ptr(),
            dest_weights.as_mut_ptr(),
        ))?;
        Ok(DistGraph {
            sources,
            destinations,
            weights: (weighted != 0).then_some((source_weights, dest_weights)),
        })
    }
}

/// MPI_Topo_test.
pub unsafe fn topo_test(comm: &'static Comm, status: *mut i32) -> i32 {
    if comm.body.size == 0 {
        return ERR_COMM;
    }
    let kind = match &comm.body.topology {
        None => UNDEFINED,
        Some(Topology::Cart(_)) => CART,
        Some(Topology::Graph(_)) => GRAPH,
        Some(Topology::DistGraph(_)) => DIST_GRAPH,
    };
    // SAFETY: MPI's contract for an out parameter.
    unsafe { *status = kind };
    SUCCESS
}

/// MPI_Cartdim_get.
pub unsafe fn cartdim_get(comm: &'static Comm, ndims: *mut i32) -> i32 {
    answer(|| {
        // SAFETY: MPI's contract for an out parameter.
        unsafe { *ndims = cart(comm)?.dims.len() as i32 };
        Ok(())
    })
}

/// MPI_Cart_get.
pub unsafe fn cart_get(
    comm: &'static Comm,
    maxdims: i32,
    dims: *mut i32,
    periods: *mut i32,
    coords: *mut i32,
) -> i32 {
    answer(|| {
        let grid = cart(comm)?;
        // SAFETY: MPI's contract: maxdims entries each.
        unsafe {
            output(&grid.dims, dims, maxdims);
            output(&grid.periods, periods, maxdims);
            output(&grid.coords(comm.body.rank), coords, maxdims);
        }
        Ok(())
    })
}

/// MPI_Cart_rank.
pub unsafe fn cart_rank(comm: &'static Comm, coords: *const i32, rank: *mut i32) -> i32 {
    answer(|| {
        let grid = cart(comm)?;
        // SAFETY: MPI's contract: one coordinate for each dimension; an out parameter.
        unsafe { *rank = grid.rank(input(coords, grid.dims.len() as i32))? };
        Ok(())
    })
}

/// MPI_Cart_coords.
pub unsafe fn cart_coords(comm: &'static Comm, rank: i32, maxdims: i32, coords: *mut i32) -> i32 {
    answer(|| {
        let grid = cart(comm)?;
        if !(0..comm.body.size).contains(&rank) {
            return Err(ERR_RANK);
        }
        // SAFETY: MPI's contract: maxdims entries.
        unsafe { output(&grid.coords(rank), coords, maxdims) };
        Ok(())
    })
}

/// MPI_Cart_shift.
pub unsafe fn cart_shift(
    comm: &'static Comm,
    direction: i32,
    disp: i32,
    rank_source: *mut i32,
    rank_dest: *mut i32,
) -> i32 {
    answer(|| {
        let grid = cart(comm)?;
        let direction = usize::try_from(direction)
            .ok()
            .filter(|&direction| direction < grid.dims.len())
            .ok_or(ERR_DIMS)?;
        // SAFETY: MPI's contract for out parameters.
        unsafe {
            *rank_source = grid.neighbour(comm.body.rank, direction, -disp);
            *rank_dest = grid.neighbour(comm.body.rank, direction, disp);
        }
        Ok(())
    })
}

/// MPI_Cart_map: ranks stay as they are.
pub unsafe fn cart_map(
    comm: &'static Comm,
    ndims: i32,
    dims: *const i32,
    _periods: *const i32,
    newrank: *mut i32,
) -> i32 {
    // SAFETY: MPI's contract: ndims entries.
    let dims = unsafe { input(dims, ndims) }.to_vec();
    let size = Cart {
        dims,
        periods: Vec::new(),
    }
    .size();
    // SAFETY: passed on.
    unsafe { identity_map(comm, size, newrank) }
}

/// MPI_Graph_map: ranks stay as they are.
pub unsafe fn graph_map(
    comm: &'static Comm,
    nnodes: i32,
    _index: *const i32,
    _edges: *const i32,
    newrank: *mut i32,
) -> i32 {
    // SAFETY: passed on.
    unsafe { identity_map(comm, nnodes, newrank) }
}

unsafe fn identity_map(comm: &'static Comm, size: i32, newrank: *mut i32) -> i32 {
    if comm.body.size == 0 {
        return ERR_COMM;
    }
    if size < 0 || size > comm.body.size {
        return ERR_DIMS;
    }
    let rank = comm.body.rank;
    // SAFETY: MPI's contract for an out parameter.
    unsafe { *newrank = if rank < size { rank } else { UNDEFINED } };
    SUCCESS
}

/// MPI_Graphdims_get.
pub unsafe fn graphdims_get(comm: &'static Comm, nnodes: *mut i32, nedges: *mut i32) -> i32 {
    answer(|| {
        let graph = graph(comm)?;
        // SAFETY: MPI's contract for out parameters.
        unsafe {
            *nnodes = graph.index.len() as i32;
            *nedges = graph.edges.len() as i32;
        }
        Ok(())
    })
}

/// MPI_Graph_get.
pub unsafe fn graph_get(
    comm: &'static Comm,
    maxindex: i32,
    maxedges: i32,
    index: *mut i32,
    edges: *mut i32,
) -> i32 {
    answer(|| {
        let graph = graph(comm)?;
        // SAFETY: MPI's contract: as many entries as the maxima say.
        unsafe {
            output(&graph.index, index, maxindex);
            output(&graph.edges, edges, maxedges);
        }
        Ok(())
    })
}

/// MPI_Graph_neighbors_count.
pub unsafe fn graph_neighbors_count(comm: &'static Comm, rank: i32, count: *mut i32) -> i32 {
    answer(|| {
        let found = graph(comm)?.neighbours(rank).ok_or(ERR_RANK)?;
        // SAFETY: MPI's contract for an out parameter.
        unsafe { *count = found.len() as i32 };
        Ok(())
    })
}

/// MPI_Graph_neighbors.
pub unsafe fn graph_neighbors(
    comm: &'static Comm,
    rank: i32,
    maxneighbors: i32,
    neighbors: *mut i32,
) -> i32 {
    answer(|| {
        let found = graph(comm)?.neighbours(rank).ok_or(ERR_RANK)?;
        // SAFETY: MPI's contract: maxneighbors entries.
        unsafe { output(found, neighbors, maxneighbors) };
        Ok(())
    })
}

/// MPI_Dist_graph_neighbors_count.
pub unsafe fn dist_graph_neighbors_count(
    comm: &'static Comm,
    indegree: *mut i32,
    outdegree: *mut i32,
    weighted: *mut i32,
) -> i32 {
    answer(|| {
        let graph = dist_graph(comm)?;
        // SAFETY: MPI's contract for out parameters.
        unsafe {
            *indegree = graph.sources.len() as i32;
            *outdegree = graph.destinations.len() as i32;
            *weighted = i32::from(graph.weights.is_some());
        }
        Ok(())
    })
}

/// MPI_Dist_graph_neighbors.
pub unsafe fn dist_graph_neighbors(
    comm: &'static Comm,
    maxindegree: i32,
    sources: *mut i32,
    sourceweights: *mut i32,
    maxoutdegree: i32,
    destinations: *mut i32,
    destweights: *mut i32,
) -> i32 {
    answer(|| {
        let graph = dist_graph(comm)?;
        // SAFETY: MPI's contract: as many entries as the maxima say; weights may be
        // MPI_UNWEIGHTED.
        unsafe {
            output(&graph.sources, sources, maxindegree);
            output(&graph.destinations, destinations, maxoutdegree);
            if let Some((of_sources, of_destinations)) = &graph.weights {
                if sourceweights as usize > WEIGHTS_EMPTY {
                    output(of_sources, sourceweights, maxindegree);
                }
                if destweights as usize > WEIGHTS_EMPTY {
                    output(of_destinations, destweights, maxoutdegree);
                }
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_counts_with_the_last_dimension_fastest() {
        let grid = Cart {
            dims: vec![2, 3],
            periods: vec![0, 1],
        };
        assert_eq!(grid.coords(4), [1, 1]);
        assert_eq!(grid.rank(&[1, 1]), Ok(4));
        assert_eq!(grid.rank(&[1, -1]), Ok(5));
        assert_eq!(grid.rank(&[2, 0]), Err(ERR_ARG));
        assert_eq!(grid.neighbour(5, 1, 1), 3);
        assert_eq!(grid.neighbour(5, 0, 1), PROC_NULL);
        assert_eq!(grid.size(), 6);
    }

    #[test]
    fn a_grid_without_dimensions_has_one_process() {
        let grid = Cart {
            dims: vec![],
            periods: vec![],
        };
        assert_eq!((grid.size(), grid.rank(&[])), (1, Ok(0)));
    }

    #[test]
    fn neighbours_of_a_graph() {
        let graph = Graph {
            index: vec![2, 3, 4],
            edges: vec![1, 2, 0, 0],
        };
        assert_eq!(graph.neighbours(0), Some([1, 2].as_slice()));
        assert_eq!(graph.neighbours(2), Some([0].as_slice()));
        assert_eq!(graph.neighbours(3), None);
    }
}
