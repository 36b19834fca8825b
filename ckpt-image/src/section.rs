//! Typed sections: everything in an image that is not memory.

use crate::bytes::{put, u32_at, u64_at};

pub(crate) const ENTRY_BYTES: usize = 32;
/// More sections than any writer makes; keeps a hostile directory small.
pub(crate) const MAX_SECTIONS: u32 = 256;

/// Kinds of sections. A kind that is not listed in `KNOWN` is refused, because
/// leaving out part of a process is not a restart.
pub mod kind {
    /// The table of regions (this crate's).
    pub const REGIONS: u32 = 1;
    /// The table of memory chunks (this crate's).
    pub const CHUNKS: u32 = 2;
    /// The machine that the image was taken on: [`crate::Environment`].
    pub const ENVIRONMENT: u32 = 3;
    /// The objects that mappings share: [`crate::SharedObject`]s (this crate's).
    pub const SHARED: u32 = 4;
    /// A digest of every memory chunk, in sets that are sealed (this crate's).
    pub const DIGESTS: u32 = 5;
    /// What an increment leaves to the set before it: [`crate::Inherited`] (this crate's).
    pub const INHERITED: u32 = 6;
    /// Threads, files, signals and the rest of the process: the loader's.
    pub const PROCESS: u32 = 16;
    /// What the lower half itself must know again: the agent's.
    pub const AGENT: u32 = 17;
    /// How the job was started, for people and for `stasis inspect`.
    pub const JOB: u32 = 18;
    /// Files that were written to and closed: the loader's.
    pub const CLOSED_FILES: u32 = 19;
}

/// `(kind, highest version, name)`.
const KNOWN: [(u32, u32, &str); 10] = [
    (kind::REGIONS, 2, "regions"),
    (kind::CHUNKS, 1, "chunks"),
    (kind::ENVIRONMENT, 1, "environment"),
    (kind::SHARED, 1, "shared"),
    (kind::DIGESTS, 1, "digests"),
    (kind::INHERITED, 1, "inherited"),
    (kind::PROCESS, 2, "process"),
    (kind::AGENT, 1, "agent"),
    (kind::JOB, 2, "job"),
    (kind::CLOSED_FILES, 1, "closed files"),
];

/// Name of a kind, if this build can read that version of it.
pub(crate) fn known(kind: u32, version: u32) -> Option<&'static str> {
    KNOWN
        .iter()
        .find(|(k, v, _)| *k == kind && (1..=*v).contains(&version))
        .map(|(_, _, name)| *name)
}

/// A section as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// One of [`kind`].
    pub kind: u32,
    /// Version of the kind's encoding.
    pub version: u32,
    /// The content.
    pub bytes: Vec<u8>,
}

/// One entry of the section directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub kind: u32,
    pub version: u32,
    pub offset: u64,
    pub len: u64,
    pub crc: u32,
}

impl Entry {
    pub fn encode(&self) -> [u8; ENTRY_BYTES] {
        let mut b = [0; ENTRY_BYTES];
        put(&mut b, 0, &self.kind.to_le_bytes());
        put(&mut b, 4, &self.version.to_le_bytes());
        put(&mut b, 8, &self.offset.to_le_bytes());
        put(&mut b, 16, &self.len.to_le_bytes());
        put(&mut b, 24, &self.crc.to_le_bytes());
        b
    }

    /// `b` is [`ENTRY_BYTES`] long.
    pub fn decode(b: &[u8]) -> Entry {
        Entry {
            kind: u32_at(b, 0),
            version: u32_at(b, 4),
            offset: u64_at(b, 8),
            len: u64_at(b, 16),
            crc: u32_at(b, 24),
        }
    }
}
