//! Datatypes: the functions of MPI, and what lies below for each datatype.

mod commit_free;
mod compose;
mod constructors;
mod contents;
pub(crate) mod deferred_free;
pub(crate) mod extent;
mod f90;
mod large_constructors;
pub(crate) mod large_count;
pub(crate) mod make;
mod name_address;
pub(crate) mod substitute;

pub use commit_free::*;
pub use constructors::*;
pub use contents::*;
pub use extent::{
    type_get_extent, type_get_extent_c, type_get_extent_x, type_get_true_extent,
    type_get_true_extent_c, type_get_true_extent_x, type_size, type_size_c, type_size_x,
};
pub use f90::*;
pub use large_constructors::*;
pub use large_count::*;
pub use name_address::*;
