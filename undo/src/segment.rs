//! Where segments lie, and when they go.

use crate::record::{self, encode, Cut, Record, VERSION};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Where journals are, in the checkpoint directory.
pub const DIRECTORY: &str = "undo";
/// The records of a segment.
pub const LOG: &str = "log";

/// A segment of some rank's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Grows with each segment of a rank.
    pub turn: u64,
    /// The cut at which it begins.
    pub cut: Cut,
    /// Its directory.
    pub path: PathBuf,
}

/// The directory of a rank's segments.
pub fn home(checkpoints: &Path, rank: u32) -> PathBuf {
    checkpoints.join(DIRECTORY).join(format!("rank-{rank}"))
}

impl Segment {
    /// The next one of a rank.
    pub fn next(checkpoints: &Path, rank: u32, turn: u64, cut: Cut) -> Segment {
        let id: String = cut.id.iter().map(|byte| format!("{byte:02x}")).collect();
        let name = format!("{turn:08}-ckpt-{}-{id}", cut.number);
        Segment {
            turn,
            cut,
            path: home(checkpoints, rank).join(name),
        }
    }

    fn at(path: PathBuf) -> Option<Segment> {
        let (turn, rest) = path.file_name()?.to_str()?.split_once("-ckpt-")?;
        let (number, id) = rest.split_once('-')?;
        let id = u128::from_str_radix(id, 16).ok()?;
        Some(Segment {
            turn: turn.parse().ok()?,
            cut: Cut {
                number: number.parse().ok()?,
                id: id.to_be_bytes(),
            },
            path,
        })
    }

    /// Whether it holds changes that were made after this cut. A set that was given up has the number of the
    /// next one, and another id: its segment lies before the cut of that.
    pub fn is_after(&self, cut: &Cut) -> bool {
        self.cut.number > cut.number || self.cut == *cut
    }
}

fn entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(directory) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(why) => Err(why),
    }
}

/// The turn of a rank's newest segment; 0 if it has none. No name is given twice: one that is on the list of those that
/// are being removed would be taken for that.
pub fn last_turn(checkpoints: &Path, rank: u32) -> io::Result<u64> {
    let home = home(checkpoints, rank);
    let listed = forgotten(checkpoints)?.into_iter();
    let listed = listed.filter(|path| path.parent() == Some(&home));
    let all = segments(&home)?
        .into_iter()
        .chain(listed.filter_map(Segment::at));
    Ok(all.map(|segment| segment.turn).max().unwrap_or(0))
}

fn segments(home: &Path) -> io::Result<Vec<Segment>> {
    let found = entries(home)?.into_iter().filter_map(Segment::at);
    let mut found: Vec<Segment> = found.collect();
    found.sort_unstable_by_key(|segment| segment.turn);
    Ok(found)
}

/// The segments of all ranks, those of one rank in the order in which they were begun, but for those that are forgotten.
pub fn all(checkpoints: &Path) -> io::Result<Vec<Segment>> {
    let forgotten = forgotten(checkpoints)?;
    let mut there = present(checkpoints)?;
    there.retain(|segment| !forgotten.contains(&segment.path));
    Ok(there)
}

/// The same, with those that are forgotten and have not been removed yet.
fn present(checkpoints: &Path) -> io::Result<Vec<Segment>> {
    let mut homes = entries(&checkpoints.join(DIRECTORY))?;
    homes.retain(|home| home.is_dir());
    homes.sort_unstable();
    let each = homes.iter().map(|home| segments(home));
    Ok(each.collect::<io::Result<Vec<_>>>()?.concat())
}

/// Removes what only sets before the number `oldest` need.
pub fn prune(checkpoints: &Path, oldest: u64) -> io::Result<()> {
    let older = present(checkpoints)?;
    for segment in older.iter().filter(|segment| segment.cut.number < oldest) {
        unless_gone(fs::remove_dir_all(&segment.path))?;
    }
    for path in renewed(checkpoints)? {
        // A segment that begins at that set or later was begun after the undo.
        let set = |record: &Record| match record {
            Record::Renewed { set, .. } => *set,
            _ => u64::MAX,
        };
        rewrite(&path, |records| {
            records.retain(|record| set(record) > oldest)
        })?;
    }
    Ok(())
}

