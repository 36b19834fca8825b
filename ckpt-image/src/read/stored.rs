//! A verified file with memory chunks.

use std::fs::File;
use std::path::PathBuf;

use crate::error::{Damage, ImageError, Result};
use crate::format::chunk::{Chunk, Digests};

/// A verified file and the memory chunks in it.
#[derive(Debug)]
pub(crate) struct Stored {
    pub file: File,
    pub path: PathBuf,
    pub rank: u32,
    pub chunks: Vec<Chunk>,
    pub digests: Option<Digests>,
}

impl Stored {
    /// The index of a chunk; chunks are in ascending order.
    pub fn index_of(&self, chunk: &Chunk) -> usize {
        let found = self
            .chunks
            .binary_search_by_key(&chunk.address, |c| c.address);
        found.unwrap_or(0)
    }

    /// Checks the stored bytes of a chunk.
    pub fn check(&self, chunk: &Chunk, stored: &[u8]) -> Result<()> {
        let index = self.index_of(chunk);
        check_chunk(index, chunk, stored, self.digests.as_ref()).map_err(|d| self.damaged(d))
    }

    pub fn damaged(&self, damage: Damage) -> ImageError {
        ImageError::damaged(&self.path, self.rank, damage)
    }
}

/// Checks the stored bytes of chunk `index` against its checksum and, if there is one, its digest.
pub(super) fn check_chunk(
    index: usize,
    chunk: &Chunk,
    stored: &[u8],
    digests: Option<&Digests>,
) -> std::result::Result<(), Damage> {
    let (address, offset) = (chunk.address, chunk.offset);
    if crc32fast::hash(stored) != chunk.crc {
        return Err(Damage::ChunkChecksum {
            index,
            address,
            offset,
        });
    }
    if digests.is_some_and(|digests| !digests.fits(index, stored)) {
        return Err(Damage::ChunkDigest {
            index,
            address,
            offset,
        });
    }
    Ok(())
}
