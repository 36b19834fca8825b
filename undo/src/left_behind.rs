//! Sets that a restart from an older one leaves behind. It brings the files back to their state at the older set, and
//! the job goes on from there. The journals that it has undone are removed, and nothing leads from these files to the
//! newer set: a restart from that would find the files of another run.
//!
//! A line of the file `undo/left-behind` has the cut of such a set, the number of the older set, and
//! whether files had changed between the two.

use crate::record::{self, Cut, Record};
use crate::segment::{all, rewrite, Segment, DIRECTORY};
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// A set that was left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftBehind {
    /// The cut at which it was made.
    pub cut: Cut,
    /// Number of the older set from which the job has gone on.
    pub by: u64,
}

/// The facts about a set that was left behind.
#[derive(Clone, Copy)]
struct Entry {
    by: u64,
    /// Files had changed from the older set to this one.
    changed: bool,
}

type Entries = BTreeMap<Cut, Entry>;

/// The sets of a checkpoint directory whose files a later run has replaced.
///
/// # Errors
/// The journals cannot be read.
pub fn left_behind(checkpoints: &Path) -> io::Result<Vec<LeftBehind>> {
    let entries = read(checkpoints)?;
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    let later = numbers_of_changed(&all(checkpoints)?);
    let is_lost = |(cut, entry): &(Cut, Entry)| {
        let between = entry.by..cut.number;
        entry.changed || later.iter().any(|at| between.contains(at))
    };
    let lost = entries.into_iter().filter(is_lost);
    let lost = lost.map(|(cut, entry)| LeftBehind { cut, by: entry.by });
    Ok(lost.collect())
}

/// Notes that a restart from `cut` leaves the sets `newer` behind. `undone` are the segments behind the cut, which are
/// there still.
pub(crate) fn note(
    checkpoints: &Path,
    cut: &Cut,
    newer: &[Cut],
    undone: &[Segment],
) -> io::Result<()> {
    let mut entries = read(checkpoints)?;
    if newer.is_empty() && entries.is_empty() {
        // The usual restart: the logs need not be read again.
        return Ok(());
    }
    let changed = numbers_of_changed(undone);
    for newer in newer {
        let new = Entry {
            by: newer.number,
            changed: false,
        };
        entries.entry(*newer).or_insert(new);
    }
    for (newer, entry) in &mut entries {
        if newer.number > cut.number {
            // One that was left behind before has the files of the set that it was left behind by.
            entry.changed |= changed.iter().any(|at| *at < entry.by);
            entry.by = entry.by.min(cut.number);
        }
    }
    write(checkpoints, &entries)
}

/// Forgets sets before the number `oldest`.
pub(crate) fn prune(checkpoints: &Path, oldest: u64) -> io::Result<()> {
    let mut entries = read(checkpoints)?;
    let before = entries.len();
    entries.retain(|cut, _| cut.number >= oldest);
    match entries.len() == before {
        true => Ok(()),
        false => write(checkpoints, &entries),
    }
}

/// Numbers of the cuts behind which files were changed.
fn numbers_of_changed(segments: &[Segment]) -> Vec<u64> {
    let changed = segments.iter().filter(|segment| has_changes(segment));
    changed.map(|segment| segment.cut.number).collect()
}

/// Whether the segment has records of changes. A log that cannot be read counts as changed.
fn has_changes(segment: &Segment) -> bool {
    let log = match File::open(segment.log()) {
        Err(why) => return why.kind() != io::ErrorKind::NotFound,
        Ok(log) => log,
    };
    record::read(&log).map_or(true, |records| {
        let mut records = records.iter();
        records.any(|(record, _)| !matches!(record, Record::Begin { .. }))
    })
}

fn path(checkpoints: &Path) -> PathBuf {
    checkpoints.join(DIRECTORY).join("left-behind")
}

fn read(checkpoints: &Path) -> io::Result<Entries> {
    let text = match fs::read_to_string(path(checkpoints)) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Entries::new()),
        text => text?,
    };
    Ok(text.lines().filter_map(entry).collect())
}

fn entry(line: &str) -> Option<(Cut, Entry)> {
    let mut words = line.split_whitespace();
    let cut = Cut::named(words.next()?)?;
    let by = words.next()?.parse().ok()?;
    let changed = words.next()? == CHANGED;
    Some((cut, Entry { by, changed }))
}

