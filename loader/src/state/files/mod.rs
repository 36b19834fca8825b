//! Open files: what they are, and how they come back.
//!
//! Three levels, as in the kernel: a *descriptor* is a number; several may name one *open file*,
//! which has the position and the flags (`dup`, `fork`); several open files may be of one *shared
//! object* that exists nowhere but in the processes that hold it (a pipe, a deleted file, memory
//! from `memfd_create`), whose content is therefore saved.
//!
//! [`capture`] looks and changes nothing. A restart has two steps: [`open_files`] takes the saved
//! numbers and opens and checks everything, in every rank, before anything is changed; and
//! [`OpenedFiles::settle`] puts everything in its place and takes locks. Between them, when all ranks could,
//! [`undo_changes`] undoes what the journals tell (`journal.rs`, the crate `undo`), and
//! [`OpenedFiles::cut_back`] cuts output files back, also those that were closed at the cut. `outlook.rs` tells
//! beforehand what all that would come to.
//!
//! To add a kind: a file here that captures and opens it, a variant of [`Kind`], a line in
//! [`capture`]'s `classify` and one in `reopen`'s `open`.

mod aside;
mod bytes;
mod capture;
mod closed;
mod cut;
mod descriptor;
mod epoll;
mod event;
mod holders;
pub mod journal;
mod lock;
mod mapped;
mod names;
mod outlook;
mod pair;
mod pipe;
mod place;
mod regular;
mod reopen;
mod standard;
mod timer;
mod unnamed;
mod written;

use serde::{Deserialize, Serialize};
use undo::Plan;

pub use aside::{aside, spawn_aside, start_aside};
pub use capture::capture;
pub use closed::{capture as capture_closed, look_ahead, ClosedFiles};
pub use cut::{bound_kept, undo_changes, Cuts, GrownFiles, Length, LONGEST as LONGEST_TAIL};
pub use mapped::MappedFile;
pub use outlook::{Fate, Listed, Prospect, Saved};
pub use reopen::{open_files, HeldNumbers, OpenedFiles};
pub use standard::note as note_standard_files;
pub use written::note_opened;

/// What to do where a file's content is not that of the checkpoint. (That a file has grown is
/// expected: the job ran on, and what it wrote then is written again.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChangedFiles {
    /// Nothing is restored.
    #[default]
    Refuse,
    /// Say so and go on.
    Warn,
    /// Do not even look.
    Ignore,
}

/// How files are looked at before a restart changes anything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checks<'a> {
    /// What to do where a content is another one.
    pub changed: ChangedFiles,
    /// What will be undone before the program goes on, and the host that this process runs on.
    pub undo: Option<(&'a Plan, &'a str)>,
}

/// All files of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Files {
    /// In ascending order of their numbers.
    descriptors: Vec<Descriptor>,
    open: Vec<OpenFile>,
    shared: Vec<Shared>,
}

/// A file descriptor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Descriptor {
    fd: i32,
    /// Closed on exec.
    cloexec: bool,
    /// Index of its open file.
    open: usize,
}

/// An open file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct OpenFile {
    kind: Kind,
    /// Flags of `open`, as F_GETFL tells them.
    flags: i32,
    /// Locks that were held on it.
    locks: Vec<lock::Lock>,
}

/// What an open file is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Kind {
    /// The standard file of this number that the launcher gave: the new job's takes its place.
    Standard(i32),
    /// A file of the file system that has content.
    Regular(regular::Regular),
    /// What is opened again by its name: a directory, a device, a file of /proc.
    Place(place::Place),
    /// An unnamed file, at an offset.
    Unnamed { object: usize, offset: u64 },
    /// Memory that is mapped shared, too.
    Mapped(mapped::Mapped),
    /// An end of a pipe: its flags say which.
    PipeEnd { object: usize },
    /// The first or the second end of a socket pair.
    PairEnd { object: usize, end: usize },
    /// From eventfd.
    Event(event::Event),
    /// From timerfd_create.
    Timer(timer::Timer),
    /// From signalfd: the set of signals.
    Signals(u64),
    /// From epoll_create: what it watches.
    Epoll(Vec<epoll::Watch>),
    /// From inotify_init, watching nothing.
    Inotify,
}

/// What exists only while somebody has it open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Shared {
    Unnamed(unnamed::Unnamed),
    Pipe(pipe::Pipe),
    Pair(pair::Pair),
}
