//! File locks: `flock`, and the fcntl locks of a process or of an open file.

use crate::error::{CaptureError, RestoreError};
use crate::process_state::files::look::Look;
use crate::sys::c_library;
use crate::sys::descriptor::{checked, lock_region, stat};
use serde::{Deserialize, Serialize};
use std::io;

/// Owner of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Owner {
    /// Open file; the lock covers the whole file (flock).
    Flock,
    /// Open file (F_OFD_SETLK).
    OpenFile,
    /// Process (F_SETLK); released when the process closes any descriptor of the file.
    Process,
}

/// A lock that is held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileLock {
    owner: Owner,
    exclusive: bool,
    start: i64,
    /// Length in bytes; 0: to the end of the file, however far it grows.
    len: i64,
}

/// Captures the locks on a file.
pub fn capture(look: &Look) -> Result<Vec<FileLock>, CaptureError> {
    let lines = look.info.lines().filter_map(|l| l.strip_prefix("lock:"));
    let mut locks = Vec::new();
    for line in lines {
        match parse(line) {
            Some(lock) => locks.push(lock),
            None => {
                let what = format!("{} with a lease ({})", look.link.display(), line.trim());
                return look.refuse(what);
            }
        }
    }
    Ok(locks)
}

/// Parses `1: POSIX  ADVISORY  WRITE 4711 fe:00:1234 7 11`; the last two are the first and the last byte.
fn parse(line: &str) -> Option<FileLock> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, owner, _, access, _, _, start, end] = words[..] else {
        return None;
    };
    let start: i64 = start.parse().ok()?;
    let len = match end {
        "EOF" => 0,
        last => last.parse::<i64>().ok()? - start + 1,
    };
    let owner = match owner {
        "FLOCK" => Owner::Flock,
        "OFDLCK" => Owner::OpenFile,
        "POSIX" => Owner::Process,
        _ => return None,
    };
    Some(FileLock {
        owner,
        exclusive: access == "WRITE",
        start,
        len,
    })
}

impl FileLock {
    fn region(&self) -> libc::flock {
        libc::flock {
            l_type: if self.exclusive {
                libc::F_WRLCK
            } else {
                libc::F_RDLCK
            } as i16,
            l_whence: libc::SEEK_SET as i16,
            l_start: self.start,
            l_len: self.len,
            l_pid: 0,
        }
    }

    fn set(&self, fd: i32, command: i32) -> io::Result<libc::flock> {
        let mut region = self.region();
        lock_region(fd, command, &mut region)?;
        Ok(region)
    }

    /// Takes the lock of an open file; for a lock of the process, only tests that it is free.
    pub fn take(&self, fd: i32) -> io::Result<()> {
        match self.owner {
            Owner::Flock => {
                let wanted = if self.exclusive {
                    libc::LOCK_EX
                } else {
                    libc::LOCK_SH
                };
                checked(c_library::flock(fd, wanted | libc::LOCK_NB)).map(drop)
            }
            Owner::OpenFile => self.set(fd, libc::F_OFD_SETLK).map(drop),
            Owner::Process => self.is_free(fd),
        }
    }

    /// Tests that no conflicting lock exists, without taking the lock.
    pub fn is_free(&self, fd: i32) -> io::Result<()> {
        let free = |command| match self.set(fd, command)? {
            free if i32::from(free.l_type) == libc::F_UNLCK => Ok(()),
            held => Err(io::Error::other(format!("process {} holds it", held.l_pid))),
        };
        match self.owner {
            Owner::Process => free(libc::F_GETLK),
            Owner::OpenFile => free(libc::F_OFD_GETLK),
            Owner::Flock => self.is_free_flock(fd),
        }
    }

    /// Tests a `flock` lock, which the kernel shows only in /proc/locks.
    fn is_free_flock(&self, fd: i32) -> io::Result<()> {
        let facts = stat(fd)?;
        let (major, minor) = (libc::major(facts.st_dev), libc::minor(facts.st_dev));
        let file = format!("{major:02x}:{minor:02x}:{}", facts.st_ino);
        let all = std::fs::read_to_string("/proc/locks")?;
        for line in all.lines().filter(|line| line.contains(&file)) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [_, "FLOCK", _, access, process, place, ..] = words[..] else {
                continue;
            };
            if place == file && (self.exclusive || access == "WRITE") {
                return Err(io::Error::other(format!("process {process} holds it")));
            }
        }
        Ok(())
    }

    /// Takes a lock of the process. This is the last step of a restore, because closing any descriptor of the file
    /// would release it.
    pub fn take_for_process(&self, fd: i32, writable: bool) -> io::Result<()> {
        // fdinfo shows the lock for each descriptor of the file; setting it through one is enough.
        if self.owner != Owner::Process || self.exclusive && !writable {
            return Ok(());
        }
        self.set(fd, libc::F_SETLK).map(drop)
    }
}

/// Error for a lock of the application's descriptor `fd`, open here as `opened`, that is held elsewhere.
pub fn not_taken(fd: i32, opened: i32) -> impl Fn(io::Error) -> RestoreError {
    move |source| RestoreError::Locked {
        fd,
        path: std::fs::read_link(format!("/proc/self/fd/{opened}")).unwrap_or_default(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn locks_are_found_and_taken_again() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let lock = |owner, exclusive, start, len| FileLock {
            owner,
            exclusive,
            start,
            len,
        };
        let wanted = [
            lock(Owner::Flock, true, 0, 0),
            lock(Owner::OpenFile, false, 100, 0),
            lock(Owner::Process, true, 7, 5),
        ];
        let fd = file.as_file().as_raw_fd();
        for lock in &wanted {
            lock.take(fd).unwrap();
            lock.take_for_process(fd, true).unwrap();
        }
        let found = capture(&Look::at(fd).unwrap()).unwrap();
        assert_eq!(found.len(), wanted.len());
        assert!(wanted.iter().all(|lock| found.contains(lock)), "{found:?}");
        let other = file.reopen().unwrap();
        for lock in &found[..] {
            let free = lock.is_free(other.as_raw_fd());
            let taken = lock.take(other.as_raw_fd());
            assert_eq!(free.is_ok(), taken.is_ok(), "{lock:?}");
            // The last lock belongs to this process.
            assert_eq!(
                taken.is_ok(),
                lock.owner == Owner::Process || !lock.exclusive
            );
        }
    }
}
