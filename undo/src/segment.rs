//! Locations of segments, and their removal.

use crate::left_behind;
use crate::record::{self, encode, Cut, Record, VERSION};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Directory of the journals in the checkpoint directory.
pub const DIRECTORY: &str = "undo";
/// File with the records of a segment.
pub const LOG: &str = "log";

/// A segment of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Number of the segment, ascending for each rank.
    pub turn: u64,
    /// Cut at which it begins.
    pub cut: Cut,
    /// Directory of the segment.
    pub path: PathBuf,
}

/// Directory of a rank's segments.
pub fn home(checkpoints: &Path, rank: u32) -> PathBuf {
    checkpoints.join(DIRECTORY).join(format!("rank-{rank}"))
}

impl Segment {
    /// Next segment of a rank.
    pub fn next(checkpoints: &Path, rank: u32, turn: u64, cut: Cut) -> Segment {
        Segment {
            turn,
            cut,
            path: home(checkpoints, rank).join(format!("{turn:08}-ckpt-{cut}")),
        }
    }

    fn at(path: PathBuf) -> Option<Segment> {
        let (turn, cut) = path.file_name()?.to_str()?.split_once("-ckpt-")?;
        Some(Segment {
            turn: turn.parse().ok()?,
            cut: Cut::named(cut)?,
            path,
        })
    }

    /// Its records.
    pub fn log(&self) -> PathBuf {
        self.path.join(LOG)
    }

    /// Whether it holds changes made after this cut. An aborted set has the number of the next one and another id: its
    /// segment lies before the cut of that.
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

/// Number of a rank's newest segment; 0 if it has none. No name is used twice: a name on the list of segments in
/// removal would be taken for one of these.
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

/// Segments of all ranks, in order for each rank, without forgotten ones.
pub fn all(checkpoints: &Path) -> io::Result<Vec<Segment>> {
    let forgotten = forgotten(checkpoints)?;
    let mut there = present(checkpoints)?;
    there.retain(|segment| !forgotten.contains(&segment.path));
    Ok(there)
}

/// Segments of all ranks, with forgotten ones that have not been removed yet.
fn present(checkpoints: &Path) -> io::Result<Vec<Segment>> {
    let mut homes = entries(&checkpoints.join(DIRECTORY))?;
    homes.retain(|home| home.is_dir());
    homes.sort_unstable();
    let each = homes.iter().map(|home| segments(home));
    Ok(each.collect::<io::Result<Vec<_>>>()?.concat())
}

/// Number of the links that the journals of all ranks keep to a file.
pub fn kept_links(checkpoints: &Path, device: u64, inode: u64) -> u64 {
    let is_link = |path: &PathBuf| {
        let facts = fs::symlink_metadata(path);
        facts.is_ok_and(|facts| (facts.dev(), facts.ino()) == (device, inode))
    };
    let segments = present(checkpoints).unwrap_or_default();
    let inside = |segment: &Segment| entries(&segment.path).unwrap_or_default();
    segments.iter().flat_map(inside).filter(is_link).count() as u64
}

/// Removes the segments that only sets before the number `oldest` need.
///
/// # Errors
/// A segment cannot be read or removed.
pub fn prune(checkpoints: &Path, oldest: u64) -> io::Result<()> {
    let older = present(checkpoints)?;
    for segment in older.iter().filter(|segment| segment.cut.number < oldest) {
        remove(&segment.path)?;
    }
    for home in entries(&checkpoints.join(DIRECTORY))? {
        let left = entries(&home).unwrap_or_default();
        let is_left = |path: &PathBuf| path.extension().is_some_and(|end| end == REMOVED);
        for left in left.into_iter().filter(is_left) {
            // Its files may still be open.
            let _ = fs::remove_dir_all(left);
        }
    }
    left_behind::prune(checkpoints, oldest)?;
    for path in renewed(checkpoints)? {
        // A segment that begins at that set or later was started after the undo.
        let set = |record: &Record| match record {
            Record::Renewed { set, .. } => *set,
            _ => u64::MAX,
        };
        change_records(&path, |records| {
            records.retain(|record| set(record) > oldest)
        })?;
    }
    Ok(())
}

/// Files with the records of files that undos have created again.
pub fn renewed(checkpoints: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = entries(&checkpoints.join(DIRECTORY))?;
    found.retain(|path| path.extension().is_some_and(|end| end == RENEWED));
    Ok(found)
}

/// Extension of these files.
const RENEWED: &str = "renewed";

/// Records the files that an undo has created again on a host's local file systems, or (without a host) on shared ones.
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
    change_records(&beside(checkpoints, host, RENEWED), |records| {
        if records.is_empty() {
            records.push(begin);
        }
        records.extend_from_slice(new);
    })
}

/// Changes the records of a file of records without data, atomically; an empty file is removed.
fn change_records(path: &Path, change: impl FnOnce(&mut Vec<Record>)) -> io::Result<()> {
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
    // The first record is that of the file.
    let all = records.iter().map(|record| encode(record, b""));
    let bytes = match records.len() {
        0 | 1 => Vec::new(),
        _ => all.collect::<io::Result<Vec<_>>>()?.concat(),
    };
    rewrite(path, &bytes)
}

/// File in the directory of journals for a host's local file systems, or for shared ones.
fn beside(checkpoints: &Path, host: Option<&str>, end: &str) -> PathBuf {
    let host = host.unwrap_or("shared").replace('/', "_");
    checkpoints.join(DIRECTORY).join(format!("{host}.{end}"))
}

