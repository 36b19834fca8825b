//! Settings for tests and demonstrations. Each is read from one `STASIS_*` variable.

pub mod baseline_algorithms;
pub mod fan_out;
pub mod fault_injection;
pub mod kill_at_call;
