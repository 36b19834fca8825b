//! Diagnostics: a log (`STASIS_LOG`), and the last events of the flight recorder (`contract::recorder`) as text.
#![warn(clippy::missing_errors_doc)]

pub mod log;
pub mod recorder;
