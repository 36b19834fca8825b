//! The C functions, generated from the table by build.rs.
//!
//! # Safety
//! Each is called by the application with the arguments that the MPI standard prescribes for it.
//! Pointers are read and written as far as the standard lets MPI do so, at the entries that the
//! table says an array has; pointers into scratch memory live as long as the call. Handles are
//! decoded to objects that live as long as the process.
#![allow(unsafe_code)]
#![allow(
    non_snake_case,
    unused_variables, // of functions that are refused
    clippy::missing_safety_doc,
    clippy::too_many_arguments,
    clippy::unnecessary_cast,
    clippy::useless_transmute,
    clippy::missing_transmute_annotations,
    clippy::ptr_as_ptr,
    clippy::not_unsafe_ptr_arg_deref
)]

include!(concat!(env!("OUT_DIR"), "/functions.rs"));
