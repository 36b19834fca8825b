//! File descriptors. Both halves share one table: this folder records the owner of each, and state that the kernel does
//! not report.

pub mod closed_stdio;
pub mod fd_owner;
pub mod launcher_stdio;
pub mod own_fd_table;
pub mod socketpair_registry;
