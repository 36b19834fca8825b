//! The history of a job: the file `events.jsonl` in its checkpoint directory, and what is made of it.
//!
//! | module | content |
//! |---|---|
//! | [`event`] | the events, each a line of the file |
//! | [`mod@file`] | appending to the file and reading it |
//! | [`metrics`] | counters for a monitoring system, from the events of a running job |
//! | [`text`] | sizes, durations and times as users read them |
#![warn(clippy::missing_errors_doc)]

pub mod event;
pub mod file;
pub mod metrics;
pub mod text;
