//! The application's MPI library in MPICH's ABI (`libmpich.so.12`, also found as `libmpi.so.12`:
//! MPICH, Intel MPI, MVAPICH, Cray MPICH): handles are ints whose bits say what they name.
//!
//! What is written by hand here is the ABI itself: [`abi`] its types and values, [`handles`] its
//! handles, [`symbols`] its data symbols and predefined attribute function, [`fortran`] and [`refused`]
//! what its Fortran layer wants. The functions are generated from the table of MPI functions.

mod abi;
mod fortran;
mod functions;
mod handles;
mod refused;
mod start;
mod symbols;
