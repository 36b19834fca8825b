//! The chain of an increment: the file that holds the content of each page, in this image or an older one.

use std::ops::Range;

use crate::format::chunk::Chunk;
use crate::format::region::Region;
use crate::read::stored::Stored;

/// Part of a region's content. It is a chunk, of this image or an older one, or the part of a chunk that
/// has not changed since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// First address; page-aligned.
    pub address: u64,
    /// Length in bytes; page-aligned, at most [`crate::CHUNK_BYTES`].
    pub len: u32,
    /// Layer of the image: 0 for the image itself, 1 for its parent, and so on.
    pub(crate) layer: u32,
    /// Index of the chunk in that image.
    pub(crate) chunk: u32,
}

impl Piece {
    fn end(&self) -> u64 {
        self.address + u64::from(self.len)
    }

    /// Whether the piece is stored in the image itself.
    pub fn is_own(&self) -> bool {
        self.layer == 0
    }
}

/// The files and pieces of an image's memory.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    /// The older images: the parent, its parent, and so on.
    pub layers: Vec<Stored>,
    pieces: Vec<Piece>,
    /// Range of `pieces` of each region.
    pieces_of: Vec<Range<usize>>,
}

impl Chain {
    /// The chain of an image without a parent.
    pub fn alone(chunks: &[Chunk], chunks_of: Vec<Range<usize>>) -> Chain {
        Chain {
            layers: Vec::new(),
            pieces: own(chunks).collect(),
            pieces_of: chunks_of,
        }
    }

    /// The chain of an increment with these chunks and regions. `runs` are the pages that it inherits from
    /// its parent. The parent is stored in `parent` and has the chain `below`.
    pub fn upon(
        chunks: &[Chunk],
        regions: &[Region],
        runs: &[Range<u64>],
        parent: Stored,
        below: Chain,
    ) -> Chain {
        let mut pieces: Vec<Piece> = own(chunks).collect();
        pieces.extend(within(runs, &below.pieces));
        pieces.sort_unstable_by_key(|piece| piece.address);
        let of = |region: &Region| {
            let first = pieces.partition_point(|piece| piece.address < region.start);
            first..first + pieces[first..].partition_point(|piece| piece.address < region.end())
        };
        let pieces_of = regions.iter().map(of).collect();
        Chain {
            layers: std::iter::once(parent).chain(below.layers).collect(),
            pieces,
            pieces_of,
        }
    }

    /// The pieces of a region, in ascending order.
    pub fn pieces_of(&self, region: usize) -> &[Piece] {
        &self.pieces[self.pieces_of[region].clone()]
    }
}

fn own(chunks: &[Chunk]) -> impl Iterator<Item = Piece> + '_ {
    // A table whose number of chunks overflows would fill 128 GiB.
    (0..).zip(chunks).map(|(index, chunk)| Piece {
        address: chunk.address,
        len: chunk.len,
        layer: 0,
        chunk: index,
    })
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
                // The length is at most that of the piece.
                len: (piece.end().min(run.end) - address) as u32,
                layer: piece.layer + 1,
                chunk: piece.chunk,
            }
        })
    })
}
