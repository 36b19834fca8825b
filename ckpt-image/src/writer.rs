//! Writing one rank's image: memory first, then the sections, the directory, and last the header,
//! so that a file that was cut off at any point has no valid header.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::behind::{Behind, Block, Part};
use crate::bytes::{all_zero, hex, round_up};
use crate::chunk::{Chunk, Digests, Encoding, CHUNK_BYTES};
use crate::compress::{Compression, Compressor};
use crate::disk::{Disk, DiskFile};
use crate::error::{ImageError, Result};
use crate::header::{Header, Layout, PAGE};
use crate::inherited::Inherited;
use crate::region::{Backing, Region};
use crate::section::{kind, Entry, Section};
use crate::shared::SharedObject;
use crate::span::{self, Span};

/// Where the writer gets memory from.
pub trait ReadMemory {
    /// Copies `into.len()` bytes from `address`.
    fn read(&mut self, address: u64, into: &mut [u8]) -> io::Result<()>;

    /// Whether it can be written without being handed out, which saves a copy of it.
    fn writes(&self) -> bool {
        false
    }

    /// Writes it to a file, if it can, and tells its spans from the beginning of the runs on.
    fn write(&mut self, _order: &WriteOrder<'_>) -> io::Result<Vec<Span>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// What [`ReadMemory::write`] is to write.
#[derive(Debug)]
pub struct WriteOrder<'a> {
    /// Where to.
    pub file: BorrowedFd<'a>,
    /// Where in it, for the first span; one follows the other.
    pub offset: u64,
    /// The memory: whole pages, at most [`WriteOrder::MOST_RUNS`] and [`WriteOrder::MOST_BYTES`].
    pub runs: &'a [Range<u64>],
    /// So many spans may be written: before the next one it ends. Zeros are told of, and not written.
    pub spans: u32,
}

impl WriteOrder<'_> {
    /// Runs in one order.
    pub const MOST_RUNS: usize = 64;
    /// Bytes in one order, beside which a few system calls are nothing.
    pub const MOST_BYTES: u64 = 2 << 20;
}

/// What a rank reports about its finished image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageSummary {
    /// Length of the file.
    pub bytes: u64,
    /// Memory that the file holds the content of.
    pub memory_bytes: u64,
    /// The digest that the manifest records, in hexadecimal.
    pub digest: String,
}

/// An image being written. Dropped before [`ImageWriter::finish`], it removes its file.
pub struct ImageWriter {
    file: Behind,
    header: Header,
    at: u64,
    regions: Vec<Region>,
    shared: Vec<SharedObject>,
    chunks: Vec<Chunk>,
    digests: Option<Digests>,
    inherited: Option<Inherited>,
    sections: Vec<Section>,
    compressor: Compressor,
    /// None after it could not be written.
    block: Option<Block>,
    memory_bytes: u64,
    finished: bool,
}

impl ImageWriter {
    /// Starts the image `path`, which must not exist.
    pub fn create(
        disk: &Disk,
        path: &Path,
        header: Header,
        compression: Compression,
    ) -> Result<ImageWriter> {
        let compressor =
            Compressor::new(compression).map_err(|e| ImageError::io("start zstd for", path, e))?;
        let file = disk
            .create(path)
            .map_err(|e| ImageError::io("create", path, e))?;
        let (file, block) = Behind::new(file, header.world_size);
        Ok(ImageWriter {
            file,
            header,
            at: PAGE,
            regions: Vec::new(),
            shared: Vec::new(),
            chunks: Vec::new(),
            digests: None,
            inherited: None,
            sections: Vec::new(),
            compressor,
            block: Some(block),
            memory_bytes: 0,
            finished: false,
        })
    }

    /// Has it hold a digest of every chunk, as an image of a sealed set must. Called before any region
    /// is added.
    pub fn sealed(&mut self) {
        self.digests = Some(Digests::default());
    }

    /// Makes it an increment: these pages, which lie in its regions and of which nothing is stored here, are
    /// the parent's.
    pub fn inherit(&mut self, inherited: Inherited) {
        self.inherited = Some(inherited);
    }

    /// Adds a section of one of the kinds in [`kind`].
    pub fn section(&mut self, kind: u32, version: u32, bytes: Vec<u8>) {
        self.sections.push(Section {
            kind,
            version,
            bytes,
        });
    }

    /// Sets the objects that regions name by their index.
    pub fn shared(&mut self, objects: Vec<SharedObject>) {
        self.shared = objects;
    }

