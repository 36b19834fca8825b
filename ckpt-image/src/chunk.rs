//! Memory in chunks: one entry says which addresses, where in the file, and how stored.

use crate::bytes::{all_zero, array, put, u32_at, u64_at};

/// Most memory that one chunk holds. Small enough to stay in a core's cache between being copied,
/// checked and written; large enough that the table of chunks is nothing beside them.
pub const CHUNK_BYTES: usize = 64 << 10;

pub(crate) const ENTRY_BYTES: usize = 32;

/// How a chunk's memory is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// As it is.
    Raw = 0,
    /// One zstd frame.
    Zstd = 1,
    /// All zero: nothing is stored. (For zero pages that hide a file's content.)
    Zero = 2,
}

/// One entry of the chunk table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// First address; page-aligned.
    pub address: u64,
    /// Bytes of memory; page-aligned, at most [`CHUNK_BYTES`].
    pub len: u32,
    /// Bytes stored in the file.
    pub stored: u32,
    /// Where in the file; page-aligned.
    pub offset: u64,
    /// CRC-32 (IEEE) of the stored bytes.
    pub crc: u32,
    /// How it is stored.
    pub encoding: Encoding,
}

impl Chunk {
    /// Zeros from `address` on, behind what ends at `offset`.
    pub(crate) fn zeros(address: u64, len: u32, offset: u64) -> Chunk {
        Chunk {
            address,
            len,
            stored: 0,
            offset,
            crc: 0,
            encoding: Encoding::Zero,
        }
    }

    pub(crate) fn encode(&self) -> [u8; ENTRY_BYTES] {
        let mut b = [0; ENTRY_BYTES];
        put(&mut b, 0, &self.address.to_le_bytes());
        put(&mut b, 8, &self.len.to_le_bytes());
        put(&mut b, 12, &self.stored.to_le_bytes());
        put(&mut b, 16, &self.offset.to_le_bytes());
        put(&mut b, 24, &self.crc.to_le_bytes());
        b[28] = self.encoding as u8;
        b
    }

    /// `b` is [`ENTRY_BYTES`] long.
    pub(crate) fn decode(b: &[u8]) -> Option<Chunk> {
        if !all_zero(&b[29..ENTRY_BYTES]) {
            return None;
        }
        Some(Chunk {
            address: u64_at(b, 0),
            len: u32_at(b, 8),
            stored: u32_at(b, 12),
            offset: u64_at(b, 16),
            crc: u32_at(b, 24),
            encoding: match b[28] {
                0 => Encoding::Raw,
                1 => Encoding::Zstd,
                2 => Encoding::Zero,
                _ => return None,
            },
        })
    }
}

/// BLAKE3 of what is stored of every chunk, in their order: 32 bytes each. A checksum is easily made
/// right again by whoever changes a chunk, a digest is not.
#[derive(Debug, Default)]
pub(crate) struct Digests(Vec<u8>);

impl Digests {
    /// Adds the next chunk's.
    pub fn add(&mut self, stored: &[u8]) {
        self.0.extend_from_slice(blake3::hash(stored).as_bytes());
    }

    /// Whether `stored` is what chunk `index` was.
    pub fn fits(&self, index: usize, stored: &[u8]) -> bool {
        blake3::hash(stored) == array::<{ blake3::OUT_LEN }>(&self.0, index * blake3::OUT_LEN)
    }

    /// The section.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// The section of an image with so many chunks.
    pub fn decode(bytes: Vec<u8>, chunks: usize) -> Option<Digests> {
        (bytes.len() == chunks * blake3::OUT_LEN).then_some(Digests(bytes))
    }
}
