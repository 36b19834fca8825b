//! Reading one rank's image: everything is verified before anything is handed out.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use crate::access;
use crate::bytes::{all_zero, array, hex, round_up};
use crate::chain::Chain;
use crate::chunk::{self, Chunk, Digests, Encoding, CHUNK_BYTES};
use crate::descriptor;
use crate::error::{Damage, ImageError, Result};
use crate::header::{Header, Layout, SetId, HEADER_BYTES, PAGE};
use crate::inherited::{Inherited, Parent};
use crate::parallel::side_by_side;
use crate::region::{Backing, Region};
use crate::section::{self, kind, known, Entry, Section, MAX_SECTIONS};
use crate::shared::{SharedKind, SharedObject, SHARED_CONTENT};

/// End of the addresses that a program can have.
const USER_END: u64 = 1 << 47;

/// What is known about an image before it is opened. What is `None` is not compared.
#[derive(Clone, Debug, Default)]
pub struct Expect {
    /// Set that it must belong to.
    pub set_id: Option<SetId>,
    /// Rank that it must hold.
    pub rank: Option<u32>,
    /// Ranks that the job has.
    pub world_size: Option<u32>,
    /// `contract::VERSION` of this build.
    pub contract_version: Option<u32>,
    /// Page size of this machine.
    pub page_size: Option<u32>,
    /// Length according to the manifest.
    pub bytes: Option<u64>,
    /// Digest according to the manifest, in hexadecimal.
    pub digest: Option<String>,
    /// It must hold a digest of every memory chunk, because its set is sealed.
    pub sealed: bool,
    /// Not compared: counts the bytes of memory that have been verified.
    pub verified: Option<Arc<AtomicU64>>,
}

/// A verified image. That of an increment is complete, so that its [`Image::memory`] can be read, when
/// [`crate::Set::image`] has opened it.
#[derive(Debug)]
pub struct Image {
    pub(crate) stored: Stored,
    header: Header,
    digest: String,
    regions: Vec<Region>,
    shared: Vec<SharedObject>,
    /// Which of the chunks belong to each region.
    chunks_of: Vec<Range<usize>>,
    sections: Vec<Section>,
    inherited: Option<Inherited>,
    pub(crate) chain: Chain,
    /// What it inherits, if anything, is in `chain`.
    pub(crate) complete: bool,
}

/// A verified file and the memory chunks in it.
#[derive(Debug)]
pub(crate) struct Stored {
    file: File,
    path: PathBuf,
    rank: u32,
    pub chunks: Vec<Chunk>,
    digests: Option<Digests>,
}

impl Stored {
    /// Chunks are in ascending order.
    fn index_of(&self, chunk: &Chunk) -> usize {
        let found = self
            .chunks
            .binary_search_by_key(&chunk.address, |c| c.address);
        found.unwrap_or(0)
    }

    /// Whether what is stored of a chunk is what was written.
    fn check(&self, chunk: &Chunk, stored: &[u8]) -> Result<()> {
        let index = self.index_of(chunk);
        check_chunk(index, chunk, stored, self.digests.as_ref()).map_err(|d| self.damaged(d))
    }

    fn damaged(&self, damage: Damage) -> ImageError {
        ImageError::damaged(&self.path, self.rank, damage)
    }
}

impl Image {
    /// Opens the image at `path` and verifies all of it: access, header against `expect`, every
    /// checksum, the digest, and that all tables fit each other and fill the file exactly.
    pub fn open_verified(path: &Path, expect: &Expect) -> Result<Image> {
        let file = open_file(path, expect.rank)?;
        let (first, header, layout) = read_header(&file, path, expect)?;
        compare(&header, path, expect)?;
        let damaged = |damage| ImageError::damaged(path, header.rank, damage);

        let found = length(&file, path)?;
        let expected = expect.bytes.unwrap_or(layout.file_bytes);
        for expected in [layout.file_bytes, expected] {
            if found != expected {
                return Err(damaged(Damage::Length { expected, found }));
            }
        }
        let contents = Contents::read(&file, &first, &layout, expect)
            .map_err(|fault| fault.of(path, header.rank))?;
        Ok(Image {
            chain: Chain::alone(&contents.chunks, contents.chunks_of.clone()),
            stored: Stored {
                file,
                path: path.to_owned(),
                rank: header.rank,
                chunks: contents.chunks,
                digests: contents.digests,
            },
            header,
            digest: contents.digest,
            regions: contents.regions,
            shared: contents.shared,
            chunks_of: contents.chunks_of,
            sections: contents.sections,
            complete: contents.inherited.is_none(),
            inherited: contents.inherited,
        })
    }