    /// Adds a region with the content of `runs`, page-aligned parts of it in ascending order. Zero
    /// pages are found here. Regions are added in ascending order.
    pub fn region(
        &mut self,
        region: Region,
        runs: &[Range<u64>],
        memory: &mut dyn ReadMemory,
    ) -> Result<()> {
        let unsaveable = |why: String| ImageError::Unsaveable {
            start: region.start,
            end: region.start.saturating_add(region.len),
            why,
        };
        if let Some(why) = misplaced(&region, runs, self.regions.last()) {
            return Err(unsaveable(why.to_owned()));
        }
        let keep_zeros = region.backing != Backing::Anonymous;
        self.compressor.start_region();
        let mut left = Left::of(runs);
        // A block gathers several runs where they are small, so that scattered pages do not cost a
        // system call each. Memory is copied once into it: what is checked is then what is
        // written, even if a signal touches the dead part of a parked thread's stack meanwhile.
        let mut block = self.block.take().ok_or_else(|| self.given_up())?;
        // Behind zeros there may be more.
        let mut zeros = true;
        loop {
            if zeros || self.compressor.refuses() > 0 {
                self.write_unread(&mut left, memory, keep_zeros, zeros)?;
            }
            let mut filled = 0;
            let mut pieces: Vec<(u64, Range<usize>)> = Vec::new();
            while let Some(run) = left.next((CHUNK_BYTES - filled) as u64) {
                let place = filled..filled + (run.end - run.start) as usize;
                filled = place.end;
                memory
                    .read(run.start, &mut block.memory[place.clone()])
                    .map_err(|e| unsaveable(format!("reading {:#x} failed: {e}", run.start)))?;
                pieces.push((run.start, place));
            }
            let Some(last) = filled.checked_sub(PAGE as usize) else {
                break;
            };
            zeros = all_zero(&block.memory[last..filled]);
            block = self.store(block, &pieces, keep_zeros)?;
        }
        self.block = Some(block);
        self.regions.push(region);
        Ok(())
    }

