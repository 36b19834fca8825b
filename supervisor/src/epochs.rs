//! The states of MPI that the ranks of a job of MPI Stages have written: `stages/EPOCH.RANK` in the checkpoint
//! directory.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The directory of a job's epochs.
pub fn directory(checkpoints: &Path) -> PathBuf {
    checkpoints.join("stages")
}

/// The file of a rank's state at the end of an epoch.
pub fn file(directory: &Path, epoch: u64, rank: u32) -> PathBuf {
    directory.join(format!("{epoch}.{rank}"))
}

/// The file with the number of ranks.
pub fn size_file(directory: &Path) -> PathBuf {
    directory.join("size")
}

/// The directory of the memory of a rank that has survived the end of an incarnation. It has one checkpoint, of a job
/// of one rank.
pub fn survivor(directory: &Path, incarnation: u32, rank: u32) -> PathBuf {
    directory
        .join(survivors(incarnation))
        .join(rank.to_string())
}

fn survivors(incarnation: u32) -> String {
    format!("survivors-{incarnation}")
}

/// Removes all that a job of MPI Stages has written.
///
/// # Errors
/// That of the file system.
pub fn remove(checkpoints: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory(checkpoints)) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Begins an incarnation that goes on from an epoch: removes later epochs, which the ranks write anew, and all
/// survivors but those of the last incarnation.
///
/// # Errors
/// That of the file system.
pub fn begin(checkpoints: &Path, last: u32, epoch: u64) -> io::Result<()> {
    let (directory, kept) = (directory(checkpoints), survivors(last));
    fs::create_dir_all(&directory)?;
    for entry in fs::read_dir(&directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_later = name
            .to_str()
            .and_then(numbers)
            .is_some_and(|(its, _)| its > epoch);
        if is_later {
            fs::remove_file(entry.path())?;
        } else if name != *kept && entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

/// The epoch and the rank of a file.
fn numbers(name: &str) -> Option<(u64, u32)> {
    let (epoch, rank) = name.split_once('.')?;
    Some((epoch.parse().ok()?, rank.parse().ok()?))
}

/// The epochs that each rank has written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Epochs {
    /// Number of ranks; 0 if it is not known, since none has written.
    size: u32,
    of_ranks: BTreeMap<u32, Vec<u64>>,
}

impl Epochs {
    /// Those in a directory. There are none if it does not exist.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn of(directory: &Path) -> io::Result<Epochs> {
        let entries = match fs::read_dir(directory) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Epochs::default()),
            entries => entries?,
        };
        let mut names = Vec::new();
        for entry in entries {
            names.push(entry?.file_name());
        }
        let size = fs::read_to_string(size_file(directory)).ok();
        let size = size.and_then(|size| size.parse().ok()).unwrap_or(0);
        Ok(Epochs::named(
            size,
            names.iter().filter_map(|name| name.to_str()),
        ))
    }

    fn named<'a>(size: u32, names: impl Iterator<Item = &'a str>) -> Epochs {
        let mut all = BTreeMap::<u32, Vec<u64>>::new();
        for (epoch, rank) in names.filter_map(numbers) {
            all.entry(rank).or_default().push(epoch);
        }
        Epochs {
            size,
            of_ranks: all,
        }
    }

    /// The newest epoch that all ranks have; 0 if there is none.
    pub fn common(&self) -> u64 {
        let ranks = || (0..self.size).map(|rank| self.of_ranks.get(&rank));
        let newest = ranks().map(|epochs| epochs.and_then(|epochs| epochs.iter().max()));
        let lowest = newest
            .map(|newest| newest.copied().unwrap_or(0))
            .min()
            .unwrap_or(0);
        let all = ranks().all(|epochs| epochs.is_some_and(|epochs| epochs.contains(&lowest)));
        if all {
            lowest
        } else {
            0
        }
    }

    /// The epochs of a rank.
    pub fn of_rank(&self, rank: u32) -> impl Iterator<Item = u64> + '_ {
        self.of_ranks.get(&rank).into_iter().flatten().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_of_the_newest_is_common() {
        let names = ["1.0", "2.0", "1.1", "2.1", "3.1", "4.1.new", "7", "x.0"];
        let epochs = |size| Epochs::named(size, names.into_iter());
        assert_eq!(epochs(2).common(), 2);
        assert_eq!(epochs(2).of_rank(1).collect::<Vec<_>>(), [1, 2, 3]);
        // A rank that has written none.
        assert_eq!(epochs(3).common(), 0);
        assert_eq!(epochs(0).common(), 0);
    }

    #[test]
    fn an_epoch_that_a_rank_has_lost_is_not_common() {
        assert_eq!(
            Epochs::named(2, ["1.0", "2.0", "3.1"].into_iter()).common(),
            0
        );
    }
}
