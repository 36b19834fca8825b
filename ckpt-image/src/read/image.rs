//! One rank's image, opened and verified. Everything is verified before any of it is returned.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::error::{Damage, ImageError, Result};
use crate::format::bytes::array;
use crate::format::chunk::Chunk;
use crate::format::header::{Header, Layout, PAGE};
use crate::format::parent_pages::{ParentImage, ParentPages};
use crate::format::region::Region;
use crate::format::section::{Section, SectionKind};
use crate::format::shared_object::SharedObject;
use crate::fs::{high_descriptor, permissions};
use crate::read::chain::Chain;
use crate::read::expect::Expect;
use crate::read::stored::Stored;
use crate::read::verify::{has_digests, Contents, First};

/// A verified image. The image of an increment is complete, so that [`Image::memory`] works, when
/// [`crate::Set::image`] has opened it.
#[derive(Debug)]
pub struct Image {
    pub(crate) stored: Stored,
    header: Header,
    digest: String,
    regions: Vec<Region>,
    shared: Vec<SharedObject>,
    /// Range of `chunks` of each region.
    chunks_of: Vec<Range<usize>>,
    sections: Vec<Section>,
    parent_pages: Option<ParentPages>,
    pub(crate) chain: Chain,
    /// Whether `chain` has all inherited pages.
    pub(crate) complete: bool,
}

impl Image {
    /// Opens the image at `path` and verifies all of it: access, header against `expect`, every
    /// checksum, the digest, and that all tables fit each other and fill the file exactly.
    ///
    /// # Errors
    /// [`ImageError::MissingImage`], [`ImageError::Access`], [`ImageError::Io`]; [`ImageError::Damaged`] if a byte is
    /// not what the writer wrote; and an error that names the difference if it is of another rank, set, job or
    /// contract.
    pub fn open_verified(path: &Path, expect: &Expect) -> Result<Image> {
        let file = open_file(path, expect.rank)?;
        let (first, header, layout) = read_header(&file, path, expect)?;
        expect.check(&header, path)?;
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
            complete: contents.parent_pages.is_none(),
            parent_pages: contents.parent_pages,
        })
    }

    /// Reads only the header of the image at `path` and compares it with `expect`, except the digest. For
    /// an image of a sealed set, it also checks that digests of the memory exist.
    ///
    /// # Errors
    /// As for [`Image::open_verified`], as far as the header and the length show it.
    pub fn read_header(path: &Path, expect: &Expect) -> Result<Header> {
        let file = open_low(path, expect.rank)?;
        let (_, header, layout) = read_header(&file, path, expect)?;
        expect.check(&header, path)?;
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

    /// Path of the image.
    pub fn path(&self) -> &Path {
        &self.stored.path
    }

    /// Digest of the image, in hexadecimal.
    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }

    /// The pages that it inherits from an older image; none for a full image.
    pub fn parent_pages(&self) -> Option<&ParentPages> {
        self.parent_pages.as_ref()
    }

    /// The parent image, if it is needed and not added yet.
    pub(crate) fn missing_parent(&self) -> Option<&ParentImage> {
        let parent_pages = self.parent_pages.as_ref().filter(|_| !self.complete);
        parent_pages.map(|parent_pages| &parent_pages.parent)
    }

    /// The regions, in ascending order, none overlapping another.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// The objects that regions of kind [`crate::Backing::Shared`] and [`crate::Backing::SharedContent`]
    /// refer to.
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
    pub fn section(&self, kind: SectionKind) -> Option<&Section> {
        let mut sections = self.sections.iter();
        sections.find(|section| section.kind == kind.number)
    }

    /// All sections except the tables of regions, chunks, shared objects and inherited pages.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    pub(crate) fn damaged(&self, damage: Damage) -> ImageError {
        self.stored.damaged(damage)
    }

    /// Adds the parent, which must be complete, to the increment.
    pub(crate) fn on(mut self, parent: Image) -> Result<Image> {
        let Some(parent_pages) = self.parent_pages() else {
            return Ok(self);
        };
        let wanted = &parent_pages.parent;
        let same = (parent.header().set_id, parent.digest()) == (wanted.set_id, &*wanted.digest)
            && parent.header().rank == self.header().rank
            && parent.missing_parent().is_none();
        if !same {
            return Err(parent.damaged(Damage::NotTheParent));
        }
        if !parent_pages.is_of(self.regions(), parent.regions()) {
            return Err(self.damaged(Damage::Layout("it inherits memory that its parent lacks")));
        }
        self.chain = Chain::upon(
            self.chunks(),
            self.regions(),
            &parent_pages.runs,
            parent.stored,
            parent.chain,
        );
        self.complete = true;
        Ok(self)
    }
}

fn open_file(path: &Path, rank: Option<u32>) -> Result<File> {
    let low = open_low(path, rank)?;
    high_descriptor::high(low).map_err(|e| ImageError::io("hold", path, e))
}

fn open_low(path: &Path, rank: Option<u32>) -> Result<File> {
    permissions::open(path).map_err(|e| match (e, rank) {
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
