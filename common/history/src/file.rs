//! The file `events.jsonl`: each event is a line of JSON.
//!
//! Rank 0 of the job appends to it, and `stasis run` does when the job has failed. Each line is one write. A process
//! that is killed may leave a part of a line: the next writer begins a new line, and a reader leaves the part out.
//!
//! At [`LIMIT`] bytes the file is renamed to `events.jsonl.old`, in the place of an older one. So both together have at
//! most twice as many bytes, and a line.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::event::{shortened, Entry, Event, MOST_LISTED};

/// Name of the file in the checkpoint directory.
pub const NAME: &str = "events.jsonl";
/// Name of the file with the older events.
pub const OLDER: &str = "events.jsonl.old";
/// Bytes at which a new file is begun.
pub const LIMIT: u64 = 8 << 20;
/// Longest line that is read.
const LONGEST_LINE: u64 = 1 << 20;

/// Notes that a restart is refused, if a job has a history in this directory. Only the first [`MOST_LISTED`] ranks note
/// it.
///
/// # Errors
/// That of the file system.
pub fn note_refusal(directory: &Path, rank: Option<u32>, why: &str) -> io::Result<()> {
    let listed = rank.is_none_or(|rank| (rank as usize) < MOST_LISTED);
    if !listed || !directory.join(NAME).exists() {
        return Ok(());
    }
    let why = shortened(why);
    append(directory, &Entry::now(Event::RestartRefused { rank, why }))
}

/// Appends an event to the file of a checkpoint directory. The file is open only meanwhile, because the directory may
/// be renamed or removed while the job runs.
///
/// # Errors
/// That of the file system. Nothing is left that hinders the next event.
pub fn append(directory: &Path, entry: &Entry) -> io::Result<()> {
    append_within(directory, entry, LIMIT)
}

fn append_within(directory: &Path, entry: &Entry, limit: u64) -> io::Result<()> {
    let mut file = open(directory)?;
    let mut text = Vec::new();
    let length = file.metadata()?.len();
    if length >= limit {
        if let Some(dropped) = begin_anew(directory, &file)? {
            file = open(directory)?;
            if dropped > 0 {
                let event = Event::Shortened {
                    dropped_bytes: dropped,
                };
                push(&mut text, &Entry::at(entry.time, event))?;
            }
        }
    } else if length > 0 && !ends_whole(&file, length)? {
        text.push(b'\n');
    }
    push(&mut text, entry)?;
    file.write_all(&text)
}

fn push(text: &mut Vec<u8>, entry: &Entry) -> io::Result<()> {
    serde_json::to_writer(&mut *text, entry)?;
    text.push(b'\n');
    Ok(())
}

fn open(directory: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(directory.join(NAME))
}

fn ends_whole(file: &File, length: u64) -> io::Result<bool> {
    let mut last = [0];
    file.read_exact_at(&mut last, length - 1)?;
    Ok(last == *b"\n")
}

/// Gives the full file its older name. Returns the number of bytes that are lost by that. Returns `None` if another
/// process is about to do it or has done it: the event then goes to the file as it is.
fn begin_anew(directory: &Path, file: &File) -> io::Result<Option<u64>> {
    let _lock = match Flock::lock(file.try_clone()?, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Some(lock),
        Err((_, Errno::EWOULDBLOCK)) => return Ok(None),
        // The file system has no locks. Without one, two that do it at the same moment lose the older events.
        Err(_) => None,
    };
    let (path, older) = (directory.join(NAME), directory.join(OLDER));
    if fs::metadata(&path)?.ino() != file.metadata()?.ino() {
        return Ok(None);
    }
    let dropped = fs::symlink_metadata(&older).map_or(0, |facts| facts.len());
    fs::rename(&path, &older)?;
    Ok(Some(dropped))
}

/// Content of the files of a directory.
#[derive(Debug, Default)]
pub struct History {
    /// The events, the oldest first.
    pub entries: Vec<Entry>,
    /// Number of lines that cannot be understood.
    pub unreadable: usize,
}

/// Reads the events of a directory, the older ones first. Without a file there are none.
///
/// # Errors
/// A file cannot be read.
pub fn read(directory: &Path) -> io::Result<History> {
    let mut history = History::default();
    for name in [OLDER, NAME] {
        let options = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(directory.join(name));
        match options {
            Ok(file) => read_lines(BufReader::new(file), &mut history)?,
            Err(why) if why.kind() == io::ErrorKind::NotFound => {}
            Err(why) => return Err(why),
        }
    }
    Ok(history)
}

