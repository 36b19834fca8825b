//! What a restart would make of a process's files as they are now, found out without changing any.

use super::closed::{Closed, Now, ANOTHER, SHORTER};
use super::descriptor::{stat, writable};
use super::regular::Regular;
use super::{lock, Checks, ClosedFiles, Files, GrownFiles, Kind, OpenFile, Shared};
use crate::error::RestoreError;
use crate::state::ProcessState;
use serde::Serialize;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use undo::Outlook;

/// How a file comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Saved {
    /// The image has its name and its length; what is in it stays on the disk.
    OnDisk,
    /// It is opened again by its name.
    ByName,
    /// What was in it is in the image.
    InImage,
    /// It is a shared mapping's, and in the image with that.
    WithMemory,
    /// The launcher of the restart gives its own in its place.
    FromLauncher,
}

/// What becomes of a file at a restart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum Fate {
    /// Nothing is done to it, but what [`Outlook::of`] its name tells.
    Unchanged,
    /// What was appended is cut off.
    CutBack {
        /// Of that.
        bytes: u64,
    },
    /// The program goes on with it although it has changed.
    Left {
        /// How.
        why: String,
    },
    /// Nothing is restored because of it.
    Refused {
        /// Why.
        why: String,
    },
}

/// A file of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// What it is called, or what it is.
    pub name: String,
    /// Its path, where the file system has it.
    pub path: Option<PathBuf>,
    /// The descriptors by which it was open; none of a closed one that the program had written.
    pub descriptors: Vec<i32>,
    /// It can be written to.
    pub writable: bool,
    /// Its length at the checkpoint, where that is known.
    pub bytes: Option<u64>,
    /// How it comes back.
    pub saved: Saved,
    /// What becomes of it.
    pub fate: Fate,
}

/// By what a restart goes.
#[derive(Clone, Copy, Debug)]
pub struct Prospect<'a> {
    /// How open files are looked at.
    pub checks: Checks<'a>,
    /// What becomes of closed files that have grown.
    pub grown: GrownFiles,
    /// What the undo comes to.
    pub outlook: &'a Outlook,
    /// Whether the locks must be free. They are not while the job runs.
    pub locks: bool,
}

impl Prospect<'_> {
    /// What the undo would make of the file of this name.
    fn undone(&self, path: &Path) -> Option<undo::View<'_>> {
        let (plan, host) = self.checks.undo?;
        self.outlook.view(plan, path, host)
    }

    /// Where the file is now that would have this name.
    fn place(&self, path: &Path) -> PathBuf {
        let place = self.outlook.place(path);
        place.unwrap_or_else(|| path.to_owned())
    }
}

impl ProcessState {
    /// Its open files, and what would become of each.
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
                Kind::Unnamed { object, .. } => match self.shared.get(*object) {
                    Some(Shared::Unnamed(unnamed)) => Some(unnamed.size()),
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
            Kind::Place(place) => {
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
            Kind::Place(place) => (Some(place.path()), None),
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

    fn fate_of(&self, regular: &Regular, fd: i32, prospect: &Prospect<'_>) -> Fate {
        let (path, size) = regular.length();
        let undone = prospect.undone(path);
        let mut warnings = Vec::new();
        // What the undo makes anew is not there yet.
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
                    Fate::CutBack { bytes }
                }
                _ => left(warnings),
            },
        }
    }

    fn refuse_locked(&self, fd: i32, opened: &OwnedFd) -> Result<(), RestoreError> {
        let opened = opened.as_raw_fd();
        let mut held = self.locks.iter().map(|held| held.is_free(opened));
        held.try_for_each(|free| free.map_err(lock::not_taken(fd, opened)))
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

/// What it is, and how it comes back.
fn nameless(kind: &Kind) -> (&'static str, Saved) {
    match kind {
        Kind::Standard(0) => ("standard input", Saved::FromLauncher),
        Kind::Standard(1) => ("standard output", Saved::FromLauncher),
        Kind::Standard(_) => ("standard error", Saved::FromLauncher),
        Kind::Mapped(_) => ("shared memory", Saved::WithMemory),
        Kind::Regular(_) | Kind::Place(_) => ("a file", Saved::OnDisk),
        Kind::Unnamed { .. } => ("a file without a name", Saved::InImage),
        Kind::PipeEnd { .. } => ("a pipe", Saved::InImage),
        Kind::PairEnd { .. } => ("a socket pair", Saved::InImage),
        Kind::Event(_) => ("an eventfd", Saved::InImage),
        Kind::Timer(_) => ("a timerfd", Saved::InImage),
        Kind::Signals(_) => ("a signalfd", Saved::InImage),
        Kind::Epoll(_) => ("an epoll set", Saved::InImage),
        Kind::Inotify => ("an inotify instance", Saved::InImage),
    }
}

impl ClosedFiles {
    /// All, and what would become of each.
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
            (bytes, GrownFiles::Cut) => Fate::CutBack { bytes },
            (_, GrownFiles::Leave) => left("has grown, and was closed (--files leave)"),
        }
    }
}
