//! Records of a journal and their encoding.
//!
//! ```text
//! record   length of the head, u32 | length of the data, u32 | CRC-32 of the head | CRC-32 of the data | head | data
//! ```
//!
//! Integers are little-endian; the head is a [`Record`] in postcard's encoding. A record that extends beyond the file
//! was being written when the process was killed, before the change that it undoes: it is skipped.

use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Version of the encoding.
pub const VERSION: u32 = 4;
/// Oldest version that is read: version 4 added [`Record::Copied`].
pub const OLDEST_VERSION: u32 = 3;
/// Bytes before a record's head.
const FRAME: usize = 16;
/// Maximum length of a head: its longest part are two paths.
const LONGEST_HEAD: u32 = 1 << 16;

/// Cut at which a segment begins: the number and the id of the set that was made there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cut {
    /// N of `ckpt-N`.
    pub number: u64,
    /// Id of the set: an aborted set and the next one have the same number.
    pub id: [u8; 16],
}

/// Number and id, as in the name of a segment.
impl fmt::Display for Cut {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}-{:032x}", self.number, u128::from_be_bytes(self.id))
    }
}

impl Cut {
    /// The cut that a text of this form names.
    pub(crate) fn named(text: &str) -> Option<Cut> {
        let (number, id) = text.split_once('-')?;
        Some(Cut {
            number: number.parse().ok()?,
            id: u128::from_str_radix(id, 16).ok()?.to_be_bytes(),
        })
    }
}

/// A path, which need not be valid UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Name(Vec<u8>);

impl Name {
    /// Name for an absolute path.
    pub fn new(path: PathBuf) -> Name {
        Name(path.into_os_string().into_vec())
    }

    /// The path.
    pub fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }
}

/// Unique identity of a file, as long as it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// Device. It differs between the hosts that mount a network file system, so there it is the magic number of the
    /// file system type.
    pub device: u64,
    /// Inode.
    pub inode: u64,
    /// Whether only one host can reach the file.
    pub local: bool,
}

/// ramfs, which libc does not define.
const RAMFS_MAGIC: u64 = 0x8584_58f6;
/// ZFS, which is not part of the kernel.
const ZFS_SUPER_MAGIC: u64 = 0x2fc1_2fc1;

/// File systems that only one host reaches.
const OF_ONE_MACHINE: [u64; 8] = [
    libc::EXT4_SUPER_MAGIC as u64,
    libc::XFS_SUPER_MAGIC as u64,
    libc::BTRFS_SUPER_MAGIC as u64,
    libc::TMPFS_MAGIC as u64,
    RAMFS_MAGIC,
    libc::OVERLAYFS_SUPER_MAGIC as u64,
    libc::F2FS_SUPER_MAGIC as u64,
    ZFS_SUPER_MAGIC,
];

/// Whether only one host reaches files of a file system with this magic number.
pub fn is_local(file_system: u64) -> bool {
    OF_ONE_MACHINE.contains(&file_system)
}

/// NFS.
const NFS_SUPER_MAGIC: u64 = libc::NFS_SUPER_MAGIC as u64;
/// IBM Storage Scale (GPFS), which is not part of the kernel.
const GPFS_SUPER_MAGIC: u64 = 0x4750_4653;
/// Ceph, which libc does not define.
const CEPH_SUPER_MAGIC: u64 = 0x00c3_6400;

/// File systems that several hosts reach, and that keep a file's inode number as long as the file exists. Lustre gives
/// another number to a file that it moves to another server, and many FUSE file systems give all files others at each
/// mount.
const KEEPING_NUMBERS: [u64; 3] = [NFS_SUPER_MAGIC, GPFS_SUPER_MAGIC, CEPH_SUPER_MAGIC];

/// Whether a file of a file system with this magic number keeps its inode number as long as it exists.
pub fn keeps_numbers(file_system: u64) -> bool {
    is_local(file_system) || KEEPING_NUMBERS.contains(&file_system)
}

impl Identity {
    /// Whether the file keeps its inode number as long as it exists.
    pub fn is_lasting(&self) -> bool {
        self.local || keeps_numbers(self.device)
    }

