//! The functions that are generated from the table (`mpi_table::generate::contents`).
//!
//! # Safety
//! As for the adapters (`adapter.rs`), which they call with the same arguments. What is written to the caller's memory
//! is what the adapter would write.
#![allow(unsafe_code, non_snake_case)]
#![allow(clippy::undocumented_unsafe_blocks, clippy::missing_safety_doc)]
#![allow(clippy::too_many_arguments, clippy::useless_conversion, unused_unsafe)]

use core::ffi::{c_char, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

use contract::abi::{self, Status};
use contract::{Gate, HandleKind};

use super::completions;
use super::region::Region;
use super::run::{crossing, live_comm, refused};
use crate::mpi::convert::array;
use crate::mpi::convert::handle::handle;
use crate::mpi::{adapter, handwritten};

include!(concat!(env!("OUT_DIR"), "/contents.rs"));

/// Writes the address of every function into the gate.
pub fn fill(gate: &Gate) {
    fill_slots(&gate.slots);
}
