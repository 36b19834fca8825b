//! The one table of MPI functions, and the generators that read it.
#![forbid(unsafe_code)]

mod schema;

pub use schema::{Class, Direction, Function, Kind, Length, Param, Returns, Via};
