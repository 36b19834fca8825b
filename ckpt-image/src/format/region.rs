//! Regions: the mappings of the upper half, with their address, protection and backing.

use serde::{Deserialize, Serialize};

use crate::format::file_identity::FileIdentity;

/// Advice that the program gave for a region; the restart must give it again.
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

/// Backing of a region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Backing {
    /// No backing: pages without a chunk are zero.
    Anonymous,
    /// A private mapping of a file. Pages without a chunk have the file's content.
    PrivateFile {
        /// Path of the file, as bytes (paths need not be UTF-8).
        path: Vec<u8>,
        /// Offset of the region's start in the file.
        offset: u64,
        /// Identity of the file.
        identity: FileIdentity,
    },
    /// A shared mapping of a file. It has no chunks: the content is that of the file, after the set's
    /// [`Backing::SharedContent`] for this file was written to it.
    SharedFile {
        /// Path of the file, as bytes.
        path: Vec<u8>,
        /// Offset of the region's start in the file.
        offset: u64,
        /// Identity of the file.
        identity: FileIdentity,
        /// Whether the file had been opened for writing: it may change between checkpoint and restart.
        writable: bool,
    },
    /// Memory without a file that is shared with later forked processes. Pages without a chunk are zero.
    SharedAnonymous,
    /// A mapping of one of the image's [`crate::SharedObject`]s. It has no chunks: one image of the set
    /// holds the content.
    Shared {
        /// Index of the object.
        object: u32,
        /// Offset of the region's start in the object.
        offset: u64,
        /// Whether the mapping may be made writable (it may be read-only at present).
        writable: bool,
    },
    /// Content of one of the image's [`crate::SharedObject`]s, not memory of the process. Its addresses
    /// start at [`crate::SHARED_CONTENT`] and have no meaning. Pages without a chunk must not be written:
    /// they are zero in a new object, and stay as they are in a file.
    SharedContent {
        /// Index of the object.
        object: u32,
        /// Offset of the region's start in the object.
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
    /// Length in bytes; page-aligned, not 0.
    pub len: u64,
    /// PROT_READ (1), PROT_WRITE (2), PROT_EXEC (4).
    pub prot: u8,
    /// Whether the mapping grows down (MAP_GROWSDOWN).
    pub grows_down: bool,
    /// Whether no swap space is reserved (MAP_NORESERVE).
    pub no_reserve: bool,
    /// Advice in force.
    pub advice: Advice,
    /// Backing of the region.
    pub backing: Backing,
}

impl Region {
    /// Address after the last byte. Regions of a verified image never overflow.
    pub fn end(&self) -> u64 {
        self.start + self.len
    }
}
