//! The errors of a restart.

use std::path::PathBuf;

use ckpt_image::ImageError;

/// Result of this crate's functions.
pub type Result<T> = std::result::Result<T, RestartError>;

/// The reason why a restart is refused or fails.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum RestartError {
    #[error(transparent)]
    Image(#[from] ImageError),
    #[error(
        "checkpoint {set} cannot be restarted here (rank {rank}):{}\nRestart it on a machine with \
         the same files and at least the same processor features",
        reasons.iter().map(|reason| format!("\n  - {reason}")).collect::<String>()
    )]
    Unsuitable {
        set: String,
        rank: u32,
        reasons: Vec<String>,
    },
    #[error(
        "{} (rank {rank}): section {section} cannot be used: {why}. Restart with the Stasis that wrote it, or from \
         another checkpoint", path.display()
    )]
    Section {
        path: PathBuf,
        rank: u32,
        section: &'static str,
        why: String,
    },
    #[error("checkpoint {set} cannot be restarted like this: {why}. Nothing was restored")]
    Shared { set: String, why: String },
    #[error("cannot {action} {what} again: {source}. Nothing was restored")]
    Object {
        action: &'static str,
        what: String,
        source: std::io::Error,
    },
    #[error(
        "{set} cannot bring the files back to where they were: the job has gone on from ckpt-{by} since, and its files \
         are those of that run. Continue from another checkpoint, or keep the files as they are, apart from what was \
         appended: stasis restart --files cut"
    )]
    LeftBehind { set: String, by: u64 },
    #[error("the undo journals in {} cannot be read: {source}", dir.display())]
    Journals {
        dir: PathBuf,
        source: std::io::Error,
    },
    #[error("cannot examine this machine: {0}")]
    Machine(#[source] std::io::Error),
    #[error(
        "memory at {start:#x}-{end:#x} is needed for the program but is taken by: {by}. \
         This is a defect of Stasis or of the system's address layout (try `ulimit -s 8192`)"
    )]
    Occupied { start: u64, end: u64, by: String },
    #[error(
        "cannot {action} memory at {start:#x}-{end:#x} (rank {rank}){}: {source}{}",
        of_file(file),
        advice(source)
    )]
    Map {
        action: &'static str,
        rank: u32,
        start: u64,
        end: u64,
        file: Option<PathBuf>,
        source: std::io::Error,
    },
}

fn of_file(file: &Option<PathBuf>) -> String {
    match file {
        Some(file) => format!(" from {}", file.display()),
        None => String::new(),
    }
}

fn advice(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::OutOfMemory => {
            ". The machine has too little memory left, or a limit is lower than when the \
             checkpoint was taken (ulimit -v, the batch system's memory request)"
        }
        _ => "",
    }
}