/// The files that tell what undos have made anew.
pub fn renewed(checkpoints: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = entries(&checkpoints.join(DIRECTORY))?;
    found.retain(|path| path.extension().is_some_and(|end| end == RENEWED));
    Ok(found)
}

/// What ends the names of these files.
const RENEWED: &str = "renewed";

/// Notes what an undo has made anew on a host's own file systems, or (without one) on those that all reach.
pub fn note_renewed(
    checkpoints: &Path,
    host: Option<&str>,
    cut: Cut,
    new: &[Record],
) -> io::Result<()> {
    if new.is_empty() {
        return Ok(());
    }
    let begin = Record::Begin {
        version: VERSION,
        rank: 0,
        host: host.unwrap_or_default().to_owned(),
        cut,
    };
    rewrite(&beside(checkpoints, host, RENEWED), |records| {
        if records.is_empty() {
            records.push(begin);
        }
        records.extend_from_slice(new);
    })
}

/// Changes the records of a file of records without data, all or none; one that holds nothing more is removed.
fn rewrite(path: &Path, change: impl FnOnce(&mut Vec<Record>)) -> io::Result<()> {
    let old: Vec<Record> = match File::open(path) {
        Ok(file) => record::read(&file)?
            .into_iter()
            .map(|(record, _)| record)
            .collect(),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(why) => return Err(why),
    };
    let mut records = old.clone();
    change(&mut records);
    if records == old {
        return Ok(());
    }
    if records.len() < 2 {
        return fs::remove_file(path);
    }
    let all = records.iter().map(|record| encode(record, b""));
    let bytes = all.collect::<io::Result<Vec<_>>>()?.concat();
    let new = path.with_extension("renewing");
    fs::write(&new, bytes)?;
    fs::rename(new, path)
}

/// A file in the directory of journals for what is on a host's own file systems, or on those that all reach.
fn beside(checkpoints: &Path, host: Option<&str>, end: &str) -> PathBuf {
    let host = host.unwrap_or("shared").replace('/', "_");
    checkpoints.join(DIRECTORY).join(format!("{host}.{end}"))
}

/// Removes what was undone when all files were brought back to the state at this cut: of all ranks, or of none, should
/// this be interrupted, for the notes of some do not tell how to come back. The job must not go on if this fails: what
/// it changes from then on cannot be told from what it had changed before.
pub fn forget(checkpoints: &Path, cut: &Cut) -> io::Result<()> {
    let directory = checkpoints.join(DIRECTORY);
    let mut paths = forgotten(checkpoints)?;
    let after = all(checkpoints)?;
    let after = after.into_iter().filter(|segment| segment.is_after(cut));
    paths.extend(after.map(|segment| segment.path));
    let list = directory.join(FORGOTTEN);
    if !paths.is_empty() {
        let own = paths
            .iter()
            .filter_map(|path| path.strip_prefix(&directory).ok());
        let text: String = own.map(|path| format!("{}\n", path.display())).collect();
        // Where ranks have no MPI yet, each of them does this.
        let new = list.with_extension(std::process::id().to_string());
        fs::write(&new, text)?;
        fs::rename(new, &list)?;
    }
    for path in &paths {
        unless_gone(fs::remove_dir_all(path))?;
    }
    let is_note = |path: &PathBuf| path.extension().is_some_and(|end| end == PROGRESS);
    for note in entries(&directory)?.iter().filter(|path| is_note(path)) {
        unless_gone(fs::remove_file(note))?;
    }
    unless_gone(fs::remove_file(list))
}

/// The file that lists segments that are being removed.
const FORGOTTEN: &str = "forgotten";

fn forgotten(checkpoints: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let directory = checkpoints.join(DIRECTORY);
    let text = match fs::read_to_string(directory.join(FORGOTTEN)) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => String::new(),
        text => text?,
    };
    Ok(text.lines().map(|line| directory.join(line)).collect())
}