fn read_lines(mut file: BufReader<File>, history: &mut History) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        if file
            .by_ref()
            .take(LONGEST_LINE)
            .read_until(b'\n', &mut line)?
            == 0
        {
            return Ok(());
        }
        match serde_json::from_slice(&line) {
            Ok(entry) => history.entries.push(entry),
            Err(_) if line.trim_ascii().is_empty() => {}
            Err(_) => history.unreadable += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn failed(text: &str) -> Entry {
        let why = text.to_owned();
        Entry::at(1.0, Event::CheckpointFailed { why })
    }

    fn texts(directory: &Path) -> Vec<String> {
        let history = read(directory).unwrap();
        let text = |entry: &Entry| match &entry.event {
            Event::CheckpointFailed { why } => why.clone(),
            other => format!("{other:?}"),
        };
        history.entries.iter().map(text).collect()
    }

    #[test]
    fn events_are_appended_for_the_owner_alone() {
        let place = tempfile::tempdir().unwrap();
        assert!(read(place.path()).unwrap().entries.is_empty());
        append(place.path(), &failed("one")).unwrap();
        append(place.path(), &failed("two")).unwrap();
        assert_eq!(texts(place.path()), ["one", "two"]);
        let mode = fs::metadata(place.path().join(NAME)).unwrap();
        assert_eq!(mode.permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_refusal_makes_no_history() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path();
        note_refusal(directory, None, "no room").unwrap();
        assert!(!directory.join(NAME).exists());
        append(directory, &failed("")).unwrap();
        note_refusal(directory, Some(MOST_LISTED as u32), "no room").unwrap();
        assert_eq!(read(directory).unwrap().entries.len(), 1);
        note_refusal(directory, Some(1), "no room").unwrap();
        let history = read(directory).unwrap();
        let refused = Event::RestartRefused {
            rank: Some(1),
            why: "no room".into(),
        };
        assert_eq!(history.entries[1].event, refused);
    }

    #[test]
    fn half_a_line_harms_no_other_one() {
        let place = tempfile::tempdir().unwrap();
        append(place.path(), &failed("one")).unwrap();
        let mut file = open(place.path()).unwrap();
        file.write_all(b"{\"schema_version\":1,\"ti").unwrap();
        append(place.path(), &failed("two")).unwrap();
        assert_eq!(texts(place.path()), ["one", "two"]);
        assert_eq!(read(place.path()).unwrap().unreadable, 1);
    }

    #[test]
    fn the_files_stay_within_the_limit_and_say_so() {
        const SMALL: u64 = 1000;
        let place = tempfile::tempdir().unwrap();
        for number in 0..100 {
            append_within(place.path(), &failed(&number.to_string()), SMALL).unwrap();
        }
        let length = |name| fs::metadata(place.path().join(name)).unwrap().len();
        assert!(length(NAME) < SMALL + 200 && length(OLDER) < SMALL + 200);
        let texts = texts(place.path());
        assert_eq!(texts.last().unwrap(), "99");
        assert!(texts.iter().any(|text| text.contains("dropped_bytes")));
        assert!(texts.len() < 100);
    }

    #[test]
    fn files_without_locks_stay_within_the_limit_too() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path();
        append(directory, &failed("older")).unwrap();
        // Such a descriptor cannot be locked, like all of a file system without locks.
        let unlocked = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_PATH)
            .open(directory.join(NAME));
        assert_eq!(begin_anew(directory, &unlocked.unwrap()).unwrap(), Some(0));
        assert!(directory.join(OLDER).exists() && !directory.join(NAME).exists());

        append(directory, &failed("newer")).unwrap();
        let locked = open(directory).unwrap();
        let other = Flock::lock(open(directory).unwrap(), FlockArg::LockExclusiveNonblock);
        assert_eq!(begin_anew(directory, &locked).unwrap(), None);
        drop(other);
        assert_eq!(texts(directory), ["older", "newer"]);
    }

    #[test]
    fn a_link_in_its_place_is_not_followed() {
        let place = tempfile::tempdir().unwrap();
        let other = place.path().join("other");
        fs::write(&other, "kept").unwrap();
        std::os::unix::fs::symlink(&other, place.path().join(NAME)).unwrap();
        assert!(append(place.path(), &failed("one")).is_err());
        assert_eq!(fs::read_to_string(other).unwrap(), "kept");
    }
}
