//! Predicts the effect of a restart on the current files of a process, without changing any.

use super::closed::{Closed, Now, ANOTHER, SHORTER};
use super::kinds::file_lock;
use super::kinds::regular::RegularFile;
use super::{Checks, ClosedFileList, ClosedFilePolicy, Files, Kind, OpenFile, Shared};
use crate::error::RestoreError;
use crate::process_state::ProcessState;
use crate::sys::descriptor::{stat, writable};
use serde::Serialize;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use undo::Outlook;

/// Way in which a file is restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Saved {
    /// The image has the name and the length; the content stays on disk.
    OnDisk,
    /// Opened again by its name.
    ByName,
    /// Content saved in the image.
    InImage,
    /// Content saved with the memory of its shared mapping.
    WithMemory,
    /// Replaced by the file of the new launcher.
    FromLauncher,
}

/// Effect of a restart on a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum Fate {
    /// No change, except those that [`Outlook::of`] gives for its name.
    Unchanged,
    /// Truncation of what was appended.
    #[serde(rename = "cut-back")]
    Truncated {
        /// Bytes cut off.
        bytes: u64,
    },
    /// The program continues with the changed file.
    Left {
        /// Description of the change.
        why: String,
    },
    /// The restart is refused because of the file.
    Refused {
        /// Reason of the refusal.
        why: String,
    },
}

/// A file of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// Name, or a description of an unnamed file.
    pub name: String,
    /// Path, if it has one.
    pub path: Option<PathBuf>,
    /// Descriptors that refer to it; none for a closed file.
    pub descriptors: Vec<i32>,
    /// Whether it is writable.
    pub writable: bool,
    /// Length in bytes at the checkpoint, if known.
    pub bytes: Option<u64>,
    /// Way in which it is restored.
    pub saved: Saved,
    /// Effect of the restart.
    pub fate: Fate,
}

/// Settings of the predicted restart.
#[derive(Clone, Copy, Debug)]
pub struct Prospect<'a> {
    /// Checks of open files.
    pub checks: Checks<'a>,
    /// Policy for closed files that have grown.
    pub grown: ClosedFilePolicy,
    /// Effect of the undo.
    pub outlook: &'a Outlook,
    /// Whether the locks must be free. While the job runs, they are not.
    pub locks: bool,
}

impl Prospect<'_> {
    /// File of this name as the undo would leave it.
    fn undone(&self, path: &Path) -> Option<undo::View<'_>> {
        let (plan, host) = self.checks.undo?;
        self.outlook.view(plan, path, host)
    }

    /// Current path of the file that the undo would move to this name.
    fn place(&self, path: &Path) -> PathBuf {
        let place = self.outlook.place(path);
        place.unwrap_or_else(|| path.to_owned())
    }
}

impl ProcessState {
    /// The open files, each with the effect of the restart.
    pub fn list_files(&self, prospect: &Prospect<'_>) -> Vec<Listed> {
        self.files.list(prospect)
    }
}

impl Files {
    fn list(&self, prospect: &Prospect<'_>) -> Vec<Listed> {
        let each = self.open.iter().enumerate();
        each.map(|(index, file)| {
            let own = self.descriptors.iter().filter(|d| d.open == index);
            let descriptors: Vec<i32> = own.map(|d| d.fd).collect();
            let bytes = match &file.kind {
                Kind::Deleted { object, .. } => match self.shared.get(*object) {
                    Some(Shared::Deleted(unnamed)) => Some(unnamed.size()),
                    _ => None,
                },
                _ => None,
            };
            let listed = file.listed(descriptors, prospect);
            Listed {
                bytes: listed.bytes.or(bytes),
                ..listed
            }
        })
        .collect()
    }
}

impl OpenFile {
    fn listed(&self, descriptors: Vec<i32>, prospect: &Prospect<'_>) -> Listed {
        let fd = descriptors.first().copied().unwrap_or(-1);
        let (name, saved, fate) = match &self.kind {
            Kind::Regular(regular) => {
                let fate = self.fate_of(regular, fd, prospect);
                (
                    regular.length().0.display().to_string(),
                    Saved::OnDisk,
                    fate,
                )
            }
            Kind::ByPath(place) => {
                let mut warnings = Vec::new();
                let fate = match place.open(fd, self.flags, &mut warnings) {
                    Err(why) => refused(&why),
                    Ok(_) => left(warnings),
                };
                (place.path().display().to_string(), Saved::ByName, fate)
            }
            kind => {
                let (name, saved) = nameless(kind);
                (name.to_owned(), saved, Fate::Unchanged)
            }
        };
        let (path, bytes) = match &self.kind {
            Kind::Regular(regular) => {
                let (path, bytes) = regular.length();
                (Some(path), Some(bytes))
            }
            Kind::ByPath(place) => (Some(place.path()), None),
            _ => (None, None),
        };
        Listed {
            name,
            path: path.map(Path::to_owned),
            descriptors,
            writable: writable(self.flags),
            bytes,
            saved,
            fate,
        }
    }

