//! Typed sections: everything in an image that is not memory. [`kind`] is the table of all kinds.

use serde::{Deserialize, Serialize};

use crate::format::bytes::{put, u32_at, u64_at};

pub(crate) const ENTRY_BYTES: usize = 32;
/// Limit above the number of sections of any writer; it keeps a hostile directory small.
pub(crate) const MAX_SECTIONS: u32 = 256;

/// A kind of section. The kinds in [`kind`] are the only place that holds their numbers and versions.
///
/// A new kind is a constant there and a line in `KNOWN`. A change of a section's encoding increases its `version`, and
/// its `oldest` too where the older encoding cannot be decoded any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionKind {
    /// Number in the section directory.
    pub number: u32,
    /// Name in messages and in `docs/image-format.md`.
    pub name: &'static str,
    /// Version of the encoding that this build writes.
    pub version: u32,
    /// Oldest version of the encoding that this build decodes. An image with an older one is still listed, verified,
    /// copied and merged; only a restart needs the content.
    pub oldest: u32,
}

impl SectionKind {
    /// A section with this content, postcard-encoded.
    ///
    /// # Errors
    /// postcard cannot encode the content.
    pub fn encode<T: Serialize>(self, content: &T) -> postcard::Result<Section> {
        Ok(self.section(postcard::to_stdvec(content)?))
    }

    /// A section with this content, encoded already.
    pub fn section(self, bytes: Vec<u8>) -> Section {
        Section {
            kind: self.number,
            version: self.version,
            bytes,
        }
    }

    /// Whether this build decodes a version of the encoding.
    pub const fn decodes(self, version: u32) -> bool {
        self.oldest <= version && version <= self.version
    }
}

/// Kinds of sections. An image with a kind that is not listed in `KNOWN` is refused, because a process without one of
/// its parts is not restored.
pub mod kind {
    use super::SectionKind;

    const fn of(number: u32, name: &'static str, version: u32, oldest: u32) -> SectionKind {
        SectionKind {
            number,
            name,
            version,
            oldest,
        }
    }

    /// The table of regions (this crate's). Version 1 has fewer kinds of backing and is read as version 2.
    pub const REGIONS: SectionKind = of(1, "regions", 2, 1);
    /// The table of memory chunks (this crate's).
    pub const CHUNKS: SectionKind = of(2, "chunks", 1, 1);
    /// The machine that the image was taken on: [`crate::Machine`].
    pub const ENVIRONMENT: SectionKind = of(3, "environment", 1, 1);
    /// The objects that mappings share: [`crate::SharedObject`]s (this crate's).
    pub const SHARED: SectionKind = of(4, "shared", 1, 1);
    /// A digest of every memory chunk, in sets that are sealed (this crate's).
    pub const DIGESTS: SectionKind = of(5, "digests", 1, 1);
    /// The pages that an increment inherits from its parent: [`crate::ParentPages`] (this crate's).
    pub const INHERITED: SectionKind = of(6, "inherited", 1, 1);
    /// Threads, files, signals and the rest of the process: `loader::ProcessState`.
    pub const PROCESS: SectionKind = of(16, "process", 3, 3);
    /// State of the lower half itself.
    pub const AGENT: SectionKind = of(17, "agent", 1, 1);
    /// State of the job: `restart::JobState`.
    pub const JOB: SectionKind = of(18, "job", 2, 2);
    /// Files that were written to and closed: `loader::ClosedFiles`.
    pub const CLOSED_FILES: SectionKind = of(19, "closed files", 1, 1);
    /// The place of the cut in the record of the run: `record::Place`.
    pub const RECORD: SectionKind = of(20, "record", 2, 2);
    /// The places of registers in the threads' frames: `loader::SavedRegisters`.
    pub const REGISTERS: SectionKind = of(21, "registers", 1, 1);
    /// The place of the cut in the clocks of the record: `record::Position`.
    pub const CLOCKS: SectionKind = of(22, "clocks", 1, 1);
    /// The numbers of the threads: `loader::ThreadNumbers`.
    pub const THREAD_NUMBERS: SectionKind = of(23, "thread numbers", 1, 1);
    /// The guard pages: [`crate::GuardPages`] (this crate's).
    pub const GUARD_PAGES: SectionKind = of(24, "guard pages", 1, 1);
    /// Locked memory: `loader::LockedMemory`.
    pub const LOCKED_MEMORY: SectionKind = of(25, "locked memory", 1, 1);
    /// Owners of open files and their signals: `loader::FileOwners`.
    pub const FILE_OWNERS: SectionKind = of(26, "file owners", 1, 1);
    /// Settings of the process that are files of /proc: `loader::ProcFiles`.
    pub const PROC_FILES: SectionKind = of(27, "proc files", 1, 1);
}

const KNOWN: [SectionKind; 18] = [
    kind::REGIONS,
    kind::CHUNKS,
    kind::ENVIRONMENT,
    kind::SHARED,
    kind::DIGESTS,
    kind::INHERITED,
    kind::PROCESS,
    kind::AGENT,
    kind::JOB,
    kind::CLOSED_FILES,
    kind::RECORD,
    kind::REGISTERS,
    kind::CLOCKS,
    kind::THREAD_NUMBERS,
    kind::GUARD_PAGES,
    kind::LOCKED_MEMORY,
    kind::FILE_OWNERS,
    kind::PROC_FILES,
];

/// The kind with this number, unless a newer build wrote this version.
pub(crate) fn known(number: u32, version: u32) -> Option<SectionKind> {
    KNOWN
        .into_iter()
        .find(|known| known.number == number && (1..=known.version).contains(&version))
}

/// A section as it was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section {
    /// Number of a kind in [`kind`].
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

    /// Decodes an entry; `b` is [`ENTRY_BYTES`] long.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_kinds_is_consistent() {
        for (at, known) in KNOWN.iter().enumerate() {
            assert!(1 <= known.oldest && known.oldest <= known.version);
            let before = &KNOWN[..at];
            assert!(before.iter().all(|other| other.number != known.number));
        }
    }

    #[test]
    fn an_older_version_is_known_even_if_it_is_not_decoded() {
        assert_eq!(known(kind::PROCESS.number, 1), Some(kind::PROCESS));
        assert!(!kind::PROCESS.decodes(2) && kind::PROCESS.decodes(3));
        assert!(kind::REGIONS.decodes(1));
        let newer = kind::PROCESS.version + 1;
        assert!(known(kind::PROCESS.number, newer).is_none() && !kind::PROCESS.decodes(newer));
    }
}
