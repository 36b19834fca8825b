//! The application's MPI library in MPICH's ABI: `libmpich.so.12`, which is also opened as `libmpi.so.12` (MPICH, Intel
//! MPI, MVAPICH, Cray MPICH). Its handles are ints, and their bits give the kind of the object.
//!
//! The ABI is written by hand: [`abi`] has its types and values, [`handles`] its handles, [`symbols`] its data symbols
//! and the predefined attribute function, [`fortran`] and [`refused`] the functions that its Fortran layer needs,
//! [`cxx`] those that its C++ bindings need, [`gpu_support`] its extensions for GPUs. The functions of MPI are
//! generated from the table.

mod abi;
mod cxx;
mod fortran;
mod gpu_support;
mod handles;
mod refused;
mod start;
mod symbols;

stasis_front_common::functions!();
stasis_front_common::stages!();
