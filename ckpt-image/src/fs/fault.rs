//! The steps of changes on disk, and the faults that tests inject into them.

use std::path::PathBuf;
use std::str::FromStr;

/// Kind of change on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A directory is created.
    MakeDir,
    /// A file is created.
    Create,
    /// Bytes are written to a file.
    Write,
    /// A file's content is made durable.
    Sync,
    /// A directory's entries are made durable.
    SyncDir,
    /// A directory is renamed.
    Rename,
    /// A file or an empty directory is removed.
    Remove,
}

/// Way in which a step fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The process is killed (SIGKILL) instead.
    Crash,
    /// Nothing is done, then or later, and every step fails. For tests that continue in the same process,
    /// this is a crash as seen from outside.
    Halt,
    /// A write takes half of its bytes; other steps succeed.
    ShortWrite,
    /// The disk is full (ENOSPC).
    Full,
    /// The user's share of the disk is used up (EDQUOT).
    Quota,
    /// The device fails (EIO).
    Broken,
    /// The step does not end, as with an unreachable file server.
    Hang,
}

/// A fault at step number `at` (from 1) of one [`crate::FileSystem`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultAt {
    /// Way in which the step fails.
    pub fault: Fault,
    /// Number of the step.
    pub at: usize,
}

impl FromStr for FaultAt {
    type Err = String;

    /// `crash:3`, `short-write:3`, `full:3`, `quota:3`, `broken:3`, `hang:3`.
    fn from_str(text: &str) -> Result<FaultAt, String> {
        let parsed = text.split_once(':').and_then(|(fault, at)| {
            let fault = match fault {
                "crash" => Fault::Crash,
                "short-write" => Fault::ShortWrite,
                "full" => Fault::Full,
                "quota" => Fault::Quota,
                "broken" => Fault::Broken,
                "hang" => Fault::Hang,
                _ => return None,
            };
            let at = at.parse().ok().filter(|at| *at > 0)?;
            Some(FaultAt { fault, at })
        });
        parsed.ok_or_else(|| {
            format!(
                "'{text}' is not a fault: expected crash:N, short-write:N, full:N, quota:N, broken:N or hang:N"
            )
        })
    }
}

/// One change on disk, completed or due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Kind of change.
    pub operation: Operation,
    /// Path that is changed; for [`Operation::Rename`], the new name.
    pub path: PathBuf,
}
