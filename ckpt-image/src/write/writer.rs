//! The writer of one rank's image. Memory comes first, then the sections and their directory. The header
//! comes last, so that a truncated file has no valid header.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::Path;

use job_spec::Compression;
use serde::{Deserialize, Serialize};

use crate::error::{ImageError, Result};
use crate::format::bytes::{all_zero, hex, round_up};
use crate::format::chunk::{Chunk, Digests, Encoding, CHUNK_BYTES};
use crate::format::header::{Header, Layout, PAGE};
use crate::format::parent_pages::ParentPages;
use crate::format::region::{Backing, Region};
use crate::format::section::{kind, Entry, Section};
use crate::format::shared_object::SharedObject;
use crate::format::zero_runs::{self, Span};
use crate::fs::file_system::{FileSystem, OutputFile};
use crate::write::compress::Compressor;
use crate::write::write_behind::{Block, Part, WriteBehind};

/// Memory that is written to an image.
pub trait MemorySource {
    /// Copies `into.len()` bytes from `address`.
    ///
    /// # Errors
    /// The memory cannot be read; the image is then given up.
    fn read(&mut self, address: u64, into: &mut [u8]) -> io::Result<()>;

    /// Whether the source can write the memory itself, which saves a copy of it.
    fn can_write(&self) -> bool {
        false
    }

    /// Writes the memory to a file, if it can, and returns its spans from the start of the runs.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] from a source that cannot write; the error of a write.
    fn write(&mut self, _order: &WriteOrder<'_>) -> io::Result<Vec<Span>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Order for [`MemorySource::write`].
#[derive(Debug)]
pub struct WriteOrder<'a> {
    /// Target file.
    pub file: BorrowedFd<'a>,
    /// Offset of the first span in the file; the next ones follow it.
    pub offset: u64,
    /// Memory to write: whole pages, at most [`WriteOrder::MOST_RUNS`] and [`WriteOrder::MOST_BYTES`].
    pub runs: &'a [Range<u64>],
    /// Largest number of written spans. Zeros are reported, but not written.
    pub spans: u32,
}

impl WriteOrder<'_> {
    /// Largest number of runs in one order.
    pub const MOST_RUNS: usize = 64;
    /// Largest number of bytes in one order; a few system calls are negligible beside them.
    pub const MOST_BYTES: u64 = 2 << 20;

    /// All of `runs`, in parts that one order may hold.
    pub fn parts(runs: &[Range<u64>]) -> impl Iterator<Item = Vec<Range<u64>>> + '_ {
        let mut left = Left::of(runs);
        std::iter::from_fn(move || Some(left.take_order()).filter(|part| !part.is_empty()))
    }
}

/// Summary of a finished image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageSummary {
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Bytes of memory whose content is in the file.
    pub memory_bytes: u64,
    /// Digest for the manifest, in hexadecimal.
    pub digest: String,
}

/// An image that is being written. Dropping it before [`ImageWriter::finish`] removes its file.
pub struct ImageWriter {
    file: WriteBehind,
    header: Header,
    at: u64,
    regions: Vec<Region>,
    shared: Vec<SharedObject>,
    chunks: Vec<Chunk>,
    digests: Option<Digests>,
    parent_pages: Option<ParentPages>,
    sections: Vec<Section>,
    compressor: Compressor,
    /// None after a failed write.
    block: Option<Block>,
    memory_bytes: u64,
    finished: bool,
}

impl ImageWriter {
    /// Creates the image `path`, which must not exist.
    ///
    /// # Errors
    /// [`ImageError::Io`] if the file exists or cannot be made.
    pub fn create(
        fs: &FileSystem,
        path: &Path,
        header: Header,
        compression: Compression,
    ) -> Result<ImageWriter> {
        let compressor =
            Compressor::new(compression).map_err(|e| ImageError::io("start zstd for", path, e))?;
        let file = fs
            .create(path)
            .map_err(|e| ImageError::io("create", path, e))?;
        let (file, block) = WriteBehind::new(file, header.world_size);
        Ok(ImageWriter {
            file,
            header,
            at: PAGE,
            regions: Vec::new(),
            shared: Vec::new(),
            chunks: Vec::new(),
            digests: None,
            parent_pages: None,
            sections: Vec::new(),
            compressor,
            block: Some(block),
            memory_bytes: 0,
            finished: false,
        })
    }

    /// Adds a digest of every chunk, which an image of a sealed set needs. Called before any region is
    /// added.
    pub fn sealed(&mut self) {
        self.digests = Some(Digests::default());
    }

    /// Makes the image an increment with these inherited pages. They lie in its regions, and the image
    /// stores nothing of them.
    pub fn inherit(&mut self, parent_pages: ParentPages) {
        self.parent_pages = Some(parent_pages);
    }

    /// Adds a section.
    pub fn section(&mut self, section: Section) {
        self.sections.push(section);
    }

    /// Sets the objects that regions refer to by index.
    pub fn shared(&mut self, objects: Vec<SharedObject>) {
        self.shared = objects;
    }

