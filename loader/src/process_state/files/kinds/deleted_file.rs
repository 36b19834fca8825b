//! Files without a name: deleted while open (CRIU: ghost files), or from memfd_create. The image holds their content.
//! On a network file system such a file may have a hidden name, which goes with the process.

use super::bytes::Bytes;
use crate::error::{CaptureError, RestoreError};
use crate::process_state::files::look::{without_deleted, Look, DELETED};
use crate::sys::descriptor::{fcntl, open};
use nix::errno::Errno;
use nix::sys::memfd::{memfd_create, MFdFlags};
use nix::unistd::{lseek, Whence};
use serde::{Deserialize, Serialize};
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Maximum of content, in bytes. More is refused, because it would be held in memory while the image is written.
const MOST: u64 = 1 << 30;

/// A file without a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeletedFile {
    /// Former name of the file.
    name: PathBuf,
    /// Seals of a memfd; none for a file.
    seals: Option<i32>,
    /// Permission bits.
    mode: u32,
    size: u64,
    /// Offset and content of each part that is not a hole.
    content: Vec<(u64, Bytes)>,
}

/// Name of a memfd, taken from its /proc link.
pub fn memory_name(link: &Path) -> Option<&[u8]> {
    without_deleted(link.as_os_str().as_bytes()).strip_prefix(b"/memfd:")
}

/// Names that file systems give to files that are removed while they are open, and how many hexadecimal digits follow.
/// The kernel's client of NFS renames the open file itself, libfuse does it behind the kernel.
const HIDDEN: [(&[u8], usize); 2] = [(b".nfs", 24), (b".fuse_hidden", 16)];

fn is_hidden_name(name: &[u8]) -> bool {
    HIDDEN.iter().any(|(begin, digits)| {
        let behind = name.strip_prefix(*begin);
        behind.is_some_and(|d| d.len() == *digits && d.iter().all(u8::is_ascii_hexdigit))
    })
}

/// Whether the file was removed while it was open, and its file system keeps it under a name of its own until it is
/// closed.
pub fn is_hidden(look: &Look) -> bool {
    let hidden = |path: &Path| {
        path.file_name()
            .is_some_and(|n| is_hidden_name(n.as_bytes()))
    };
    if hidden(&look.link) {
        return true;
    }
    // Without any name there is nothing to look for.
    let removed = look.facts.st_nlink > 0 && look.link.as_os_str().as_bytes().ends_with(DELETED);
    let beside = look.link.parent().filter(|_| removed);
    let beside = beside.and_then(|directory| std::fs::read_dir(directory).ok());
    beside.into_iter().flatten().flatten().any(|entry| {
        let facts = || std::fs::symlink_metadata(entry.path());
        hidden(&entry.path()) && facts().is_ok_and(|f| (f.dev(), f.ino()) == look.identity())
    })
}

/// Captures the file's content. Call it in `own_fd_table::on_copied_fd_table`.
pub fn capture(look: &Look) -> Result<DeletedFile, CaptureError> {
    let what = match memory_name(&look.link) {
        Some(_) => "memory from memfd_create",
        None => "a deleted file",
    };
    let refuse = |why: String| look.refuse(format!("{what} ({}) {why}", look.link.display()));
    let seals = match memory_name(&look.link) {
        Some(_) => Some(fcntl(look.fd, libc::F_GET_SEALS, 0).map_err(|e| look.failed(e))?),
        None => None,
    };
    if look.facts.st_blksize > 1 << 20 && seals.is_some() {
        return refuse("in huge pages".to_owned());
    }
    let file = match look.reader() {
        Ok(file) => file,
        Err(stale @ CaptureError::Stale { .. }) => return Err(stale),
        Err(error) => return refuse(format!("whose content cannot be read: {error}")),
    };
    let size = look.facts.st_size as u64;
    let runs = runs(&file, size).map_err(|e| look.failed(e))?;
    let total: u64 = runs.iter().map(|run| run.end - run.start).sum();
    if total > MOST {
        return refuse(format!("with {} MiB of content", total >> 20));
    }
    let read = |run: std::ops::Range<u64>| {
        let mut bytes = vec![0; (run.end - run.start) as usize];
        file.read_exact_at(&mut bytes, run.start)?;
        Ok((run.start, Bytes(bytes)))
    };
    let content = runs.into_iter().map(read).collect::<io::Result<Vec<_>>>();
    Ok(DeletedFile {
        name: PathBuf::from(std::ffi::OsStr::from_bytes(without_deleted(
            look.link.as_os_str().as_bytes(),
        ))),
        seals,
        mode: look.facts.st_mode & 0o7777,
        size,
        content: content.map_err(|e| look.failed(e))?,
    })
}

/// Ranges of a file that are not holes.
fn runs(file: &File, size: u64) -> io::Result<Vec<std::ops::Range<u64>>> {
    let next = |from: u64, whence| lseek(file, from as i64, whence).map(|at| (at as u64).min(size));
    let mut runs = Vec::new();
    let mut at = 0;
    while at < size {
        let start = match next(at, Whence::SeekData) {
            // The rest of the file is a hole.
            Err(Errno::ENXIO) => break,
            result => result?,
        };
        let end = next(start, Whence::SeekHole)?;
        runs.push(start..end);
        at = end;
    }
    Ok(runs)
}

impl DeletedFile {
    /// Length in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Creates the file again, open for reading and writing.
    pub fn make(&self) -> Result<OwnedFd, RestoreError> {
        let what = format!("creating {}", self.name.display());
        self.try_make().map_err(RestoreError::system(&what))
    }

    fn try_make(&self) -> io::Result<OwnedFd> {
        let file = File::from(match self.seals {
            Some(_) => memory(&self.name)?,
            None => nameless(self.name.parent().unwrap_or(Path::new("/")))
                .or_else(|_| nameless(&std::env::temp_dir()))?,
        });
        for (start, Bytes(bytes)) in &self.content {
            file.write_all_at(bytes, *start)?;
        }
        file.set_len(self.size)?;
        file.set_permissions(Permissions::from_mode(self.mode))?;
        if let Some(seals) = self.seals {
            let missing = seals & !fcntl(file.as_raw_fd(), libc::F_GET_SEALS, 0)?;
            if missing != 0 {
                fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, missing)?;
            }
        }
        Ok(file.into())
    }
}

fn memory(name: &Path) -> io::Result<OwnedFd> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    Ok(memfd_create(memory_name(name).unwrap_or_default(), flags)?)
}

/// Opens an unnamed file on the file system of this directory.
fn nameless(directory: &Path) -> io::Result<OwnedFd> {
    open(directory, libc::O_TMPFILE | libc::O_RDWR).or_else(|_| {
        let name = directory.join(format!(".stasis-{}", crate::sys::syscall::getpid()));
        let file = open(&name, libc::O_RDWR | libc::O_CREAT | libc::O_EXCL)?;
        std::fs::remove_file(&name)?;
        Ok(file)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_hidden_files_are_those_of_nfs_and_libfuse() {
        for name in [
            ".nfs000000000100a3f100000002",
            ".fuse_hidden0000000400000001",
        ] {
            assert!(is_hidden_name(name.as_bytes()), "{name}");
        }
        for name in [
            ".nfs",
            ".nfs.lock",
            ".nfs00000000000000000000000g",
            "fuse_hidden0000000400000001",
        ] {
            assert!(!is_hidden_name(name.as_bytes()), "{name}");
        }
    }
}
