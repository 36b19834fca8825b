//! Truncates files to their length at the checkpoint. The program writes the removed bytes again; in case another
//! program has written them, they are kept beside the checkpoints, in `cut-off/`.
//!
//! Several processes may truncate one file at the same time without coordination: truncation is idempotent.

use crate::sys::descriptor::{lock_exclusively, open, stat};
use crate::sys::file_system::file_system;
use job_spec::FilePolicy;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::fs::{DirBuilder, File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use undo::{Done, Keeper, Plan, Share};

/// Longest tail that is kept, in bytes. Files that several programs append to are logs and tables of results.
pub const LONGEST: u64 = 64 << 20;
/// Bytes kept of all files, not counting the last restart; the oldest tails are removed first.
const KEPT_OF_ALL: u64 = 1 << 30;
/// Name of the file that lists the actions.
const LIST: &str = "list";

/// Policy of a restart for closed files that have grown since the checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClosedFilePolicy {
    /// Truncate them, like open files.
    #[default]
    Truncate,
    /// Leave them as they are.
    Leave,
}

impl From<FilePolicy> for ClosedFilePolicy {
    fn from(policy: FilePolicy) -> Self {
        match policy {
            FilePolicy::Undo | FilePolicy::Cut => ClosedFilePolicy::Truncate,
            FilePolicy::Leave => ClosedFilePolicy::Leave,
        }
    }
}

/// Actions on the files of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TruncateReport {
    /// Truncated files.
    pub files: u64,
    /// Bytes removed from all of them.
    pub bytes: u64,
    /// Truncated files whose tail could not be kept.
    pub unkept: u64,
    /// Files left as they are although they had grown, by numbers that are equal in all processes of the job for the
    /// same file.
    pub left: Vec<u64>,
}

/// Undoes this process's share of the journaled changes. The content that this removes is kept like removed tails.
pub fn undo_changes(
    plan: &Plan,
    share: &Share<'_>,
    (kept, who): (&Path, &str),
) -> (Done, TruncateReport) {
    let lengths = BTreeMap::new();
    let mut truncator = Truncator::new(kept, who, &lengths);
    let done = plan.apply(share, &mut truncator);
    (done, truncator.done())
}

impl Keeper for Truncator<'_> {
    fn keep(&mut self, path: &Path, file: &File, from: u64, why: &str) -> bool {
        let bytes = stat(file.as_raw_fd()).map_or(0, |facts| facts.st_size as u64);
        if bytes <= from {
            self.list(path, format_args!("{why}; undone"));
            return true;
        }
        let bytes = bytes - from;
        self.cuts.bytes += bytes;
        let kept = match bytes > LONGEST {
            true => Kept::TooLong,
            false => match directory(self.kept, path).and_then(|to| keep(file, from, &to)) {
                Ok(kept) => Kept::In(kept),
                Err(why) => Kept::Failed(why),
            },
        };
        let is_kept = matches!(kept, Kept::In(_));
        self.cuts.unkept += u64::from(!is_kept);
        self.list(
            path,
            format_args!("{why}; undone. {bytes} bytes of it {kept}"),
        );
        is_kept
    }

    fn leave(&mut self, path: &Path, why: &dyn Display) {
        Truncator::leave(self, path, why);
    }
}

impl Display for Kept {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Kept::In(file) => write!(f, "are in {file:?}"),
            Kept::TooLong => write!(f, "are too many to be kept"),
            Kept::Failed(why) => write!(f, "could not be kept: {why}"),
        }
    }
}

/// Truncates the files of one process.
pub struct Truncator<'a> {
    /// Directory for the removed tails.
    kept: &'a Path,
    /// Name of this restart, for the list.
    who: &'a str,
    /// Lengths by file number as processes of all machines have seen them: a network file system may have shown one of
    /// them less than another.
    lengths: &'a BTreeMap<u64, u64>,
    cuts: TruncateReport,
}

