//! Reading.
//!
//! # Safety
//! The file is mapped read-only. The rank that writes it may live: it changes only what lies behind the events that
//! were counted when the file was opened, and the number of repetitions of the last event, which any value is valid
//! for.
#![allow(unsafe_code)]

use std::fs::File;
use std::path::{Path, PathBuf};

use memmap2::Mmap;

use super::header::{Header, HEADER_BYTES};
use super::{checksum, space, HEAD};
use crate::error::{Error, Result};

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// The function that has returned this: a slot of the gate, or one of the numbers of this module.
    pub slot: u32,
    /// How often in a row.
    pub repeated: u32,
    /// Its results.
    pub content: &'a [u8],
}

/// The contents of a run that are read.
pub struct Reader {
    /// The header.
    pub header: Header,
    path: PathBuf,
    map: Mmap,
    end: usize,
    at: usize,
}

impl Reader {
    /// Opens the file of a rank.
    ///
    /// # Errors
    /// [`Error::NotRecorded`], [`Error::NoContents`], [`Error::Version`], [`Error::Io`].
    pub fn open(directory: &Path, rank: u32) -> Result<Reader> {
        let path = super::path(directory, rank);
        let file = File::open(&path).map_err(|why| match why.kind() {
            std::io::ErrorKind::NotFound => Error::NotRecorded {
                rank,
                directory: directory.to_owned(),
            },
            _ => Error::io(&path)(why),
        })?;
        // SAFETY: see the head.
        let map = unsafe { Mmap::map(&file) }.map_err(Error::io(&path))?;
        let (header, end) = Header::decode(&map, &path)?;
        let end = usize::try_from(end).unwrap_or(usize::MAX);
        Ok(Reader {
            header,
            path,
            map,
            end,
            at: 0,
        })
    }

    /// The next event; `None` at the end of the record.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub fn peek(&self) -> Result<Option<Event<'_>>> {
        if self.at == self.end {
            return Ok(None);
        }
        self.event().map(Some).ok_or_else(|| Error::Damaged {
            path: self.path.clone(),
            at: (HEADER_BYTES + self.at) as u64,
        })
    }

    fn event(&self) -> Option<Event<'_>> {
        let events = self.map.get(HEADER_BYTES..)?.get(..self.end)?;
        let rest = events.get(self.at..)?;
        let head = rest.get(..HEAD)?;
        let number = |i: usize| u32::from_le_bytes(std::array::from_fn(|at| head[4 * i + at]));
        let content = rest.get(HEAD..)?.get(..number(0) as usize)?;
        let event = Event {
            slot: number(3),
            repeated: number(1),
            content,
        };
        (number(2) == checksum(event.slot, content) && event.repeated > 0).then_some(event)
    }

    /// Goes on behind the next event.
    pub fn advance(&mut self) {
        if let Some(length) = self.event().map(|event| event.content.len()) {
            self.at += space(length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{path, Writer, END};
    use super::*;

    fn header() -> Header {
        Header {
            rank: 2,
            size: 4,
            stasis: "1".to_owned(),
            table_hash: 5,
            kind: "mpich".to_owned(),
            lower: b"mpich".to_vec(),
            thread_level: 0,
            tag_ub: 9,
            features: 8,
            tools: "{}".to_owned(),
            command: vec![b"/bin/a".to_vec(), b"\xff".to_vec()],
            name: b"./a".to_vec(),
            directory: b"/".to_vec(),
        }
    }

    fn append(writer: &mut Writer, slot: u32, content: &[u8]) {
        if !writer.fits(content.len()) {
            writer.make_room(content.len()).unwrap();
        }
        writer.append(slot, content);
    }

    fn events(reader: &mut Reader) -> Vec<(u32, u32, Vec<u8>)> {
        let mut all = Vec::new();
        while let Ok(Some(event)) = reader.peek() {
            all.push((event.slot, event.repeated, event.content.to_vec()));
            reader.advance();
        }
        all
    }

    #[test]
    fn what_was_written_is_read_also_of_a_process_that_was_killed() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = Writer::create(&path(dir.path(), 2), &header()).unwrap();
        let large = vec![7; 9 << 20];
        append(&mut writer, 3, b"abc");
        for _ in 0..5 {
            append(&mut writer, 4, b"");
        }
        append(&mut writer, 5, &large);
        append(&mut writer, END, b"end");
        let expected = vec![
            (3, 1, b"abc".to_vec()),
            (4, 5, vec![]),
            (5, 1, large),
            (END, 1, b"end".to_vec()),
        ];
        let mut reader = Reader::open(dir.path(), 2).unwrap();
        assert_eq!(reader.header, header());
        assert_eq!(events(&mut reader), expected);
        assert!(reader.peek().unwrap().is_none());
        writer.close().unwrap();
        assert_eq!(events(&mut Reader::open(dir.path(), 2).unwrap()), expected);
    }

    #[test]
    fn what_is_missing_or_damaged_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let file = path(dir.path(), 2);
        let open = || Reader::open(dir.path(), 2);
        assert!(matches!(open(), Err(Error::NotRecorded { rank: 2, .. })));
        let mut writer = Writer::create(&file, &header()).unwrap();
        append(&mut writer, 3, b"abc");
        append(&mut writer, 4, b"defg");
        writer.close().unwrap();
        let whole = std::fs::read(&file).unwrap();
        let mut bytes = whole.clone();
        bytes[HEADER_BYTES + space(3) + HEAD] ^= 1;
        std::fs::write(&file, bytes).unwrap();
        let mut reader = open().unwrap();
        assert_eq!(events(&mut reader).len(), 1);
        let at = (HEADER_BYTES + space(3)) as u64;
        assert!(matches!(reader.peek(), Err(Error::Damaged { at: its, .. }) if its == at));
        std::fs::write(&file, &whole[..whole.len() - 8]).unwrap();
        assert!(matches!(open().unwrap().peek(), Err(Error::Damaged { .. })));
        std::fs::write(&file, &whole[..100]).unwrap();
        assert!(matches!(open(), Err(Error::NoContents(_))));
    }
}