fn unless_gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(why) if why.kind() != io::ErrorKind::NotFound => Err(why),
        _ => Ok(()),
    }
}

/// The file that has a byte for each directory that some rank has renamed.
pub fn moves(checkpoints: &Path) -> PathBuf {
    checkpoints.join(DIRECTORY).join("moves")
}

/// The file by which ranks keep each other off names.
pub fn locks(checkpoints: &Path) -> PathBuf {
    checkpoints.join(DIRECTORY).join("names")
}

/// How far names have been undone on a host's own file systems, or (without one) on those that all reach.
pub struct Progress {
    path: PathBuf,
}

/// What ends the name of that file.
const PROGRESS: &str = "progress";

impl Progress {
    /// Of an undo from the journals in this checkpoint directory.
    pub fn of(checkpoints: &Path, host: Option<&str>) -> Progress {
        Progress {
            path: beside(checkpoints, host, PROGRESS),
        }
    }

    /// The stages that are left, and the inode of the directory that is being renamed, if one is.
    pub fn read(&self) -> Option<(usize, Option<u64>)> {
        let text = fs::read_to_string(&self.path).ok()?;
        let mut words = text.split_whitespace();
        let left = words.next()?.parse().ok()?;
        Some((left, words.next().and_then(|inode| inode.parse().ok())))
    }

    /// Notes it, before it is done.
    pub fn write(&self, left: usize, moving: Option<u64>) -> io::Result<()> {
        let moving = moving.map_or(String::new(), |inode| inode.to_string());
        let new = self.path.with_extension("new");
        fs::write(&new, format!("{left} {moving}\n"))?;
        fs::rename(new, &self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_found_by_its_name_and_goes_with_its_set() {
        let dir = tempfile::tempdir().unwrap();
        let cut = |number, id| Cut {
            number,
            id: [id; 16],
        };
        let cuts = [cut(4, 1), cut(5, 2), cut(5, 3), cut(6, 4)];
        let made: Vec<Segment> = (1..)
            .zip(cuts)
            .map(|(turn, cut)| Segment::next(dir.path(), 3, turn, cut))
            .collect();
        for segment in &made {
            fs::create_dir_all(&segment.path).unwrap();
        }
        assert_eq!(last_turn(dir.path(), 3).unwrap(), 4);
        assert_eq!(all(dir.path()).unwrap(), made);
        // The first set 5 was given up.
        let after = made.iter().filter(|segment| segment.is_after(&cuts[2]));
        assert_eq!(after.collect::<Vec<_>>(), [&made[2], &made[3]]);
        prune(dir.path(), 5).unwrap();
        assert_eq!(all(dir.path()).unwrap(), made[1..]);
        forget(dir.path(), &cuts[2]).unwrap();
        assert_eq!(all(dir.path()).unwrap(), made[1..2]);
    }

    #[test]
    fn segments_are_forgotten_all_or_none() {
        let dir = tempfile::tempdir().unwrap();
        let cuts = [1, 2].map(|number| Cut {
            number,
            id: [7; 16],
        });
        let [old, first, second] = [(0, cuts[0]), (1, cuts[1]), (2, cuts[1])]
            .map(|(rank, cut)| Segment::next(dir.path(), rank, 1, cut));
        for segment in [&old, &first] {
            fs::create_dir_all(&segment.path).unwrap();
        }
        // Nobody can remove this one as a directory.
        fs::create_dir_all(second.path.parent().unwrap()).unwrap();
        fs::write(&second.path, "").unwrap();
        assert_eq!(all(dir.path()).unwrap().len(), 3);
        forget(dir.path(), &cuts[1]).unwrap_err();
        assert!(!first.path.exists() && second.path.exists());
        assert_eq!(all(dir.path()).unwrap(), [old]);
        assert_eq!(last_turn(dir.path(), 1).unwrap(), 1);
        assert_eq!(last_turn(dir.path(), 2).unwrap(), 1);
        fs::remove_file(&second.path).unwrap();
        forget(dir.path(), &cuts[1]).unwrap();
        assert!(!dir.path().join(DIRECTORY).join(FORGOTTEN).exists());
    }
}