    /// Has `memory` write itself, if it can, up to what is worth to be compressed. It may begin with `zeros`.
    fn write_unread(
        &mut self,
        left: &mut Left<'_>,
        memory: &mut dyn ReadMemory,
        keep_zeros: bool,
        mut zeros: bool,
    ) -> Result<()> {
        // Digests are made of what was read.
        if !memory.writes() || self.digests.is_some() {
            return Ok(());
        }
        loop {
            // Zeros promise much, and are not stored at all.
            let seen = zeros || self.compressor.refuses() > 0;
            if !seen && !self.refuses_next(left, memory)? {
                return Ok(());
            }
            let ahead = left.ahead();
            if ahead.is_empty() {
                return Ok(());
            }
            let (offset, spans) = (self.at, self.compressor.refuses());
            self.file.expect(offset, left.bytes);
            let write = |file: BorrowedFd<'_>| {
                memory.write(&WriteOrder {
                    file,
                    offset,
                    runs: &ahead,
                    spans,
                })
            };
            let written = self.file.file().write_by(write);
            let spans = written.map_err(|e| self.failed(e))?;
            zeros = spans.last().is_some_and(|last| last.crc.is_none());
            for Span { len, crc } in spans {
                let Some(run) = left.next(len.into()) else {
                    break;
                };
                let mut chunk = Chunk::zeros(run.start, len, self.at);
                if let Some(crc) = crc {
                    self.compressor.refuse();
                    self.at += u64::from(len);
                    self.memory_bytes += u64::from(len);
                    (chunk.stored, chunk.crc, chunk.encoding) = (len, crc, Encoding::Raw);
                }
                if crc.is_some() || keep_zeros {
                    self.chunks.push(chunk);
                }
            }
            // Before what is not zero it may have ended.
            zeros &= left.passed(&ahead);
            self.file.wrote(self.at - offset);
        }
    }

    /// Whether a sample of the next chunk, which is all that is read of it, says that it is not to be compressed.
    fn refuses_next(&mut self, left: &Left<'_>, memory: &mut dyn ReadMemory) -> Result<bool> {
        let Some(next) = left.clone().next(CHUNK_BYTES as u64) else {
            return Ok(false);
        };
        let len = (next.end - next.start) as usize;
        self.compressor.refuses_sample(len, |from, piece| {
            let address = next.start + from as u64;
            memory
                .read(address, piece)
                .map_err(|e| ImageError::Unsaveable {
                    start: next.start,
                    end: next.end,
                    why: format!("reading {address:#x} failed: {e}"),
                })
        })
    }

    /// Writes the pieces of the block as chunks. Returns a block to go on with.
    fn store(
        &mut self,
        mut block: Block,
        pieces: &[(u64, Range<usize>)],
        keep_zeros: bool,
    ) -> Result<Block> {
        block.offset = self.at;
        for (address, place) in pieces {
            for (zero, part) in span::runs(&block.memory[place.clone()]) {
                let (start, end) = (place.start + part.start, place.start + part.end);
                let content = &block.memory[start..end];
                let address = address + part.start as u64;
                let mut chunk = Chunk::zeros(address, content.len() as u32, self.at);
                if zero {
                    if keep_zeros {
                        self.chunks.push(chunk);
                        self.digests.iter_mut().for_each(|digests| digests.add(&[]));
                    }
                    continue;
                }
                let from = block.compressed.len();
                let compressed = self.compressor.try_compress(content, &mut block.compressed);
                let stored = match compressed {
                    Some(len) => {
                        chunk.encoding = Encoding::Zstd;
                        block.parts.push(Part::Compressed(from..from + len));
                        &block.compressed[from..from + len]
                    }
                    None => {
                        chunk.encoding = Encoding::Raw;
                        block.parts.push(Part::Memory(start..end));
                        content
                    }
                };
                chunk.stored = stored.len() as u32;
                chunk.crc = crc32fast::hash(stored);
                self.digests
                    .iter_mut()
                    .for_each(|digests| digests.add(stored));
                self.at += padded(stored.len());
                self.memory_bytes += content.len() as u64;
                self.chunks.push(chunk);
            }
        }
        match block.parts.is_empty() {
            true => Ok(block),
            false => self.file.write(block).map_err(|e| self.failed(e)),
        }
    }

    /// Writes what is left and makes the file durable.
    pub fn finish(mut self) -> Result<ImageSummary> {
        let regions = postcard::to_stdvec(&self.regions)
            .map_err(|e| self.failed(io::Error::other(format!("encoding the regions: {e}"))))?;
        let chunks = self.chunks.iter().flat_map(Chunk::encode).collect();
        let mut own = vec![(kind::REGIONS, 2, regions), (kind::CHUNKS, 1, chunks)];
        if !self.shared.is_empty() {
            let shared = postcard::to_stdvec(&self.shared)
                .map_err(|e| self.failed(io::Error::other(format!("encoding the objects: {e}"))))?;
            own.push((kind::SHARED, 1, shared));
        }
        if let Some(inherited) = self.inherited.take() {
            let fits = inherited.fits(&self.regions, &self.chunks);
            let inherited = inherited.encode().filter(|_| fits).ok_or_else(|| {
                self.failed(io::Error::other("what it inherits does not fit its memory"))
            })?;
            own.push((kind::INHERITED, 1, inherited));
        }
        if let Some(digests) = self.digests.take() {
            own.push((kind::DIGESTS, 1, digests.into_bytes()));
        }
        let own = own.into_iter().map(|(kind, version, bytes)| Section {
            kind,
            version,
            bytes,
        });
        let sections: Vec<Section> = own.chain(self.sections.drain(..)).collect();

        let sections_at = self.at;
        let mut offset = sections_at;
        let mut directory = Vec::new();
        for section in &sections {
            let entry = Entry {
                kind: section.kind,
                version: section.version,
                offset,
                len: section.bytes.len() as u64,
                crc: crc32fast::hash(&section.bytes),
            };
            offset += entry.len;
            directory.extend_from_slice(&entry.encode());
        }
        let header = self.header.encode(&Layout {
            sections_at,
            directory_at: offset,
            directory_entries: sections.len() as u32,
            directory_crc: crc32fast::hash(&directory),
            file_bytes: offset + directory.len() as u64,
        });

        // Every memory chunk's checksum is in the chunk table, so this covers the whole file
        // without a second pass over the memory (which would cost a quarter of the speed).
        let mut digest = blake3::Hasher::new();
        digest.update(&header);
        let tail: Vec<&[u8]> = sections
            .iter()
            .map(|section| &section.bytes[..])
            .chain([&directory[..]])
            .collect();
        for part in &tail {
            digest.update(part);
        }
        let mut tail: Vec<IoSlice<'_>> = tail.into_iter().map(IoSlice::new).collect();
        let write = |file: &DiskFile| {
            file.write_at(&mut tail, sections_at)?;
            file.write_at(&mut [IoSlice::new(&header)], 0)?;
            file.give_back()?;
            file.sync()
        };
        let written = self.file.settled().and_then(write);
        written.map_err(|e| self.failed(e))?;
        self.finished = true;
        Ok(ImageSummary {
            bytes: offset + directory.len() as u64,
            memory_bytes: self.memory_bytes,
            digest: hex(digest.finalize().as_bytes()),
        })
    }

    fn failed(&self, error: io::Error) -> ImageError {
        ImageError::io("write", self.file.file().path(), error)
    }

    fn given_up(&self) -> ImageError {
        self.failed(io::Error::other("an earlier part could not be stored"))
    }
}

