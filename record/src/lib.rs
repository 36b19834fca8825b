//! The record of a rank's run: what its order of messages depended on.
//!
//! A run is replayed by giving every call the outcome that it had: the source and the tag of each message that a
//! wildcard got, the operation that a wait found complete, and how often a test found none. `event` has what is
//! written, `header` and `log` the file, and `replay` answers the calls of a run from it. `compare` finds the first
//! difference of two records, and `summary` tells what is in one. `clocks` has the values of clocks.
//!
//! docs/internals/record.md describes the whole.
//!
//! # Examples
//!
//! A rank calls MPI_Recv with a wildcard, and gets a message of rank 2. Its replay gets the same one:
//!
//! ```
//! use contract::record::Call;
//! use stasis_record::{table, Bound, Event, Header, Log, Replay, Stream, Writer};
//!
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("rank-0.record");
//! let header = Header {
//!     rank: 0,
//!     size: 4,
//!     table_hash: 1,
//!     id: [1; 16],
//!     follows: [0; 16],
//!     digests: 0,
//!     sends: false,
//!     stream: Stream::Calls,
//!     library: "MPICH Version: 4.0.2".to_owned(),
//! };
//! let call = Call { function: 7, ..Call::default() };
//! let mut writer = Writer::create(&path, &header)?;
//! writer.append(table::write(&mut table::empty(), &call))?;
//! writer.append(Event::Bound { posting: 0, source: 2, tag: 5 })?;
//! writer.close()?;
//!
//! let mut replay = Replay::begin(Log::open(&path)?);
//! assert!(matches!(replay.call(0, &call), Ok(true)));
//! assert_eq!(replay.binding(0), Some(Bound::To(2, 5)));
//! assert!(matches!(replay.call(0, &call), Ok(false)), "the record ends here");
//! # Ok::<(), stasis_record::Error>(())
//! ```

pub mod clocks;
mod compare;
pub mod contents;
mod divergence;
mod error;
mod event;
mod header;
mod log;
pub mod receive_number;
mod replay;
mod summary;
pub mod table;
mod writer;

pub use compare::{compare, Difference};
pub use divergence::{describe, Divergence};
pub use error::{Error, Result};
pub use event::{again, Encoded, Event, MOST_BYTES};
pub use header::{Header, Stream, END_AT, HEADER_BYTES};
pub use log::{file_name, files, files_of, Log};
pub use replay::{Answer, Bound, Place, Position, Replay, Turn};
pub use summary::Summary;
pub use writer::Writer;
