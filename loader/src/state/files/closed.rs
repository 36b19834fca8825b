//! Files that the program had opened for writing and closed again when it was cut. As of those that are open,
//! an image notes how long they were and what was in them, and a restart cuts off what was written later.
//!
//! Nothing is ever refused because of one: the program does not hold it. What cannot be looked at is not
//! noted, and what is not the same file any more stays as it is.

use super::capture::numbers;
use super::cut::Cutter;
use super::descriptor::{open, stat};
use super::regular::checksum;
use super::written::{self, Content, Stamp, Written};
use super::MappedFile;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// All such files of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClosedFiles {
    files: Vec<Closed>,
}

impl ClosedFiles {
    /// Version of the encoding.
    pub const VERSION: u32 = 1;

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Closed> {
        self.files.iter()
    }
}

/// A file with a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {
    /// Not as text: a name may be none.
    path: Vec<u8>,
    device: u64,
    inode: u64,
    size: u64,
    /// Of its content, as of a file that is open; none where that may not be read.
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

/// A file that is looked at, and for nothing else: should another have its name, nothing is waited for and no
/// link followed.
const LOOKING: i32 = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;

/// What is in a file now, if it is still the one that was opened by this name; it is not remembered any longer
/// if it is not. Reads only what has changed since it was looked at last.
fn look(path: &Path, file: &Written) -> Option<Content> {
    // By opening it, since a network's file system may tell old facts of a file that is not open.
    let opened = open(path, libc::O_RDONLY | LOOKING).map(File::from);
    let facts = match &opened {
        Ok(opened) => opened.metadata(),
        Err(_) => std::fs::symlink_metadata(path),
    };
    let facts = match facts {
        Ok(facts) if facts.is_file() && (facts.dev(), facts.ino()) == file.identity => facts,
        Err(why) if !is_gone(&why) => return None,
        _ => {
            written::forget(path, file.identity);
            return None;
        }
    };
    let stamp = Stamp::of(&facts);
    if let Some(known) = file.content.filter(|content| content.stamp == stamp) {
        return Some(known);
    }
    let opened = opened.ok();
    let content = Content {
        stamp,
        checksum: opened
            .as_ref()
            .and_then(|file| checksum(file, stamp.size).ok()),
    };
    // Whoever changes it meanwhile has it looked at again.
    let after = opened.map_or_else(|| std::fs::symlink_metadata(path), |file| file.metadata());
    if after.is_ok_and(|facts| Stamp::of(&facts) == stamp) {
        written::looked(path, file.identity, content);
    }
    Some(content)
}

fn is_gone(why: &io::Error) -> bool {
    matches!(
        why.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// Looks at the files while the program still runs, so that there is less to read at the cut. To be called
/// [`aside`](super::aside).
pub fn look_ahead() {
    for (path, file) in written::all() {
        look(&path, &file);
    }
}

/// The files that are closed now. All threads of the application stand still. `mapped` tells which files, by
/// device and inode, are mapped shared: what is in these is memory.
pub fn capture(mapped: &(dyn Fn(u64, u64) -> Option<MappedFile> + Sync)) -> ClosedFiles {
    let numbers = numbers().unwrap_or_default().into_iter();
    let open: Vec<(u64, u64)> = numbers
        .filter_map(|fd| stat(fd).ok())
        .map(|facts| (facts.st_dev, facts.st_ino))
        .collect();
    let looked = super::aside(|| {
        let mut found: Vec<Closed> = Vec::new();
        for (path, file) in written::all() {
            let (device, inode) = file.identity;
            let elsewhere = open.contains(&file.identity) || mapped(device, inode).is_some();
            let twice = |known: &Closed| (known.device, known.inode) == file.identity;
            if elsewhere || found.iter().any(twice) {
                continue;
            }
            found.extend(look(&path, &file).map(|content| Closed {
                path: path.into_os_string().into_vec(),
                device,
                inode,
                size: content.stamp.size,
                checksum: content.checksum,
            }));
        }
        ClosedFiles { files: found }
    });
    looked.unwrap_or_default()
}

/// What is said of a file that stays as it is.
pub const SHORTER: &str = "is shorter than it was";
pub const ANOTHER: &str = "was replaced or written anew";

/// How a file is found at a restart.
pub enum Now {
    /// It is as long as it was, or gone: there is nothing to cut off.
    AsItWas,
    /// It has lost something.
    Shorter,
    /// It begins with what was in it, and goes on.
    Longer(File),
    /// What was in it is not there any more, or it may not be written to.
    Another,
}

impl ClosedFiles {
    /// What they are called, and how long they were.
    pub(super) fn lengths(&self) -> impl Iterator<Item = (&Path, u64)> {
        self.files.iter().map(|file| (file.path(), file.size))
    }

    /// Cuts off what was written after the checkpoint.
    pub(super) fn cut_back(&self, cutter: &mut Cutter<'_>) {
        for file in &self.files {
            match file.now() {
                Now::AsItWas => {}
                Now::Shorter => cutter.leave(file.path(), SHORTER),
                Now::Longer(opened) => cutter.cut_closed(file.path(), &opened, file.size),
                Now::Another => cutter.leave(file.path(), ANOTHER),
            }
        }
    }

    /// They are remembered by the new process.
    pub(super) fn remember(&self) {
        for path in self.files.iter().map(Closed::path) {
            let facts = std::fs::symlink_metadata(path).ok();
            if let Some(facts) = facts.filter(Metadata::is_file) {
                written::remember(path.to_owned(), (facts.dev(), facts.ino()));
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

    /// The same by another name.
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

    /// Whether this is the file, with what was in it. On one device it has its inode; on another, as after a
    /// migration, its content must do.
    fn is(&self, opened: &File, facts: &Metadata) -> bool {
        let same_device = facts.dev() == self.device;
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

    /// As it was when it was closed.
    fn closed(path: &Path) -> Closed {
        let facts = fs::metadata(path).unwrap();
        let file = Written::new((facts.dev(), facts.ino()), 0);
        let content = look(path, &file).unwrap();
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
        let mut cutter = Cutter::new(&kept, "rank 0", &lengths);
        let files = vec![file.clone()];
        ClosedFiles { files }.cut_back(&mut cutter);
        let done = cutter.done();
        (done.files, done.left.len())
    }

    #[test]
    fn only_what_has_grown_is_cut() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        fs::write(&path, "one\n").unwrap();
        let then = closed(&path);
        assert_eq!(cut(&then, dir.path()), (0, 0));
        append(&path, "two\n");
        assert_eq!(cut(&then, dir.path()), (1, 0));
        assert_eq!(fs::read(&path).unwrap(), b"one\n");
        // Rewritten, shorter and longer.
        fs::write(&path, "1\n").unwrap();
        assert_eq!(cut(&then, dir.path()), (0, 1));
        fs::write(&path, "1, 2, 3\n").unwrap();
        assert_eq!(cut(&then, dir.path()), (0, 1));
        assert_eq!(fs::read(&path).unwrap(), b"1, 2, 3\n");
        // Another file in its place, which happens to begin the same way.
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
