//! Files without a name: deleted while open, or from memfd_create. Nothing else has their content,
//! so the image does.
//!
//! # Safety
//! System calls on descriptors made here, and a C string.
#![allow(unsafe_code)]

use super::bytes::Bytes;
use super::descriptor::{fcntl, fresh, open, Look};
use crate::error::{CaptureError, RestoreError};
use serde::{Deserialize, Serialize};
use std::ffi::CString;
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// More content than this is refused: it would be held in memory while the image is written.
const MOST: u64 = 1 << 30;

/// Such a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unnamed {
    /// The name that it had.
    name: PathBuf,
    /// Seals, where it is memory.
    seals: Option<i32>,
    /// Permissions.
    mode: u32,
    size: u64,
    /// Where it is not a hole.
    content: Vec<(u64, Bytes)>,
}

/// The name of memory from memfd_create.
pub fn memory_name(link: &Path) -> Option<&[u8]> {
    without_deleted(link.as_os_str().as_bytes()).strip_prefix(b"/memfd:")
}

fn without_deleted(link: &[u8]) -> &[u8] {
    link.strip_suffix(b" (deleted)").unwrap_or(link)
}

/// Takes its content. To be called apart.
pub fn capture(look: &Look) -> Result<Unnamed, CaptureError> {
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
    Ok(Unnamed {
        name: PathBuf::from(std::ffi::OsStr::from_bytes(without_deleted(
            look.link.as_os_str().as_bytes(),
        ))),
        seals,
        mode: look.facts.st_mode & 0o7777,
        size,
        content: content.map_err(|e| look.failed(e))?,
    })
}

/// Those parts of a file that are not holes.
fn runs(file: &File, size: u64) -> io::Result<Vec<std::ops::Range<u64>>> {
    let next = |from: u64, whence: i32| {
        // SAFETY: our own descriptor.
        let at = unsafe { libc::lseek(file.as_raw_fd(), from as i64, whence) };
        match at {
            -1 => Err(io::Error::last_os_error()),
            at => Ok((at as u64).min(size)),
        }
    };
    let mut runs = Vec::new();
    let mut at = 0;
    while at < size {
        let start = match next(at, libc::SEEK_DATA) {
            // Nothing but a hole to the end.
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) => break,
            result => result?,
        };
        let end = next(start, libc::SEEK_HOLE)?;
        runs.push(start..end);
        at = end;
    }
    Ok(runs)
}

impl Unnamed {
    /// Its length.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Makes it anew; open for reading and writing.
    pub fn make(&self) -> Result<OwnedFd, RestoreError> {
        let what = format!("making {} anew", self.name.display());
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
    let name = CString::new(memory_name(name).unwrap_or_default())?;
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: a C string; the descriptor is fresh.
    unsafe { fresh(libc::memfd_create(name.as_ptr(), flags)) }
}

/// A file that is in no directory, on the file system of this one.
fn nameless(directory: &Path) -> io::Result<OwnedFd> {
    open(directory, libc::O_TMPFILE | libc::O_RDWR).or_else(|_| {
        let name = directory.join(format!(".stasis-{}", crate::raw::getpid()));
        let file = open(&name, libc::O_RDWR | libc::O_CREAT | libc::O_EXCL)?;
        std::fs::remove_file(&name)?;
        Ok(file)
    })
}
