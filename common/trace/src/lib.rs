//! Diagnostics: a log (`STASIS_LOG`), and the last events of the flight recorder (`contract::recorder`) as text.

pub mod log;
pub mod recorder;
