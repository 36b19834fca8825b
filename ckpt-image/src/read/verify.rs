//! Verification of an image's file: sections, tables, digest, and every memory chunk.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Damage, ImageError};
use crate::format::bytes::{all_zero, hex};
use crate::format::chunk::{Chunk, Digests, CHUNK_BYTES};
use crate::format::header::{Layout, HEADER_BYTES, PAGE};
use crate::format::parent_pages::ParentPages;
use crate::format::region::Region;
use crate::format::section::{self, kind, known, Entry, Section, SectionKind, MAX_SECTIONS};
use crate::format::shared_object::SharedObject;
use crate::parallel::side_by_side;
use crate::read::expect::Expect;
use crate::read::stored::check_chunk;
use crate::read::tables::{
    check_shared, decode_chunks, decode_regions, decode_shared, place_chunks,
};

/// The first page, read once: the verified bytes are the used ones.
pub(super) type First = [u8; PAGE as usize];

/// Reason why a file is not a usable image.
pub(super) enum Fault {
    Io(io::Error),
    Damage(Damage),
}

impl Fault {
    pub(super) fn of(self, path: &Path, rank: u32) -> ImageError {
        match self {
            Fault::Io(e) => ImageError::io("read", path, e),
            Fault::Damage(damage) => ImageError::damaged(path, rank, damage),
        }
    }
}

impl From<Damage> for Fault {
    fn from(damage: Damage) -> Fault {
        Fault::Damage(damage)
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        Fault::Io(error)
    }
}

fn contradiction<T>(what: &'static str) -> std::result::Result<T, Fault> {
    Err(Damage::Layout(what).into())
}

/// Content of the file after the header.
pub(super) struct Contents {
    pub(super) digest: String,
    pub(super) regions: Vec<Region>,
    pub(super) shared: Vec<SharedObject>,
    pub(super) chunks: Vec<Chunk>,
    pub(super) digests: Option<Digests>,
    pub(super) chunks_of: Vec<Range<usize>>,
    pub(super) parent_pages: Option<ParentPages>,
    pub(super) sections: Vec<Section>,
}

impl Contents {
    pub(super) fn read(
        file: &File,
        first: &First,
        layout: &Layout,
        expect: &Expect,
    ) -> std::result::Result<Contents, Fault> {
        let (header, padding) = first.split_at(HEADER_BYTES);
        if !all_zero(padding) {
            return contradiction("the space after the header is not empty");
        }
        let directory = read_directory(file, layout)?;
        let mut sections = read_sections(file, layout, &directory)?;

        let mut digest = blake3::Hasher::new();
        digest.update(header);
        for section in &sections {
            digest.update(&section.bytes);
        }
        digest.update(&directory);
        let digest = hex(digest.finalize().as_bytes());
        if expect
            .digest
            .as_ref()
            .is_some_and(|expected| *expected != digest)
        {
            return Err(Damage::Digest.into());
        }

        let regions = decode_regions(&take(&mut sections, kind::REGIONS)?)?;
        let shared = match take_if_there(&mut sections, kind::SHARED) {
            Some(bytes) => decode_shared(&bytes)?,
            None => Vec::new(),
        };
        check_shared(&regions, &shared)?;
        let chunks = decode_chunks(&take(&mut sections, kind::CHUNKS)?)?;
        let chunks_of = place_chunks(&regions, &chunks, layout.sections_at)?;
        let digests = match take_if_there(&mut sections, kind::DIGESTS) {
            Some(bytes) => {
                let digests = Digests::decode(bytes, chunks.len());
                Some(digests.ok_or(Damage::Section(kind::DIGESTS.name))?)
            }
            None if expect.sealed => return Err(Damage::NoDigests.into()),
            None => None,
        };
        let parent_pages = match take_if_there(&mut sections, kind::INHERITED) {
            Some(bytes) => {
                let parent_pages =
                    ParentPages::decode(&bytes).ok_or(Damage::Section(kind::INHERITED.name))?;
                if !parent_pages.fits(&regions, &chunks) {
                    return contradiction("the inherited pages");
                }
                Some(parent_pages)
            }
            None => None,
        };
        verify_memory(file, &chunks, digests.as_ref(), expect.verified.as_deref())?;
        Ok(Contents {
            digest,
            regions,
            shared,
            chunks,
            digests,
            chunks_of,
            parent_pages,
            sections,
        })
    }
}

