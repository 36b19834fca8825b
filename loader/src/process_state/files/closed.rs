//! Files that the program had opened for writing and had closed at the checkpoint. As for open files, an image holds
//! their length and a checksum, and a restart truncates what was written later.
//!
//! None of them ever refuses a checkpoint or a restart, because the program does not hold it. A file that cannot be
//! examined is not saved, and a file that is no longer the same stays as it is.

use super::capture::numbers;
use super::kinds::regular::checksum;
use super::truncate::Truncator;
use super::MappedFile;
use crate::interpose::descriptors::own_fd_table::on_own_fd_table;
use crate::interpose::file_changes::opened_for_write::{self, Content, OpenedForWrite, Stamp};
use crate::sys::descriptor::{open, stat};
use crate::sys::file_system::file_system;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// All closed files of a process: the section *closed files*, whose version is in `ckpt-image/src/format/section.rs`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClosedFileList {
    files: Vec<Closed>,
}

impl ClosedFileList {
    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Closed> {
        self.files.iter()
    }
}

/// A closed file with a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {
    /// Path in bytes: a name need not be valid UTF-8.
    path: Vec<u8>,
    device: u64,
    inode: u64,
    size: u64,
    /// Checksum of the content, as for an open file; none if the content cannot be read.
    checksum: Option<u32>,
}

impl Stamp {
    fn of(facts: &Metadata) -> Stamp {
        Stamp {
            size: facts.len(),
            changed: [
                facts.mtime(),
                facts.mtime_nsec(),
                facts.ctime(),
                facts.ctime_nsec(),
            ],
        }
    }
}

/// Flags to open a file only for examination: if another file has the name, the open neither blocks nor follows a link.
const LOOKING: i32 = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;

/// Whether a file that has another number now may be the same one: its file system may have given it that number.
fn may_be_renumbered(opened: &File) -> bool {
    !undo::keeps_numbers(file_system(opened.as_raw_fd()) as u64)
}

/// Identity and content of a file, if it is still the file that was opened by this name; otherwise the record of the
/// file is dropped. Reads only what has changed since the last look.
fn look(path: &Path, file: &OpenedForWrite) -> Option<((u64, u64), Content)> {
    // The file is opened because a network file system may return stale attributes of a file that is not open.
    let opened = open(path, libc::O_RDONLY | LOOKING).map(File::from);
    let facts = match &opened {
        Ok(opened) => opened.metadata(),
        Err(_) => std::fs::symlink_metadata(path),
    };
    let is_same = |facts: &Metadata| {
        (facts.dev(), facts.ino()) == file.identity || opened.as_ref().is_ok_and(may_be_renumbered)
    };
    let facts = match facts {
        Ok(facts) if facts.is_file() && is_same(&facts) => facts,
        Err(why) if !is_gone(&why) => return None,
        _ => {
            opened_for_write::forget(path, file.identity);
            return None;
        }
    };
    let identity = (facts.dev(), facts.ino());
    if identity != file.identity {
        opened_for_write::renumber(path, file.identity, identity);
    }
    let stamp = Stamp::of(&facts);
    if let Some(known) = file.content.filter(|content| content.stamp == stamp) {
        return Some((identity, known));
    }
    let opened = opened.ok();
    let content = Content {
        stamp,
        checksum: opened
            .as_ref()
            .and_then(|file| checksum(file, stamp.size).ok()),
    };
    // A file that changes during the read is examined again later.
    let after = opened.map_or_else(|| std::fs::symlink_metadata(path), |file| file.metadata());
    if after.is_ok_and(|facts| Stamp::of(&facts) == stamp) {
        opened_for_write::looked(path, identity, content);
    }
    Some((identity, content))
}

