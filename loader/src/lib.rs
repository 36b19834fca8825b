//! Loads an unmodified program as the upper half and serves its system calls.
//!
//! The lower half (a plain MPI program) calls [`check_address_space`] first of all, then
//! [`prepare`] and [`Program::run`]. From then on the initial thread belongs to the application;
//! what the lower half still does by itself, it does on threads made with [`spawn_lower`].
//! Such a thread can stop the application ([`stop_all`]), call into its MPI library on the initial
//! thread ([`Stopped::run_on_main`]), [`capture`] the process's state, and let it go on. A fresh
//! process brings it back with [`reserve_fds`], the mapping of the memory, [`restore`] and
//! [`Restored::go`].

mod arena;
mod context;
mod cpu;
mod dispatch;
mod elf;
mod error;
mod facts;
mod fds;
mod gate;
mod hooks;
mod lock;
mod map;
mod maps;
mod program;
mod raw;
mod signals;
mod stack;
mod state;
mod stop;
mod sud;
mod syscalls;
mod thread;
mod vdso;

pub use error::{CaptureError, LoadError, RestoreError, StopError};
pub use hooks::{set_exec_hook, set_exit_hook, set_redirects};
pub use maps::{read as read_maps, Mapping};
pub use program::{check_address_space, prepare, spawn_lower, Program};
pub use signals::Action;
pub use signals::STOP_SIGNAL;
pub use state::{
    capture, reserve_fds, restore, FileKind, FileState, ProcessState, Restored, ThreadState,
};
pub use stop::{stop_all, stop_all_within, Stopped, DEFAULT_PATIENCE};
