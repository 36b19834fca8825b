//! Interposition: serves the upper half's system calls, signals and threads in the place of the kernel.
//!
//! A system call from upper-half code raises SIGSYS (`sud.rs`), whose handler (`trap_entry.rs`, `dispatch.rs`) finds
//! the call in the tables of `syscalls/`. `signals/` delivers the application's signals, `threads/` creates, stops and
//! resumes its threads.

pub mod children;
pub mod clock_log;
pub mod cpuid;
pub mod descriptors;
pub mod dispatch;
pub mod file_changes;
pub mod followed_children;
pub mod hooks;
pub mod install;
pub mod memory_limits;
pub mod posix_timers;
pub mod signals;
pub mod sites;
pub mod sud;
pub mod syscall_filter;
pub mod syscall_restart;
pub mod syscalls;
pub mod threads;
pub mod trap_entry;
pub mod vdso_call;
