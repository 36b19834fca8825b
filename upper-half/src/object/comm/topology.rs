//! Process topologies, as a communicator keeps them. Dimensions, edges and neighbours answer all queries, so that
//! answers are the same before and after a restart under another library.

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
    pub(crate) fn coords(&self, rank: i32) -> Vec<i32> {
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
    pub(crate) fn rank(&self, coords: impl IntoIterator<Item = i32>) -> Result<i32, i32> {
        let mut rank = 0;
        for ((&dim, &period), coord) in self.dims.iter().zip(&self.periods).zip(coords) {
            let inside = (0..dim).contains(&coord);
            if !inside && period == 0 {
                return Err(ERR_ARG);
            }
            rank = rank * dim + coord.rem_euclid(dim);
        }
        Ok(rank)
    }

    pub(crate) fn neighbour(&self, rank: i32, direction: usize, displacement: i32) -> i32 {
        let mut coords = self.coords(rank);
        coords[direction] = coords[direction].saturating_add(displacement);
        self.rank(coords).unwrap_or(PROC_NULL)
    }
}

impl Graph {
    pub(crate) fn neighbours(&self, rank: i32) -> Option<&[i32]> {
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
        assert_eq!(grid.rank([1, 1]), Ok(4));
        assert_eq!(grid.rank([1, -1]), Ok(5));
        assert_eq!(grid.rank([2, 0]), Err(ERR_ARG));
        assert_eq!(grid.neighbour(5, 1, 1), 3);
        assert_eq!(grid.neighbour(5, 0, 1), PROC_NULL);
    }

    #[test]
    fn a_grid_without_dimensions_has_one_process() {
        let grid = Cart {
            dims: vec![],
            periods: vec![],
        };
        assert_eq!(grid.rank([]), Ok(0));
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