/// Reads the section directory, whose offset and checksum are in the header.
fn read_directory(file: &File, layout: &Layout) -> std::result::Result<Vec<u8>, Fault> {
    let bytes = u64::from(layout.directory_entries) * section::ENTRY_BYTES as u64;
    let fits = layout.sections_at >= PAGE
        && layout.sections_at.is_multiple_of(PAGE)
        && layout.sections_at <= layout.directory_at
        && layout.directory_entries <= MAX_SECTIONS
        && layout.directory_at.checked_add(bytes) == Some(layout.file_bytes);
    if !fits {
        return contradiction("the header's offsets");
    }
    let directory = read_at(file, layout.directory_at, bytes)?;
    match crc32fast::hash(&directory) == layout.directory_crc {
        true => Ok(directory),
        false => Err(Damage::DirectoryChecksum.into()),
    }
}

/// Checks that the image has the section that a sealed set needs.
pub(super) fn has_digests(file: &File, layout: &Layout) -> std::result::Result<(), Fault> {
    let directory = read_directory(file, layout)?;
    let mut entries = directory.chunks_exact(section::ENTRY_BYTES);
    match entries.any(|entry| Entry::decode(entry).kind == kind::DIGESTS.number) {
        true => Ok(()),
        false => Err(Damage::NoDigests.into()),
    }
}

/// Reads `len` bytes; the caller has checked that they lie inside the file.
fn read_at(file: &File, offset: u64, len: u64) -> io::Result<Vec<u8>> {
    let len = usize::try_from(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(len)
        .map_err(|_| io::ErrorKind::OutOfMemory)?;
    bytes.resize(len, 0);
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

fn read_sections(
    file: &File,
    layout: &Layout,
    directory: &[u8],
) -> std::result::Result<Vec<Section>, Fault> {
    let mut sections: Vec<Section> = Vec::new();
    let mut at = layout.sections_at;
    for bytes in directory.chunks_exact(section::ENTRY_BYTES) {
        let entry = Entry::decode(bytes);
        // This also detects reserved bytes that are in use.
        if entry.encode() != bytes {
            return contradiction("a directory entry has fields of another version");
        }
        let end = at
            .checked_add(entry.len)
            .filter(|end| *end <= layout.directory_at);
        let (true, Some(end)) = (entry.offset == at, end) else {
            return contradiction("a section lies outside its place");
        };
        let Some(kind) = known(entry.kind, entry.version) else {
            return Err(Damage::UnknownSection {
                kind: entry.kind,
                version: entry.version,
            }
            .into());
        };
        if sections.iter().any(|section| section.kind == entry.kind) {
            return contradiction("a section occurs twice");
        }
        let bytes = read_at(file, entry.offset, entry.len)?;
        if crc32fast::hash(&bytes) != entry.crc {
            return Err(Damage::SectionChecksum {
                name: kind.name.to_owned(),
                offset: entry.offset,
            }
            .into());
        }
        sections.push(Section {
            kind: entry.kind,
            version: entry.version,
            bytes,
        });
        at = end;
    }
    if at != layout.directory_at {
        return contradiction("there are bytes between sections and directory");
    }
    Ok(sections)
}

fn take(sections: &mut Vec<Section>, kind: SectionKind) -> std::result::Result<Vec<u8>, Damage> {
    take_if_there(sections, kind).ok_or(Damage::NoSection(kind.name))
}

fn take_if_there(sections: &mut Vec<Section>, kind: SectionKind) -> Option<Vec<u8>> {
    let at = sections
        .iter()
        .position(|section| section.kind == kind.number)?;
    Some(sections.remove(at).bytes)
}

/// Checks all memory chunks.
fn verify_memory(
    file: &File,
    chunks: &[Chunk],
    digests: Option<&Digests>,
    verified: Option<&AtomicU64>,
) -> std::result::Result<(), Fault> {
    side_by_side(chunks, |first, part| {
        verify_part(file, first, part, digests, verified)
    })
}

/// Checks the contiguous chunks from `first` on.
fn verify_part(
    file: &File,
    first: usize,
    chunks: &[Chunk],
    digests: Option<&Digests>,
    verified: Option<&AtomicU64>,
) -> std::result::Result<(), Fault> {
    let Some(offset) = chunks.first().map(|chunk| chunk.offset) else {
        return Ok(());
    };
    // Large chunks are read past the buffer, small ones through it.
    let mut reader = BufReader::with_capacity(CHUNK_BYTES, ReadFrom { file, offset });
    let mut buffer = vec![0; CHUNK_BYTES];
    for (index, chunk) in (first..).zip(chunks) {
        let stored = chunk.stored as usize;
        let padded = stored.next_multiple_of(PAGE as usize);
        reader.read_exact(&mut buffer[..padded])?;
        check_chunk(index, chunk, &buffer[..stored], digests)?;
        if !all_zero(&buffer[stored..padded]) {
            return contradiction("the space between two chunks is not empty");
        }
        if let Some(verified) = verified {
            verified.fetch_add(padded as u64, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// A file from an offset on, with its own position.
struct ReadFrom<'a> {
    file: &'a File,
    offset: u64,
}

impl Read for ReadFrom<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(into, self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }
}
