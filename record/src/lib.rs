//! The record of a rank's run: what its order of messages depended on.
//!
//! A run is replayed by giving every call the outcome that it had: the source and the tag of each message that a
//! wildcard got, the operation that a wait found complete, and how often a test found none. `event` has what is
//! written, `header` and `log` the file, and `replay` answers the calls of a run from it. `compare` finds the first
//! difference of two records, and `summary` tells what is in one.
//!
//! docs/internals/record.md describes the whole.

mod compare;
mod divergence;
mod error;
mod event;
mod header;
mod log;
mod replay;
mod summary;
pub mod table;
mod writer;

pub use compare::{compare, Difference};
pub use divergence::{describe, Divergence};
pub use error::{Error, Result};
pub use event::{Encoded, Event, MOST_BYTES};
pub use header::{Header, END_AT, HEADER_BYTES};
pub use log::{file_name, files, Log};
pub use replay::{Answer, Bound, Position, Replay};
pub use summary::Summary;
pub use writer::Writer;
