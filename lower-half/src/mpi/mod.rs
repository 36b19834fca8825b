//! The functions that the upper half calls through the slots of the gate, on top of the real MPI library.
//!
//! `adapter` is generated from the table of MPI functions; `service` and `polling_services` are written by hand. All
//! of them take and return values of the standard ABI, which `convert` translates to the library's.
//! [`set_hooks`] connects the services to the checkpoint agent. [`world`] is MPI for the lower half's own use.

mod adapter;
mod backoff;
mod broken_off;
pub mod contents;
mod convert;
mod handwritten;
mod hooks;
mod live_datatypes;
mod opened_files;
mod peer_memory;
mod polling_services;
mod predefined;
mod progress_turn;
pub mod registration_caches;
mod service;
mod slot_name;
mod thread_turns;
// Its tests run with the lower half for Open MPI.
#[cfg(any(test, not(native_mpi = "openmpi")))]
mod ucx_memory;
mod upper_call;
mod user_op;
pub mod world;

use std::sync::atomic::Ordering;

pub use adapter::{is_of_files, name_of, OLDER_TABLE_HASHES, TABLE_HASH};
pub use broken_off::break_off;
pub use convert::native::{load, ANY_LIBRARY, KIND};
pub use hooks::{set_hooks, Ending, Hooks};
pub use live_datatypes::free_all as free_datatypes;
pub use opened_files::share_files;
pub use polling_services::returns_at_once;
pub use progress_turn::{is_served as serves_turns, set_pending};
pub use slot_name::mpi_function as function_of;

/// Writes the addresses of services and MPI functions into the gate, and the hash of the table that they were generated
/// from.
pub fn fill(gate: &contract::Gate) {
    service::fill(gate);
    adapter::fill(gate);
    gate.lower.table_hash.store(TABLE_HASH, Ordering::Release);
}
