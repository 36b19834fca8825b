//! A descriptor of the application as found at a checkpoint.

use crate::error::CaptureError;
use crate::sys::descriptor::{fcntl, position, stat, writable};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The kernel's mark behind the name of a removed file in `/proc/PID/fd`.
pub const DELETED: &[u8] = b" (deleted)";

/// A name of a file in `/proc/PID/fd` without that mark.
pub fn without_deleted(link: &[u8]) -> &[u8] {
    link.strip_suffix(DELETED).unwrap_or(link)
}

/// A descriptor with what the kernel reports of it.
pub struct Look {
    pub fd: i32,
    pub facts: libc::stat,
    /// Target of its link in /proc/self/fd.
    pub link: PathBuf,
    /// Status flags (F_GETFL).
    pub flags: i32,
    /// Content of its /proc/self/fdinfo file.
    pub info: String,
}

impl Look {
    /// Examines a descriptor.
    pub fn at(fd: i32) -> Result<Look, CaptureError> {
        let look = || {
            Ok(Look {
                fd,
                facts: stat(fd)?,
                link: std::fs::read_link(format!("/proc/self/fd/{fd}"))?,
                flags: fcntl(fd, libc::F_GETFL, 0)?,
                info: std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}"))?,
            })
        };
        look().map_err(|source| unreadable(fd, source))
    }

    /// File type, such as S_IFREG.
    pub fn mode(&self) -> u32 {
        self.facts.st_mode & libc::S_IFMT
    }

    /// Device and inode.
    pub fn identity(&self) -> (u64, u64) {
        (self.facts.st_dev, self.facts.st_ino)
    }

    pub fn readable(&self) -> bool {
        self.flags & (libc::O_ACCMODE | libc::O_PATH) != libc::O_WRONLY
    }

    pub fn writable(&self) -> bool {
        writable(self.flags)
    }

    /// Field of fdinfo, if present.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.info.lines();
        lines.find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
    }

    /// Field of fdinfo; its absence is an error.
    pub fn need<T>(
        &self,
        name: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<T, CaptureError> {
        let missing = || {
            let text = format!("/proc/self/fdinfo has no field {name}");
            self.failed(io::Error::other(text))
        };
        self.field(name).and_then(parse).ok_or_else(missing)
    }

    /// Position of the open file; 0 if it has none.
    pub fn offset(&self) -> u64 {
        position(self.fd).unwrap_or(0)
    }

    /// Opens the same file again, for reading. Call it in `own_fd_table::on_copied_fd_table`.
    pub fn reader(&self) -> Result<File, CaptureError> {
        File::open(format!("/proc/thread-self/fd/{}", self.fd))
            .map_err(|source| self.failed(source))
    }

    /// Error for a failed query of this descriptor.
    pub fn failed(&self, source: io::Error) -> CaptureError {
        unreadable(self.fd, source)
    }

    /// Error for content of this file that cannot be read.
    pub fn failed_content(&self, source: io::Error) -> CaptureError {
        unread(self.fd, self.link.display().to_string(), source)
    }

    /// Refuses the checkpoint because of this descriptor.
    pub fn refuse<T>(&self, what: impl Into<String>) -> Result<T, CaptureError> {
        Err(CaptureError::Descriptor {
            fd: self.fd,
            what: what.into(),
        })
    }
}

/// Error for a descriptor that cannot be examined.
pub fn unreadable(fd: i32, source: io::Error) -> CaptureError {
    unread(fd, format!("file descriptor {fd}"), source)
}

/// Error for a failed read of a descriptor's state or content. `what` names the source of the read.
fn unread(fd: i32, what: String, source: io::Error) -> CaptureError {
    if source.raw_os_error() == Some(libc::ESTALE) {
        let link = std::fs::read_link(format!("/proc/thread-self/fd/{fd}"));
        let link = link.unwrap_or(PathBuf::from(what)).into_os_string();
        let path = PathBuf::from(OsStr::from_bytes(without_deleted(link.as_bytes())));
        return CaptureError::Stale { fd, path };
    }
    CaptureError::System { what, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interpose::descriptors::own_fd_table::on_copied_fd_table;
    use crate::sys::descriptor::lock_region;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_stale_file_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let stale = io::Error::from_raw_os_error(libc::ESTALE);
        let said = unreadable(file.as_raw_fd(), stale).to_string();
        assert!(said.contains(&file.path().display().to_string()), "{said}");
        let other = io::Error::from_raw_os_error(libc::EIO);
        let said = unreadable(file.as_raw_fd(), other).to_string();
        assert!(said.contains("cannot read file descriptor"), "{said}");
    }

    #[test]
    fn a_lock_survives_a_look_apart() {
        let file = tempfile::tempfile().unwrap();
        let mut region = libc::flock {
            l_type: libc::F_WRLCK as i16,
            l_whence: 0,
            l_start: 0,
            l_len: 1,
            l_pid: 0,
        };
        lock_region(file.as_raw_fd(), libc::F_SETLK, &mut region).unwrap();
        let locked = || Look::at(file.as_raw_fd()).unwrap().info.contains("POSIX");
        let again = || Look::at(file.as_raw_fd())?.reader().map(drop);
        on_copied_fd_table(again).unwrap().unwrap();
        assert!(locked());
        again().unwrap();
        assert!(!locked(), "this is why");
    }
}
