//! MPI_COMM_WORLD, whose error handler is called for errors that concern no other object.

use contract::abi::comm;
use upper_half::object::{Comm, Datatype};

/// The object of MPI_COMM_WORLD.
pub fn world() -> &'static Comm {
    Comm::at(comm::COMM_WORLD as u32)
}

/// Raises an error of a function on a datatype. Datatypes have no error handler, so that of MPI_COMM_WORLD is called.
pub fn raise_type(_datatype: &Datatype, code: i32, function: &str) -> i32 {
    upper_half::raise_comm(world(), code, function)
}
