//! The start of a rank: from `main` to the application's first instruction, and the connection of the ranks.

pub mod abort_job;
pub mod bootstrap;
#[cfg(not(test))]
mod entry;
pub mod job_state;
pub mod keeper;
pub mod launch;
pub mod library_env;
pub mod program_wrapper;
