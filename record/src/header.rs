//! The header of a record: the first page of its file. Events follow it. All numbers are little-endian.

use std::path::Path;

use crate::error::{Error, Result};

/// Version of the format. It increases with every change of the header or of an event.
pub const VERSION: u32 = 4;
/// Bytes before the first event.
pub const HEADER_BYTES: usize = 4096;
/// Offset of the number of bytes of events, which is written while the run goes on.
pub const END_AT: usize = 96;
/// Offset of the number of bytes of the library's name, which follows.
const LIBRARY_AT: usize = END_AT + 8;
const LIBRARY: std::ops::Range<usize> = LIBRARY_AT + 8..HEADER_BYTES;

/// The kind of the events in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Calls and their outcomes ([`crate::Event`]).
    Calls,
    /// Values of clocks ([`crate::clocks`]).
    Clocks,
}

impl Stream {
    fn magic(self) -> [u8; 8] {
        match self {
            Stream::Calls => *b"STASISRC",
            Stream::Clocks => *b"STASISCL",
        }
    }
}

/// The properties of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The rank.
    pub rank: u32,
    /// Number of ranks.
    pub size: u32,
    /// Hash of the table of MPI functions, which numbers the functions in calls.
    pub table_hash: u64,
    /// Id of the record, which is the same in all ranks and in the images of the run.
    pub id: [u8; 16],
    /// Id of the set of checkpoints from which the run went on; zeros if it began with the program.
    pub follows: [u8; 16],
    /// Most bytes of a message whose digest is taken, plus one; 0 for no digests.
    pub digests: u64,
    /// Whether digests of sent messages are taken.
    pub sends: bool,
    /// The kind of its events.
    pub stream: Stream,
    /// Name and version of the MPI library over which the run began, as it names itself.
    pub library: String,
}

impl Header {
    /// The header's bytes, with no events.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut page = [0; HEADER_BYTES];
        let parts: [&[u8]; 9] = [
            &self.stream.magic(),
            &VERSION.to_le_bytes(),
            &self.rank.to_le_bytes(),
            &self.size.to_le_bytes(),
            &u32::from(self.sends).to_le_bytes(),
            &self.table_hash.to_le_bytes(),
            &self.id,
            &self.follows,
            &self.digests.to_le_bytes(),
        ];
        let bytes = parts.concat();
        page[..bytes.len()].copy_from_slice(&bytes);
        let library = self.library.as_bytes();
        let library = &library[..library.len().min(LIBRARY.len())];
        page[LIBRARY_AT..LIBRARY.start].copy_from_slice(&(library.len() as u64).to_le_bytes());
        page[LIBRARY][..library.len()].copy_from_slice(library);
        page
    }

    /// The header of a file that begins with `bytes`, and the number of bytes of events.
    ///
    /// # Errors
    /// [`Error::NoRecord`] if the bytes are no header, [`Error::Version`] if they are of another version.
    pub fn decode(bytes: &[u8], path: &Path) -> Result<(Header, u64)> {
        let no_record = || Error::NoRecord(path.to_owned());
        let page = bytes.get(..HEADER_BYTES).ok_or_else(no_record)?;
        let word = |at: usize| u32::from_le_bytes(array(page, at));
        let long = |at: usize| u64::from_le_bytes(array(page, at));
        let stream = [Stream::Calls, Stream::Clocks]
            .into_iter()
            .find(|stream| page[..8] == stream.magic())
            .ok_or_else(no_record)?;
        if word(8) != VERSION {
            return Err(Error::Version {
                path: path.to_owned(),
                found: word(8),
            });
        }
        let length = usize::try_from(long(LIBRARY_AT)).ok();
        let library = length.and_then(|length| page[LIBRARY].get(..length));
        let library = String::from_utf8_lossy(library.ok_or_else(no_record)?).into_owned();
        let header = Header {
            rank: word(12),
            size: word(16),
            sends: word(20) != 0,
            table_hash: long(24),
            id: array(page, 32),
            follows: array(page, 48),
            digests: long(64),
            stream,
            library,
        };
        Ok((header, long(END_AT)))
    }
}

/// `N` bytes of a page from an offset that is within it.
fn array<const N: usize>(page: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&page[at..at + N]);
    array
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn header() -> Header {
        Header {
            rank: 1,
            size: 4,
            table_hash: 5,
            id: [6; 16],
            follows: [7; 16],
            digests: 8,
            sends: true,
            stream: Stream::Calls,
            library: "MPICH Version: 4.0.2".to_owned(),
        }
    }

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let mut page = header().encode();
        page[END_AT] = 9;
        assert_eq!(Header::decode(&page, "x".as_ref()).unwrap(), (header(), 9));
        let clocks = Header {
            stream: Stream::Clocks,
            ..header()
        };
        let read = Header::decode(&clocks.encode(), "x".as_ref()).unwrap();
        assert_eq!(read, (clocks, 0));
    }

    #[test]
    fn a_long_name_of_a_library_is_cut() {
        let long = Header {
            library: "x".repeat(HEADER_BYTES),
            ..header()
        };
        let (read, _) = Header::decode(&long.encode(), "x".as_ref()).unwrap();
        assert_eq!(read.library, "x".repeat(LIBRARY.len()));
    }

    #[test]
    fn what_is_no_header_is_refused() {
        let decoded = |bytes: &[u8]| Header::decode(bytes, "x".as_ref()).unwrap_err();
        let mut page = header().encode();
        assert!(matches!(decoded(&page[..100]), Error::NoRecord(_)));
        assert!(matches!(decoded(&[0; HEADER_BYTES]), Error::NoRecord(_)));
        page[LIBRARY_AT + 7] = 1;
        assert!(matches!(decoded(&page), Error::NoRecord(_)));
        page[8] = 77;
        assert!(matches!(decoded(&page), Error::Version { found: 77, .. }));
    }
}
