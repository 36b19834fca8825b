//! Checks before anything runs: of the kernel, of the program, of the storage, and of the files that a restart
//! would change. Memory is looked at while a job runs.

pub mod file_preview;
pub mod gpu;
pub mod kernel;
pub mod memory_left;
pub mod program;
pub mod storage_check;
