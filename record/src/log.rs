//! A record that is read: the file of one rank, mapped.
//!
//! # Safety
//! The file is mapped read-only. The rank that writes it may live: it changes only what lies behind the events that
//! were counted when the file was opened, and the number of a run of misses in place, which any value is valid for.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use memmap2::Mmap;

use crate::error::{Error, Result};
use crate::event::Event;
use crate::header::{Header, Stream, HEADER_BYTES};
use crate::{clocks, contents};

/// The files that a rank has in the directory of a record. The one by which [`files`] finds the rank is the last.
pub fn files_of(directory: &Path, rank: u32) -> impl Iterator<Item = PathBuf> {
    let all = [
        clocks::path(directory, rank),
        contents::path(directory, rank),
        directory.join(file_name(rank)),
    ];
    all.into_iter().filter(|file| file.exists())
}

/// Name of a rank's file in the directory of a record.
pub fn file_name(rank: u32) -> String {
    format!("rank-{rank}.record")
}

/// The files of a record, by rank. There is at least one.
///
/// # Errors
/// [`Error::Io`] if the directory cannot be read, [`Error::None`] if it has no record.
pub fn files(directory: &Path) -> Result<Vec<(u32, PathBuf)>> {
    let entries = std::fs::read_dir(directory).map_err(Error::io(directory))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(Error::io(directory))?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let rank = name.and_then(|name| name.strip_prefix("rank-")?.strip_suffix(".record"));
        if let Some(rank) = rank.and_then(|rank| rank.parse().ok()) {
            files.push((rank, path));
        }
    }
    files.sort();
    match files.is_empty() {
        true => Err(Error::None(directory.to_owned())),
        false => Ok(files),
    }
}

/// The record of one rank.
pub struct Log {
    /// Its header.
    pub header: Header,
    /// Its file.
    pub path: PathBuf,
    map: Mmap,
    events: usize,
}

impl Log {
    /// Opens a file.
    ///
    /// # Errors
    /// [`Error::Io`], and those of [`Header::decode`].
    pub fn open(path: &Path) -> Result<Log> {
        let log = Log::of_file(&File::open(path).map_err(Error::io(path))?, path)?;
        log.with(Stream::Calls)
    }

    fn with(self, stream: Stream) -> Result<Log> {
        match self.header.stream == stream {
            true => Ok(self),
            false => Err(Error::NoRecord(self.path)),
        }
    }

    /// Opens the file with the clocks of a rank, if it has one.
    ///
    /// # Errors
    /// Those of [`Log::open`].
    pub fn of_clocks(directory: &Path, rank: u32) -> Result<Option<Log>> {
        let path = clocks::path(directory, rank);
        match File::open(&path) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
            file => {
                let log = Log::of_file(&file.map_err(Error::io(&path))?, &path)?;
                log.with(Stream::Clocks).map(Some)
            }
        }
    }

    /// The same of a file that is open.
    pub(crate) fn of_file(file: &File, path: &Path) -> Result<Log> {
        // SAFETY: see the head.
        let map = unsafe { Mmap::map(file) }.map_err(Error::io(path))?;
        let (header, end) = Header::decode(&map, path)?;
        let most = map.len() - HEADER_BYTES;
        let events = usize::try_from(end).map_or(most, |end| end.min(most));
        Ok(Log {
            header,
            path: path.to_owned(),
            map,
            events,
        })
    }

    /// Opens the file of a rank, and checks that it is of this job.
    ///
    /// # Errors
    /// Those of [`Log::open`]; [`Error::OtherRank`] and [`Error::OtherTable`] if it is not of this job.
    pub fn of_rank(directory: &Path, rank: u32, size: u32, table_hash: u64) -> Result<Log> {
        let log = Log::open(&directory.join(file_name(rank)))?;
        let found = (log.header.rank, log.header.size);
        if found != (rank, size) {
            return Err(Error::OtherRank {
                path: log.path,
                found,
                here: (rank, size),
            });
        }
        if log.header.table_hash != table_hash {
            return Err(Error::OtherTable(log.path));
        }
        Ok(log)
    }

    /// The encoded events.
    pub fn bytes(&self) -> &[u8] {
        &self.map[HEADER_BYTES..][..self.events]
    }
}

/// Decodes events one after the other, with their offsets. It ends at the first that is damaged or not whole.
pub struct Events<'a> {
    bytes: &'a [u8],
    /// Offset of the next event.
    pub at: usize,
}

impl<'a> Events<'a> {
    /// Events from an offset on.
    pub fn from(bytes: &'a [u8], at: usize) -> Self {
        Events { bytes, at }
    }
}

impl Iterator for Events<'_> {
    type Item = (usize, Event);

    fn next(&mut self) -> Option<(usize, Event)> {
        let (event, length) = Event::decode(self.bytes.get(self.at..)?)?;
        let at = self.at;
        self.at += length;
        Some((at, event))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::header::tests::header;
    use crate::header::END_AT;

    fn written(events: &[Event], end: Option<u64>) -> (tempfile::TempDir, PathBuf) {
        let mut file = header().encode().to_vec();
        events
            .iter()
            .for_each(|event| file.extend(event.encode().bytes()));
        let end = end.unwrap_or((file.len() - HEADER_BYTES) as u64);
        file[END_AT..END_AT + 8].copy_from_slice(&end.to_le_bytes());
        file.extend([0; 100]);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(file_name(1));
        std::fs::write(&path, file).unwrap();
        (dir, path)
    }

    /// A record with these events, in a directory that is removed with the first value.
    pub(crate) fn log_of(events: &[Event]) -> (tempfile::TempDir, Log) {
        let (dir, path) = written(events, None);
        (dir, Log::open(&path).unwrap())
    }

    const EVENTS: [Event; 3] = [Event::Misses(7), Event::Index(-1), Event::Mark(9)];

    #[test]
    fn what_was_written_is_read() {
        let (dir, path) = written(&EVENTS, None);
        let log = Log::open(&path).unwrap();
        let read: Vec<Event> = Events::from(log.bytes(), 0)
            .map(|(_, event)| event)
            .collect();
        assert_eq!(read, EVENTS);
        assert_eq!(files(dir.path()).unwrap(), [(1, path)]);
        assert!(Log::of_rank(dir.path(), 1, 4, 5).is_ok());
        let other = |rank, size, table| Log::of_rank(dir.path(), rank, size, table).err().unwrap();
        assert!(matches!(other(1, 3, 5), Error::OtherRank { .. }));
        assert!(matches!(other(1, 4, 6), Error::OtherTable(_)));
        assert!(matches!(other(0, 4, 5), Error::Io { .. }));
    }

    #[test]
    fn a_file_that_is_cut_is_read_as_far_as_it_goes() {
        let (_dir, path) = written(&EVENTS, Some(u64::MAX));
        let whole = std::fs::read(&path).unwrap();
        for length in HEADER_BYTES..HEADER_BYTES + 9 {
            std::fs::write(&path, &whole[..length]).unwrap();
            let log = Log::open(&path).unwrap();
            let read = Events::from(log.bytes(), 0).count();
            let expected = [0, 0, 0, 0, 0, 1, 1, 2, 2][length - HEADER_BYTES];
            assert_eq!(read, expected, "{length}");
        }
    }
}
