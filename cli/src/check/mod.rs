//! Checks before anything runs: of the kernel, of the program, of the storage, and of the files that a restart
//! would change.

pub mod file_preview;
pub mod gpu;
pub mod kernel;
pub mod program;
pub mod storage_check;
