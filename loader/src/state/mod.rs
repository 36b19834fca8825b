//! The process's own state: what an image needs beside memory.

mod capture;
mod files;
mod pending;
mod restore;
mod settings;

use crate::children::Ended;
use crate::context::SigInfo;
use crate::signals::Action;
use crate::syscalls::timers::Timer;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

pub use capture::{capture, capture_closed};
pub use files::{
    aside, bound_kept, journal, look_ahead, note_opened, note_standard_files, open_files,
    spawn_aside, start_aside, undo_changes, ChangedFiles, Checks, ClosedFiles, Cuts, Fate, Files,
    GrownFiles, HeldNumbers, Length, Listed, MappedFile, OpenedFiles, Prospect, Saved,
    LONGEST_TAIL,
};
pub use restore::{restore, Restored};
pub use settings::note_start;

use settings::{ProcessSettings, ThreadSettings};

impl ProcessState {
    /// Version of its encoding.
    pub const VERSION: u32 = 2;
}

/// Everything about the process that is not in its memory. [`ProcessState::VERSION`] changes with
/// any change here or in what it is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessState {
    /// `contract::VERSION` of the halves that were running.
    pub contract_version: u32,
    /// The program's absolute path.
    pub program: PathBuf,
    /// Process id as the application knows it.
    pub pid: u32,
    /// All threads, the initial one first.
    pub threads: Vec<ThreadState>,
    /// End of the heap that `brk` moves.
    pub brk_end: usize,
    /// Where the program's dynamic linker is mapped.
    pub interpreter: [usize; 2],
    /// Signal actions other than the default.
    pub actions: Vec<(i32, Action)>,
    /// The three interval timers: interval and value, in seconds and microseconds.
    pub timers: [[i64; 4]; 3],
    /// POSIX timers, by their ids.
    pub posix_timers: Vec<(u32, Timer)>,
    /// What the clocks showed that count from the machine's start, in nanoseconds.
    pub clocks: [i64; 3],
    /// Signals sent to the process and not yet delivered.
    pub pending: Vec<SigInfo>,
    /// What it has changed for itself.
    pub settings: ProcessSettings,
    /// Working directory.
    pub cwd: PathBuf,
    /// File mode creation mask.
    pub umask: u32,
    /// Open files.
    pub files: Files,
    /// Children that had ended and that nobody had waited for.
    pub children: Vec<Ended>,
    /// Registrations made with `membarrier`.
    pub membarriers: u32,
    /// Where the parts that have fixed addresses were: gate, clocks, vDSO, vDSO slots.
    pub fixed: [usize; 4],
}

/// One thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadState {
    /// Id as the application knows it.
    pub tid: u32,
    /// The initial thread.
    pub main: bool,
    /// Address of its signal frame.
    pub frame: usize,
    /// FS base.
    pub fs: usize,
    /// Address to clear at its end.
    pub clear_tid: usize,
    /// Head of its robust futex list.
    pub robust: usize,
    /// Depth of wrappers it is in.
    pub in_wrapper: u32,
    /// It asked to be stopped: its STOP_SYSCALL is to return 1.
    pub by_request: bool,
    /// Its name.
    pub name: String,
    /// Signals sent to it and not yet delivered.
    pub pending: Vec<SigInfo>,
    /// What it has changed for itself.
    pub settings: ThreadSettings,
}

fn lock_of<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
