//! Reading the memory of a verified image: the chunks of one file, or the pieces of a whole chain.

use std::os::unix::fs::FileExt;

use crate::error::{Damage, ImageError, Result};
use crate::format::chunk::{Chunk, Encoding, CHUNK_BYTES};
use crate::read::chain::Piece;
use crate::read::image::Image;
use crate::read::stored::Stored;

impl Image {
    /// A loader of the chunks that are stored in this image.
    ///
    /// # Errors
    /// [`ImageError::Io`] if zstd finds no memory.
    pub fn loader(&self) -> Result<Loader<'_>> {
        Ok(Loader {
            image: self,
            stored: vec![0; CHUNK_BYTES],
            zstd: zstd::bulk::Decompressor::new()
                .map_err(|e| ImageError::io("start zstd for", self.path(), e))?,
        })
    }

    /// All memory of the image, including inherited pages.
    ///
    /// # Errors
    /// [`ImageError::Damaged`] if the image is an increment whose parent was not opened with it.
    pub fn memory(&self) -> Result<Memory<'_>> {
        if let Some(parent) = self.missing_parent() {
            return Err(self.damaged(Damage::WithoutParent(parent.set_id)));
        }
        Ok(Memory {
            image: self,
            loader: self.loader()?,
            whole: vec![0; CHUNK_BYTES],
            loaded: None,
        })
    }
}

/// Reads the memory of a verified image, chunk by chunk.
pub struct Loader<'a> {
    image: &'a Image,
    stored: Vec<u8>,
    zstd: zstd::bulk::Decompressor<'static>,
}

impl Loader<'_> {
    /// Reads the memory of one of the image's chunks into `into`, which is `chunk.len` long. It is verified
    /// again, since the file may have been changed after the open.
    ///
    /// # Errors
    /// [`ImageError::Io`] if the file cannot be read, [`ImageError::Damaged`] if the memory does not match its
    /// checksum or digest.
    pub fn load(&mut self, chunk: &Chunk, into: &mut [u8]) -> Result<()> {
        self.load_from(&self.image.stored, chunk, into)
    }

    /// Reads a chunk of another file of the image's chain.
    pub(crate) fn load_from(
        &mut self,
        from: &Stored,
        chunk: &Chunk,
        into: &mut [u8],
    ) -> Result<()> {
        let Stored { file, path, .. } = from;
        let read = |stored: &mut [u8]| -> Result<()> {
            file.read_exact_at(stored, chunk.offset)
                .map_err(|e| ImageError::io("read", path, e))?;
            from.check(chunk, stored)
        };
        match chunk.encoding {
            Encoding::Zero => into.fill(0),
            Encoding::Raw => read(into)?,
            Encoding::Zstd => {
                let stored = &mut self.stored[..chunk.stored as usize];
                read(stored)?;
                let len = self.zstd.decompress_to_buffer(stored, into);
                if len.ok() != Some(chunk.len as usize) {
                    return Err(from.damaged(Damage::ChunkEncoding {
                        index: from.index_of(chunk),
                        address: chunk.address,
                        offset: chunk.offset,
                    }));
                }
            }
        }
        Ok(())
    }
}

/// Reads the memory of a complete image, piece by piece.
pub struct Memory<'a> {
    image: &'a Image,
    loader: Loader<'a>,
    /// Content and index of a chunk that is read in parts.
    whole: Vec<u8>,
    loaded: Option<(u32, u32)>,
}

impl<'a> Memory<'a> {
    /// The content of `regions()[region]`, in ascending order, none overlapping another.
    pub fn pieces_of(&self, region: usize) -> &'a [Piece] {
        self.image.chain.pieces_of(region)
    }

    /// Reads one of the pieces into `into`, which is `piece.len` long. It is verified again.
    ///
    /// # Errors
    /// As for [`Loader::load`].
    pub fn load(&mut self, piece: &Piece, into: &mut [u8]) -> Result<()> {
        let image = self.image;
        let stored = match piece.layer.checked_sub(1) {
            None => &image.stored,
            Some(below) => &image.chain.layers[below as usize],
        };
        let chunk = &stored.chunks[piece.chunk as usize];
        if piece.len == chunk.len {
            return self.loader.load_from(stored, chunk, into);
        }
        let (wanted, len) = ((piece.layer, piece.chunk), chunk.len as usize);
        if self.loaded != Some(wanted) {
            self.loaded = None;
            self.loader
                .load_from(stored, chunk, &mut self.whole[..len])?;
            self.loaded = Some(wanted);
        }
        let start = (piece.address - chunk.address) as usize;
        into.copy_from_slice(&self.whole[start..start + piece.len as usize]);
        Ok(())
    }
}