    fn fate_of(&self, regular: &RegularFile, fd: i32, prospect: &Prospect<'_>) -> Fate {
        let (path, size) = regular.length();
        let undone = prospect.undone(path);
        let mut warnings = Vec::new();
        // A file that the undo creates does not exist yet.
        let anew = prospect.outlook.place(path).is_none() && prospect.outlook.leads(path);
        let now = (!anew).then(|| prospect.place(path));
        let mut length = || {
            let changed = prospect.checks.changed;
            let (flags, now) = (self.flags, now.as_deref());
            let opened = regular.look(fd, flags, changed, now, undone.as_ref(), &mut warnings)?;
            if let Some(opened) = opened.as_ref().filter(|_| prospect.locks) {
                self.refuse_locked(fd, opened)?;
            }
            let now = opened.and_then(|opened| stat(opened.as_raw_fd()).ok());
            let now = now.map_or(size, |facts| facts.st_size as u64);
            Ok::<_, RestoreError>(undone.as_ref().map_or(now, undo::View::size))
        };
        match length() {
            Err(why) => refused(&why),
            Ok(length) => match length.saturating_sub(size) {
                bytes if bytes > 0 && warnings.is_empty() && writable(self.flags) => {
                    Fate::Truncated { bytes }
                }
                _ => left(warnings),
            },
        }
    }

    fn refuse_locked(&self, fd: i32, opened: &OwnedFd) -> Result<(), RestoreError> {
        let opened = opened.as_raw_fd();
        let mut held = self.locks.iter().map(|held| held.is_free(opened));
        held.try_for_each(|free| free.map_err(file_lock::not_taken(fd, opened)))
    }
}

fn refused(why: &RestoreError) -> Fate {
    let why = why.to_string();
    Fate::Refused { why }
}

fn left(warnings: Vec<String>) -> Fate {
    match warnings.is_empty() {
        true => Fate::Unchanged,
        false => Fate::Left {
            why: warnings.join("; "),
        },
    }
}

/// Description of an unnamed file, and the way in which it is restored.
fn nameless(kind: &Kind) -> (&'static str, Saved) {
    match kind {
        Kind::Standard(0) => ("standard input", Saved::FromLauncher),
        Kind::Standard(1) => ("standard output", Saved::FromLauncher),
        Kind::Standard(_) => ("standard error", Saved::FromLauncher),
        Kind::Mapped(_) => ("shared memory", Saved::WithMemory),
        Kind::Regular(_) | Kind::ByPath(_) => ("a file", Saved::OnDisk),
        Kind::Deleted { .. } => ("a file without a name", Saved::InImage),
        Kind::PipeEnd { .. } => ("a pipe", Saved::InImage),
        Kind::PairEnd { .. } => ("a socket pair", Saved::InImage),
        Kind::EventFd(_) => ("an eventfd", Saved::InImage),
        Kind::TimerFd(_) => ("a timerfd", Saved::InImage),
        Kind::SignalFd(_) => ("a signalfd", Saved::InImage),
        Kind::Epoll(_) => ("an epoll set", Saved::InImage),
        Kind::Inotify => ("an inotify instance", Saved::InImage),
        Kind::Listener(_) => ("a local socket that listens", Saved::InImage),
    }
}

impl ClosedFileList {
    /// All closed files, each with the effect of the restart.
    pub fn list(&self, prospect: &Prospect<'_>) -> Vec<Listed> {
        let listed = |file: &Closed| Listed {
            name: file.path().display().to_string(),
            path: Some(file.path().to_owned()),
            descriptors: Vec::new(),
            writable: true,
            bytes: Some(file.size()),
            saved: Saved::OnDisk,
            fate: file.fate(prospect),
        };
        self.iter().map(listed).collect()
    }
}

impl Closed {
    fn fate(&self, prospect: &Prospect<'_>) -> Fate {
        let then = self.size();
        let left = |why: &str| Fate::Left {
            why: why.to_owned(),
        };
        let bytes = match prospect.undone(self.path()) {
            Some(undone) => match undone.size().checked_sub(then) {
                None => return left(SHORTER),
                Some(bytes) => bytes,
            },
            None => match self.moved(&prospect.place(self.path())).now() {
                Now::AsItWas => 0,
                Now::Shorter => return left(SHORTER),
                Now::Another => return left(ANOTHER),
                Now::Longer(file) => {
                    let now = stat(file.as_raw_fd());
                    now.map_or(0, |facts| facts.st_size as u64)
                        .saturating_sub(then)
                }
            },
        };
        match (bytes, prospect.grown) {
            (0, _) => Fate::Unchanged,
            (bytes, ClosedFilePolicy::Truncate) => Fate::Truncated { bytes },
            (_, ClosedFilePolicy::Leave) => left("has grown, and was closed (--files leave)"),
        }
    }
}