impl Truncator<'_> {
    /// Begins with an empty report.
    pub fn new<'a>(kept: &'a Path, who: &'a str, lengths: &'a BTreeMap<u64, u64>) -> Truncator<'a> {
        Truncator {
            kept,
            who,
            lengths,
            cuts: TruncateReport::default(),
        }
    }

    /// Report of the actions.
    pub fn done(self) -> TruncateReport {
        self.cuts
    }

    /// Truncates a file that was open, even if its tail cannot be kept: the program holds an offset into it.
    pub fn truncate_open(&mut self, path: &Path, file: &File, size: u64) -> io::Result<()> {
        let size = self.length(path, file, size)?;
        let Some(tail) = self.tail(path, file, size)? else {
            return Ok(());
        };
        file.set_len(size)?;
        self.note(path, size, &tail);
        Ok(())
    }

    /// Truncates a file that was closed, unless its tail should be kept and cannot be.
    pub fn truncate_closed(&mut self, path: &Path, file: &File, size: u64) {
        let size = self.length(path, file, size).unwrap_or(size);
        match self.tail(path, file, size) {
            Ok(None) => {}
            Ok(Some(Tail {
                kept: Kept::Failed(why),
                ..
            })) => self.leave(
                path,
                format_args!("has grown, and the bytes to cut off cannot be kept: {why}"),
            ),
            Ok(Some(tail)) => match file.set_len(size) {
                Ok(()) => self.note(path, size, &tail),
                Err(why) => self.leave(
                    path,
                    format_args!("has grown and cannot be cut back: {why}"),
                ),
            },
            Err(why) => self.leave(path, format_args!("cannot be looked at: {why}")),
        }
    }

    /// Target length of a file for which this process had seen `size`.
    fn length(&self, path: &Path, file: &File, size: u64) -> io::Result<u64> {
        let fd = file.as_raw_fd();
        let number = number_of_file(path, fd, &stat(fd)?);
        let seen = self.lengths.get(&number).copied();
        Ok(seen.map_or(size, |seen| seen.max(size)))
    }

    /// Leaves a file as it is and lists the reason.
    pub fn leave(&mut self, path: &Path, why: impl Display) {
        self.cuts.left.push(number(path, 0));
        self.list(path, format_args!("left as it is: it {why}"));
    }

    fn note(&mut self, path: &Path, size: u64, tail: &Tail) {
        self.cuts.files += 1;
        self.cuts.bytes += tail.bytes;
        self.cuts.unkept += u64::from(!matches!(tail.kept, Kept::In(_)));
        let (bytes, kept) = (tail.bytes, &tail.kept);
        self.list(
            path,
            format_args!("cut back to {size} bytes, by {bytes}, which {kept}"),
        );
    }

    /// Adds a line to the list. A failure has no further effect.
    fn list(&self, path: &Path, what: impl Display) {
        let line = format!("{} {}: {path:?}: {what}\n", now(), self.who);
        let list = make_directory(self.kept, self.kept).and_then(|()| {
            let mut options = OpenOptions::new();
            options.append(true).create(true).mode(0o600);
            // A link or a pipe at this name is refused without blocking.
            options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
            let list = options.open(self.kept.join(LIST))?;
            match list.metadata()?.is_file() {
                true => Ok(list),
                false => Err(io::ErrorKind::InvalidInput.into()),
            }
        });
        let _ = list.and_then(|mut list| list.write_all(line.as_bytes()));
    }

    /// Tail to be removed so that the file has `size` bytes, after it was kept; none if the file is not longer.
    fn tail(&self, path: &Path, file: &File, size: u64) -> io::Result<Option<Tail>> {
        let longer =
            || Ok::<_, io::Error>((stat(file.as_raw_fd())?.st_size as u64).checked_sub(size));
        if longer()?.is_none_or(|bytes| bytes == 0) {
            return Ok(None);
        }
        // Without file locks, each of the processes that truncate it at the same time keeps the tail.
        let directory = directory(self.kept, path);
        let locked = directory.as_ref().map(|directory| lock(directory));
        let bytes = longer()?.unwrap_or(0);
        if bytes == 0 {
            return Ok(None);
        }
        let kept = match &directory {
            _ if bytes > LONGEST => Kept::TooLong,
            Ok(directory) => match keep(file, size, directory) {
                Ok(kept) => Kept::In(kept),
                Err(why) => Kept::Failed(why),
            },
            Err(why) => Kept::Failed(io::Error::new(why.kind(), why.to_string())),
        };
        Ok(Some(Tail {
            bytes: longer()?.unwrap_or(0),
            kept,
            _locked: locked.ok().and_then(io::Result::ok),
        }))
    }
}

