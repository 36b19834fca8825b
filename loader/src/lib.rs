//! Loads an unmodified program as the upper half, and serves its system calls, signals and threads.
//!
//! The lower half (a plain MPI program) calls [`check_address_space`] first of all, then [`prepare`] and
//! [`Program::run`]. From then on the initial thread belongs to the application; the lower half's own work runs on
//! threads made with [`spawn_lower`]. Such a thread can stop the application ([`stop_all`]), call into its MPI library
//! on the initial thread ([`Stopped::run_on_main`]), [`capture`] the process's state, and resume the application. A
//! fresh process restores it with [`open_files`], the mapping of the memory, [`OpenedFiles::truncate`], [`restore`] and
//! [`Restored::go`].
//!
//! Each folder uses those before it, and none behind it:
//!
//! | folder | |
//! |---|---|
//! | `sys` | the kernel and the processor |
//! | `load` | the program's memory: ELF files, stack, vDSO, gate, addresses |
//! | `interpose` | system calls, signals, threads, descriptors, changes of files |
//! | `process_state` | capture and restore of what is not in memory |
//!
//! `program.rs` starts a program with all of them.
//!
//! Known limits, each with its effect:
//! - A process made with CLONE_VM alone (neither thread nor vfork), `io_uring` and `io_setup` get ENOSYS; `dup2` onto a
//!   descriptor of the lower half gets EBUSY; `ARCH_SET_GS` gets EPERM.
//! - After a restart, mutexes with priority inheritance exclude, but raise no thread's priority: their words hold
//!   thread ids that the kernel no longer knows (`interpose/syscalls/pi_futex.rs`).
//! - CPU time counts from the restart.
//! - Child processes are not saved; they run natively once they execute a program. Of those that had ended and were not
//!   waited for, the first 64 are saved.
//! - [`capture`] refuses sockets, and files that other processes have open too, by name. It also refuses credentials,
//!   namespaces, seccomp filters and the like once the program has changed them.
//!
//! # Examples
//! The lower half's own memory lies above the address space of the program, before that is loaded.
//!
//! ```
//! stasis_loader::check_address_space().expect("the stack has a limit");
//! let maps = stasis_loader::read_maps()?;
//! assert!(maps.iter().all(|mapping| mapping.start >= contract::ARENA_END));
//! # Ok::<(), std::io::Error>(())
//! ```

mod error;
mod interpose;
mod load;
mod process_state;
mod program;
mod sys;

pub use error::{CaptureError, LoadError, RestoreError, StopError};
pub use interpose::children::{all as children, Ended};
pub use interpose::clock_log;
pub use interpose::cpuid::places::left as unanswered_cpuid;
pub use interpose::descriptors::own_fd_table::{
    on_own_fd_table, spawn_on_own_fd_table, start_own_fd_table,
};
pub use interpose::file_changes;
pub use interpose::followed_children::{follow_children, Child};
pub use interpose::hooks::{
    is_redirected_to, set_exec_hook, set_executes_hook, set_exit_hook, set_redirects,
    set_started_by, set_thread_end_hook, set_wrapper, tell_calls, tell_unmaps,
};
pub use interpose::install::show_processor;
pub use interpose::memory_limits::note_use;
pub use interpose::signals::checkpoint_request::{take_signals, RequestListener, RequestSource};
pub use interpose::signals::{Action, STOP_SIGNAL};
pub use interpose::sites::patched as patched_calls;
pub use interpose::syscalls::{
    may_have_guard_pages, note_guard_pages, note_shared_file, note_watched_memory, remapped,
    set_shm_ids, shm_id,
};
pub use interpose::threads::current_call::{
    current_call, synchronize, thread_address, CurrentCall,
};
pub use interpose::threads::held;
pub use interpose::threads::record;
pub use interpose::threads::stop::{
    stop_all, stop_all_within, wait_until_running, Stopped, DEFAULT_PATIENCE,
};
pub use load::gate::tell_crossings;
pub use load::privileges::refuse_privileges;
pub use process_state::{
    bound_kept, capture, capture_closed, look_ahead, open_files, restore, undo_changes, Checks,
    ClosedFileList, ClosedFilePolicy, Copying, Fate, FileOwners, HeldNumbers, Length, Listed,
    LockedMemory, MappedFile, OpenedFiles, ProcFiles, ProcessState, Prospect, Restored, Saved,
    SavedRegisters, SharedFiles, ThreadNumbers, ThreadState, TruncateReport, LONGEST_TAIL,
};
pub use program::{check_address_space, prepare, Program, WRAPPER};
pub use sys::cpu::time_stamps_allowed;
pub use sys::kill_timer::KillTimer;
pub use sys::lower_thread::{bound_arenas, holding_signals, spawn_lower};
pub use sys::proc_maps::{read as read_maps, Mapping};
pub use sys::syscall::{futex_wait, futex_wake};
