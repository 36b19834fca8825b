//! The records of a journal, and how they lie in its file.
//!
//! ```text
//! record   length of the head, u32 | length of the data, u32 | CRC-32 of the head | CRC-32 of the data | head | data
//! ```
//!
//! Integers are little-endian; the head is a [`Record`] in postcard's encoding. A record that ends beyond the
//! file was being written when the process was killed, before the change that it undoes: it is passed over.

use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Version of the encoding; another one is not read.
pub const VERSION: u32 = 1;
/// Bytes before a record's head.
const FRAME: usize = 16;
/// No head is longer: its longest part are two paths.
const LONGEST_HEAD: u32 = 1 << 16;

/// The cut at which a segment begins: the number and the id of the set that was made there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// N of `ckpt-N`.
    pub number: u64,
    /// The set's own id: a set that was given up and the next one have the same number.
    pub id: [u8; 16],
}

/// A path, which need not be text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Name(Vec<u8>);

impl Name {
    /// Of an absolute path.
    pub fn new(path: PathBuf) -> Name {
        Name(path.into_os_string().into_vec())
    }

    /// The path.
    pub fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }
}

/// What tells one file from all others, as long as it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// The device, which is another one on each host that mounts a network's file system; there it is the
    /// magic number of that kind of file system.
    pub device: u64,
    /// The inode.
    pub inode: u64,
    /// Whether only one host reaches it.
    pub local: bool,
}

/// File systems of one machine: ext4, XFS, Btrfs, tmpfs, ramfs, overlayfs, F2FS, ZFS.
const OF_ONE_MACHINE: [u64; 8] = [
    0xef53,
    0x5846_5342,
    0x9123_683e,
    0x0102_1994,
    0x8584_58f6,
    0x794c_7630,
    0xf2f5_2010,
    0x2fc1_2fc1,
];

/// Whether files of a file system of this magic number are reached by one host alone.
pub fn is_local(file_system: u64) -> bool {
    OF_ONE_MACHINE.contains(&file_system)
}

impl Identity {
    /// Of the file of this device and inode, on a file system of that magic number.
    pub fn of(device: u64, inode: u64, file_system: u64) -> Identity {
        let local = is_local(file_system);
        Identity {
            device: if local { device } else { file_system },
            inode,
            local,
        }
    }
}

/// What a name led to at the cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// Nothing.
    Absent,
    /// A regular file.
    File(Identity),
    /// A directory of this mode.
    Directory(u32),
    /// A symbolic link with this target.
    Link(Name),
}

/// One record. Times are nanoseconds since 1970, taken after what the record holds was read: of two ranks that
/// note the same thing, the earlier has seen it before the other has changed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// The first of a segment.
    Begin {
        version: u32,
        rank: u32,
        host: String,
        cut: Cut,
    },
    /// A regular file that is there at the cut, and is about to be changed. Records of the segment call it
    /// `file` from now on.
    File {
        file: u32,
        name: Name,
        identity: Identity,
        size: u64,
        mode: u32,
        time: u64,
    },
    /// The file has this name, too.
    Named { file: u32, name: Name, time: u64 },
    /// A name that is about to lead to something else; `local`: on a file system that only this host reaches.
    Was {
        name: Name,
        local: bool,
        state: State,
        time: u64,
    },
    /// A regular file that the job has made since the cut. An inode's number may be used again: older records
    /// of the same identity are about another file. It was made between `time` and `until`.
    Born {
        identity: Identity,
        time: u64,
        until: u64,
    },
    /// The data are what the file had from `at` on.
    Bytes { file: u32, at: u64, time: u64 },
    /// The file has a second name now, `kept-FILE` beside the log.
    Kept { file: u32 },
    /// The file is about to lose its last name, and all that was in it is in the journal. Its inode may become
    /// another file's.
    Gone { file: u32, time: u64 },
    /// A directory is about to get another name.
    Moved {
        directory: Identity,
        from: Name,
        to: Name,
        time: u64,
    },
    /// It did not: the last record of that move counts for nothing.
    Stayed { from: Name, to: Name },
    /// Changes of the file are not noted from now on.
    Lost { file: u32, why: String },
    /// The file has lost a name, which is in the journal, and keeps others, which may not be.
    Linked { file: u32 },
    /// An undo to this set has made a file anew: the one that had the identity `was` at the time `seen` has
    /// another from `time` on. Not in segments, but in a file of its own.
    Renewed {
        was: Identity,
        seen: u64,
        became: Identity,
        time: u64,
        set: u64,
    },
}

