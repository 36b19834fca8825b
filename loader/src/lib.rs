//! Loads an unmodified program as the upper half and serves its system calls.
//!
//! The lower half (a plain MPI program) calls [`check_address_space`] first of all, then
//! [`prepare`] and [`Program::run`]. From then on the initial thread belongs to the application;
//! what the lower half still does by itself, it does on threads made with [`spawn_lower`].
//! Such a thread can stop the application ([`stop_all`]), call into its MPI library on the initial
//! thread ([`Stopped::run_on_main`]), [`capture`] the process's state, and let it go on. A fresh
//! process brings it back with [`open_files`], the mapping of the memory, [`OpenedFiles::cut_back`],
//! [`restore`] and [`Restored::go`].
//!
//! Known limits, each with what happens:
//! - A process made with CLONE_VM alone (neither thread nor vfork), `io_uring` and `io_setup` get
//!   ENOSYS; `dup2` onto a descriptor of the lower half gets EBUSY; `ARCH_SET_GS` gets EPERM.
//! - After a restart, mutexes with priority inheritance exclude, but raise nobody's priority: their
//!   words name threads by ids that the kernel no longer knows (`syscalls/pi_futex.rs`).
//! - Processor time counts from the restart.
//! - Child processes are not saved; they run natively once they execute a program. Of those that had
//!   ended and that nobody had waited for, the first 64 are remembered.
//! - Sockets, and what other processes have open too, are refused by [`capture`], by name; so are
//!   credentials, namespaces, seccomp filters and the like once the program has changed them.

mod arena;
mod asked;
mod children;
mod clock;
mod context;
mod cpu;
mod dispatch;
mod doing;
mod elf;
mod error;
mod facts;
mod fds;
mod followed;
mod gate;
mod hooks;
mod interrupted;
mod library_files;
mod library_signals;
mod lock;
mod map;
mod maps;
mod pairs;
mod privileges;
mod program;
mod raw;
mod signals;
mod stack;
mod state;
mod stop;
mod sud;
mod syscalls;
mod thread;
mod user;
mod vacant;
mod vdso;
mod watched;

pub use asked::{take_signals, Asked, Listener};
pub use children::{all as children, Ended};
pub use doing::{doing, settle, thread_address, Doing};
pub use error::{CaptureError, LoadError, RestoreError, StopError};
pub use followed::{follow_children, Child};
pub use gate::tell_crossings;
pub use hooks::{
    is_redirected_to, set_exec_hook, set_exit_hook, set_redirects, set_started_by, set_wrapper,
    tell_calls,
};
pub use maps::{read as read_maps, Mapping};
pub use privileges::refuse_privileges;
pub use program::{check_address_space, holding_signals, prepare, spawn_lower, Program, WRAPPER};
pub use signals::Action;
pub use signals::STOP_SIGNAL;
pub use state::{
    aside, bound_kept, capture, capture_closed, journal, look_ahead, open_files, restore,
    spawn_aside, start_aside, undo_changes, ChangedFiles, Checks, ClosedFiles, Cuts, Fate,
    GrownFiles, HeldNumbers, Length, Listed, MappedFile, OpenedFiles, ProcessState, Prospect,
    Restored, Saved, ThreadState, LONGEST_TAIL,
};
pub use stop::{stop_all, stop_all_within, wait_until_running, Stopped, DEFAULT_PATIENCE};
pub use syscalls::{remapped, set_shm_ids, shm_id};
