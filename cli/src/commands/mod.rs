//! The commands of `stasis`, one file each.

pub mod bisect;
pub mod build_lower;
pub mod checkpoint;
pub mod compact;
pub mod compare;
pub mod completions;
pub mod diff;
pub mod doctor;
pub mod drain;
pub mod explain;
pub mod gdb;
pub mod hunt;
pub mod inspect;
pub mod jobs;
pub mod launch;
pub mod list;
pub mod man;
pub mod record_info;
pub mod report;
pub mod restart;
pub mod run;
pub mod stacks;
pub mod status;
pub mod stop;
pub mod verify;
pub mod version;