/// Tail that is going to be removed.
struct Tail {
    bytes: u64,
    kept: Kept,
    /// Lock held until the truncation.
    _locked: Option<OwnedFd>,
}

enum Kept {
    In(PathBuf),
    TooLong,
    Failed(io::Error),
}

/// Length at the checkpoint of a file that processes of other machines may share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length {
    /// Number of the file, equal in all ranks.
    pub number: u64,
    /// Length in bytes.
    pub size: u64,
    /// Whether the file is longer now.
    pub grown: bool,
}

impl Length {
    /// Length of the file of this name, which had `size` bytes; none if it is gone or local to this machine.
    pub fn of(path: &Path, size: u64) -> Option<Length> {
        // A network file system may return stale attributes of a file that is not open.
        let looking = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
        let opened = open(path, libc::O_RDONLY | looking);
        let opened = opened.or_else(|_| open(path, libc::O_PATH | libc::O_NOFOLLOW));
        let opened = opened.ok()?;
        if undo::is_local(file_system(opened.as_raw_fd()) as u64) {
            return None;
        }
        let facts = stat(opened.as_raw_fd()).ok()?;
        Some(Length {
            number: number_of_file(path, opened.as_raw_fd(), &facts),
            size,
            grown: facts.st_size as u64 > size,
        })
    }
}

/// The same of an open file. Where files do not keep their inode numbers, two machines may see it by different ones.
fn number_of_file(path: &Path, fd: i32, facts: &libc::stat) -> u64 {
    let lasts = undo::keeps_numbers(file_system(fd) as u64);
    number(path, if lasts { facts.st_ino } else { 0 })
}

/// Number of a file, equal in all processes of a job.
fn number(path: &Path, inode: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    (path.as_os_str().as_bytes(), inode).hash(&mut hasher);
    hasher.finish()
}

/// Seconds since 1970.
fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}

/// Creates a directory in `kept`, or `kept` itself. A link in the way is refused.
fn make_directory(kept: &Path, path: &Path) -> io::Result<()> {
    let mut ways: Vec<&Path> = path.ancestors().collect();
    ways.retain(|way| way.starts_with(kept));
    for way in ways.into_iter().rev() {
        let made = DirBuilder::new()
            .recursive(way == kept)
            .mode(0o700)
            .create(way);
        match way.symlink_metadata() {
            Ok(facts) if facts.is_dir() => {}
            Ok(_) => {
                let why = format!("{} is not a directory", way.display());
                return Err(io::Error::new(io::ErrorKind::NotADirectory, why));
            }
            Err(_) => return made,
        }
    }
    Ok(())
}

/// Directory for the tails of a file: below `kept`, by the file's whole path.
fn directory(kept: &Path, of: &Path) -> io::Result<PathBuf> {
    let names = of.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name),
        _ => None,
    });
    let directory = names.fold(kept.to_owned(), |path, name| path.join(name));
    make_directory(kept, &directory)?;
    Ok(directory)
}

fn lock(directory: &Path) -> io::Result<OwnedFd> {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let opened = open(directory, flags)?;
    lock_exclusively(&opened)?;
    Ok(opened)
}

/// Removes the oldest tails of earlier restarts if they exceed the bound.
///
/// # Errors
/// If the directory cannot be read or locked, or a file cannot be removed.
pub fn bound_kept(kept: &Path) -> io::Result<()> {
    bound(kept, KEPT_OF_ALL)
}

