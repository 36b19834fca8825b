//! The history of a job: the file `events.jsonl` in its checkpoint directory, and what is made of it.
//!
//! | module | content |
//! |---|---|
//! | [`event`] | the events, each a line of the file |
//! | [`mod@file`] | appending to the file and reading it |
//! | [`last_seen`] | the last sign of life of a run |
//! | [`metrics`] | counters for a monitoring system, from the events of a running job |
//! | [`text`] | sizes, durations and times as users read them |
//!
//! # Examples
//! ```
//! use stasis_history::event::{Entry, Event};
//! use stasis_history::file::{append, read};
//!
//! let place = tempfile::tempdir()?;
//! append(place.path(), &Entry::now(Event::Stopped))?;
//! let history = read(place.path())?;
//! assert_eq!(history.entries.len(), 1);
//! assert_eq!(history.entries[0].event, Event::Stopped);
//! # Ok::<(), std::io::Error>(())
//! ```

pub mod event;
pub mod file;
pub mod last_seen;
pub mod metrics;
pub mod text;
