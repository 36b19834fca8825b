//! The numbers of one rank, and the file `profile/rank-N.json` that has them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// Name of the folder in the checkpoint directory.
const FOLDER: &str = "profile";

/// The calls of one rank, over all restarts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rank {
    /// The rank.
    pub rank: u32,
    /// Number of ranks of the job.
    pub size: u32,
    /// Time from MPI_Init to the end of the last call, without what was between a checkpoint and a restart.
    pub elapsed_seconds: f64,
    /// Time in calls, of all threads.
    pub mpi_seconds: f64,
    /// Threads that have called MPI.
    pub threads: u32,
    /// By function.
    pub functions: Vec<Function>,
    /// By communicator.
    pub communicators: Vec<Communicator>,
    /// By datatype.
    pub datatypes: Vec<Datatype>,
}

/// The calls of one function.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Function {
    /// Name of the function in C.
    pub function: String,
    /// Number of calls.
    pub calls: u64,
    /// Bytes of the data that they name.
    pub bytes: u64,
    /// Time in them.
    pub seconds: f64,
    /// Number of calls by bytes, in ascending order.
    pub sizes: Vec<SizeClass>,
}

/// Calls whose bytes are in one class: from a power of two up to the next one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SizeClass {
    /// Least bytes of the class: 0, or a power of two.
    pub from_bytes: u64,
    /// Number of calls.
    pub calls: u64,
}

/// The calls over one communicator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Communicator {
    /// Id on which its members agree, in hexadecimal digits; none for those that are counted together. It has 64 bits,
    /// more than many readers of JSON keep of a number.
    pub id: Option<String>,
    /// Its name at the first call; empty if it had none.
    pub name: String,
    /// Number of its processes.
    pub processes: u32,
    /// Number of calls.
    pub calls: u64,
    /// Bytes of the data that they name.
    pub bytes: u64,
    /// Time in them.
    pub seconds: f64,
}

/// The calls with one datatype.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Datatype {
    /// Name of a predefined datatype, or the function that makes derived ones.
    pub datatype: String,
    /// Number of calls.
    pub calls: u64,
    /// Bytes of the data that they name.
    pub bytes: u64,
}

impl Rank {
    /// Number of calls of all functions.
    pub fn calls(&self) -> u64 {
        self.functions.iter().map(|function| function.calls).sum()
    }

    /// Writes the rank's file in a checkpoint directory, in the place of an older one. Several threads may do so at the
    /// same time.
    ///
    /// # Errors
    /// That of the file system.
    pub fn write(&self, directory: &Path) -> io::Result<()> {
        make_folder(directory)?;
        let folder = directory.join(FOLDER);
        let path = folder.join(format!("rank-{}.json", self.rank));
        static WRITES: AtomicU64 = AtomicU64::new(0);
        let (process, number) = (std::process::id(), WRITES.fetch_add(1, Ordering::Relaxed));
        let partial = path.with_extension(format!("json.{process}.{number}"));
        let text = serde_json::to_vec(self)?;
        fs::write(&partial, text)?;
        fs::rename(&partial, &path)
    }
}

/// Makes the folder, which says that the job counts its calls.
///
/// # Errors
/// That of the file system.
pub fn make_folder(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory.join(FOLDER))
}

/// Whether a job in a checkpoint directory counts its calls, or has counted them.
pub fn has_folder(directory: &Path) -> bool {
    directory.join(FOLDER).is_dir()
}

/// Removes the files of an older job from a checkpoint directory.
///
/// # Errors
/// That of the file system.
pub fn remove(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory.join(FOLDER)) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Reads the files of all ranks in a checkpoint directory, in the order of ranks. There are none if the job has no
/// profile.
///
/// # Errors
/// That of the file system, or of a file that is damaged.
pub fn read(directory: &Path) -> io::Result<Vec<Rank>> {
    let folder = match fs::read_dir(directory.join(FOLDER)) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        folder => folder?,
    };
    let mut ranks = Vec::new();
    for entry in folder {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            ranks.push(read_one(&path)?);
        }
    }
    ranks.sort_by_key(|rank: &Rank| rank.rank);
    Ok(ranks)
}

fn read_one(path: &PathBuf) -> io::Result<Rank> {
    let damaged = |why| io::Error::other(format!("{}: {why}", path.display()));
    serde_json::from_slice(&fs::read(path)?).map_err(damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_in_the_order_of_ranks_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(dir.path()).unwrap(), []);
        assert!(!has_folder(dir.path()));
        make_folder(dir.path()).unwrap();
        assert_eq!(read(dir.path()).unwrap(), []);
        assert!(has_folder(dir.path()));
        let rank = |rank| Rank {
            rank,
            elapsed_seconds: 0.5,
            ..Rank::default()
        };
        for number in [10, 9, 9] {
            rank(number).write(dir.path()).unwrap();
        }
        assert_eq!(read(dir.path()).unwrap(), [rank(9), rank(10)]);
        fs::write(dir.path().join("profile/rank-1.json"), "{").unwrap();
        let why = read(dir.path()).unwrap_err().to_string();
        assert!(why.contains("rank-1.json: "), "{why}");
        remove(dir.path()).unwrap();
        remove(dir.path()).unwrap();
        assert_eq!(read(dir.path()).unwrap(), []);
    }

    #[test]
    fn a_file_that_several_threads_write_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path();
        let of_length = |length| Rank {
            functions: vec![Function::default(); length],
            ..Rank::default()
        };
        of_length(0).write(path).unwrap();
        std::thread::scope(|scope| {
            for length in [1, 200] {
                scope.spawn(move || (0..200).for_each(|_| of_length(length).write(path).unwrap()));
            }
            for _ in 0..200 {
                assert_eq!(read(path).unwrap().len(), 1);
            }
        });
    }
}
