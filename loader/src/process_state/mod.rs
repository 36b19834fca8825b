//! Process state outside memory: [`capture`] reads it for an image and [`restore`] sets it again.
//!
//! This is a folder of the loader and not a crate because it uses a hundred items of the other folders that no other
//! crate needs. Nothing in them depends on it.

mod capture;
pub mod files;
mod locked_memory;
mod pending_signals;
mod proc_files;
mod registers;
mod restore;
mod settings;
mod thread_numbers;
mod xsave_area;

use crate::interpose::children::Ended;
use crate::interpose::posix_timers::Timer;
use crate::interpose::signals::Action;
use crate::sys::context::SigInfo;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

pub use capture::{capture, capture_closed};
pub use files::{
    bound_kept, look_ahead, open_files, undo_changes, Checks, ClosedFileList, ClosedFilePolicy,
    Copying, Fate, FileOwners, Files, HeldNumbers, Length, Listed, MappedFile, OpenedFiles,
    Prospect, Saved, SharedFiles, TruncateReport, LONGEST_TAIL,
};
pub use locked_memory::LockedMemory;
pub use proc_files::ProcFiles;
pub use registers::SavedRegisters;
pub use restore::{restore, Restored};
pub use thread_numbers::ThreadNumbers;

use settings::{ProcessSettings, ThreadSettings};

/// Process state outside memory. The version of the section *process* (`ckpt-image/src/format/section.rs`) changes with
/// any change here or in the types of its fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessState {
    /// `contract::VERSION` of the halves that were running.
    pub contract_version: u32,
    /// The program's absolute path.
    pub program: PathBuf,
    /// Process id as seen by the application.
    pub pid: u32,
    /// All threads, the initial one first.
    pub threads: Vec<ThreadState>,
    /// End of the heap (program break).
    pub brk_end: usize,
    /// Address range of the program's dynamic linker.
    pub interpreter: [usize; 2],
    /// Signal actions other than the default.
    pub actions: Vec<(i32, Action)>,
    /// The three interval timers: interval and value, in seconds and microseconds.
    pub timers: [[i64; 4]; 3],
    /// POSIX timers, by their ids.
    pub posix_timers: Vec<(u32, Timer)>,
    /// Clocks that count from the machine's start, in nanoseconds.
    pub clocks: [i64; 3],
    /// Signals pending for the process.
    pub pending: Vec<SigInfo>,
    /// Settings that the application has changed for the process.
    pub settings: ProcessSettings,
    /// Working directory.
    pub cwd: PathBuf,
    /// File mode creation mask.
    pub umask: u32,
    /// Open files.
    pub files: Files,
    /// Children that had ended and were not waited for.
    pub children: Vec<Ended>,
    /// Registrations made with `membarrier`.
    pub membarriers: u32,
    /// Addresses of the parts at fixed addresses: gate, clocks, vDSO, vDSO slots.
    pub fixed: [usize; 4],
    /// Memory that the program has locked. It is in a section of its own.
    #[serde(skip)]
    pub locked: LockedMemory,
    /// Files of /proc by which the program has changed its settings. They are in a section of their own.
    #[serde(skip)]
    pub proc_files: ProcFiles,
}

/// Records the settings at the start of the process. Call it on the initial thread, before the application or anything
/// of an image runs.
pub fn note_start() {
    settings::note_start();
    proc_files::note_start();
}

/// One thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadState {
    /// Thread id as seen by the application.
    pub tid: u32,
    /// Whether it is the initial thread.
    pub main: bool,
    /// Address of its signal frame.
    pub frame: usize,
    /// FS base.
    pub fs: usize,
    /// Address to clear at thread exit.
    pub clear_tid: usize,
    /// Head of its robust futex list.
    pub robust: usize,
    /// Nesting depth of wrappers.
    pub in_wrapper: u32,
    /// Stop at its own request: its STOP_SYSCALL is to return 1.
    pub by_request: bool,
    /// Name of the thread.
    pub name: String,
    /// Signals pending for the thread.
    pub pending: Vec<SigInfo>,
    /// Settings that the application has changed for the thread.
    pub settings: ThreadSettings,
}
