//! Brings an upper half back into a fresh lower half: finds the set, verifies this rank's image,
//! checks that this machine suits it, decodes what it holds beside memory, and maps its memory. What is in the sections
//! (threads, files, signals) belongs to those who wrote them.
//!
//! One rank calls [`choose`] and tells the others the name, so that all restart from the same set;
//! each then calls [`open`], or [`open_in`] for a set that it chose itself, which changes nothing; when all
//! have succeeded, they make the memory that they share ([`SharedMemory`]), and last each maps its own,
//! [`Opened::map`].

mod error;
mod memory;
mod sections;
mod shared;
mod suit;

use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::Arc;

use ckpt_image::{explain, named_whole, newest_whole, Header, Image, Key, Manifest, Section, Set};

pub use error::{RestartError, Result};
pub use memory::{map, MappedUpper};
pub use sections::{JobState, Sections};

/// What is told of files.
pub use loader::{ChangedFiles, Checks, Fate, GrownFiles, Listed, Prospect, Saved, LONGEST_TAIL};
pub use shared::{Claim, Made, SharedMemory, Where};

/// Finds the set `set` in `dir`, or the newest whole one, and checks that all images of it are
/// there and that it was taken with `size` ranks. With a key, only sets that it seals are taken, here and
/// in [`open`].
pub fn choose(dir: &Path, set: Option<&str>, key: Option<&Key>, size: u32) -> Result<Set> {
    let set = match set {
        None => newest_whole(dir, key)?.set,
        Some(name) => named_whole(dir, name, key)?,
    };
    set.check_world_size(size)?;
    Ok(set)
}

/// Opens the image of `rank` in a job of `size` ranks: verified to the last byte and found to suit
/// this machine. Without `set`, the newest whole one is taken. `read` counts the bytes of memory that
/// have been read and verified.
pub fn open(
    dir: &Path,
    set: Option<&str>,
    key: Option<&Key>,
    rank: u32,
    size: u32,
    read: &Arc<AtomicU64>,
) -> Result<Opened> {
    let set = match set {
        Some(name) => {
            Set::open(dir, name, key).map_err(|reason| explain(dir, name, key, reason))?
        }
        None => newest_whole(dir, key)?.set,
    };
    open_in(dir, set, key, rank, size, read)
}

/// The same in a set of `dir` that was chosen.
pub fn open_in(
    dir: &Path,
    set: Set,
    key: Option<&Key>,
    rank: u32,
    size: u32,
    read: &Arc<AtomicU64>,
) -> Result<Opened> {
    set.check_world_size(size)?;
    let name = set.name().to_owned();
    let unusable = |reason| explain(dir, &name, key, reason);
    let set = set.counting(read);
    let image = set.image(rank, Some(contract::VERSION)).map_err(unusable)?;
    let reasons = suit::refusals(&image)?;
    if !reasons.is_empty() {
        return Err(RestartError::Unsuitable {
            set: name,
            rank,
            reasons,
        });
    }
    Ok(Opened { set, image })
}

/// A rank's image that can be brought back here.
#[derive(Debug)]
pub struct Opened {
    set: Set,
    image: Image,
}

impl Opened {
    /// The set.
    pub fn set(&self) -> &Set {
        &self.set
    }

    /// The set's manifest.
    pub fn manifest(&self) -> &Manifest {
        self.set.manifest()
    }

    /// The image's header.
    pub fn header(&self) -> &Header {
        self.image.header()
    }

    /// The image.
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// The sections that were saved with the memory.
    pub fn sections(&self) -> &[Section] {
        self.image.sections()
    }

    /// The section of one of [`ckpt_image::kind`].
    pub fn section(&self, kind: u32) -> Option<&Section> {
        self.image.section(kind)
    }

    /// Maps the upper half; see [`map`].
    pub fn map(&self, shared: &SharedMemory) -> Result<MappedUpper> {
        map(&self.image, shared)
    }

    /// The shared objects of a job that is this process alone, made and filled.
    pub fn share_alone(&self) -> Result<SharedMemory> {
        let claims = [Claim::of(&self.image)?];
        let mut shared = SharedMemory::new(self.set.name(), 0, &claims)?;
        let made = [shared.make()?];
        shared.join(0, &claims, &made)?;
        shared.fill(&self.image)?;
        Ok(shared)
    }
}
