//! Every change that this crate makes on disk, one step after the other, so that a test can have any
//! of them fail: by its number, in one of the ways in which disks and processes do.
//!
//! What only reads does not go through here: a checkpoint is safe whatever a reader does.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use nix::errno::Errno;
use nix::fcntl::{fallocate, FallocateFlags, OFlag};
use nix::sys::signal::{kill, Signal};
use nix::sys::statfs::{fstatfs, EXT4_SUPER_MAGIC};
use nix::sys::uio::{pwrite, pwritev};
use nix::unistd::getpid;

/// What is changed by a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A directory is made.
    MakeDir,
    /// A file is made.
    Create,
    /// Bytes are written to a file.
    Write,
    /// A file's content is made durable.
    Sync,
    /// A directory's entries are made durable.
    SyncDir,
    /// A directory gets another name.
    Rename,
    /// A file or an empty directory is removed.
    Remove,
}

/// How a step fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The process is killed (SIGKILL) instead.
    Crash,
    /// Nothing is done, then or later, and every step fails: a crash as seen from outside, for tests
    /// that go on in the same process.
    Halt,
    /// A write takes half of what it is given; other steps are not harmed.
    ShortWrite,
    /// The disk is full (ENOSPC).
    Full,
    /// The device fails (EIO).
    Broken,
    /// The step does not end, as where a file server is gone.
    Hang,
}

/// Fault number `at` (from 1) of those steps that one [`Disk`] makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultAt {
    /// How.
    pub fault: Fault,
    /// The number of the step.
    pub at: usize,
}

impl FromStr for FaultAt {
    type Err = String;

    /// `crash:3`, `short-write:3`, `full:3`, `broken:3`, `hang:3`.
    fn from_str(text: &str) -> Result<FaultAt, String> {
        let parsed = text.split_once(':').and_then(|(fault, at)| {
            let fault = match fault {
                "crash" => Fault::Crash,
                "short-write" => Fault::ShortWrite,
                "full" => Fault::Full,
                "broken" => Fault::Broken,
                "hang" => Fault::Hang,
                _ => return None,
            };
            let at = at.parse().ok().filter(|at| *at > 0)?;
            Some(FaultAt { fault, at })
        });
        parsed.ok_or_else(|| {
            format!(
                "'{text}' is no fault: crash:N, short-write:N, full:N, broken:N or hang:N is one"
            )
        })
    }
}

/// A step that was made, or was to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// What.
    pub step: Step,
    /// Of what: for [`Step::Rename`], the new name.
    pub path: PathBuf,
}

/// Where a set is written: the real disk, perhaps with one fault. Clones count their steps together.
#[derive(Clone, Debug, Default)]
pub struct Disk(Option<Arc<Steps>>);

#[derive(Debug)]
struct Steps {
    fault: Option<FaultAt>,
    tell: fn(&Made),
    made: Mutex<Vec<Made>>,
}

/// What becomes of a step.
enum Way {
    Whole,
    Half,
}

impl Disk {
    /// A disk that remembers its steps, and on which one of them fails, which is told first.
    pub fn watched(fault: Option<FaultAt>, tell: fn(&Made)) -> Disk {
        Disk(Some(Arc::new(Steps {
            fault,
            tell,
            made: Mutex::default(),
        })))
    }

    /// The steps so far, where they are watched; the one that failed is the last.
    pub fn steps(&self) -> Vec<Made> {
        let made = self.0.as_ref().map(|steps| steps.made.lock());
        made.map_or(Vec::new(), |made| {
            made.unwrap_or_else(PoisonError::into_inner).clone()
        })
    }

    fn step(&self, step: Step, path: &Path) -> io::Result<Way> {
        let Some(steps) = &self.0 else {
            return Ok(Way::Whole);
        };
        let mut made = steps.made.lock().unwrap_or_else(PoisonError::into_inner);
        let number = made.len() + 1;
        let due = steps.fault.filter(|due| match due.fault {
            Fault::Halt => number >= due.at,
            _ => number == due.at,
        });
        if number <= due.map_or(number, |due| due.at) {
            let now = Made {
                step,
                path: path.to_owned(),
            };
            if due.is_some() {
                (steps.tell)(&now);
            }
            made.push(now);
        }
        // Who hangs holds up nobody else.
        drop(made);
        match due.map(|due| due.fault) {
            None => Ok(Way::Whole),
            Some(Fault::ShortWrite) if step == Step::Write => Ok(Way::Half),
            Some(Fault::ShortWrite) => Ok(Way::Whole),
            Some(Fault::Full) => Err(io::ErrorKind::StorageFull.into()),
            Some(Fault::Broken) => Err(io::Error::from_raw_os_error(EIO)),
            Some(Fault::Hang) => loop {
                std::thread::park();
            },
            Some(Fault::Halt) => Err(io::Error::other("the process was stopped here")),
            Some(Fault::Crash) => {
                let _ = kill(getpid(), Signal::SIGKILL);
                Err(io::Error::other("the process was killed here"))
            }
        }
    }

