//! The real MPI library, as the upper half sees it: behind the slots of the gate.
//!
//! `adapter` is generated from the table of MPI functions, `service` and `wait` are by hand. All
//! speak the standard ABI's values; what the library at hand speaks instead is in
//! `native_openmpi.rs` and `native_mpich.rs`, of which `build.rs` picks one, and in tables that the
//! library's C compiler makes. [`set_hooks`] connects the services to the checkpoint agent, and
//! [`world`] is MPI for the lower half's own use.

mod adapter;
mod array;
mod crossing;
mod error;
mod files;
mod handle;
mod hooks;
mod narrow;
mod op;
mod predefined;
mod service;
mod special;
mod status;
mod turns;
mod types;
mod values;
mod wait;
pub mod world;

#[cfg_attr(native_mpi = "openmpi", path = "native_openmpi.rs")]
#[cfg_attr(native_mpi = "mpich", path = "native_mpich.rs")]
mod native;

use std::sync::atomic::Ordering;

pub use adapter::{name_of, OLDER_TABLE_HASHES, TABLE_HASH};
pub use hooks::{set_hooks, Hooks};
pub use native::KIND;
pub use types::free_all as free_datatypes;

/// Writes all that the upper half may call into the gate: services and MPI functions; and
/// the hash of the table that they were generated from.
pub fn fill(gate: &contract::Gate) {
    service::fill(gate);
    adapter::fill(gate);
    gate.lower.table_hash.store(TABLE_HASH, Ordering::Release);
}
