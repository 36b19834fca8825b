//! The Fortran functions, generated from the table by build.rs.
//!
//! # Safety
//! See the parent module.
#![allow(unsafe_code)]
#![allow(
    non_snake_case,
    clippy::missing_safety_doc,
    clippy::too_many_arguments,
    clippy::unnecessary_cast,
    clippy::ptr_as_ptr
)]

include!(concat!(env!("OUT_DIR"), "/fortran.rs"));
