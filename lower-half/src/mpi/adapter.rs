//! The MPI functions of the lower half: generated from the table (`mpi_table::generate::adapter`)
//! for the library that this build is for.
//!
//! # Safety
//! Each function has the type of its stub in the upper half and is only called through it, with the
//! lower thread pointer loaded. Its arguments are what the application passed to MPI, made standard
//! by the front: handles are lower handles that came from this half, and pointers are as valid as the
//! application's were. Native functions get the same, converted; pointers to converted copies live
//! until the function returns. (For the arrays of a non-blocking MPI_Ialltoallw and its like that
//! is enough because the libraries read these when they make the schedule.)
#![allow(unsafe_code, non_snake_case)]
#![allow(clippy::undocumented_unsafe_blocks, clippy::missing_safety_doc)]
#![allow(clippy::too_many_arguments, clippy::let_and_return)]

use core::ffi::{c_char, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

use contract::abi::{self, Status};
use contract::Gate;

use super::convert::handle::{handle, lower};
use super::convert::value_map::{self, NATIVE_SUCCESS};
#[allow(unused_imports)] // `large_count` is for libraries without large counts
use super::convert::{array, error, large_count, status};
use super::{handwritten, hooks, live_datatypes, opened_files, thread_turns};

include!(concat!(env!("OUT_DIR"), "/adapter.rs"));

/// Writes the address of every adapter into the gate.
pub fn fill(gate: &Gate) {
    fill_slots(&gate.slots);
}
