//! The restart of an upper half in a fresh lower half, the counterpart of the crate `dump`. It finds the set, verifies
//! this rank's image, checks that the machine is compatible (`compatibility.rs`), decodes the sections
//! (`sections.rs`), creates shared objects (`shared_objects.rs`), and maps the memory (`map_memory.rs`). The content of
//! the sections (threads, files, signals) belongs to the crates that wrote them.
//!
//! A rank calls [`open`], or [`choose`] and [`open_in`]. The caller checks that all ranks have chosen the same set.
//! These functions change nothing. When they have succeeded in all ranks, the ranks create the memory that they share
//! ([`SharedMemory`]). Last, each rank maps its own memory ([`Opened::map`]).
//!
//! # Examples
//! A set is chosen before anything is mapped. A directory without one is refused by name.
//!
//! ```
//! use std::os::unix::fs::PermissionsExt;
//!
//! let folder = tempfile::tempdir()?;
//! std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o700))?;
//! let refused = stasis_restart::choose(folder.path(), None, &[], None, 2).unwrap_err();
//! assert!(refused.to_string().contains("checkpoint"), "{refused}");
//! # Ok::<(), std::io::Error>(())
//! ```

mod compatibility;
mod error;
mod handed_over;
mod left_behind;
mod map_early;
mod map_memory;
mod sections;
mod shared_objects;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Instant;

use ckpt_image::{
    explain, named_whole, newest_whole, newest_whole_without, Backing, Header, Image, Manifest,
    Newest, SealKey, Section, SectionKind, Set,
};

use map_early::EarlyMemory;
use undo::Plan;

pub use error::{RestartError, Result};
pub use left_behind::{check_not_left_behind, cut_of, left_behind, newer_sets};
pub use map_memory::{map, MappedUpper};
pub use sections::{JobState, Sections};

/// The loader's types about files that callers of this crate use.
pub use loader::{Checks, ClosedFilePolicy, Fate, Listed, Prospect, Saved, LONGEST_TAIL};
pub use shared_objects::{CreatedObject, ObjectLocation, SharedClaim, SharedMemory};

/// Finds the set `set` in `dir`, or the newest complete one. Checks that all its images exist and that it was taken
/// with `size` ranks. With a key, only sets that are sealed with it are accepted, here and in [`open`]. The sets with
/// the numbers `left_out` are not taken for the newest.
///
/// # Errors
/// [`RestartError::Image`] if there is no such set, no whole one, or one of another size.
pub fn choose(
    dir: &Path,
    set: Option<&str>,
    left_out: &[u64],
    key: Option<&SealKey>,
    size: u32,
) -> Result<Set> {
    let set = match set {
        None => {
            let Newest { set, skipped } = newest_whole_without(dir, key, left_out)?;
            for why in skipped {
                tracing::warn!(why, "set skipped");
            }
            set
        }
        Some(name) => named_whole(dir, name, key)?,
    };
    tracing::info!(set = set.name(), "set chosen");
    set.check_world_size(size)?;
    Ok(set)
}

/// Opens the image of `rank` in a job of `size` ranks, verifies all its bytes, and checks that it is compatible with
/// this machine and its files as they are. Without `set`, it opens the newest complete set. `read` counts the bytes of
/// memory that have been read and verified.
///
/// # Errors
/// [`RestartError::Image`] if the set or the image cannot be used, [`RestartError::Unsuitable`] if this machine does
/// not fit.
pub fn open(
    dir: &Path,
    set: Option<&str>,
    key: Option<&SealKey>,
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
    let opened = open_in(dir, set, key, rank, size, read)?;
    opened.check_files(None)?;
    Ok(opened)
}

/// Does the same for a set of `dir` that is already chosen, except that it does not look at the files that the program
/// has mapped ([`Opened::check_files`]).
///
/// # Errors
/// As for [`open`].
pub fn open_in(
    dir: &Path,
    set: Set,
    key: Option<&SealKey>,
    rank: u32,
    size: u32,
    read: &Arc<AtomicU64>,
) -> Result<Opened> {
    set.check_world_size(size)?;
    let name = set.name().to_owned();
    let unusable = |reason| explain(dir, &name, key, reason);
    let set = set.counting(read);
    let begun = Instant::now();
    let image = set.image(rank, Some(contract::VERSION)).map_err(unusable)?;
    tracing::info!(
        took = ?begun.elapsed(),
        bytes = read.load(Ordering::Relaxed),
        regions = image.regions().len(),
        sections = image.sections().len(),
        "image verified"
    );
    let opened = Opened {
        set,
        image,
        early: None,
    };
    opened.is_suitable(compatibility::incompatibilities(&opened.image)?)?;
    Ok(opened)
}

/// A rank's image that can be restarted here.
#[derive(Debug)]
pub struct Opened {
    set: Set,
    image: Image,
    /// Its memory, if it was mapped in advance.
    early: Option<EarlyMemory>,
}

impl Opened {
    /// Checks the files that the program has mapped. With an undo, given by its plan and the host of this process, a
    /// file that the job has changed is judged by what it will be then. Changes nothing.
    ///
    /// # Errors
    /// [`RestartError::Unsuitable`] names the files that do not fit.
    pub fn check_files(&self, undo: Option<(&Plan, &str)>) -> Result<()> {
        self.is_suitable(compatibility::unsuitable_files(&self.image, undo))
    }

    /// Checks them again after the undo.
    ///
    /// # Errors
    /// As for [`Opened::check_files`].
    pub fn check_undone_files(&self) -> Result<()> {
        self.is_suitable(compatibility::unsuitable_after_undo(&self.image))
    }

    fn is_suitable(&self, reasons: Vec<String>) -> Result<()> {
        if reasons.is_empty() {
            return Ok(());
        }
        tracing::error!(?reasons, "image incompatible with this machine");
        Err(RestartError::Unsuitable {
            set: self.set.name().to_owned(),
            rank: self.header().rank,
            reasons,
        })
    }

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
    pub fn section(&self, kind: SectionKind) -> Option<&Section> {
        self.image.section(kind)
    }

    /// Whether writes to its memory may change a file.
    pub fn maps_files_to_write(&self) -> bool {
        let mut regions = self.image.regions().iter();
        regions.any(|region| matches!(region.backing, Backing::SharedFile { writable: true, .. }))
    }

    /// Maps what depends on the image alone, before it is known whether the process will restart from it. When this is
    /// dropped without [`map`](Self::map), the memory is unmapped.
    ///
    /// # Errors
    /// Those of [`map`].
    pub fn map_early(&mut self) -> Result<()> {
        self.early = Some(EarlyMemory::of(&self.image)?);
        Ok(())
    }

    /// Maps the upper half, or the rest of it; see [`map`].
    ///
    /// # Errors
    /// Those of [`map`].
    pub fn map(&mut self, shared: &SharedMemory) -> Result<MappedUpper> {
        let early = self.early.take().map_or_else(Vec::new, EarlyMemory::keep);
        map(&self.image, shared, &early)
    }

    /// The shared objects of a job that is this process alone, created and filled.
    ///
    /// # Errors
    /// [`RestartError::Object`] if an object cannot be made or filled, [`RestartError::Machine`].
    pub fn share_alone(&self) -> Result<SharedMemory> {
        let claims = [SharedClaim::of(&self.image)?];
        let mut shared = SharedMemory::new(self.set.name(), 0, &claims)?;
        let created = [shared.create()?];
        shared.join(0, &claims, &created)?;
        shared.fill(&self.image)?;
        Ok(shared)
    }
}
