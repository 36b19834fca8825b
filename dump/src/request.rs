//! The caller's order to save an image, and the report of what was written.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use ckpt_image::{
    image_file, Compression, FileSystem, ImageError, ImageSummary, Machine, Section, SetId,
};

use crate::changes::DirtyTracker;
use crate::snapshot::memory_budget::MemoryBudget;

/// The job's part of the image's header.
#[derive(Clone, Debug)]
pub struct HeaderInfo {
    /// The set that is being written.
    pub set_id: SetId,
    /// Number of restarts of the job so far.
    pub epoch: u64,
    /// This rank.
    pub rank: u32,
    /// Number of ranks of the job.
    pub world_size: u32,
    /// Name of the upper half's MPI ABI: "openmpi", "mpich", "none".
    pub abi: String,
    /// Whether memory is compressed where it pays.
    pub compression: Compression,
    /// Whether the set will be sealed.
    pub sealed: bool,
    /// Features of the processor that the program sees, if others are hidden from it.
    pub features: Option<Vec<String>>,
}

/// This rank's share in the storing of an object that [`crate::Plan::parts`] has listed.
#[derive(Clone, Debug)]
pub struct StoreAssignment {
    /// Name of the object.
    pub object: String,
    /// The parts that this rank stores.
    pub store: Vec<Range<u64>>,
    /// Process ids of all ranks that have mapped it.
    pub processes: Vec<u32>,
}

/// The duration of the pause, in which the threads are stopped.
pub enum PauseMode<'a> {
    /// Until the image is on disk, for this reason.
    UntilWritten(String),
    /// Until the memory is copied, if the budget allows a copy.
    UntilCopied {
        /// Upper bound of the memory for copies.
        budget: MemoryBudget,
        /// Set when the image is no longer wanted.
        cancelled: &'a AtomicBool,
    },
}

/// Everything about one image except the memory itself.
pub struct DumpRequest<'a> {
    /// File system that everything is written through.
    pub disk: &'a FileSystem,
    /// Directory of an unfinished set.
    pub dir: &'a Path,
    /// The job's part of the header.
    pub info: &'a HeaderInfo,
    /// `(kind, version, content)`; the section of the environment is added.
    pub sections: &'a [Section],
    /// This rank's shares in shared objects.
    pub shares: &'a [StoreAssignment],
    /// Duration of the pause.
    pub pause: PauseMode<'a>,
    /// Changes since older sets; `None` where every set is a full one.
    pub increments: Option<Increments<'a>>,
}

/// The base of an increment.
pub struct Increments<'a> {
    /// The changes of memory.
    pub tracker: &'a DirtyTracker,
    /// The parent of the increment; `None` for a full set, which later ones may have as their parent.
    pub parent: Option<SetId>,
}

impl HeaderInfo {
    /// This machine, as the program sees it.
    pub(crate) fn machine(&self) -> io::Result<Machine> {
        let here = Machine::here()?;
        Ok(match &self.features {
            Some(features) => here.with_features(features),
            None => here,
        })
    }
}

impl DumpRequest<'_> {
    /// Path of the image.
    pub(crate) fn path(&self) -> PathBuf {
        self.dir.join(image_file(self.info.rank))
    }

    pub(crate) fn failed(&self, action: &'static str) -> impl FnOnce(io::Error) -> ImageError {
        let path = self.path();
        move |source| ImageError::Io {
            action,
            path,
            source,
        }
    }
}

/// Report of a written image.
#[derive(Debug)]
pub struct SavedImage {
    /// The image.
    pub image: ImageSummary,
    /// Notes for people.
    pub notes: Vec<String>,
    /// Reason why the threads were stopped until the end; `None` if the memory was copied.
    pub stopped_because: Option<String>,
    /// Whether the image inherits pages from the given parent.
    pub inherits: bool,
}
