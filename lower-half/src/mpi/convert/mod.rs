//! Conversion between the standard ABI and the ABI of the MPI library.
//!
//! The differences between libraries are in `native_*.rs` (`build.rs` picks one), and in
//! tables that the library's C compiler makes.

pub mod array;
pub mod error;
pub mod handle;
pub mod large_count;
#[cfg(not(native_mpi = "standard"))]
mod linked;
pub mod status;
pub mod value_map;

#[cfg_attr(native_mpi = "openmpi", path = "native_openmpi.rs")]
#[cfg_attr(native_mpi = "mpich", path = "native_mpich.rs")]
#[cfg_attr(native_mpi = "standard", path = "native_standard.rs")]
pub mod native;
