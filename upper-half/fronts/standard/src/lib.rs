//! The application's MPI library in the MPI 5.0 standard ABI: `libmpi_abi.so.1`, which is also opened as
//! `libmpi_abi.so.0`. Programs that were compiled with `mpicc_abi` are linked with it.
//!
//! The core uses that ABI's values, so few conversions are needed. [`abi`] leaves values as they are, and checks those
//! that the core must not get unchecked. A handle is the standard's value for a predefined object, and the object's
//! index for any other; an index is larger than each of these values. [`integers`] has the functions that are new in
//! the ABI. The functions of MPI are generated from the table.

mod abi;
mod integers;
mod start;

stasis_front_common::functions!();
stasis_front_common::stages!();
