//! Chunks: the units in which memory is stored. An entry of the table has the address, the offset in the
//! file, and the encoding of one chunk.

use crate::format::bytes::{all_zero, array, put, u32_at, u64_at};

/// Largest memory of one chunk in bytes. Small enough to stay in a core's cache between copy, checksum and
/// write. Large enough that the table of chunks is negligible beside them.
pub const CHUNK_BYTES: usize = 64 << 10;

pub(crate) const ENTRY_BYTES: usize = 32;

/// Encoding of a chunk's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// The bytes themselves.
    Raw = 0,
    /// One zstd frame.
    Zstd = 1,
    /// All zero: nothing is stored. (For zero pages that hide the content of a file.)
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
    /// Offset in the file; page-aligned.
    pub offset: u64,
    /// CRC-32 (IEEE) of the stored bytes.
    pub crc: u32,
    /// Encoding of the stored bytes.
    pub encoding: Encoding,
}

impl Chunk {
    /// A chunk of zeros at `address`, after the data that ends at `offset`.
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

    /// Decodes an entry; `b` is [`ENTRY_BYTES`] long.
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

/// BLAKE3 of the stored bytes of every chunk, in the order of the chunks: 32 bytes each. An attacker can
/// adapt a checksum to changed bytes, but not a digest.
#[derive(Debug, Default)]
pub(crate) struct Digests(Vec<u8>);

impl Digests {
    /// Adds the digest of the next chunk.
    pub fn add(&mut self, stored: &[u8]) {
        self.0.extend_from_slice(blake3::hash(stored).as_bytes());
    }

    /// Whether `stored` has the digest of chunk `index`.
    pub fn fits(&self, index: usize, stored: &[u8]) -> bool {
        blake3::hash(stored) == array::<{ blake3::OUT_LEN }>(&self.0, index * blake3::OUT_LEN)
    }

    /// The bytes of the section.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Decodes the section of an image with this number of chunks.
    pub fn decode(bytes: Vec<u8>, chunks: usize) -> Option<Digests> {
        (bytes.len() == chunks * blake3::OUT_LEN).then_some(Digests(bytes))
    }
}
