//! Objects of memory that several mappings share, in one process or in several. An object has an id, by which the ranks
//! of a set recognise it.

use serde::{Deserialize, Serialize};

/// Start of the regions of kind [`crate::Backing::SharedContent`]. It is above every address of a process,
/// because these regions are not memory of the process.
pub const SHARED_CONTENT: u64 = 1 << 46;

/// A shared object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedObject {
    /// Id that is the same in all images of the set whose processes share the object, and in no others. It
    /// contains the boot of the machine, the file system and the inode.
    pub id: String,
    /// Kind of the object.
    pub kind: SharedKind,
    /// Size in bytes, as far as the process knows it. For an object that it cannot open any more, the
    /// mapped size.
    pub size: u64,
}

/// Kind of an object, which determines how a new one is created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SharedKind {
    /// Memory that no process can open by a name: anonymous, a memfd, an unlinked file.
    Memory {
        /// Former name of the memory, for the user.
        name: Vec<u8>,
    },
    /// A file of a memory file system that still has its name (`shm_open`).
    Named {
        /// Path of the file.
        path: Vec<u8>,
        /// Permissions of the file.
        mode: u32,
    },
    /// A System V segment.
    SystemV {
        /// Id that the application uses.
        id: i32,
        /// Key of the segment; 0 is IPC_PRIVATE.
        key: i32,
        /// Permissions of the segment.
        mode: u32,
        /// Whether the segment is removed when the last process detaches it (IPC_RMID was called).
        doomed: bool,
    },
    /// An ordinary file, which must exist at the restart.
    File {
        /// Path of the file.
        path: Vec<u8>,
    },
}

impl SharedKind {
    /// The name of the object in messages.
    pub fn describe(&self) -> String {
        let text = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
        match self {
            SharedKind::Memory { name } => format!("shared memory ({})", text(name)),
            SharedKind::Named { path, .. } => format!("shared memory {}", text(path)),
            SharedKind::SystemV { id, .. } => format!("System V shared memory {id}"),
            SharedKind::File { path } => format!("the shared file {}", text(path)),
        }
    }
}
