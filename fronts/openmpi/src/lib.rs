//! The application's MPI library in Open MPI's ABI (4.x, `libmpi.so.40`): handles are addresses of
//! data symbols or of objects of the upper half, which both begin with the object's address.
//!
//! What is written by hand here is the ABI itself: [`abi`] its types and values, [`symbols`] its
//! data symbols, [`callbacks`] its predefined attribute functions, [`cxx`] what its C++ bindings
//! want, [`fortran`] its Fortran layer. The functions are generated from the table of MPI functions.

mod abi;
mod callbacks;
mod cxx;
mod fortran;
mod functions;
mod start;
mod symbols;
