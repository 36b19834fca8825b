//! The real MPI library, as the upper half sees it: behind the slots of the gate.
//!
//! [`adapter`] is generated from the table of MPI functions, [`service`] is by hand. Both speak the
//! standard ABI's values; what the library at hand speaks instead is in `native_openmpi.rs` and
//! `native_mpich.rs`, of which `build.rs` picks one, and in tables that the library's C compiler
//! makes.

mod adapter;
mod array;
mod error;
mod handle;
mod special;
mod status;
mod values;

#[cfg_attr(native_mpi = "openmpi", path = "native_openmpi.rs")]
#[cfg_attr(native_mpi = "mpich", path = "native_mpich.rs")]
mod native;

pub use adapter::fill;
