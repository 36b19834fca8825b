//! An increment together with the images that it builds upon: where each page's content is.

use std::ops::Range;

use crate::chunk::{Chunk, CHUNK_BYTES};
use crate::error::{Damage, ImageError, Result};
use crate::image::{Image, Loader, Stored};
use crate::region::Region;

/// Most sets that a chain may have: more than anybody wants to read for one restart.
pub const LONGEST_CHAIN: usize = 100;

/// Part of a region's content: a chunk, of this image or an older one, or a part of a chunk of which the
/// rest has changed since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// First address; page-aligned.
    pub address: u64,
    /// Bytes; page-aligned, at most [`CHUNK_BYTES`].
    pub len: u32,
    /// 0 for the image itself, 1 for its parent, and so on.
    layer: u32,
    chunk: u32,
}

impl Piece {
    fn end(&self) -> u64 {
        self.address + u64::from(self.len)
    }

    /// Whether it is stored in the image itself.
    pub fn is_own(&self) -> bool {
        self.layer == 0
    }
}

/// What an image's memory consists of.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    /// The images below: the parent, its parent, and so on.
    pub layers: Vec<Stored>,
    pieces: Vec<Piece>,
    /// Which of `pieces` belong to each region.
    pieces_of: Vec<Range<usize>>,
}

impl Chain {
    /// That of an image that stands by itself.
    pub fn alone(chunks: &[Chunk], chunks_of: Vec<Range<usize>>) -> Chain {
        Chain {
            layers: Vec::new(),
            pieces: own(chunks).collect(),
            pieces_of: chunks_of,
        }
    }
}

fn own(chunks: &[Chunk]) -> impl Iterator<Item = Piece> + '_ {
    // A table of so many chunks that their number does not fit would fill 128 GiB.
    (0..).zip(chunks).map(|(index, chunk)| Piece {
        address: chunk.address,
        len: chunk.len,
        layer: 0,
        chunk: index,
    })
}

impl Image {
    /// The increment with what it inherits from its parent, which must be complete itself.
    pub(crate) fn on(mut self, parent: Image) -> Result<Image> {
        let Some(inherited) = self.inherited() else {
            return Ok(self);
        };
        let wanted = &inherited.parent;
        let same = (parent.header().set_id, parent.digest()) == (wanted.set_id, &*wanted.digest)
            && parent.header().rank == self.header().rank
            && parent.lacks().is_none();
        if !same {
            return Err(parent.damaged(Damage::NotTheParent));
        }
        if !inherited.is_of(self.regions(), parent.regions()) {
            return Err(self.damaged(Damage::Layout("it inherits memory that is not there")));
        }
        let mut pieces: Vec<Piece> = own(self.chunks()).collect();
        pieces.extend(within(&inherited.runs, &parent.chain.pieces));
        pieces.sort_unstable_by_key(|piece| piece.address);
        let of = |region: &Region| {
            let first = pieces.partition_point(|piece| piece.address < region.start);
            first..first + pieces[first..].partition_point(|piece| piece.address < region.end())
        };
        let pieces_of = self.regions().iter().map(of).collect();
        let Image { stored, chain, .. } = parent;
        let layers = std::iter::once(stored).chain(chain.layers).collect();
        self.chain = Chain {
            layers,
            pieces,
            pieces_of,
        };
        self.complete = true;
        Ok(self)
    }

    /// All memory that the image holds, with what it inherits.
    pub fn memory(&self) -> Result<Memory<'_>> {
        if let Some(parent) = self.lacks() {
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

/// The parts of the parent's pieces that lie in `runs`, one layer deeper. Both are in ascending order.
fn within<'a>(runs: &'a [Range<u64>], pieces: &'a [Piece]) -> impl Iterator<Item = Piece> + 'a {
    let mut from = 0;
    runs.iter().flat_map(move |run| {
        from += pieces[from..].partition_point(|piece| piece.end() <= run.start);
        let inside = pieces[from..]
            .iter()
            .take_while(|piece| piece.address < run.end);
        inside.map(|piece| {
            let address = piece.address.max(run.start);
            Piece {
                address,
                // Not more than the piece has.
                len: (piece.end().min(run.end) - address) as u32,
                layer: piece.layer + 1,
                chunk: piece.chunk,
            }
        })
    })
}

/// Reads the memory of a complete image, piece by piece.
pub struct Memory<'a> {
    image: &'a Image,
    loader: Loader<'a>,
    /// A chunk of which only parts are wanted, and which it is.
    whole: Vec<u8>,
    loaded: Option<(u32, u32)>,
}

impl<'a> Memory<'a> {
    /// The content of `regions()[region]`, in ascending order, none overlapping another.
    pub fn pieces_of(&self, region: usize) -> &'a [Piece] {
        let Chain {
            pieces, pieces_of, ..
        } = &self.image.chain;
        &pieces[pieces_of[region].clone()]
    }

    /// Puts one of the pieces into `into`, which is `piece.len` long. Verified once more.
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

/// Wraps the reason why an older set of a chain cannot be used.
pub(crate) fn broken(set: &str, link: &str, reason: ImageError) -> ImageError {
    ImageError::Link {
        set: set.to_owned(),
        link: link.to_owned(),
        reason: Box::new(reason),
    }
}
