//! Preparations of `stasis launch` and `stasis restart` for the lower half that this process executes.

pub mod announce;
pub mod checked_run;
pub mod copy;
pub mod end_job;
pub mod exec_lower;
pub mod existing_checkpoints;
pub mod for_cpu;
pub mod kept;
pub mod node_keeper;
pub mod recording;
pub mod refusal;
pub mod word_order;
