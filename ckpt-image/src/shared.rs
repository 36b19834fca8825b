//! Objects of memory that several mappings share, in one process or in several: what each is, and
//! by which name the ranks of a set know that it is the same.

use serde::{Deserialize, Serialize};

/// Where the regions of kind [`crate::Backing::SharedContent`] begin: above every address that a
/// process of ours can have, since they are no memory of it.
pub const SHARED_CONTENT: u64 = 1 << 46;

/// One object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedObject {
    /// The same in all images of the set whose processes share the object, and in no other: names
    /// the machine as it was booted, the file system and the inode.
    pub id: String,
    /// What it is.
    pub kind: SharedKind,
    /// Bytes, as far as the process can tell: of an object that it can no longer open, what it has
    /// mapped.
    pub size: u64,
}

/// What an object is, that is, how one like it is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SharedKind {
    /// Memory that nobody can open by a name: anonymous, a memfd, what was unlinked.
    Memory {
        /// The name that it had, for people.
        name: Vec<u8>,
    },
    /// A file of a memory file system that still has its name (`shm_open`).
    Named {
        /// Its path.
        path: Vec<u8>,
        /// Its permissions.
        mode: u32,
    },
    /// A System V segment.
    SystemV {
        /// The id by which the application knows it.
        id: i32,
        /// Its key; 0 is IPC_PRIVATE.
        key: i32,
        /// Its permissions.
        mode: u32,
        /// It is to go when the last process detaches it (IPC_RMID was called).
        doomed: bool,
    },
    /// An ordinary file, which is there at the restart.
    File {
        /// Its path.
        path: Vec<u8>,
    },
}

impl SharedKind {
    /// What to call it in messages.
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
