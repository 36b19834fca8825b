//! Cases about images on disk: increments, local directories, writes that fail.

pub mod increments;
pub mod local_dir;
pub mod write_faults;
