//! Properties that all libraries have in common with which a lower half is linked. `native_standard.rs` has the same
//! items for a library that is loaded.
//!
//! # Safety
//! Constants of the library are read.
#![allow(unsafe_code)]

use std::path::Path;

/// No other library than the one that this is linked with can be used.
pub const ANY_LIBRARY: Option<&str> = None;

/// Nothing is to be loaded: this is linked with its library.
pub fn load(_library: Option<&Path>) -> anyhow::Result<()> {
    Ok(())
}

/// The error handler with which the functions of a communicator return their errors.
pub fn returning_from_comm() -> mpi_sys::MPI_Errhandler {
    // SAFETY: a constant of the library.
    unsafe { mpi_sys::RSMPI_ERRORS_RETURN }
}

/// The same for a window.
pub fn returning_from_win() -> mpi_sys::MPI_Errhandler {
    returning_from_comm()
}

/// Whether the library has a datatype, for which it has a handle.
pub fn has_datatype(_lower: usize) -> bool {
    true
}