impl Drop for ImageWriter {
    fn drop(&mut self) {
        if !self.finished {
            // Nothing can be done if this fails too; without a manifest the file is no checkpoint.
            let _ = self.file.settled();
            let _ = self.file.file().remove();
        }
    }
}

/// Why a region and its runs cannot stand in an image after `before`.
fn misplaced(
    region: &Region,
    runs: &[Range<u64>],
    before: Option<&Region>,
) -> Option<&'static str> {
    let aligned = |n: u64| n.is_multiple_of(PAGE);
    let Some(end) = region.start.checked_add(region.len) else {
        return Some("it wraps around the end of memory");
    };
    if !aligned(region.start) || !aligned(region.len) || region.len == 0 {
        return Some("it does not consist of whole pages");
    }
    if before.is_some_and(|before| before.end() > region.start) {
        return Some("it lies before or over the region before it");
    }
    if !runs.is_empty() && !region.backing.has_content() {
        return Some("shared mappings have no content of their own");
    }
    let mut from = region.start;
    for run in runs {
        if run.start < from || run.end < run.start || !aligned(run.start) || !aligned(run.end) {
            return Some("the parts to save are out of order");
        }
        from = run.end;
    }
    (from > end).then_some("the parts to save reach beyond it")
}

fn padded(len: usize) -> u64 {
    // Chunks are far too small to overflow.
    round_up(len as u64, PAGE).unwrap_or(u64::MAX)
}

/// What is left of some runs.
#[derive(Clone)]
struct Left<'a> {
    runs: &'a [Range<u64>],
    /// Bytes of the first one that are done.
    done: u64,
    /// Bytes that are left of all.
    bytes: u64,
}

impl Left<'_> {
    /// All of them.
    fn of(runs: &[Range<u64>]) -> Left<'_> {
        Left {
            runs,
            done: 0,
            bytes: runs.iter().map(|run| run.end - run.start).sum(),
        }
    }

    /// The next bytes that belong together, at most so many; none at the end.
    fn next(&mut self, most: u64) -> Option<Range<u64>> {
        let (first, others) = self.runs.split_first()?;
        let start = first.start + self.done;
        let next = start..first.end.min(start + most);
        self.done += next.end - next.start;
        self.bytes -= next.end - next.start;
        if next.end == first.end {
            (self.runs, self.done) = (others, 0);
        }
        match next.is_empty() {
            // There may be a run of nothing.
            true if most > 0 => self.next(most),
            true => None,
            false => Some(next),
        }
    }

    /// What [`ReadMemory::write`] may be given of it.
    fn ahead(&self) -> Vec<Range<u64>> {
        let (mut left, mut bytes) = (self.clone(), 0);
        let next = || {
            let next = left.next(WriteOrder::MOST_BYTES - bytes)?;
            bytes += next.end - next.start;
            Some(next)
        };
        std::iter::from_fn(next)
            .take(WriteOrder::MOST_RUNS)
            .collect()
    }

    /// Whether all of these are done.
    fn passed(&self, runs: &[Range<u64>]) -> bool {
        let next = self.runs.first().map(|first| first.start + self.done);
        next.is_none_or(|next| runs.last().is_none_or(|last| last.end <= next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_nothing_ends_nothing() {
        let runs = [0..2 * PAGE, 4 * PAGE..4 * PAGE, 8 * PAGE..9 * PAGE];
        let mut left = Left::of(&runs);
        assert_eq!(left.ahead(), [0..2 * PAGE, 8 * PAGE..9 * PAGE]);
        assert_eq!(left.next(PAGE), Some(0..PAGE));
        assert_eq!(left.next(0), None);
        assert_eq!(left.next(4 * PAGE), Some(PAGE..2 * PAGE));
        assert!(!left.passed(&runs));
        assert_eq!(left.next(PAGE), Some(8 * PAGE..9 * PAGE));
        assert!(left.passed(&runs));
        assert_eq!(left.next(PAGE), None);
    }
}