fn is_gone(why: &io::Error) -> bool {
    matches!(
        why.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// Examines the files while the program still runs, so that less is left to read at the cut. Call it in
/// `on_own_fd_table` (`interpose/descriptors/own_fd_table.rs`).
pub fn look_ahead() {
    for (path, file) in opened_for_write::all() {
        look(&path, &file);
    }
}

/// Captures the closed files while all application threads are stopped. `mapped` gives the files, by device and inode,
/// that are mapped shared: their content is memory.
pub fn capture(mapped: &(dyn Fn(u64, u64) -> Option<MappedFile> + Sync)) -> ClosedFileList {
    let numbers = numbers().unwrap_or_default().into_iter();
    let open: Vec<(u64, u64)> = numbers
        .filter_map(|fd| stat(fd).ok())
        .map(|facts| (facts.st_dev, facts.st_ino))
        .collect();
    let looked = on_own_fd_table(|| {
        let mut found: Vec<Closed> = Vec::new();
        for (path, file) in opened_for_write::all() {
            let (device, inode) = file.identity;
            let elsewhere = open.contains(&file.identity) || mapped(device, inode).is_some();
            let twice = |known: &Closed| (known.device, known.inode) == file.identity;
            if elsewhere || found.iter().any(twice) {
                continue;
            }
            let content = look(&path, &file);
            found.extend(content.map(|((device, inode), content)| Closed {
                path: path.into_os_string().into_vec(),
                device,
                inode,
                size: content.stamp.size,
                checksum: content.checksum,
            }));
        }
        ClosedFileList { files: found }
    });
    looked.unwrap_or_default()
}

/// Reasons, for the user, why a file stays as it is.
pub const SHORTER: &str = "is shorter than it was";
pub const ANOTHER: &str = "was replaced or rewritten";

/// State of a file at a restart.
pub enum Now {
    /// As long as at the checkpoint, or removed: there is nothing to truncate.
    AsItWas,
    /// Shorter than at the checkpoint.
    Shorter,
    /// Longer, and it begins with the content of the checkpoint.
    Longer(File),
    /// Another content, or not writable.
    Another,
}

impl ClosedFileList {
    /// Paths and lengths at the checkpoint.
    pub(super) fn lengths(&self) -> impl Iterator<Item = (&Path, u64)> {
        self.files.iter().map(|file| (file.path(), file.size))
    }

    /// Truncates what was written after the checkpoint.
    pub(super) fn truncate(&self, truncator: &mut Truncator<'_>) {
        for file in &self.files {
            match file.now() {
                Now::AsItWas => {}
                Now::Shorter => truncator.leave(file.path(), SHORTER),
                Now::Longer(opened) => truncator.truncate_closed(file.path(), &opened, file.size),
                Now::Another => truncator.leave(file.path(), ANOTHER),
            }
        }
    }

    /// Gives the files the paths that `place` returns for them by path, length and checksum, and removes those for
    /// which it returns none.
    pub(super) fn retain_moved(
        &mut self,
        mut place: impl FnMut(&Path, u64, Option<u32>) -> Option<PathBuf>,
    ) {
        self.files.retain_mut(|file| {
            let to = place(file.path(), file.size, file.checksum);
            let facts = to
                .as_ref()
                .and_then(|to| std::fs::symlink_metadata(to).ok());
            let (Some(to), Some(facts)) = (to, facts) else {
                return false;
            };
            *file = Closed {
                device: facts.dev(),
                inode: facts.ino(),
                ..file.moved(&to)
            };
            true
        });
    }

    /// Records the files as opened for writing in the new process.
    pub(super) fn remember(&self) {
        for path in self.files.iter().map(Closed::path) {
            let facts = std::fs::symlink_metadata(path).ok();
            if let Some(facts) = facts.filter(Metadata::is_file) {
                opened_for_write::remember(path.to_owned(), (facts.dev(), facts.ino()));
            }
        }
    }
}

impl Closed {
    pub fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.path))
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    /// The same file by another name.
    pub fn moved(&self, to: &Path) -> Closed {
        Closed {
            path: to.as_os_str().as_bytes().to_vec(),
            ..self.clone()
        }
    }

    pub fn now(&self) -> Now {
        let writing = |access| open(self.path(), access | LOOKING);
        let opened = match writing(libc::O_RDWR).or_else(|_| writing(libc::O_WRONLY)) {
            Ok(opened) => File::from(opened),
            Err(_) => {
                let facts = std::fs::symlink_metadata(self.path());
                let differs = |facts: Metadata| facts.is_file() && facts.len() != self.size;
                return match facts.is_ok_and(differs) {
                    true => Now::Another,
                    false => Now::AsItWas,
                };
            }
        };
        match opened.metadata() {
            Ok(facts) if !facts.is_file() || facts.len() == self.size => Now::AsItWas,
            Ok(facts) if facts.len() < self.size => Now::Shorter,
            Ok(facts) if self.is(&opened, &facts) => Now::Longer(opened),
            _ => Now::Another,
        }
    }

    /// Whether `opened` is this file with its old content. On the same device the inode must be equal, if files keep
    /// their numbers there; on another one, as after a migration, the content.
    fn is(&self, opened: &File, facts: &Metadata) -> bool {
        let same_device = facts.dev() == self.device && !may_be_renumbered(opened);
        if same_device && facts.ino() != self.inode {
            return false;
        }
        match self.checksum {
            Some(then) => File::open(format!("/proc/self/fd/{}", opened.as_raw_fd()))
                .and_then(|file| checksum(&file, self.size))
                .is_ok_and(|now| now == then),
            None => same_device,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;

    /// A file as it was at its close.
    fn closed(path: &Path) -> Closed {
        let facts = fs::metadata(path).unwrap();
        let file = OpenedForWrite::new((facts.dev(), facts.ino()), 0);
        let (_, content) = look(path, &file).unwrap();
        Closed {
            path: path.as_os_str().as_bytes().to_vec(),
            device: facts.dev(),
            inode: facts.ino(),
            size: content.stamp.size,
            checksum: content.checksum,
        }
    }

    fn append(path: &Path, text: &str) {
        let file = fs::OpenOptions::new().append(true).open(path);
        file.unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn cut(file: &Closed, dir: &Path) -> (u64, usize) {
        let kept = dir.join("cut-off");
        let lengths = Default::default();
        let mut truncator = Truncator::new(&kept, "rank 0", &lengths);
        let files = vec![file.clone()];
        ClosedFileList { files }.truncate(&mut truncator);
        let done = truncator.done();
        (done.files, done.left.len())
    }

    #[test]
    fn only_grown_files_are_truncated() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        fs::write(&path, "one\n").unwrap();
        let then = closed(&path);
        assert_eq!(cut(&then, dir.path()), (0, 0));
        append(&path, "two\n");
        assert_eq!(cut(&then, dir.path()), (1, 0));
        assert_eq!(fs::read(&path).unwrap(), b"one\n");
        // The file was rewritten, shorter and then longer.
        fs::write(&path, "1\n").unwrap();
        assert_eq!(cut(&then, dir.path()), (0, 1));
        fs::write(&path, "1, 2, 3\n").unwrap();
        assert_eq!(cut(&then, dir.path()), (0, 1));
        assert_eq!(fs::read(&path).unwrap(), b"1, 2, 3\n");
        // Another file replaces it and happens to begin the same way.
        fs::write(dir.path().join("new"), "one\ntwo\n").unwrap();
        fs::rename(dir.path().join("new"), &path).unwrap();
        assert_eq!(cut(&then, dir.path()), (0, 1));
        let moved = Closed {
            device: then.device ^ 1,
            ..then.clone()
        };
        assert_eq!(cut(&moved, dir.path()), (1, 0), "it is on another device");
        fs::remove_file(&path).unwrap();
        assert_eq!(cut(&then, dir.path()), (0, 0));
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert_eq!(cut(&then, dir.path()), (0, 0));
    }
}