const CHANGED: &str = "changed";
const UNCHANGED: &str = "unchanged";

fn write(checkpoints: &Path, entries: &Entries) -> io::Result<()> {
    let lines = entries.iter().map(|(cut, entry)| {
        let how = if entry.changed { CHANGED } else { UNCHANGED };
        format!("{cut} {} {how}\n", entry.by)
    });
    let text = lines.collect::<String>();
    if !text.is_empty() {
        // There is none if no rank has changed a file.
        let directory = checkpoints.join(DIRECTORY);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)?;
    }
    rewrite(&path(checkpoints), text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::{forget, prune};
    use crate::{Facts, Identity, Journal};
    use std::collections::HashMap;

    const FIRST: Cut = Cut {
        number: 1,
        id: [1; 16],
    };
    const SECOND: Cut = Cut {
        number: 2,
        id: [2; 16],
    };

    fn facts() -> Facts {
        Facts {
            identity: Identity {
                device: 1,
                inode: 2,
                local: true,
            },
            size: 8,
            mode: 0o644,
            links: 1,
            modified: 0,
        }
    }

    fn begin(journal: &mut Journal, cut: Cut) {
        journal.begin(cut, HashMap::from([(facts().identity, facts().at_cut())]));
    }

    fn change(journal: &mut Journal) {
        let old = |_, len| Ok(vec![0; len]);
        journal.changing(&facts(), &|| PathBuf::from("/file"), 0..4, &old);
    }

    fn journal(checkpoints: &Path) -> Journal {
        Journal::new(checkpoints, 0, "node".into(), u64::MAX)
    }

    const LOST: LeftBehind = LeftBehind { cut: SECOND, by: 1 };

    #[test]
    fn a_restart_from_an_older_set_leaves_newer_ones_behind() {
        let folder = tempfile::tempdir().unwrap();
        let checkpoints = folder.path();
        let mut journal = journal(checkpoints);
        begin(&mut journal, FIRST);
        change(&mut journal);
        begin(&mut journal, SECOND);
        change(&mut journal);
        assert_eq!(left_behind(checkpoints).unwrap(), []);
        // A restart from the newest set leaves none.
        forget(checkpoints, &SECOND, &[]).unwrap();
        assert_eq!(left_behind(checkpoints).unwrap(), []);
        begin(&mut journal, SECOND);
        change(&mut journal);
        forget(checkpoints, &FIRST, &[SECOND]).unwrap();
        assert_eq!(left_behind(checkpoints).unwrap(), [LOST]);
        prune(checkpoints, 2).unwrap();
        assert_eq!(left_behind(checkpoints).unwrap(), [LOST]);
        prune(checkpoints, 3).unwrap();
        assert_eq!(left_behind(checkpoints).unwrap(), []);
        assert!(!path(checkpoints).exists());
    }

    #[test]
    fn a_set_may_be_left_behind_before_any_file_changes() {
        let folder = tempfile::tempdir().unwrap();
        forget(folder.path(), &FIRST, &[SECOND]).unwrap();
        assert_eq!(left_behind(folder.path()).unwrap(), []);
        let mut second_run = journal(folder.path());
        begin(&mut second_run, FIRST);
        change(&mut second_run);
        assert_eq!(left_behind(folder.path()).unwrap(), [LOST]);
    }

    #[test]
    fn without_changes_between_them_a_set_is_lost_when_the_job_changes_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let checkpoints = folder.path();
        let mut first_run = journal(checkpoints);
        begin(&mut first_run, FIRST);
        begin(&mut first_run, SECOND);
        change(&mut first_run);
        forget(checkpoints, &FIRST, &[SECOND]).unwrap();
        assert_eq!(left_behind(checkpoints).unwrap(), []);
        let mut second_run = journal(checkpoints);
        begin(&mut second_run, FIRST);
        assert_eq!(left_behind(checkpoints).unwrap(), []);
        change(&mut second_run);
        assert_eq!(left_behind(checkpoints).unwrap(), [LOST]);
        // Another restart from the first set undoes that change.
        forget(checkpoints, &FIRST, &[SECOND]).unwrap();
        assert_eq!(left_behind(checkpoints).unwrap(), []);
    }
}