fn bound(kept: &Path, most: u64) -> io::Result<()> {
    let mut all = Vec::new();
    collect_kept(kept, &mut all)?;
    // Newest first.
    all.sort_unstable_by(|a, b| b.cmp(a));
    let mut sum = 0_u64;
    for (_, path, bytes) in all {
        sum = sum.saturating_add(bytes);
        if sum > most {
            std::fs::remove_file(&path)?;
            // A directory with other content stays.
            let inside = path.ancestors().skip(1).take_while(|way| *way != kept);
            let _ = inside
                .map(std::fs::remove_dir)
                .take_while(Result::is_ok)
                .count();
        }
    }
    Ok(())
}

/// Collects the kept tails below a directory: modification time, path, length in bytes.
fn collect_kept(directory: &Path, all: &mut Vec<(SystemTime, PathBuf, u64)>) -> io::Result<()> {
    let entries = match std::fs::read_dir(directory) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let (path, facts) = entry.and_then(|entry| Ok((entry.path(), entry.metadata()?)))?;
        let name = path.file_name().unwrap_or_default();
        if facts.is_dir() {
            collect_kept(&path, all)?;
        } else if facts.is_file() && name.as_bytes().starts_with(b"from-") {
            all.push((facts.modified()?, path, facts.len()));
        }
    }
    Ok(())
}

