//! Crossings are recorded with all that they return (`--contents`), or answered from such a record, so that one rank
//! runs alone (`stasis solo`). docs/internals/record.md describes the whole.
//!
//! The slots of the gate get the functions of this folder in the place of the library's. Most of them are generated
//! from the table (`mpi_table::generate::contents`), in `calls`; those that complete requests, and the services, are
//! in `completions`. Each names what a call writes to an `Io`, which writes that to the record or takes it from
//! there. So what is recorded and what is answered cannot differ. Functions that concern this process alone, of
//! datatypes and operations, are not recorded: the library carries them out in both runs.

mod callback;
mod calls;
mod completions;
mod io;
mod pending;
mod region;
mod run;

pub use run::disturb;

use ::record::contents::{Reader, Writer};
use contract::gate;

use super::user_op;

/// Records what crossings return from now on.
pub fn record(writer: Writer) {
    user_op::observe(run::note_callback);
    run::record(writer);
    fill();
}

/// Answers crossings from a record from now on.
pub fn answer(reader: Reader) {
    run::answer(reader);
    fill();
}

fn fill() {
    let gate = gate();
    calls::fill(gate);
    completions::fill(gate);
}