/// Removes the segments that were undone once all files are in their state at this cut: those of all ranks or, if
/// interrupted, of none, because the records of some ranks do not suffice for an undo. If this fails, the job must not
/// go on: its later changes would be mixed with the earlier ones. The sets `newer`, which are newer than the cut, are
/// left behind.
///
/// # Errors
/// The list cannot be written, or a segment cannot be removed.
pub fn forget(checkpoints: &Path, cut: &Cut, newer: &[Cut]) -> io::Result<()> {
    let directory = checkpoints.join(DIRECTORY);
    let mut paths = forgotten(checkpoints)?;
    let mut after = all(checkpoints)?;
    after.retain(|segment| segment.is_after(cut));
    left_behind::note(checkpoints, cut, newer, &after)?;
    paths.extend(after.into_iter().map(|segment| segment.path));
    let list = directory.join(FORGOTTEN);
    if !paths.is_empty() {
        let own = paths
            .iter()
            .filter_map(|path| path.strip_prefix(&directory).ok());
        let text: String = own.map(|path| format!("{}\n", path.display())).collect();
        rewrite(&list, text.as_bytes())?;
    }
    for path in &paths {
        remove(path)?;
    }
    let is_note = |path: &PathBuf| path.extension().is_some_and(|end| end == PROGRESS);
    for note in entries(&directory)?.iter().filter(|path| is_note(path)) {
        unless_gone(fs::remove_file(note))?;
    }
    unless_gone(fs::remove_file(list))
}

/// Replaces the content of a file atomically. Without content, the file is removed.
pub(crate) fn rewrite(path: &Path, content: &[u8]) -> io::Result<()> {
    if content.is_empty() {
        return unless_gone(fs::remove_file(path));
    }
    // Each rank does this if ranks have no MPI yet.
    let new = path.with_extension(std::process::id().to_string());
    fs::write(&new, content)?;
    fs::rename(new, path)
}

/// File that lists segments in removal.
const FORGOTTEN: &str = "forgotten";

fn forgotten(checkpoints: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let directory = checkpoints.join(DIRECTORY);
    let text = match fs::read_to_string(directory.join(FORGOTTEN)) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => String::new(),
        text => text?,
    };
    Ok(text.lines().map(|line| directory.join(line)).collect())
}

/// Extension of a segment that has been removed, but for files that are still open.
const REMOVED: &str = "removed";

/// Removes a segment. A network file system keeps files that a rank has open under hidden names in their directory.
/// Then that gets a name that no segment has, and a later call removes it.
fn remove(segment: &Path) -> io::Result<()> {
    match unless_gone(fs::remove_dir_all(segment)) {
        Err(why) if why.kind() == io::ErrorKind::DirectoryNotEmpty => {
            fs::rename(segment, segment.with_extension(REMOVED))
        }
        removed => removed,
    }
}

fn unless_gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(why) if why.kind() != io::ErrorKind::NotFound => Err(why),
        _ => Ok(()),
    }
}

/// File with one byte for each directory that a rank has renamed.
pub fn moves(checkpoints: &Path) -> PathBuf {
    checkpoints.join(DIRECTORY).join("moves")
}

/// File with one byte for each file that overlayfs has copied to its upper layer.
pub fn copies(checkpoints: &Path) -> PathBuf {
    checkpoints.join(DIRECTORY).join("copies")
}

/// File for the locks on names.
pub fn locks(checkpoints: &Path) -> PathBuf {
    checkpoints.join(DIRECTORY).join("names")
}

/// Progress of the undo of names on a host's local file systems, or (without a host) on shared ones.
pub struct Progress {
    path: PathBuf,
}

/// Extension of the progress file.
const PROGRESS: &str = "progress";

impl Progress {
    /// Progress of an undo from the journals in this checkpoint directory.
    pub fn of(checkpoints: &Path, host: Option<&str>) -> Progress {
        Progress {
            path: beside(checkpoints, host, PROGRESS),
        }
    }

    /// Stages left, and the inode of the directory whose rename is in progress, if any.
    pub fn read(&self) -> Option<(usize, Option<u64>)> {
        let text = fs::read_to_string(&self.path).ok()?;
        let mut words = text.split_whitespace();
        let left = words.next()?.parse().ok()?;
        Some((left, words.next().and_then(|inode| inode.parse().ok())))
    }

    /// Records the progress before the step is made.
    pub fn write(&self, left: usize, moving: Option<u64>) -> io::Result<()> {
        let moving = moving.map_or(String::new(), |inode| inode.to_string());
        rewrite(&self.path, format!("{left} {moving}\n").as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segment_is_found_by_name_and_removed_with_its_set() {
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
        // The first set 5 was aborted.
        let after = made.iter().filter(|segment| segment.is_after(&cuts[2]));
        assert_eq!(after.collect::<Vec<_>>(), [&made[2], &made[3]]);
        prune(dir.path(), 5).unwrap();
        assert_eq!(all(dir.path()).unwrap(), made[1..]);
        forget(dir.path(), &cuts[2], &[]).unwrap();
        assert_eq!(all(dir.path()).unwrap(), made[1..2]);
    }

    #[test]
    fn segments_are_forgotten_atomically() {
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
        // A file cannot be removed as a directory.
        fs::create_dir_all(second.path.parent().unwrap()).unwrap();
        fs::write(&second.path, "").unwrap();
        assert_eq!(all(dir.path()).unwrap().len(), 3);
        forget(dir.path(), &cuts[1], &[]).unwrap_err();
        assert!(!first.path.exists() && second.path.exists());
        assert_eq!(all(dir.path()).unwrap(), [old]);
        assert_eq!(last_turn(dir.path(), 1).unwrap(), 1);
        assert_eq!(last_turn(dir.path(), 2).unwrap(), 1);
        fs::remove_file(&second.path).unwrap();
        forget(dir.path(), &cuts[1], &[]).unwrap();
        assert!(!dir.path().join(DIRECTORY).join(FORGOTTEN).exists());
    }
}
