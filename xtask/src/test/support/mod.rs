//! Shared parts of cases: examples and their directives, jobs at their cut, small file systems.

pub mod browser;
pub mod clean_root;
pub mod compare;
pub mod compile;
pub mod directives;
pub mod faulty_library;
pub mod held_job;
pub mod helper_programs;
pub mod network_files;
pub mod phased_job;
pub mod refusal;
pub mod small_fs;

/// Debian's uid and gid of `nobody`.
pub const NOBODY: u32 = 65534;