    /// Makes a private directory that was not there before.
    pub(crate) fn make_dir(&self, path: &Path) -> io::Result<()> {
        self.step(Step::MakeDir, path)?;
        DirBuilder::new().mode(0o700).create(path)
    }

    /// Makes a private file that was not there before.
    pub(crate) fn create(&self, path: &Path) -> io::Result<DiskFile> {
        self.step(Step::Create, path)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(OFlag::O_NOFOLLOW.bits())
            .open(path)?;
        Ok(DiskFile {
            disk: self.clone(),
            path: path.to_owned(),
            file,
        })
    }

    /// Makes the entries of a directory durable.
    pub(crate) fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.step(Step::SyncDir, path)?;
        File::open(path)?.sync_all()
    }

    /// Gives a directory another name, which nothing may have.
    pub(crate) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step(Step::Rename, to)?;
        if to.symlink_metadata().is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        std::fs::rename(from, to)
    }

    /// Removes a file.
    pub(crate) fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.step(Step::Remove, path)?;
        std::fs::remove_file(path)
    }

    /// Removes an empty directory.
    pub(crate) fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.step(Step::Remove, path)?;
        std::fs::remove_dir(path)
    }
}

/// So many times as much as is set aside must be free.
const PLENTY: u64 = 4;
const EIO: i32 = Errno::EIO as i32;

/// As the kernel takes positions and lengths.
fn position(at: u64) -> io::Result<i64> {
    i64::try_from(at).map_err(|_| io::ErrorKind::FileTooLarge.into())
}

/// A file that is being made.
#[derive(Debug)]
pub(crate) struct DiskFile {
    disk: Disk,
    path: PathBuf,
    file: File,
}

impl DiskFile {
    /// Writes all slices at `offset`, one after the other.
    pub(crate) fn write_at(
        &self,
        mut slices: &mut [IoSlice<'_>],
        mut offset: u64,
    ) -> io::Result<()> {
        while !slices.is_empty() {
            let written = match self.disk.step(Step::Write, &self.path)? {
                Way::Whole => pwritev(&self.file, slices, position(offset)?),
                Way::Half => {
                    let first = &slices[0][..slices[0].len().div_ceil(2)];
                    pwrite(&self.file, first, position(offset)?)
                }
            };
            match written {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    offset += written as u64;
                    IoSlice::advance_slices(&mut slices, written);
                }
                Err(Errno::EINTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    /// A write that somebody else makes, who sees to it that nothing is left of it.
    pub(crate) fn write_by<T>(
        &self,
        write: impl FnOnce(BorrowedFd<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        self.disk.step(Step::Write, &self.path)?;
        write(self.file.as_fd())
    }

    /// Has the file system find room for so many bytes from there on, as for each of `images` at the same time, which
    /// takes it less time than page by page: where that is so (ext4), and where there is plenty, for not all of it
    /// may be needed.
    pub(crate) fn set_aside(&self, offset: u64, len: u64, images: u64) -> io::Result<()> {
        let system = fstatfs(&self.file)?;
        let free = system.blocks_available();
        let free = free.saturating_mul(u64::try_from(system.block_size()).unwrap_or(0));
        let plenty = len.saturating_mul(images).saturating_mul(PLENTY) < free;
        if system.filesystem_type() != EXT4_SUPER_MAGIC || !plenty {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(fallocate(
            &self.file,
            FallocateFlags::FALLOC_FL_KEEP_SIZE,
            position(offset)?,
            position(len)?,
        )?)
    }

    /// Gives back what was set aside beyond the end of the file.
    pub(crate) fn give_back(&self) -> io::Result<()> {
        self.file.set_len(self.file.metadata()?.len())
    }

    /// Has the content be made durable that is there by now: not a step, since a set relies on the last
    /// sync alone.
    pub(crate) fn sync_ahead(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Makes the content durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.disk.step(Step::Sync, &self.path)?;
        self.file.sync_all()
    }

    /// Removes it.
    pub(crate) fn remove(&self) -> io::Result<()> {
        self.disk.remove_file(&self.path)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}