    /// Only the header of the image at `path`, compared with `expect` (the digest aside; and of a sealed
    /// set's image, whether it has digests of its memory).
    pub fn read_header(path: &Path, expect: &Expect) -> Result<Header> {
        let file = open_low(path, expect.rank)?;
        let (_, header, layout) = read_header(&file, path, expect)?;
        compare(&header, path, expect)?;
        let found = length(&file, path)?;
        let expected = expect.bytes.unwrap_or(layout.file_bytes);
        if found != expected {
            return Err(ImageError::damaged(
                path,
                header.rank,
                Damage::Length { expected, found },
            ));
        }
        if expect.sealed {
            has_digests(&file, &layout).map_err(|fault| fault.of(path, header.rank))?;
        }
        Ok(header)
    }

    /// The header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Where the image lies.
    pub fn path(&self) -> &Path {
        &self.stored.path
    }

    /// Its digest, in hexadecimal.
    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }

    /// What it leaves to an older image; none if it stands by itself.
    pub fn inherited(&self) -> Option<&Inherited> {
        self.inherited.as_ref()
    }

    /// The image that it builds upon, if that was not given yet.
    pub(crate) fn lacks(&self) -> Option<&Parent> {
        let inherited = self.inherited.as_ref().filter(|_| !self.complete);
        inherited.map(|inherited| &inherited.parent)
    }

    /// The regions, in ascending order, none overlapping another.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// The objects that regions of kind [`Backing::Shared`] and [`Backing::SharedContent`] name.
    pub fn shared(&self) -> &[SharedObject] {
        &self.shared
    }

    /// The chunks of `regions()[region]` that are stored in this image, in ascending order, none
    /// overlapping another.
    pub fn chunks_of(&self, region: usize) -> &[Chunk] {
        &self.stored.chunks[self.chunks_of[region].clone()]
    }

    /// All chunks that are stored in this image.
    pub fn chunks(&self) -> &[Chunk] {
        &self.stored.chunks
    }

    /// The section of a kind, if the image has one.
    pub fn section(&self, kind: u32) -> Option<&Section> {
        self.sections.iter().find(|section| section.kind == kind)
    }

    /// All sections but the tables of regions, chunks, shared objects and of what is inherited.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    pub(crate) fn damaged(&self, damage: Damage) -> ImageError {
        self.stored.damaged(damage)
    }

    /// Starts reading the chunks that are stored in this image.
    pub fn loader(&self) -> Result<Loader<'_>> {
        Ok(Loader {
            image: self,
            stored: vec![0; CHUNK_BYTES],
            zstd: zstd::bulk::Decompressor::new()
                .map_err(|e| ImageError::io("start zstd for", self.path(), e))?,
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
    /// Puts the memory of one of the image's chunks into `into`, which is `chunk.len` long.
    /// Verified once more, since the file could have been changed after it was opened.
    pub fn load(&mut self, chunk: &Chunk, into: &mut [u8]) -> Result<()> {
        self.load_from(&self.image.stored, chunk, into)
    }

    /// The same for a chunk of another file of the image's chain.
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

fn open_file(path: &Path, rank: Option<u32>) -> Result<File> {
    let low = open_low(path, rank)?;
    descriptor::high(low).map_err(|e| ImageError::io("hold", path, e))
}

fn open_low(path: &Path, rank: Option<u32>) -> Result<File> {
    access::open(path).map_err(|e| match (e, rank) {
        (ImageError::Io { source, .. }, Some(rank)) if source.kind() == io::ErrorKind::NotFound => {
            ImageError::MissingImage {
                rank,
                path: path.to_owned(),
            }
        }
        (e, _) => e,
    })
}

fn length(file: &File, path: &Path) -> Result<u64> {
    file.metadata()
        .map(|meta| meta.len())
        .map_err(|e| ImageError::io("look at", path, e))
}

/// The first page, read once: what is verified of it is what is used.
type First = [u8; PAGE as usize];

fn read_header(file: &File, path: &Path, expect: &Expect) -> Result<(First, Header, Layout)> {
    let found = length(file, path)?;
    if found < PAGE {
        return Err(ImageError::damaged(
            path,
            expect.rank,
            Damage::Length {
                expected: expect.bytes.unwrap_or(PAGE),
                found,
            },
        ));
    }
    let mut first = [0; PAGE as usize];
    file.read_exact_at(&mut first, 0)
        .map_err(|e| ImageError::io("read", path, e))?;
    let (header, layout) = Header::decode(&array(&first, 0))
        .map_err(|damage| ImageError::damaged(path, expect.rank, damage))?;
    Ok((first, header, layout))
}

/// Whether the header is the one expected. Mixed up files come first: the rest follows from that.
fn compare(header: &Header, path: &Path, expect: &Expect) -> Result<()> {
    if let Some(expected) = expect.set_id.filter(|id| *id != header.set_id) {
        return Err(ImageError::MixedSet {
            path: path.to_owned(),
            rank: expect.rank.unwrap_or(header.rank),
            expected,
            found: header.set_id,
        });
    }
    if let Some(expected) = expect.rank.filter(|rank| *rank != header.rank) {
        return Err(ImageError::OtherRank {
            path: path.to_owned(),
            expected,
            found: header.rank,
        });
    }
    if let Some(job) = expect.world_size.filter(|size| *size != header.world_size) {
        return Err(ImageError::WorldSize {
            set: path.display().to_string(),
            taken: header.world_size,
            job,
        });
    }
    let found = header.contract_version;
    if let Some(expected) = expect.contract_version.filter(|version| *version != found) {
        return Err(ImageError::Contract { expected, found });
    }
    let found = header.page_size;
    if let Some(expected) = expect.page_size.filter(|size| *size != found) {
        return Err(ImageError::PageSize { expected, found });
    }
    Ok(())
}

enum Fault {
    Io(io::Error),
    Damage(Damage),
}

impl Fault {
    fn of(self, path: &Path, rank: u32) -> ImageError {
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

/// What stands behind the header.
struct Contents {
    digest: String,
    regions: Vec<Region>,
    shared: Vec<SharedObject>,
    chunks: Vec<Chunk>,
    digests: Option<Digests>,
    chunks_of: Vec<Range<usize>>,
    inherited: Option<Inherited>,
    sections: Vec<Section>,
}

impl Contents {
    fn read(
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

        let regions = decode_regions(&take(&mut sections, kind::REGIONS, "regions")?)?;
        let shared = match take_if_there(&mut sections, kind::SHARED) {
            Some(bytes) => decode_shared(&bytes)?,
            None => Vec::new(),
        };
        check_shared(&regions, &shared)?;
        let chunks = decode_chunks(&take(&mut sections, kind::CHUNKS, "chunks")?)?;
        let chunks_of = place_chunks(&regions, &chunks, layout.sections_at)?;
        let digests = match take_if_there(&mut sections, kind::DIGESTS) {
            Some(bytes) => {
                let digests = Digests::decode(bytes, chunks.len());
                Some(digests.ok_or(Damage::Section("digests"))?)
            }
            None if expect.sealed => return Err(Damage::NoDigests.into()),
            None => None,
        };
        let inherited = match take_if_there(&mut sections, kind::INHERITED) {
            Some(bytes) => {
                let inherited = Inherited::decode(&bytes).ok_or(Damage::Section("inherited"))?;
                if !inherited.fits(&regions, &chunks) {
                    return contradiction("what it inherits");
                }
                Some(inherited)
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
            inherited,
            sections,
        })
    }
}

/// The section directory, after the place and the checksum that the header gives it.
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

/// Whether the image has the section that a sealed set needs.
fn has_digests(file: &File, layout: &Layout) -> std::result::Result<(), Fault> {
    let directory = read_directory(file, layout)?;
    let mut entries = directory.chunks_exact(section::ENTRY_BYTES);
    match entries.any(|entry| Entry::decode(entry).kind == kind::DIGESTS) {
        true => Ok(()),
        false => Err(Damage::NoDigests.into()),
    }
}

/// `len` bytes, which the caller has found to lie inside the file.
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
        // Also catches reserved bytes that are in use.
        if entry.encode() != bytes {
            return contradiction("a directory entry has fields of another version");
        }
        let end = at
            .checked_add(entry.len)
            .filter(|end| *end <= layout.directory_at);
        let (true, Some(end)) = (entry.offset == at, end) else {
            return contradiction("a section lies outside its place");
        };
        let Some(name) = known(entry.kind, entry.version) else {
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
                name: name.to_owned(),
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

fn take(
    sections: &mut Vec<Section>,
    kind: u32,
    name: &'static str,
) -> std::result::Result<Vec<u8>, Damage> {
    take_if_there(sections, kind).ok_or(Damage::NoSection(name))
}

fn take_if_there(sections: &mut Vec<Section>, kind: u32) -> Option<Vec<u8>> {
    let at = sections.iter().position(|section| section.kind == kind)?;
    Some(sections.remove(at).bytes)
}

fn decode_regions(bytes: &[u8]) -> std::result::Result<Vec<Region>, Fault> {
    let (regions, rest): (Vec<Region>, _) =
        postcard::take_from_bytes(bytes).map_err(|_| Damage::Section("regions"))?;
    if !rest.is_empty() {
        return Err(Damage::Section("regions").into());
    }
    let mut from = 0;
    for region in &regions {
        let end = region.start.checked_add(region.len);
        let placed = region.start.is_multiple_of(PAGE)
            && region.len.is_multiple_of(PAGE)
            && region.len > 0
            && region.start >= from
            && end.is_some_and(|end| end <= USER_END);
        if !placed || region.prot > 7 {
            return contradiction("the regions");
        }
        from = region.end();
        if let Backing::PrivateFile { path, offset, .. }
        | Backing::SharedFile { path, offset, .. } = &region.backing
        {
            let named = path.first() == Some(&b'/') && !path.contains(&0);
            let inside = offset.is_multiple_of(PAGE)
                && offset
                    .checked_add(region.len)
                    .is_some_and(|end| i64::try_from(end).is_ok());
            if !named || !inside {
                return contradiction("the file of a region");
            }
        }
    }
    Ok(regions)
}

fn decode_shared(bytes: &[u8]) -> std::result::Result<Vec<SharedObject>, Fault> {
    let (objects, rest): (Vec<SharedObject>, _) =
        postcard::take_from_bytes(bytes).map_err(|_| Damage::Section("shared"))?;
    if !rest.is_empty() {
        return Err(Damage::Section("shared").into());
    }
    for (index, object) in objects.iter().enumerate() {
        let named = match &object.kind {
            SharedKind::Named { path, .. } | SharedKind::File { path } => {
                path.first() == Some(&b'/') && !path.contains(&0)
            }
            SharedKind::Memory { .. } | SharedKind::SystemV { .. } => true,
        };
        let twice = objects[..index].iter().any(|other| other.id == object.id);
        if !named || twice || i64::try_from(object.size).is_err() {
            return contradiction("the shared objects");
        }
    }
    Ok(objects)
}

/// Regions name objects that exist, in their place: memory below, content above.
fn check_shared(regions: &[Region], objects: &[SharedObject]) -> std::result::Result<(), Fault> {
    for region in regions {
        let (named, above) = match &region.backing {
            Backing::Shared { object, offset, .. } => (Some((object, offset)), false),
            Backing::SharedContent { object, offset } => (Some((object, offset)), true),
            _ => (None, false),
        };
        let exists = named.is_none_or(|(object, offset)| {
            let end = offset.checked_add(region.len);
            (*object as usize) < objects.len()
                && offset.is_multiple_of(PAGE)
                && end.is_some_and(|end| i64::try_from(end).is_ok())
        });
        if !exists || above != (region.start >= SHARED_CONTENT) {
            return contradiction("the shared objects of the regions");
        }
    }
    Ok(())
}

fn decode_chunks(bytes: &[u8]) -> std::result::Result<Vec<Chunk>, Damage> {
    let entries = bytes.chunks_exact(chunk::ENTRY_BYTES);
    if !entries.remainder().is_empty() {
        return Err(Damage::Section("chunks"));
    }
    entries
        .map(|entry| Chunk::decode(entry).ok_or(Damage::Section("chunks")))
        .collect()
}

/// Checks that the chunks fill the file up to `end` and lie in their regions, and tells which
/// belong to which.
fn place_chunks(
    regions: &[Region],
    chunks: &[Chunk],
    end: u64,
) -> std::result::Result<Vec<Range<usize>>, Fault> {
    let mut chunks_of = Vec::with_capacity(regions.len());
    let mut next = 0;
    let mut offset = PAGE;
    for region in regions {
        let first = next;
        let mut from = region.start;
        while let Some(chunk) = chunks.get(next).filter(|c| c.address < region.end()) {
            let len = u64::from(chunk.len);
            let stored_right = match chunk.encoding {
                Encoding::Raw => chunk.stored == chunk.len,
                Encoding::Zstd => chunk.stored > 0 && chunk.stored < chunk.len,
                Encoding::Zero => chunk.stored == 0 && chunk.crc == 0,
            };
            let placed = chunk.address >= from
                && chunk.address.is_multiple_of(PAGE)
                && len > 0
                && len.is_multiple_of(PAGE)
                && len <= CHUNK_BYTES as u64
                && len <= region.end() - chunk.address
                && chunk.offset == offset;
            if !placed || !stored_right || !region.backing.has_content() {
                return contradiction("the memory chunks");
            }
            from = chunk.address + len;
            // Both are below 2^63 by far: the offset is compared with the file's length below.
            let stored = round_up(chunk.stored.into(), PAGE).unwrap_or(0);
            offset = match offset.checked_add(stored).filter(|offset| *offset <= end) {
                Some(offset) => offset,
                None => return contradiction("a memory chunk reaches into the sections"),
            };
            next += 1;
        }
        chunks_of.push(first..next);
    }
    if next != chunks.len() {
        return contradiction("a memory chunk is outside all regions");
    }
    if offset != end {
        return contradiction("there are bytes between memory and sections");
    }
    Ok(chunks_of)
}

/// Whether the stored bytes of chunk `index` fit its checksum and, where there is one, its digest.
fn check_chunk(
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

/// Checks the chunks from `first` on, which lie one behind the other.
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

/// A file from some place on, with a position of its own.
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
