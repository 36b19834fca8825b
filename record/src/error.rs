//! Errors of reading and writing records.

use std::io;
use std::path::PathBuf;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A record that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("the record {}: {why}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: io::Error,
    },
    /// The directory has no record of any rank.
    #[error("{} has no record: no file rank-N.record is there", .0.display())]
    None(PathBuf),
    /// The file is no record.
    #[error("{} is no record of Stasis", .0.display())]
    NoRecord(PathBuf),
    /// The file has another version.
    #[error("{} has version {found} of the format, and this Stasis reads {}", path.display(), crate::header::VERSION)]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// The file is of another rank or of a job of another size.
    #[error("{} is the record of rank {} of {}, and this is rank {} of {}", path.display(), found.0, found.1, here.0, here.1)]
    OtherRank {
        /// The file.
        path: PathBuf,
        /// Rank and size in the file.
        found: (u32, u32),
        /// Rank and size of the job.
        here: (u32, u32),
    },
    /// Functions are numbered otherwise.
    #[error("{} was made by a Stasis with another table of MPI functions: use that one", .0.display())]
    OtherTable(PathBuf),
    /// A record lies where a new one is to be made.
    #[error("{} is a record already: give another directory, or remove it", .0.display())]
    Exists(PathBuf),
    /// The record has no contents of the rank.
    #[error(
        "{} has no contents of rank {rank}: a run is recorded with them by --record REC --contents, in each rank", directory.display()
    )]
    NotRecorded {
        /// The rank.
        rank: u32,
        /// The directory.
        directory: PathBuf,
    },
    /// The file has no contents of a run.
    #[error("{} has no contents of a run: it is no such file, or was cut off in its header", .0.display())]
    NoContents(PathBuf),
    /// An event is damaged.
    #[error("{} is damaged at byte {at}: the rank can be run up to there", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Offset of the event.
        at: u64,
    },
    /// The header has no room for the program's words.
    #[error("{}: the program's command line is too long for the record", .0.display())]
    LongCommand(PathBuf),
    /// The record is not of the run that the checkpoint was taken of.
    #[error(
        "{} is not the record of the run that this checkpoint was taken of: give its record, or start \
         without --replay", .0.display()
    )]
    OtherRun(PathBuf),
}

impl Error {
    /// Wraps the error of a system call on a file.
    pub fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        |why| Error::Io { path, why }
    }
}
