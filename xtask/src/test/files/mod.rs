//! Cases about the program's files and what a restart does to them.

pub mod closed_files;
pub mod network;
pub mod overlay;
pub mod two_cuts;
pub mod undo;
