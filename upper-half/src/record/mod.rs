//! The record of the run (docs/internals/record.md). While a run is recorded, calls and the outcomes on which the order
//! of messages depends are written. While it is replayed, each call gets the outcome that it had.
//!
//! From the ground up:
//!
//! | module | has |
//! |---|---|
//! | `mode` | whether the run is recorded or replayed |
//! | `log` | events are written to the lower half's memory, or asked for |
//! | `turns` | the order of threads, and what a thread asks in its turn |
//! | `bindings`, `receives` | which message a receive with wildcards gets, and cancelled receives |
//! | `digests` | digests of data |
//! | `replay` | outcomes of calls, and the end of the record |
//! | `calls`, `completions`, `probes`, `received` | the functions of MPI |
//!
//! The functions of MPI here take the place of those of `request` and `pt2pt` in the front. With no record they are one
//! test more.

pub(crate) mod bindings;
mod calls;
mod completions;
mod digests;
mod function;
pub(crate) mod log;
pub(crate) mod mode;
mod probes;
mod received;
pub(crate) mod receives;
mod replay;
pub(crate) mod turns;

pub(crate) use calls::{comm_of_starts, note_again, note_call, note_result, note_result_of, Sent};
pub use completions::{
    cancel, parrived, request_get_status, test, testall, testany, testsome, wait, waitall, waitany,
    waitsome, win_test,
};
pub use probes::{improbe, iprobe, mprobe, probe};
pub use received::{mrecv, recv, sendrecv, sendrecv_replace};
