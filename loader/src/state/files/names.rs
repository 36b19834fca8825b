//! Locks on names, from the note of what a name leads to until a call has changed that: between the two no other rank
//! gives the name to another file, which nobody would have noted.
//!
//! They are locks of a process (F_SETLK) on bytes of a file beside the journals, so they go with a rank that is killed.
//! A name is a byte. The first byte stands for all names: who changes one shares it, and a directory that is renamed
//! takes it, because names below it mean something else from then on. Each rank takes bytes in ascending order and
//! waits for none while it waits for another rank's message, so none waits for ever.
//!
//! Where the file system has no such locks there is none, and what is changed is what was noted unless two ranks
//! change one name at the same moment.
//!
//! # Safety
//! `fcntl` on a file of our own, with a local for memory.
#![allow(unsafe_code)]

use super::descriptor::checked;
use std::fs::{DirBuilder, File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The file, as soon as it is needed.
pub enum Names {
    Closed(PathBuf),
    Open(File),
    /// It cannot be made, or locked.
    None,
}

/// What is locked; free again when this is dropped.
pub struct Held<'a>(&'a File);

/// How others may have a byte.
#[derive(Clone, Copy)]
enum Access {
    Shared = libc::F_RDLCK as isize,
    Alone = libc::F_WRLCK as isize,
}

impl Names {
    /// Locks by means of this file.
    pub fn new(path: PathBuf) -> Names {
        Names::Closed(path)
    }

    /// Waits until no other rank changes these names, and keeps them off; of all names where a directory moves.
    pub fn hold(&mut self, names: &[&Path], moves: bool) -> Option<Held<'_>> {
        if let Names::Closed(path) = self {
            *self = open(path).map_or(Names::None, Names::Open);
        }
        let taken = match self {
            Names::Open(file) => take(file, names, moves),
            _ => return None,
        };
        if taken.is_err() {
            *self = Names::None;
        }
        match self {
            Names::Open(file) => Some(Held(file)),
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
        drop(Held(file));
    }
    taken
}

/// The same in all ranks; not the first.
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
    let region = libc::flock {
        l_type: kind,
        l_whence: libc::SEEK_SET as i16,
        l_start: start,
        l_len: len,
        l_pid: 0,
    };
    // SAFETY: our own descriptor, and a local.
    checked(unsafe { libc::fcntl(file.as_raw_fd(), command, &raw const region) }).map(drop)
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        const TO_THE_END: i64 = 0;
        // Should that fail, the process's end frees them.
        let _ = set(self.0, libc::F_SETLK, libc::F_UNLCK as i16, 0, TO_THE_END);
    }
}
