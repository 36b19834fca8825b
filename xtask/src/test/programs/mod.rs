//! Cases that run programs as users do: MPI programs under real launchers, programs without MPI, suites of others.

pub mod composed_calls;
pub mod conformance;
pub mod crash;
pub mod matrix;
pub mod migration;
pub mod mpi;
pub mod standard_abi;
pub mod without_mpi;
pub mod wrapper;
