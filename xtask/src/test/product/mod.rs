//! Cases about the whole product: packages, the guide, the commands, Slurm, workflow systems.

pub mod clocks;
pub mod completions;
pub mod demo;
pub mod explain;
pub mod faults;
pub mod gdb;
pub mod grid_engine;
pub mod guide;
pub mod hunt;
pub mod packages;
pub mod papers;
pub mod profile;
pub mod record;
pub mod record_tail;
pub mod reduction;
pub mod schedulers;
pub mod slurm;
pub mod solo;
pub mod stacks;
pub mod tools;
pub mod workflows;
