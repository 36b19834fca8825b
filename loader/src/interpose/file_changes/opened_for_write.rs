//! Files that the program has opened for writing. Many programs close their output between two steps and open it again
//! to append: at a checkpoint such a file has no descriptor, so its name is remembered here.
//!
//! An open for reading, or a close, does no work. A name has one entry; of more than [`KEPT`] names the most recently
//! opened stay.

use super::absolute_names::is_device;
use crate::sys::descriptor::stat;
use crate::sys::file_system::is_made_up;
use crate::sys::mutex::lock_of;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Minimum number of names kept; the maximum is below twice this.
pub const KEPT: usize = 1000;

/// A file that was opened for writing.
#[derive(Clone, Copy, Debug)]
pub struct OpenedForWrite {
    /// Device and inode.
    pub identity: (u64, u64),
    /// Counter of all opens, at the last open of this file.
    turn: u64,
    /// Content at the last look.
    pub content: Option<Content>,
}

/// Content of a file at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    /// Attributes that change with the content.
    pub stamp: Stamp,
    /// Checksum as for open files; none if the file cannot be read.
    pub checksum: Option<u32>,
}

/// Length, and times of the last changes of content and of inode, in seconds and nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    pub size: u64,
    pub changed: [i64; 4],
}

impl OpenedForWrite {
    pub fn new(identity: (u64, u64), turn: u64) -> OpenedForWrite {
        OpenedForWrite {
            identity,
            turn,
            content: None,
        }
    }
}

struct List {
    files: BTreeMap<PathBuf, OpenedForWrite>,
    turns: u64,
}

static LIST: Mutex<List> = Mutex::new(List {
    files: BTreeMap::new(),
    turns: 0,
});

/// Records that the program has opened this descriptor for writing. Runs with the lower half's FS. Returns the file's
/// attributes and name if it is a regular file that may belong to the job.
pub fn note_opened(fd: i32) -> Option<(libc::stat, PathBuf)> {
    let facts = stat(fd).ok()?;
    if facts.st_mode & libc::S_IFMT != libc::S_IFREG {
        return None;
    }
    let path = std::fs::read_link(format!("/proc/self/fd/{fd}")).ok()?;
    if is_device(&path) || is_made_up(fd) {
        return None;
    }
    // An unnamed file cannot be found later, and shared memory is not output.
    if facts.st_nlink > 0 && !path.starts_with("/dev") {
        remember(path.clone(), (facts.st_dev, facts.st_ino));
    }
    Some((facts, path))
}

/// Records a file as opened for writing.
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
            .or_insert(OpenedForWrite::new(identity, turn));
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

/// All recorded files, the most recently opened last.
pub fn all() -> Vec<(PathBuf, OpenedForWrite)> {
    let list = lock_of(&LIST);
    let files = list.files.iter();
    let mut all: Vec<_> = files.map(|(path, file)| (path.clone(), *file)).collect();
    all.sort_unstable_by_key(|(_, file)| file.turn);
    all
}

/// Records the content of a file, if the name still has this identity.
pub fn looked(path: &Path, identity: (u64, u64), content: Content) {
    let mut list = lock_of(&LIST);
    let known = list.files.get_mut(path);
    if let Some(file) = known.filter(|file| file.identity == identity) {
        file.content = Some(content);
    }
}

/// Records that the file system has given a file another number.
pub fn renumber(path: &Path, was: (u64, u64), now: (u64, u64)) {
    let mut list = lock_of(&LIST);
    let known = list.files.get_mut(path);
    if let Some(file) = known.filter(|file| file.identity == was) {
        file.identity = now;
    }
}

/// Drops the record of a file whose name leads elsewhere or nowhere.
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
    fn most_recently_opened_files_stay() {
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
    fn name_refers_to_the_file_opened_last() {
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
