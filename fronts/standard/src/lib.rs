//! The application's MPI library in the MPI 5.0 standard ABI (`libmpi_abi.so.1`, also found as
//! `libmpi_abi.so.0`): what a program compiled with `mpicc_abi` was linked with.
//!
//! Inside, Stasis speaks that ABI's values anyway, so there is little to convert: [`abi`] says that
//! values are what they are, and checks those that the core must not take as they come. A handle is
//! the standard's value for a predefined object, and an object's index, which is never as low, for all
//! others. [`integers`] has the functions that came with the ABI. The others are generated from the table
//! of MPI functions.

mod abi;
mod functions;
mod integers;
mod start;