/// Copies the content from an offset to a new file, durably.
fn keep(file: &File, from: u64, directory: &Path) -> io::Result<PathBuf> {
    let reader = File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    (&reader).seek(SeekFrom::Start(from))?;
    let (mut number, begun) = (0, now());
    let (path, mut to) = loop {
        let path = directory.join(format!("from-{from}-at-{begun}-{number}"));
        let mut options = OpenOptions::new();
        match options.write(true).create_new(true).mode(0o600).open(&path) {
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => number += 1,
            opened => break (path, opened?),
        }
    };
    let mut copy = || {
        // Another process may be appending to it.
        while io::copy(&mut (&reader).take(LONGEST), &mut to)? > 0 {}
        to.sync_data()
    };
    copy().inspect_err(|_| {
        // A partial copy must not look like a complete one.
        let _ = std::fs::remove_file(&path);
    })?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    fn cut(kept: &Path, path: &Path, size: u64) -> TruncateReport {
        let lengths = BTreeMap::new();
        let mut truncator = Truncator::new(kept, "rank 0", &lengths);
        let opened = OpenOptions::new().write(true).open(path).unwrap();
        truncator.truncate_closed(path, &opened, size);
        truncator.done()
    }

    /// Kept tails of a file, in order.
    fn tails(kept: &Path, path: &Path) -> Vec<Vec<u8>> {
        let names = fs::read_dir(directory(kept, path).unwrap()).unwrap();
        let mut names: Vec<_> = names.map(|entry| entry.unwrap().path()).collect();
        names.sort_unstable();
        names.iter().map(|name| fs::read(name).unwrap()).collect()
    }

    #[test]
    fn each_removed_tail_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (kept, path) = (dir.path().join("ck/cut-off"), dir.path().join("log"));
        fs::write(&path, "one\ntwo\n").unwrap();
        let done = cut(&kept, &path, 4);
        assert_eq!((done.files, done.bytes, done.unkept), (1, 4, 0));
        assert_eq!(fs::read(&path).unwrap(), b"one\n");
        assert_eq!(cut(&kept, &path, 4), TruncateReport::default());
        fs::write(&path, "one\n2\n").unwrap();
        assert_eq!(cut(&kept, &path, 4).bytes, 2);
        assert_eq!(tails(&kept, &path), [&b"two\n"[..], b"2\n"]);
        let list = fs::read_to_string(kept.join(LIST)).unwrap();
        assert_eq!(list.lines().count(), 2);
        assert!(
            list.contains("cut back to 4 bytes, by 2, which are in"),
            "{list}"
        );
    }

    #[test]
    fn oldest_tails_are_removed_first() {
        let dir = tempfile::tempdir().unwrap();
        let kept = dir.path().join("ck/cut-off");
        bound(&kept, 1).unwrap();
        let paths = ["a/log", "b/log"].map(|name| dir.path().join(name));
        for (path, length) in paths.iter().zip([4, 8]) {
            fs::create_dir(path.parent().unwrap()).unwrap();
            fs::write(path, vec![b'x'; length + 1]).unwrap();
            cut(&kept, path, 1);
        }
        let first = fs::read_dir(directory(&kept, &paths[0]).unwrap()).unwrap();
        let first = first.last().unwrap().unwrap().path();
        let long_ago = UNIX_EPOCH + std::time::Duration::from_secs(1);
        fs::File::open(&first)
            .unwrap()
            .set_modified(long_ago)
            .unwrap();
        bound(&kept, 12).unwrap();
        assert!(first.exists());
        bound(&kept, 11).unwrap();
        assert!(!first.exists() && !first.ancestors().nth(2).unwrap().exists());
        assert_eq!(tails(&kept, &paths[1]), [b"xxxxxxxx"]);
        assert!(kept.join(LIST).exists());
    }

    #[test]
    fn closed_file_is_not_truncated_if_its_tail_cannot_be_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (kept, path) = (dir.path().join("cut-off"), dir.path().join("log"));
        fs::write(&kept, "no directory").unwrap();
        fs::write(&path, "one\ntwo\n").unwrap();
        let done = cut(&kept, &path, 4);
        assert_eq!((done.files, done.left.len()), (0, 1));
        assert_eq!(fs::read(&path).unwrap(), b"one\ntwo\n");
        let inode = fs::metadata(&path).unwrap().ino();
        let lengths = BTreeMap::from([(number(&path, inode), 4)]);
        let mut truncator = Truncator::new(&kept, "rank 0", &lengths);
        let opened = OpenOptions::new().write(true).open(&path).unwrap();
        // Another process had seen a longer file.
        truncator.truncate_open(&path, &opened, 3).unwrap();
        let done = truncator.done();
        assert_eq!((done.files, done.bytes, done.unkept), (1, 4, 1));
        assert_eq!(fs::read(&path).unwrap(), b"one\n");
    }

    #[test]
    fn links_and_pipes_are_refused_without_blocking() {
        let dir = tempfile::tempdir().unwrap();
        let (kept, path) = (dir.path().join("cut-off"), dir.path().join("log"));
        let elsewhere = dir.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &kept).unwrap();
        fs::write(&path, "one\ntwo\n").unwrap();
        let done = cut(&kept, &path, 4);
        assert_eq!((done.files, done.left.len()), (0, 1));
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
        fs::remove_file(&kept).unwrap();
        fs::create_dir(&kept).unwrap();
        let mut mkfifo = std::process::Command::new("mkfifo");
        assert!(mkfifo.arg(kept.join(LIST)).status().unwrap().success());
        assert_eq!(cut(&kept, &path, 4).files, 1);
        assert_eq!(tails(&kept, &path), [b"two\n"]);
        fs::remove_file(kept.join(LIST)).unwrap();
        std::os::unix::fs::symlink(elsewhere.join("list"), kept.join(LIST)).unwrap();
        fs::write(&path, "one\n2\n").unwrap();
        assert_eq!(cut(&kept, &path, 4).files, 1);
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    }

    #[test]
    fn tail_over_the_limit_is_not_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (kept, path) = (dir.path().join("cut-off"), dir.path().join("log"));
        File::create(&path).unwrap().set_len(LONGEST + 8).unwrap();
        let done = cut(&kept, &path, 7);
        assert_eq!((done.files, done.bytes, done.unkept), (1, LONGEST + 1, 1));
        assert_eq!(fs::metadata(&path).unwrap().len(), 7);
        assert!(tails(&kept, &path).is_empty());
    }

    #[test]
    fn concurrent_truncation_keeps_the_tail_once() {
        let dir = tempfile::tempdir().unwrap();
        let (kept, path) = (dir.path().join("cut-off"), dir.path().join("log"));
        fs::write(&path, vec![7; 1 << 20]).unwrap();
        let all = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| cut(&kept, &path, 5)))
                .collect();
            let joined = threads.into_iter().map(|thread| thread.join().unwrap());
            joined.map(|done| done.files).sum::<u64>()
        });
        assert_eq!(all, 1);
        assert_eq!(tails(&kept, &path), [vec![7; (1 << 20) - 5]]);
    }
}
