//! Which files the program has opened for writing. Many a program closes its output between two steps and
//! opens it again to append; at a cut such a file is among no descriptors, so it is remembered here.
//!
//! Nothing is done where a file is opened to be read, or closed. A name that is opened again takes its own
//! place, so the list has one entry for each name; of more than [`KEPT`] those stay that were opened last.

use super::descriptor::stat;
use super::place;
use crate::state::lock_of;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Names that are remembered at least; twice as many are never.
pub const KEPT: usize = 1000;

/// A file that was opened for writing.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    /// Device and inode.
    pub identity: (u64, u64),
    /// Grows with every opening of any file.
    turn: u64,
    /// What was in it when it was looked at last.
    pub content: Option<Content>,
}

/// A file's content at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    /// By which the kernel tells whether it is still the same.
    pub stamp: Stamp,
    /// As of files that are open; none where it may not be read.
    pub checksum: Option<u32>,
}

/// Length and times of the last changes of content and of inode, in seconds and nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    pub size: u64,
    pub changed: [i64; 4],
}

impl Written {
    pub(super) fn new(identity: (u64, u64), turn: u64) -> Written {
        Written {
            identity,
            turn,
            content: None,
        }
    }
}

struct List {
    files: BTreeMap<PathBuf, Written>,
    turns: u64,
}

static LIST: Mutex<List> = Mutex::new(List {
    files: BTreeMap::new(),
    turns: 0,
});

/// The program has opened this for writing. With the lower half's FS. Gives what it is and its name, if it is a regular
/// file that may be the job's.
pub fn note_opened(fd: i32) -> Option<(libc::stat, PathBuf)> {
    let facts = stat(fd).ok()?;
    if facts.st_mode & libc::S_IFMT != libc::S_IFREG {
        return None;
    }
    let path = std::fs::read_link(format!("/proc/self/fd/{fd}")).ok()?;
    // Nothing in /dev, memory that has a name above all, is output.
    if !path.is_absolute() || path.starts_with("/dev") || place::is_made_up(fd) {
        return None;
    }
    // What has no name is found by nobody later.
    if facts.st_nlink > 0 {
        remember(path.clone(), (facts.st_dev, facts.st_ino));
    }
    Some((facts, path))
}

/// From now on this is a file that was opened for writing.
pub fn remember(path: PathBuf, identity: (u64, u64)) {
    lock_of(&LIST).note(path, identity);
}

impl List {
    fn note(&mut self, path: PathBuf, identity: (u64, u64)) {
        self.turns += 1;
        let turn = self.turns;
        let entry = self
            .files
            .entry(path)
            .or_insert(Written::new(identity, turn));
        if entry.identity != identity {
            (entry.identity, entry.content) = (identity, None);
        }
        entry.turn = turn;
        if self.files.len() == 2 * KEPT {
            let mut turns: Vec<u64> = self.files.values().map(|file| file.turn).collect();
            turns.sort_unstable();
            let oldest = turns[KEPT];
            self.files.retain(|_, file| file.turn >= oldest);
        }
    }
}

/// All that are remembered, in the order in which they were opened last.
pub fn all() -> Vec<(PathBuf, Written)> {
    let list = lock_of(&LIST);
    let files = list.files.iter();
    let mut all: Vec<_> = files.map(|(path, file)| (path.clone(), *file)).collect();
    all.sort_unstable_by_key(|(_, file)| file.turn);
    all
}

/// Remembers what is in a file, if it is still the same.
pub fn looked(path: &Path, identity: (u64, u64), content: Content) {
    let mut list = lock_of(&LIST);
    let known = list.files.get_mut(path);
    if let Some(file) = known.filter(|file| file.identity == identity) {
        file.content = Some(content);
    }
}

/// Does not remember a file any longer: another has its name, or none.
pub fn forget(path: &Path, identity: (u64, u64)) {
    let mut list = lock_of(&LIST);
    if list.files.get(path).map(|file| file.identity) == Some(identity) {
        list.files.remove(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_were_opened_last_stay() {
        let mut list = List {
            files: BTreeMap::new(),
            turns: 0,
        };
        for n in 0..9 * KEPT as u64 {
            list.note(PathBuf::from(format!("step-{n}")), (1, n));
            list.note(PathBuf::from("log"), (1, u64::MAX));
            assert!(list.files.len() < 2 * KEPT);
            let newest = n.saturating_sub(KEPT as u64 - 2)..=n;
            let there = |n: u64| list.files.contains_key(Path::new(&format!("step-{n}")));
            assert!(n % 97 != 0 || newest.into_iter().all(there));
        }
        assert!(list.files.contains_key(Path::new("log")));
    }

    #[test]
    fn a_name_stands_for_the_file_that_was_opened_by_it_last() {
        let mut list = List {
            files: BTreeMap::new(),
            turns: 0,
        };
        let content = Content {
            stamp: Stamp {
                size: 1,
                changed: [0; 4],
            },
            checksum: None,
        };
        list.note(PathBuf::from("log"), (1, 1));
        if let Some(file) = list.files.get_mut(Path::new("log")) {
            file.content = Some(content);
        }
        list.note(PathBuf::from("log"), (1, 1));
        assert_eq!(list.files[Path::new("log")].content, Some(content));
        list.note(PathBuf::from("log"), (1, 2));
        assert_eq!(list.files.len(), 1);
        assert_eq!(list.files[Path::new("log")].content, None);
    }
}
