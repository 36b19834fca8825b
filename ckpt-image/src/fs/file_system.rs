//! The file system for all changes of this crate on disk. Each change is a numbered step. A test can make
//! any step fail, as disks and processes fail (like LevelDB's `FaultInjectionTestEnv`).
//!
//! Reads bypass it: no reader can endanger a checkpoint.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use nix::errno::Errno;
use nix::fcntl::{fallocate, FallocateFlags, OFlag};
use nix::sys::signal::{kill, Signal};
use nix::sys::statfs::{fstatfs, EXT4_SUPER_MAGIC};
use nix::sys::uio::{pwrite, pwritev};
use nix::unistd::getpid;

use crate::fs::fault::{Fault, FaultAt, Operation, Step};

/// The real file system, by default without faults. Clones share the count of steps.
#[derive(Clone, Debug, Default)]
pub struct FileSystem(Option<Arc<Steps>>);

#[derive(Debug)]
struct Steps {
    fault: Option<FaultAt>,
    tell: fn(&Step),
    made: Mutex<Vec<Step>>,
}

/// Part of a write that is carried out.
enum Extent {
    Whole,
    Half,
}

impl FileSystem {
    /// A file system that records its steps. One of them may fail; `tell` is called before each.
    pub fn watched(fault: Option<FaultAt>, tell: fn(&Step)) -> FileSystem {
        FileSystem(Some(Arc::new(Steps {
            fault,
            tell,
            made: Mutex::default(),
        })))
    }

    /// The recorded steps; a failed one is the last.
    pub fn steps(&self) -> Vec<Step> {
        let made = self.0.as_ref().map(|steps| steps.made.lock());
        made.map_or(Vec::new(), |made| {
            made.unwrap_or_else(PoisonError::into_inner).clone()
        })
    }

    fn step(&self, operation: Operation, path: &Path) -> io::Result<Extent> {
        let Some(steps) = &self.0 else {
            return Ok(Extent::Whole);
        };
        let mut made = steps.made.lock().unwrap_or_else(PoisonError::into_inner);
        let number = made.len() + 1;
        let due = steps.fault.filter(|due| match due.fault {
            Fault::Halt => number >= due.at,
            _ => number == due.at,
        });
        if number <= due.map_or(number, |due| due.at) {
            let now = Step {
                operation,
                path: path.to_owned(),
            };
            if due.is_some() {
                (steps.tell)(&now);
            }
            made.push(now);
        }
        // The lock is released, so that a hanging step blocks no other.
        drop(made);
        match due.map(|due| due.fault) {
            None => Ok(Extent::Whole),
            Some(Fault::ShortWrite) if operation == Operation::Write => Ok(Extent::Half),
            Some(Fault::ShortWrite) => Ok(Extent::Whole),
            Some(Fault::Full) => Err(io::ErrorKind::StorageFull.into()),
            Some(Fault::Quota) => Err(Errno::EDQUOT.into()),
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

    /// Creates a private directory, which must not exist.
    pub(crate) fn make_dir(&self, path: &Path) -> io::Result<()> {
        self.step(Operation::MakeDir, path)?;
        DirBuilder::new().mode(0o700).create(path)
    }

    /// Creates a private file, which must not exist.
    pub(crate) fn create(&self, path: &Path) -> io::Result<OutputFile> {
        self.step(Operation::Create, path)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(OFlag::O_NOFOLLOW.bits())
            .open(path)?;
        Ok(OutputFile {
            fs: self.clone(),
            path: path.to_owned(),
            file,
        })
    }

    /// Makes the entries of a directory durable.
    pub(crate) fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.step(Operation::SyncDir, path)?;
        File::open(path)?.sync_all()
    }

    /// Renames a directory to a name that must not exist.
    pub(crate) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step(Operation::Rename, to)?;
        if to.symlink_metadata().is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        std::fs::rename(from, to)
    }

    /// Removes a file.
    pub(crate) fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.step(Operation::Remove, path)?;
        std::fs::remove_file(path)
    }

    /// Removes an empty directory.
    pub(crate) fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.step(Operation::Remove, path)?;
        std::fs::remove_dir(path)
    }
}

/// Free space that a reservation requires, as a multiple of its size.
const PLENTY: u64 = 4;
const EIO: i32 = Errno::EIO as i32;

/// Converts an offset or length to the kernel's type.
fn position(at: u64) -> io::Result<i64> {
    i64::try_from(at).map_err(|_| io::ErrorKind::FileTooLarge.into())
}

/// A file that is being written.
#[derive(Debug)]
pub(crate) struct OutputFile {
    fs: FileSystem,
    path: PathBuf,
    file: File,
}

impl OutputFile {
    /// Writes all slices at `offset`, one after the other.
    pub(crate) fn write_at(
        &self,
        mut slices: &mut [IoSlice<'_>],
        mut offset: u64,
    ) -> io::Result<()> {
        while !slices.is_empty() {
            let written = match self.fs.step(Operation::Write, &self.path)? {
                Extent::Whole => pwritev(&self.file, slices, position(offset)?),
                Extent::Half => {
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

    /// Runs a write by another function, which must leave no incomplete write.
    pub(crate) fn write_by<T>(
        &self,
        write: impl FnOnce(BorrowedFd<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        self.fs.step(Operation::Write, &self.path)?;
        write(self.file.as_fd())
    }

    /// Reserves `len` bytes at `offset`, if `images` such reservations fit at the same time. On ext4 this
    /// is faster than allocation page by page. It happens only there, and only with plenty of free space,
    /// because not all of it may be needed.
    pub(crate) fn reserve(&self, offset: u64, len: u64, images: u64) -> io::Result<()> {
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

    /// Frees the reserved space after the end of the file.
    pub(crate) fn free_reserved(&self) -> io::Result<()> {
        self.file.set_len(self.file.metadata()?.len())
    }

    /// Syncs the present content. This is not a step, since a set relies on the last sync alone.
    pub(crate) fn sync_ahead(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Syncs the content.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.fs.step(Operation::Sync, &self.path)?;
        self.file.sync_all()
    }

    /// Removes the file.
    pub(crate) fn remove(&self) -> io::Result<()> {
        self.fs.remove_file(&self.path)
    }

    /// Path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}
