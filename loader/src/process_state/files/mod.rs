//! Open files: their capture and their restore.
//!
//! Three levels, as in the kernel:
//! - a *descriptor* is a number;
//! - an *open file* has the position and the flags; several descriptors may refer to it (`dup`, `fork`);
//! - a *shared object* (a pipe, a deleted file, memory from `memfd_create`) exists only while a process holds it, so
//!   its content is saved; several open files may refer to it.
//!
//! [`capture`] changes nothing. A restart has two steps: [`open_files`] takes the saved numbers and opens and checks
//! everything, in every rank, before anything is changed. [`OpenedFiles::install`] moves everything to its number and
//! takes locks. Between the two, once all ranks have succeeded, [`undo_changes`] reverses the changes in the journals
//! (`interpose/file_changes/`, the crate `undo`), and [`OpenedFiles::truncate`] truncates output files, including those
//! closed at the checkpoint. `outlook.rs` predicts all these changes. A copy of a job has other files (`copied.rs`).
//!
//! To add a kind: a file in `kinds/` that captures and opens it, a variant of [`Kind`], a line in [`capture`]'s
//! `classify` and one in `reopen`'s `open`.

mod capture;
mod closed;
mod copied;
mod file_owner;
mod foreign_holders;
pub mod kinds;
pub mod look;
mod outlook;
mod reopen;
mod truncate;

use job_spec::ChangedFilePolicy;
use serde::{Deserialize, Serialize};
use undo::Plan;

pub use capture::capture;
pub use closed::{capture as capture_closed, look_ahead, ClosedFileList};
pub use copied::{Copying, SharedFiles};
pub use file_owner::FileOwners;
pub use kinds::mapped::MappedFile;
pub use outlook::{Fate, Listed, Prospect, Saved};
pub use reopen::{open_files, HeldNumbers, OpenedFiles};
pub use truncate::{
    bound_kept, undo_changes, ClosedFilePolicy, Length, TruncateReport, LONGEST as LONGEST_TAIL,
};

use kinds::{
    deleted_file, epoll, eventfd_signalfd, file_lock, local_listener, mapped, pipe, regular,
    reopen_by_path, socketpair, timerfd,
};

/// Checks of files before a restart changes anything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checks<'a> {
    /// Policy for a file whose content differs.
    pub changed: ChangedFilePolicy,
    /// Changes that will be undone before the program goes on, and the host of this process.
    pub undo: Option<(&'a Plan, &'a str)>,
}

/// All open files of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Files {
    /// Descriptors in ascending order of their numbers.
    descriptors: Vec<Descriptor>,
    open: Vec<OpenFile>,
    shared: Vec<Shared>,
    /// Owners and signals. They are in a section of their own.
    #[serde(skip)]
    pub owners: FileOwners,
}

/// A file descriptor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Descriptor {
    fd: i32,
    /// Close-on-exec flag.
    cloexec: bool,
    /// Index of the open file.
    open: usize,
}

/// An open file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct OpenFile {
    kind: Kind,
    /// Status flags, as F_GETFL returns them.
    flags: i32,
    /// Locks held on it.
    locks: Vec<file_lock::FileLock>,
}

impl OpenFile {
    /// Whether it is a standard file of the launcher.
    fn is_launchers(&self) -> bool {
        matches!(self.kind, Kind::Standard(_))
    }
}

/// Kind of an open file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Kind {
    /// Standard file of this number from the launcher; that of the new launcher replaces it.
    Standard(i32),
    /// Regular file.
    Regular(regular::RegularFile),
    /// File that is opened again by its path: a directory, a device, a file of /proc.
    ByPath(reopen_by_path::ReopenByPath),
    /// Unnamed file, and the position in it.
    Deleted { object: usize, offset: u64 },
    /// Memory that is also mapped shared.
    Mapped(mapped::Mapped),
    /// End of a pipe; the flags tell which.
    PipeEnd { object: usize },
    /// First or second end of a socket pair.
    PairEnd { object: usize, end: usize },
    /// Counter from eventfd.
    EventFd(eventfd_signalfd::EventFd),
    /// Timer from timerfd_create.
    TimerFd(timerfd::TimerFd),
    /// Signal set of a signalfd.
    SignalFd(u64),
    /// Interest list of an epoll instance.
    Epoll(Vec<epoll::Watch>),
    /// Inotify instance without watches.
    Inotify,
    /// Local socket that listens.
    Listener(local_listener::LocalListener),
}

/// Object that exists only while a process has it open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Shared {
    Deleted(deleted_file::DeletedFile),
    Pipe(pipe::Pipe),
    SocketPair(socketpair::SocketPair),
}