    /// Adds a region with the content of `runs`, page-aligned parts of it in ascending order. Zero pages
    /// are detected here. Regions are added in ascending order.
    ///
    /// # Errors
    /// [`ImageError::Unsaveable`] if the region is not where it may be, or cannot be read; [`ImageError::Io`] if the
    /// file cannot be written.
    pub fn region(
        &mut self,
        region: Region,
        runs: &[Range<u64>],
        memory: &mut dyn MemorySource,
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
        // A block gathers several small runs, so that scattered pages do not cost a system call each.
        // Memory is copied into it once, so the checksum is that of the written bytes. A signal may change
        // the dead part of a parked thread's stack meanwhile.
        let mut block = self.block.take().ok_or_else(|| self.given_up())?;
        // After zeros there may be more zeros.
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

    /// Lets `memory` write itself, if it can, up to the next data that is worth compressing. The memory may
    /// begin with `zeros`.
    fn write_unread(
        &mut self,
        left: &mut Left<'_>,
        memory: &mut dyn MemorySource,
        keep_zeros: bool,
        mut zeros: bool,
    ) -> Result<()> {
        // Digests need the bytes that were read.
        if !memory.can_write() || self.digests.is_some() {
            return Ok(());
        }
        loop {
            // Zeros compress well, and are not stored at all.
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
            // The write may have ended before a non-zero page.
            zeros &= left.passed(&ahead);
            self.file.wrote(self.at - offset);
        }
    }

    /// Whether a sample of the next chunk shows that compression is not worth it. Only the sample is read.
    fn refuses_next(&mut self, left: &Left<'_>, memory: &mut dyn MemorySource) -> Result<bool> {
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

    /// Writes the pieces of the block as chunks. Returns an empty block.
    fn store(
        &mut self,
        mut block: Block,
        pieces: &[(u64, Range<usize>)],
        keep_zeros: bool,
    ) -> Result<Block> {
        block.offset = self.at;
        for (address, place) in pieces {
            for (zero, part) in zero_runs::runs(&block.memory[place.clone()]) {
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

    /// Writes the remaining data and makes the file durable.
    ///
    /// # Errors
    /// [`ImageError::Io`]. The file is no image then.
    pub fn finish(mut self) -> Result<ImageSummary> {
        let regions = postcard::to_stdvec(&self.regions)
            .map_err(|e| self.failed(io::Error::other(format!("encoding the regions: {e}"))))?;
        let chunks = self.chunks.iter().flat_map(Chunk::encode).collect();
        let mut own = vec![kind::REGIONS.section(regions), kind::CHUNKS.section(chunks)];
        if !self.shared.is_empty() {
            let shared = postcard::to_stdvec(&self.shared)
                .map_err(|e| self.failed(io::Error::other(format!("encoding the objects: {e}"))))?;
            own.push(kind::SHARED.section(shared));
        }
        if let Some(parent_pages) = self.parent_pages.take() {
            let fits = parent_pages.fits(&self.regions, &self.chunks);
            let parent_pages = parent_pages.encode().filter(|_| fits).ok_or_else(|| {
                self.failed(io::Error::other(
                    "the inherited pages do not fit its memory",
                ))
            })?;
            own.push(kind::INHERITED.section(parent_pages));
        }
        if let Some(digests) = self.digests.take() {
            own.push(kind::DIGESTS.section(digests.into_bytes()));
        }
        let sections: Vec<Section> = own.into_iter().chain(self.sections.drain(..)).collect();

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

        // The chunk table has every chunk's checksum, so this digest covers the whole file without a second
        // pass over the memory. Such a pass would cost a quarter of the speed.
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
        let write = |file: &OutputFile| {
            file.write_at(&mut tail, sections_at)?;
            file.write_at(&mut [IoSlice::new(&header)], 0)?;
            file.free_reserved()?;
            file.sync()
        };
        let written = self.file.finish().and_then(write);
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
            // A further failure cannot be handled; without a manifest the file is no checkpoint.
            let _ = self.file.finish();
            let _ = self.file.file().remove();
        }
    }
}

/// Reason why a region and its runs are invalid after `before`, if there is one.
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

/// The unwritten rest of some runs.
#[derive(Clone)]
struct Left<'a> {
    runs: &'a [Range<u64>],
    /// Written bytes of the first run.
    done: u64,
    /// Remaining bytes of all runs.
    bytes: u64,
}

impl Left<'_> {
    /// The whole of `runs`.
    fn of(runs: &[Range<u64>]) -> Left<'_> {
        Left {
            runs,
            done: 0,
            bytes: runs.iter().map(|run| run.end - run.start).sum(),
        }
    }

    /// The next contiguous bytes, at most `most`; none at the end.
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
            // A run may be empty.
            true if most > 0 => self.next(most),
            true => None,
            false => Some(next),
        }
    }

    /// The part that one [`WriteOrder`] may hold.
    fn ahead(&self) -> Vec<Range<u64>> {
        self.clone().take_order()
    }

    /// The same part, which is not left any more.
    fn take_order(&mut self) -> Vec<Range<u64>> {
        let mut bytes = 0;
        let next = || {
            let next = self.next(WriteOrder::MOST_BYTES - bytes)?;
            bytes += next.end - next.start;
            Some(next)
        };
        std::iter::from_fn(next)
            .take(WriteOrder::MOST_RUNS)
            .collect()
    }

    /// Whether all of these runs are written.
    fn passed(&self, runs: &[Range<u64>]) -> bool {
        let next = self.runs.first().map(|first| first.start + self.done);
        next.is_none_or(|next| runs.last().is_none_or(|last| last.end <= next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_run_does_not_end_the_iteration() {
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
