//! The application's MPI library in Open MPI's ABI (version 4, `libmpi.so.40`). A handle is the address of a data
//! symbol or of an object of the upper half. Both begin with the object's address.
//!
//! The ABI is written by hand: [`abi`] has its types and values, [`symbols`] its data symbols, [`callbacks`] the
//! predefined attribute functions, [`cxx`] the functions that its C++ bindings need, [`fortran`] its Fortran layer,
//! [`gpu_support`] its extensions for GPUs. The functions of MPI are generated from the table.

mod abi;
mod callbacks;
mod cxx;
mod fortran;
mod gpu_support;
mod start;
mod symbols;

stasis_front_common::functions!();
stasis_front_common::stages!();
