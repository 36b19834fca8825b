//! The collective functions that can be reduced. A name stands for the blocking, the non-blocking and the persistent
//! form: a program that waits in one of them must find the other members' operations in the same place.

/// A collective function in all its forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Function {
    Barrier,
    Bcast,
    Gather,
    Gatherv,
    Scatter,
    Scatterv,
    Allgather,
    Allgatherv,
    Alltoall,
    Alltoallv,
    Alltoallw,
    Reduce,
    Allreduce,
    ReduceScatterBlock,
    ReduceScatter,
    Scan,
    Exscan,
    NeighborAllgather,
    NeighborAllgatherv,
    NeighborAlltoall,
    NeighborAlltoallv,
    NeighborAlltoallw,
}

use Function::*;

/// The functions in their order, with their names behind `MPI_`.
const NAMES: [(Function, &str); Function::COUNT] = [
    (Barrier, "Barrier"),
    (Bcast, "Bcast"),
    (Gather, "Gather"),
    (Gatherv, "Gatherv"),
    (Scatter, "Scatter"),
    (Scatterv, "Scatterv"),
    (Allgather, "Allgather"),
    (Allgatherv, "Allgatherv"),
    (Alltoall, "Alltoall"),
    (Alltoallv, "Alltoallv"),
    (Alltoallw, "Alltoallw"),
    (Reduce, "Reduce"),
    (Allreduce, "Allreduce"),
    (ReduceScatterBlock, "Reduce_scatter_block"),
    (ReduceScatter, "Reduce_scatter"),
    (Scan, "Scan"),
    (Exscan, "Exscan"),
    (NeighborAllgather, "Neighbor_allgather"),
    (NeighborAllgatherv, "Neighbor_allgatherv"),
    (NeighborAlltoall, "Neighbor_alltoall"),
    (NeighborAlltoallv, "Neighbor_alltoallv"),
    (NeighborAlltoallw, "Neighbor_alltoallw"),
];

impl Function {
    /// Number of functions.
    pub const COUNT: usize = 22;

    /// All functions.
    pub fn all() -> impl Iterator<Item = Function> {
        NAMES.iter().map(|(function, _)| *function)
    }

    /// Its name behind `MPI_`.
    pub fn name(self) -> &'static str {
        NAMES[self as usize].1
    }

    /// The function with this name, with or without `MPI_`.
    pub fn named(name: &str) -> Option<Function> {
        let name = name.strip_prefix("MPI_").unwrap_or(name);
        let found = NAMES.iter().find(|(_, its)| its.eq_ignore_ascii_case(name));
        found.map(|(function, _)| *function)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_function_has_its_name_at_its_place() {
        for (place, (function, name)) in NAMES.iter().enumerate() {
            assert_eq!((*function as usize, function.name()), (place, *name));
            assert_eq!(Function::named(&format!("MPI_{name}")), Some(*function));
        }
        assert_eq!(Function::named("allreduce"), Some(Allreduce));
        assert_eq!(Function::named("Iallreduce"), None);
    }
}
