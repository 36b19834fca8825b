//! Cases about images on disk: increments, local directories, writes that fail, checkpoints that are stored elsewhere.

pub mod hand_over;
pub mod increments;
pub mod local_dir;
pub mod write_faults;
