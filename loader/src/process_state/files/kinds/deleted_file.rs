//! Files without a name: deleted while open (CRIU: ghost files), or from memfd_create. The image holds their content.

use super::bytes::Bytes;
use crate::error::{CaptureError, RestoreError};
use crate::process_state::files::look::Look;
use crate::sys::descriptor::{fcntl, open};
use nix::errno::Errno;
use nix::sys::memfd::{memfd_create, MFdFlags};
use nix::unistd::{lseek, Whence};
use serde::{Deserialize, Serialize};
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt};
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

fn without_deleted(link: &[u8]) -> &[u8] {
    link.strip_suffix(b" (deleted)").unwrap_or(link)
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
