//! Starting, watching and ending jobs, and what that needs: MPI libraries, nodes, signals, paths.

pub mod job;
pub mod migration_ring;
pub mod mpi;
pub mod nodes;
pub mod parallel;
pub mod paths;
pub mod random;
pub mod signal;
pub mod stasis;