impl Record {
    /// The number of the file that it is about, but for the one that gives it the number; and when that was, if it
    /// tells.
    pub fn about(&self) -> Option<(u32, Option<u64>)> {
        match self {
            Record::Named { file, time, .. }
            | Record::Bytes { file, time, .. }
            | Record::Gone { file, time } => Some((*file, Some(*time))),
            Record::Kept { file } | Record::Linked { file } | Record::Lost { file, .. } => {
                Some((*file, None))
            }
            _ => None,
        }
    }

    /// When it was made, if it tells.
    pub fn time(&self) -> Option<u64> {
        match self {
            Record::File { time, .. }
            | Record::Was { time, .. }
            | Record::Born { time, .. }
            | Record::Moved { time, .. } => Some(*time),
            other => other.about()?.1,
        }
    }
}

/// Nanoseconds since 1970.
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    })
}

/// A record as it lies in the file.
pub fn encode(record: &Record, data: &[u8]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    encode_into(&mut bytes, record, data)?;
    Ok(bytes)
}

/// The same, in the room that is there: memory that is had anew for each MiB costs more than what is done with it.
pub fn encode_into(bytes: &mut Vec<u8>, record: &Record, data: &[u8]) -> io::Result<()> {
    let head = postcard::to_stdvec(record).map_err(io::Error::other)?;
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).map_err(io::Error::other);
    bytes.clear();
    bytes.reserve(FRAME + head.len() + data.len());
    bytes.extend(length(&head)?.to_le_bytes());
    bytes.extend(length(data)?.to_le_bytes());
    bytes.extend(crc32fast::hash(&head).to_le_bytes());
    bytes.extend(crc32fast::hash(data).to_le_bytes());
    bytes.extend(head);
    bytes.extend(data);
    Ok(())
}

/// Where the data of a record lie in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    pub at: u64,
    pub len: u32,
    crc: u32,
}

impl Data {
    /// Reads the data, and makes sure that they are what was written.
    pub fn read(&self, log: &File) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.len as usize];
        log.read_exact_at(&mut bytes, self.at)?;
        match crc32fast::hash(&bytes) == self.crc {
            true => Ok(bytes),
            false => Err(damaged(self.at)),
        }
    }
}

fn damaged(at: u64) -> io::Error {
    let text = format!("the undo journal is damaged at byte {at}");
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// All whole records of a log. One that is damaged is an error; one that is cut short is the end.
pub fn read(log: &File) -> io::Result<Vec<(Record, Data)>> {
    let end = log.metadata()?.len();
    let (mut records, mut at) = (Vec::new(), 0);
    while at + FRAME as u64 <= end {
        let mut frame = [0; FRAME];
        log.read_exact_at(&mut frame, at)?;
        let word = |n: usize| {
            let mut word = [0; 4];
            word.copy_from_slice(&frame[4 * n..][..4]);
            u32::from_le_bytes(word)
        };
        let (head, len) = (word(0), word(1));
        if head > LONGEST_HEAD {
            return Err(damaged(at));
        }
        let data = at + FRAME as u64 + u64::from(head);
        let next = data + u64::from(len);
        if next > end {
            break;
        }
        let mut bytes = vec![0; head as usize];
        log.read_exact_at(&mut bytes, at + FRAME as u64)?;
        let record = postcard::from_bytes(&bytes).ok();
        let record = record.filter(|_| crc32fast::hash(&bytes) == word(2));
        let data = Data {
            at: data,
            len,
            crc: word(3),
        };
        records.push((record.ok_or_else(|| damaged(at))?, data));
        at = next;
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn log(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    #[test]
    fn records_are_read_as_written_and_a_torn_end_is_passed_over() {
        let first = Record::Bytes {
            file: 1,
            at: 4096,
            time: 3,
        };
        let second = Record::Kept { file: 1 };
        let whole = encode(&first, b"old").unwrap();
        let mut bytes = whole.clone();
        bytes.extend(encode(&second, b"").unwrap());
        let file = log(&bytes);
        let records = read(&file).unwrap();
        assert_eq!(records[0].0, first);
        assert_eq!(records[0].1.read(&file).unwrap(), b"old");
        assert_eq!(records[1].0, second);
        for cut in whole.len()..bytes.len() {
            assert_eq!(read(&log(&bytes[..cut])).unwrap().len(), 1);
        }
    }

    #[test]
    fn a_flipped_bit_is_noticed() {
        let record = Record::Bytes {
            file: 1,
            at: 4096,
            time: 3,
        };
        let bytes = encode(&record, b"old").unwrap();
        for at in 8..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 4;
            let file = log(&bad);
            let records = read(&file);
            let sound = records.and_then(|all| all[0].1.read(&file));
            assert!(sound.is_err(), "byte {at}");
        }
    }
}
