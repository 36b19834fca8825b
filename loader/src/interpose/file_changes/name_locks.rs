//! Locks on file names between ranks. A rank holds the lock of a name from the journal record of its target until the
//! call that changes it has returned. Without the lock another rank could give the name to another file in between,
//! which no journal would record.
//!
//! The locks are F_SETLK locks on bytes of a file beside the journals, so the kernel releases those of a killed rank. A
//! name is a byte, by its hash. The first byte stands for all names: a call that changes one name takes it shared. The
//! rename of a directory takes it exclusively, because it changes the meaning of all names below. Each rank takes bytes
//! in ascending order, and never waits for a lock while it waits for a message of another rank: so there is no
//! deadlock.
//!
//! On a file system without such locks there are none. Then a record is wrong only if two ranks change one name at the
//! same moment.

use crate::sys::descriptor::lock_region;
use std::fs::{DirBuilder, File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Lock file, created at the first use.
pub enum NameLocks {
    Closed(PathBuf),
    Open(File),
    /// The file cannot be created or locked.
    None,
}

/// Held locks, released by drop.
pub struct HeldNames<'a>(&'a File);

/// Lock mode of a byte.
#[derive(Clone, Copy)]
enum Access {
    Shared = libc::F_RDLCK as isize,
    Alone = libc::F_WRLCK as isize,
}

impl NameLocks {
    /// Locks names by this file.
    pub fn new(path: PathBuf) -> NameLocks {
        NameLocks::Closed(path)
    }

    /// Waits for the locks of these names; of all names if a directory `moves`.
    pub fn hold(&mut self, names: &[&Path], moves: bool) -> Option<HeldNames<'_>> {
        if let NameLocks::Closed(path) = self {
            *self = open(path).map_or(NameLocks::None, NameLocks::Open);
        }
        let taken = match self {
            NameLocks::Open(file) => take(file, names, moves),
            _ => return None,
        };
        if taken.is_err() {
            *self = NameLocks::None;
        }
        match self {
            NameLocks::Open(file) => Some(HeldNames(file)),
            _ => None,
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    let directory = path.parent().unwrap_or(path);
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)?;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).mode(0o600);
    options.open(path)
}

fn take(file: &File, names: &[&Path], moves: bool) -> io::Result<()> {
    const ALL: i64 = 0;
    if moves {
        return lock(file, ALL, Access::Alone);
    }
    let mut bytes: Vec<i64> = names.iter().map(|name| byte_of(name)).collect();
    bytes.sort_unstable();
    bytes.dedup();
    let taken = lock(file, ALL, Access::Shared);
    let taken = bytes.into_iter().fold(taken, |so_far, byte| {
        so_far.and_then(|()| lock(file, byte, Access::Alone))
    });
    if taken.is_err() {
        drop(HeldNames(file));
    }
    taken
}

/// Byte of a name, equal in all ranks; never the first byte.
fn byte_of(name: &Path) -> i64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    1 + (hasher.finish() >> 2) as i64
}

fn lock(file: &File, byte: i64, access: Access) -> io::Result<()> {
    loop {
        match set(file, libc::F_SETLKW, access as i16, byte, 1) {
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

fn set(file: &File, command: i32, kind: i16, start: i64, len: i64) -> io::Result<()> {
    let mut region = libc::flock {
        l_type: kind,
        l_whence: libc::SEEK_SET as i16,
        l_start: start,
        l_len: len,
        l_pid: 0,
    };
    lock_region(file.as_raw_fd(), command, &mut region)
}

impl Drop for HeldNames<'_> {
    fn drop(&mut self) {
        const TO_THE_END: i64 = 0;
        // If this fails, the end of the process releases the locks.
        let _ = set(self.0, libc::F_SETLK, libc::F_UNLCK as i16, 0, TO_THE_END);
    }
}
