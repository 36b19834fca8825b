//! The processes of jobs that run on this machine.

pub mod rank_process;
