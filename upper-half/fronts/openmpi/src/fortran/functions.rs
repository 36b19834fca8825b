//! The Fortran functions, generated from the table by build.rs.
//!
//! # Safety
//! The application passes the arguments that the MPI standard prescribes, by reference; the parent module says how they
//! are aligned. Each C function gets converted copies, or the application's own arguments where nothing is converted.
#![allow(unsafe_code)]
#![allow(
    non_snake_case,
    clippy::missing_safety_doc,
    clippy::too_many_arguments,
    clippy::unnecessary_cast,
    clippy::ptr_as_ptr
)]

include!(concat!(env!("OUT_DIR"), "/fortran.rs"));
