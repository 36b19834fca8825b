//! MPI Stages (docs/internals/stages.md): a program saves the state of MPI beside its own checkpoint, and after another
//! rank's death goes on in its own memory from the last state that all ranks have.
//!
//! The program calls this by `stasis_mpix.h`, whose functions look up the front's symbol `stasis_mpix`. Without `stasis
//! run --stages` they answer as they do without faults.
//!
//! `state` says how far this rank has come, `record` is the state of MPI at the end of an epoch and `files` keeps it,
//! `handles` has the program's handlers, `survive` makes this rank a survivor when another one has died, `reload`
//! brings MPI back, in survivors and in a rank that was started anew, and `entry` has the functions of the header.

mod entry;
mod files;
mod handles;
mod record;
pub(crate) mod reload;
pub(crate) mod state;
pub(crate) mod survive;

pub use entry::ask;