    /// Identity of a file from its device, inode and the magic number of its file system.
    pub fn of(device: u64, inode: u64, file_system: u64) -> Identity {
        let local = is_local(file_system);
        Identity {
            device: if local { device } else { file_system },
            inode,
            local,
        }
    }
}

/// Target of a name at the cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// The name did not exist.
    Absent,
    /// A regular file.
    File(Identity),
    /// Directory, with its mode.
    Directory(u32),
    /// Symbolic link, with its target.
    Link(Name),
    /// A pipe, a device or a socket, which an undo does not make again.
    Other,
}

/// One record. Times are nanoseconds since 1970, taken after the old state was read: of two records of the same thing
/// by two ranks, the earlier was read before the change of the other rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// First record of a segment.
    Begin {
        version: u32,
        rank: u32,
        host: String,
        cut: Cut,
    },
    /// Introduces a regular file that existed at the cut and is about to be changed. Later records of the segment refer
    /// to it by `file`.
    File {
        file: u32,
        name: Name,
        identity: Identity,
        size: u64,
        mode: u32,
        /// Time of the last modification, in nanoseconds since 1970.
        modified: i64,
        time: u64,
    },
    /// Another name of the file.
    Named { file: u32, name: Name, time: u64 },
    /// Name that is about to get another target; `local`: on a file system that only this host reaches.
    Was {
        name: Name,
        local: bool,
        state: State,
        time: u64,
    },
    /// Regular file that the job has created since the cut, between `time` and `until`. Inode numbers are reused: older
    /// records of the same identity are about another file.
    Born {
        identity: Identity,
        time: u64,
        until: u64,
    },
    /// Old content of the file from the offset `at` on, in the record's data.
    Bytes { file: u32, at: u64, time: u64 },
    /// A change of the file begins that overwrites no old content, but changes the time of its modification.
    Touched { file: u32, time: u64 },
    /// Link to the file, `kept-FILE` beside the log.
    Kept { file: u32 },
    /// The file is about to lose its last name, and all of its content is in the journal. Its inode may become another
    /// file's.
    Gone { file: u32, time: u64 },
    /// A directory is about to be renamed or, with `exchange`, to exchange its name with what is at `to`.
    Moved {
        directory: Identity,
        from: Name,
        to: Name,
        exchange: bool,
        time: u64,
    },
    /// The rename failed: the last record of it is void.
    Stayed { from: Name, to: Name },
    /// Changes of the file are not recorded from now on.
    Lost { file: u32, why: String },
    /// The file has lost a name, which is in the journal, and keeps others, which may be missing there.
    Linked { file: u32 },
    /// An undo to this set has created a file again: the file with the identity `was` at the time `seen` has another
    /// one from `time` on. Such records are not in segments, but in a file of their own.
    Renewed {
        was: Identity,
        seen: u64,
        became: Identity,
        time: u64,
        set: u64,
    },
    /// File of the cut that overlayfs has given another identity, this one, between `time` and `until`: it has copied
    /// the file to its upper layer. Inode numbers are reused: older records of the same identity are about another
    /// file.
    Copied {
        identity: Identity,
        time: u64,
        until: u64,
    },
}

impl Record {
    /// Number of the file in the record, unless the record introduces it, and the time if there is one.
    pub fn about(&self) -> Option<(u32, Option<u64>)> {
        match self {
            Record::Named { file, time, .. }
            | Record::Bytes { file, time, .. }
            | Record::Touched { file, time }
            | Record::Gone { file, time } => Some((*file, Some(*time))),
            Record::Kept { file } | Record::Linked { file } | Record::Lost { file, .. } => {
                Some((*file, None))
            }
            _ => None,
        }
    }

    /// Time of the record, if it has one.
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

/// Encodes a record.
pub fn encode(record: &Record, data: &[u8]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    encode_into(&mut bytes, record, data)?;
    Ok(bytes)
}

/// Encodes a record into an existing buffer: allocating new memory for each MiB costs more than the rest of the work.
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

/// Location of a record's data in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    pub at: u64,
    pub len: u32,
    crc: u32,
}

impl Data {
    /// Reads the data and verifies their checksum.
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

/// Reads all whole records of a log. A damaged record is an error; a truncated one is the end.
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
    fn records_round_trip_and_a_torn_end_is_skipped() {
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
    fn flipped_bit_is_detected() {
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
