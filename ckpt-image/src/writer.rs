//! Writing one rank's image: memory first, then the sections, the directory, and last the header,
//! so that a file that was cut off at any point has no valid header.

use std::io::{self, IoSlice};
use std::ops::Range;
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

/// Where the writer gets memory from.
pub trait ReadMemory {
    /// Copies `into.len()` bytes from `address`.
    fn read(&mut self, address: u64, into: &mut [u8]) -> io::Result<()>;
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
        let (file, block) = Behind::new(file);
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
        // A block gathers several runs where they are small, so that scattered pages do not cost a
        // system call each. Memory is copied once into it: what is checked is then what is
        // written, even if a signal touches the dead part of a parked thread's stack meanwhile.
        let mut block = self.block.take().ok_or_else(|| self.given_up())?;
        let mut filled = 0;
        let mut pieces: Vec<(u64, Range<usize>)> = Vec::new();
        for run in runs {
            let mut address = run.start;
            while address < run.end {
                let take = (CHUNK_BYTES - filled).min((run.end - address) as usize);
                let place = filled..filled + take;
                memory
                    .read(address, &mut block.memory[place.clone()])
                    .map_err(|e| unsaveable(format!("reading {address:#x} failed: {e}")))?;
                pieces.push((address, place));
                address += take as u64;
                filled += take;
                if filled == CHUNK_BYTES {
                    block = self.store(block, &pieces, keep_zeros)?;
                    pieces.clear();
                    filled = 0;
                }
            }
        }
        self.block = Some(self.store(block, &pieces, keep_zeros)?);
        self.regions.push(region);
        Ok(())
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
            for (zero, part) in zero_runs(&block.memory[place.clone()]) {
                let (start, end) = (place.start + part.start, place.start + part.end);
                let content = &block.memory[start..end];
                let mut chunk = Chunk {
                    address: address + part.start as u64,
                    len: content.len() as u32,
                    stored: 0,
                    offset: self.at,
                    crc: 0,
                    encoding: Encoding::Zero,
                };
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

/// The maximal runs of zero (true) and other (false) pages in `memory`, which is whole pages.
fn zero_runs(memory: &[u8]) -> Vec<(bool, Range<usize>)> {
    let mut runs: Vec<(bool, Range<usize>)> = Vec::new();
    for (index, page) in memory.chunks_exact(PAGE as usize).enumerate() {
        let (start, zero) = (index * PAGE as usize, all_zero(page));
        match runs.last_mut() {
            Some((kind, range)) if *kind == zero => range.end += PAGE as usize,
            _ => runs.push((zero, start..start + PAGE as usize)),
        }
    }
    runs
}
