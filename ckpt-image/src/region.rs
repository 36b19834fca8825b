//! What was mapped where.

use serde::{Deserialize, Serialize};

use crate::identity::Identity;

/// Advice that the program had given for a region and that must be given again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advice {
    /// MADV_HUGEPAGE.
    pub huge: bool,
    /// MADV_NOHUGEPAGE.
    pub no_huge: bool,
    /// MADV_DONTFORK.
    pub dont_fork: bool,
    /// MADV_WIPEONFORK.
    pub wipe_on_fork: bool,
}

/// What stands behind a region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Backing {
    /// Nothing: pages without a chunk are zero.
    Anonymous,
    /// A private mapping of a file: pages without a chunk are the file's.
    PrivateFile {
        /// Its path, as bytes (paths need not be UTF-8).
        path: Vec<u8>,
        /// Offset of the region's start in it.
        offset: u64,
        /// Which file it was.
        identity: Identity,
    },
    /// A shared mapping of a file. Has no chunks: the content is what the file holds, after that of
    /// the set's [`Backing::SharedContent`] for this file was written to it.
    SharedFile {
        /// Its path, as bytes.
        path: Vec<u8>,
        /// Offset of the region's start in it.
        offset: u64,
        /// Which file it was.
        identity: Identity,
        /// The file had been opened for writing: it may change between checkpoint and restart.
        writable: bool,
    },
    /// Memory without a file that processes forked later share. Pages without a chunk are zero.
    SharedAnonymous,
    /// A mapping of one of the image's [`crate::SharedObject`]s. Has no chunks: one image of the
    /// set holds the content.
    Shared {
        /// Its index.
        object: u32,
        /// Offset of the region's start in it.
        offset: u64,
        /// The mapping may be made writable (it may be read-only at the moment).
        writable: bool,
    },
    /// No memory of the process: a part of what one of the image's [`crate::SharedObject`]s holds.
    /// Its addresses, from [`crate::SHARED_CONTENT`] on, mean nothing. Pages without a chunk are
    /// not to be touched: they are zero in a new object, and whatever they are in a file.
    SharedContent {
        /// The object's index.
        object: u32,
        /// Offset of the region's start in it.
        offset: u64,
    },
}

impl Backing {
    /// Whether the region may have chunks.
    pub(crate) fn has_content(&self) -> bool {
        !matches!(self, Backing::SharedFile { .. } | Backing::Shared { .. })
    }
}

/// One mapping of the upper half, or content that several mappings share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Region {
    /// First address; page-aligned.
    pub start: u64,
    /// Bytes; page-aligned, not 0.
    pub len: u64,
    /// PROT_READ (1), PROT_WRITE (2), PROT_EXEC (4).
    pub prot: u8,
    /// The mapping grows down (MAP_GROWSDOWN).
    pub grows_down: bool,
    /// No swap space was reserved for it (MAP_NORESERVE).
    pub no_reserve: bool,
    /// Advice in force.
    pub advice: Advice,
    /// What stands behind it.
    pub backing: Backing,
}

impl Region {
    /// One past the last address. Regions of a verified image never overflow.
    pub fn end(&self) -> u64 {
        self.start + self.len
    }
}
