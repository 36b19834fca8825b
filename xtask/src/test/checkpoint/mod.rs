//! Cases about taking checkpoints: the schedule, the pause, the status, the events, the limits and failures of a
//! process.

pub mod events;
pub mod failing_system_calls;
pub mod history;
pub mod limits;
pub mod pause;
pub mod schedule;
pub mod status;
pub mod stop;
pub mod stuck;
