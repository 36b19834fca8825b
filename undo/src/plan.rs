//! Plan of an undo: the merged journals of all ranks.

use crate::history::History;
use crate::record::{self, Cut, Data, Identity, Record, State, OLDEST_VERSION, VERSION};
use crate::segment::{self, LOG};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirEntry, File, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{DirEntryExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Host of a local file system; none for a file system that all hosts reach.
pub type Scope = Option<String>;

/// All changes since a cut.
#[derive(Debug, Default)]
pub struct Plan {
    /// Checkpoint directory.
    pub(crate) checkpoints: PathBuf,
    pub(crate) cut: Option<Cut>,
    /// Regular files that existed at the cut.
    pub(crate) files: BTreeMap<Key, Item>,
    /// Old targets of names, in the order of the job's changes. Each stage but the first begins with the rename of a
    /// directory: names below it have other targets from then on.
    pub(crate) stages: Vec<Stage>,
    /// Access rights of directories that existed at the cut.
    pub(crate) directories: BTreeMap<(Scope, PathBuf), u32>,
    /// Files that the job has created.
    pub(crate) born: BTreeSet<Key>,
    /// Temporary names left by an interrupted undo.
    pub(crate) left: Vec<Temporary>,
    /// Journals that could not be read, with the reasons.
    pub damaged: Vec<String>,
}

/// Function that returns the name of a path on the disk.
type NameOf<'a> = &'a dyn Fn(&Path) -> PathBuf;

/// Maximum number of names examined to find the new name of a file: about one second of work.
const MOST_ENTRIES: usize = 100_000;

/// A temporary name that an undo has given to a file, and its scope.
pub(crate) type Temporary = (Scope, PathBuf);

/// Prefix of the temporary names that an undo gives to files.
pub(crate) const OURS: &str = ".stasis-undo-";

/// Unique key of a file of the job.
pub type Key = (Scope, Identity);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Was {
    Absent,
    File(Key),
    Directory(u32),
    Link(PathBuf),
    /// A pipe, a device or a socket.
    Other,
}

impl Was {
    /// Whether the name is to be removed if it leads to something now.
    pub fn is_gone(&self, is_other: impl FnOnce() -> bool) -> bool {
        match self {
            Was::Absent => true,
            Was::Other => !is_other(),
            Was::File(_) | Was::Directory(_) | Was::Link(_) => false,
        }
    }
}

/// Targets of names at the start of a stage.
#[derive(Debug, Default)]
pub(crate) struct Stage {
    /// Rename that began the stage; none in the first stage, which begins with the cut.
    pub begun_by: Option<Move>,
    pub names: BTreeMap<(Scope, PathBuf), Was>,
}

/// Rename of a directory, or exchange of its name with another one.
#[derive(Clone, Debug)]
pub(crate) struct Move {
    pub directory: Key,
    pub from: PathBuf,
    pub to: PathBuf,
    pub exchange: bool,
    time: u64,
    /// The log has nothing after it: the job may have been killed before the rename.
    is_last: bool,
}

impl Move {
    /// Whether it was made, by what has its first name now. The inode number alone does not tell: the undo may have
    /// made the directory again, or the one that it was exchanged with, under the number of the other.
    pub fn was_made(&self, from: Option<u64>) -> bool {
        !self.is_last || from != Some(self.directory.1.inode)
    }

    /// Name before the move of what has this name after it; none if the name was created in the place of the renamed
    /// directory.
    pub fn before(&self, path: &Path) -> Option<PathBuf> {
        let back = renamed(path, &self.to, &self.from);
        back.or_else(|| match self.exchange {
            true => renamed(path, &self.from, &self.to),
            false => None,
        })
        .or_else(|| (self.exchange || !path.starts_with(&self.from)).then(|| path.to_owned()))
    }
}

/// Name of a path after the rename of `from`, if it is `from` or below it.
pub(crate) fn renamed(path: &Path, from: &Path, to: &Path) -> Option<PathBuf> {
    let rest = path.strip_prefix(from).ok()?;
    // A slash at the end would make the name of a file lead nowhere.
    Some(match rest.as_os_str().is_empty() {
        true => to.to_owned(),
        false => to.join(rest),
    })
}

/// A file that existed at the cut.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    /// Name at its first change, which may be newer than the cut.
    pub name: PathBuf,
    /// Names at the cut, as far as they were changed since.
    pub names: Vec<PathBuf>,
    /// Names by which the job has opened it since the cut.
    others: Vec<PathBuf>,
    pub size: u64,
    pub mode: u32,
    /// Time of its last modification, in nanoseconds since 1970.
    pub modified: i64,
    /// Whether the job has changed it, apart from writes that append: the time of its modification is another one.
    pub touched: bool,
    /// Time of its first record.
    pub time: u64,
    pub seen: Identity,
    /// Current identity: an undo from a later set may have created the file again.
    pub identity: Identity,
    /// Old content, from the journals.
    notes: Vec<Patch>,
    /// The earliest content of each byte, in ascending order and without overlaps.
    pub patches: Vec<Patch>,
    /// Links to the file in segments.
    pub kept: Vec<PathBuf>,
    /// Whether it has lost a name and kept others, which may be missing in the journal.
    pub linked: bool,
    /// Whether it has lost its last name: a file that has its inode now is another one.
    pub gone: bool,
    /// Reason why its content cannot be restored.
    pub lost: Option<String>,
}

/// Old bytes of a file.
#[derive(Clone, Debug)]
pub(crate) struct Patch {
    time: u64,
    /// Offset in the file.
    at: u64,
    len: u64,
    /// Record with the bytes, and the offset in its data.
    data: Data,
    skip: u64,
    log: Arc<File>,
}

impl Patch {
    pub fn range(&self) -> Range<u64> {
        self.at..self.at + self.len
    }

    /// The bytes; an error if their checksum differs.
    pub fn bytes(&self) -> io::Result<Vec<u8>> {
        let mut bytes = self.data.read(&self.log)?;
        bytes.drain(..self.skip as usize);
        bytes.truncate(self.len as usize);
        Ok(bytes)
    }

    /// A part of the patch.
    fn part(&self, range: Range<u64>) -> Patch {
        Patch {
            at: range.start,
            len: range.end - range.start,
            skip: self.skip + range.start - self.at,
            ..self.clone()
        }
    }
}

/// Earliest content of each byte, in ascending order.
fn earliest(mut notes: Vec<Patch>) -> Vec<Patch> {
    notes.sort_by_key(|patch| patch.time);
    let mut merged: BTreeMap<u64, Patch> = BTreeMap::new();
    for note in notes {
        let Range { mut start, end } = note.range();
        let before = merged.range(..=start).next_back();
        start = start.max(before.map_or(start, |(_, patch)| patch.range().end));
        while start < end {
            let next = merged.range(start..).next();
            let (gap, after) = next.map_or((end, end), |(at, patch)| (*at, patch.range().end));
            if start < gap.min(end) {
                merged.insert(start, note.part(start..gap.min(end)));
            }
            start = after.max(gap);
        }
    }
    merged.into_values().collect()
}

/// A log and its records.
pub(crate) struct Source {
    host: String,
    directory: PathBuf,
    log: Arc<File>,
    pub records: Vec<(Record, Data)>,
}

/// Share of a plan for one process.
#[derive(Clone, Copy, Debug)]
pub struct Share<'a> {
    /// Host of the process.
    pub host: &'a str,
    /// All hosts of the job now.
    pub hosts: &'a [String],
    /// Whether the process has the lowest rank on its host.
    pub first_here: bool,
    /// Whether the process has the lowest rank of all.
    pub first: bool,
}

impl Share<'_> {
    /// Whether this process undoes changes in the scope.
    pub(crate) fn has(&self, scope: &Scope) -> bool {
        match scope {
            Some(host) if host == self.host => self.first_here,
            // The first rank handles files of a host that the job has left: they may have been copied to its machine.
            Some(host) => self.first && !self.hosts.contains(host),
            None => self.first,
        }
    }
}

impl Plan {
    /// Reads the changes of all ranks since the cut of this set, from the journals in the checkpoint directory.
    ///
    /// # Errors
    /// The directory of journals cannot be read. A journal that is damaged is no error: [`Plan::damaged`] names it.
    pub fn read(checkpoints: &Path, cut: &Cut) -> io::Result<Plan> {
        let mut plan = Plan {
            checkpoints: checkpoints.to_owned(),
            cut: Some(*cut),
            ..Plan::default()
        };
        let mut sources = Vec::new();
        for segment in segment::all(checkpoints)? {
            if segment.is_after(cut) {
                match Source::read(&segment.path.join(LOG)) {
                    Ok(source) => sources.extend(source),
                    Err(why) => plan
                        .damaged
                        .push(format!("{}: {why}", segment.path.display())),
                }
            }
        }
        let mut renewed = Vec::new();
        for path in segment::renewed(checkpoints)? {
            match Source::read(&path) {
                Ok(source) => renewed.extend(source),
                Err(why) => plan.damaged.push(format!("{}: {why}", path.display())),
            }
        }
        let history = History::new(&sources, &renewed);
        plan.merge(&sources, history);
        plan.renumber();
        plan.left = plan.left();
        Ok(plan)
    }

    /// Finds the files to which their file system has given other numbers since: by a link in a journal, or by a name
    /// that has not been changed.
    fn renumber(&mut self) {
        let number = |path: &Path| {
            let facts = fs::symlink_metadata(path).ok();
            facts.filter(Metadata::is_file).map(|facts| facts.ino())
        };
        let changed = |scope: &Scope, path: &Path| {
            let name = (scope.clone(), path.to_owned());
            self.stages
                .iter()
                .any(|stage| stage.names.contains_key(&name))
        };
        let mut numbers = BTreeMap::new();
        for (key, item) in &self.files {
            if item.gone || item.identity.is_lasting() {
                continue;
            }
            let kept = item.kept.iter().find_map(|link| number(link));
            let named = || {
                let known = item.names.is_empty() && !item.linked && !self.renames_directories();
                let known = known && !changed(&key.0, &item.name);
                known.then(|| number(&item.name)).flatten()
            };
            if let Some(now) = kept.or_else(named) {
                numbers.insert(key.clone(), now);
            }
        }
        for (key, now) in numbers {
            if let Some(item) = self.files.get_mut(&key) {
                item.identity.inode = now;
            }
        }
    }

    /// Whether there is nothing to undo.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
            && self
                .stages
                .iter()
                .all(|stage| stage.names.is_empty() && stage.begun_by.is_none())
    }

    /// Existing temporary names of an undo, in directories in which the job has changed something.
    fn left(&self) -> Vec<Temporary> {
        let names = self.stages.iter().flat_map(|stage| stage.names.keys());
        let names = names.map(|(scope, path)| (scope, path));
        let files = self.files.iter().flat_map(|((scope, _), item)| {
            let paths = item.names.iter().chain([&item.name]).chain(&item.others);
            paths.map(move |path| (scope, path))
        });
        let places: BTreeSet<(&Scope, &Path)> = names
            .chain(files)
            .filter_map(|(scope, path)| Some((scope, path.parent()?)))
            .collect();
        let names = places.into_iter().flat_map(|(scope, place)| {
            let entries = fs::read_dir(place).into_iter().flatten().flatten();
            entries.map(move |entry| (scope.clone(), entry.path()))
        });
        names.filter(|(_, path)| is_ours(path)).collect()
    }

    /// Whether directories were renamed: until that is undone, a name leads to another file.
    pub fn renames_directories(&self) -> bool {
        self.stages.len() > 1
    }

    /// Whether the undo restores access rights of the directory, or of one that it is in.
    pub fn restores_rights(&self, directory: &Path) -> bool {
        let mut noted = self.directories.keys();
        noted.any(|(_, noted)| directory.starts_with(noted))
    }

    fn merge(&mut self, sources: &[Source], history: History) {
        let begun = moves(sources).into_iter().map(Some);
        let stages = std::iter::once(None).chain(begun);
        let stage = |begun_by| Stage {
            begun_by,
            names: BTreeMap::new(),
        };
        self.stages = stages.map(stage).collect();
        for source in sources {
            self.take_files(source, &history);
        }
        let renewed = history.renewed();
        for (key, item) in &mut self.files {
            let mut since = item.time;
            if let Some((time, identity)) = renewed.get(key) {
                (since, item.identity) = (*time, *identity);
            }
            item.gone = history.is_gone(&(key.0.clone(), item.identity), since);
            item.touched |= !item.notes.is_empty();
            let patches = earliest(std::mem::take(&mut item.notes));
            // Another rank may have recorded a longer content later.
            let inside = |patch: Patch| {
                let end = patch.range().end.min(item.size);
                (patch.at < end).then(|| patch.part(patch.at..end))
            };
            item.patches = patches.into_iter().filter_map(inside).collect();
        }
        let mut times = vec![BTreeMap::new(); self.stages.len()];
        for source in sources {
            self.take_names(source, &history, &mut times);
        }
        self.name_files();
        self.born = history.into_born();
    }

    fn take_files(&mut self, source: &Source, history: &History) {
        // By number in the segment: the key there, and the key at the cut.
        let mut known: BTreeMap<u32, (Key, Key)> = BTreeMap::new();
        for (record, data) in &source.records {
            if let Some((number, own, key, noted)) = self.noted(source, history, record) {
                known.insert(number, (own, key.clone()));
                let time = noted.time;
                let item = self.files.entry(key).or_insert_with(|| noted.clone());
                if time < item.time {
                    item.name = noted.name;
                    (item.size, item.mode, item.modified) =
                        (noted.size, noted.mode, noted.modified);
                    (item.time, item.identity, item.seen) = (time, noted.identity, noted.seen);
                }
                continue;
            }
            let about = record.about();
            let about = about.and_then(|(number, time)| Some((known.get(&number)?, time)));
            let Some(((own, key), time)) = about else {
                continue;
            };
            // The inode number may belong to another file by then, which this rank has taken for the old one.
            if time.is_some_and(|time| history.at_cut(own, time).as_ref() != Some(key)) {
                continue;
            }
            let moved_back = match record {
                Record::Named { name, time, .. } => {
                    Some(self.moves_back(&key.0, name.path(), *time))
                }
                _ => None,
            };
            let Some(item) = self.files.get_mut(key) else {
                continue;
            };
            match record {
                Record::Bytes { at, time, .. } => item.notes.push(Patch {
                    time: *time,
                    at: *at,
                    len: u64::from(data.len),
                    data: *data,
                    skip: 0,
                    log: Arc::clone(&source.log),
                }),
                Record::Kept { file } => {
                    let kept = source.directory.join(format!("kept-{file}"));
                    item.kept.push(kept);
                }
                Record::Touched { .. } => item.touched = true,
                Record::Linked { .. } => item.linked = true,
                Record::Lost { why, .. } => item.lost = Some(why.clone()),
                _ => item.others.extend(moved_back),
            }
        }
    }

    /// File that a record introduces: its number in the segment, its key there, its key at the cut, and the rest. None
    /// if the file was created since the cut.
    fn noted(
        &self,
        source: &Source,
        history: &History,
        record: &Record,
    ) -> Option<(u32, Key, Key, Item)> {
        let Record::File {
            file,
            name,
            identity,
            size,
            mode,
            modified,
            time,
        } = record
        else {
            return None;
        };
        let own = source.key(*identity);
        let key = history.at_cut(&own, *time)?;
        let item = Item {
            name: self.moves_back(&key.0, name.path(), *time),
            names: Vec::new(),
            others: Vec::new(),
            size: *size,
            mode: *mode,
            modified: *modified,
            touched: false,
            time: *time,
            seen: *identity,
            identity: *identity,
            notes: Vec::new(),
            patches: Vec::new(),
            kept: Vec::new(),
            linked: false,
            gone: false,
            lost: None,
        };
        Some((*file, own, key, item))
    }

    fn take_names(
        &mut self,
        source: &Source,
        history: &History,
        times: &mut [BTreeMap<(Scope, PathBuf), u64>],
    ) {
        for (record, _) in &source.records {
            let Record::Was {
                name,
                local,
                state,
                time,
            } = record
            else {
                continue;
            };
            let was = match state {
                State::Absent => Was::Absent,
                State::Directory(mode) => Was::Directory(*mode),
                State::Link(target) => Was::Link(target.path().to_owned()),
                State::Other => Was::Other,
                State::File(identity) => {
                    let key = history.at_cut(&source.key(*identity), *time);
                    key.map_or(Was::Absent, Was::File)
                }
            };
            let place = (source.scope(*local), name.path().to_owned());
            let begun = |stage: &Stage| stage.begun_by.as_ref().is_none_or(|m| m.time < *time);
            let number = self.stages.partition_point(begun) - 1;
            let first = times[number].entry(place.clone()).or_insert(u64::MAX);
            if *time < *first {
                *first = *time;
                self.stages[number].names.insert(place, was);
            }
        }
    }

    /// Finds the names of files at the cut.
    fn name_files(&mut self) {
        let mut at_cut: BTreeMap<(Scope, PathBuf), Was> = BTreeMap::new();
        for (number, stage) in self.stages.iter().enumerate() {
            for ((scope, path), was) in &stage.names {
                if let Some(name) = self.at_cut(number, scope, path) {
                    at_cut.insert((scope.clone(), name), was.clone());
                }
            }
        }
        for (place, was) in &at_cut {
            match was {
                Was::File(key) => {
                    if let Some(item) = self.files.get_mut(key) {
                        item.names.push(place.1.clone());
                    }
                }
                Was::Directory(mode) => {
                    self.directories.insert(place.clone(), *mode);
                }
                Was::Absent | Was::Link(_) | Was::Other => {}
            }
        }
        // A file whose name led elsewhere at the cut got it later, and a file of the cut is recorded by its own name
        // before it gets another. So this file is new, and its creator was killed before the record.
        self.files.retain(|key, item| {
            let place = (key.0.clone(), item.name.clone());
            let led = at_cut.get(&place);
            !item.names.is_empty() || led.is_none_or(|was| *was == Was::File(key.clone()))
        });
    }

    /// Name at the cut of a file that had this name at the start of a stage; none if that name existed with another
    /// target, or was given since.
    fn at_cut(&self, stage: usize, scope: &Scope, path: &Path) -> Option<PathBuf> {
        let mut path = path.to_owned();
        for number in (0..stage).rev() {
            let moved = self.stages[number + 1].begun_by.as_ref();
            let moved = moved.filter(|m| m.directory.0 == *scope);
            if let Some(m) = moved {
                path = m.before(&path)?;
            }
            let place = (scope.clone(), path);
            if self.stages[number].names.contains_key(&place) {
                // The record of that name has priority.
                return None;
            }
            path = place.1;
        }
        Some(path)
    }

    /// Name at the cut of a name at that time, before directories were renamed.
    fn moves_back(&self, scope: &Scope, path: &Path, time: u64) -> PathBuf {
        let mut path = path.to_owned();
        let moves = self.stages.iter().rev();
        let moves = moves.filter_map(|stage| stage.begun_by.as_ref());
        for m in moves.filter(|m| m.time < time && m.directory.0 == *scope) {
            path = m.before(&path).unwrap_or(path);
        }
        path
    }

    /// The regular file that had this name at the cut, if it was changed since, for a process on that host.
    pub fn view(&self, path: &Path, host: &str) -> Option<View<'_>> {
        let scopes = [None, Some(host.to_owned())];
        let first = self.stages.first()?;
        let named = scopes.iter().find_map(|scope| {
            match first.names.get(&(scope.clone(), path.to_owned()))? {
                Was::File(key) => self.files.get_key_value(key),
                _ => None,
            }
        });
        let changed = || {
            let mut files = self.files.iter();
            files.find(|((scope, _), item)| item.name == path && scopes.contains(scope))
        };
        // The file may be found by another of its names.
        let linked = || {
            let facts = fs::symlink_metadata(path).ok()?;
            let mut files = self.files.iter();
            files.find(|(key, item)| {
                let now = item.now(&key.0).filter(|_| facts.is_file());
                scopes.contains(&key.0) && now.is_some_and(|now| may_be(&now, inode(&facts), host))
            })
        };
        let (key, item) = named.or_else(changed).or_else(linked)?;
        let now = item.now(&key.0);
        let source = now.and_then(|now| self.whereabouts(&now, item, path, host, &self.left));
        Some(View::new(item, source, path))
    }

    /// Current path of the file that had this name at the cut and has this key. It may have a temporary name in `left`.
    pub(crate) fn whereabouts(
        &self,
        now: &Key,
        item: &Item,
        path: &Path,
        host: &str,
        left: &[Temporary],
    ) -> Option<PathBuf> {
        let is_it = |path: &Path| {
            let facts = fs::symlink_metadata(path);
            facts.is_ok_and(|facts| facts.is_file() && may_be(now, inode(&facts), host))
        };
        self.whereabouts_by(now, item, path, (host, left), (&is_it, &Path::to_owned))
    }

    /// As [`Self::whereabouts`], with two functions: whether a name is the file's, and the name of a path on the disk.
    pub(crate) fn whereabouts_by(
        &self,
        (scope, identity): &Key,
        item: &Item,
        path: &Path,
        (host, left): (&str, &[Temporary]),
        (is_it, name_of): (&dyn Fn(&Path) -> bool, NameOf<'_>),
    ) -> Option<PathBuf> {
        let names = self.stages.iter().flat_map(|stage| stage.names.keys());
        let names = names
            .filter(|(there, _)| there == scope)
            .map(|(_, path)| path);
        let moved = scope.as_ref().is_some_and(|there| there != host);
        let names = item.names.iter().chain(names.filter(|_| !moved));
        let names = names.chain([&item.name]).chain(&item.others);
        let own = || Some(path.to_owned());
        // Of a copy from another machine, only the link is surely the file itself.
        if moved {
            return item
                .kept
                .iter()
                .cloned()
                .chain(own())
                .find(|path| is_it(path));
        }
        let names: Vec<&PathBuf> = names.collect();
        let named = names.iter().map(|name| (*name).clone());
        let kept = item.kept.iter().cloned();
        let left = left.iter().filter(|(there, _)| there == scope);
        let left = left.map(|(_, path)| path.clone());
        let mut all = own().into_iter().chain(named).chain(left).chain(kept);
        let found = all.find(|path| is_it(path));
        let places = names.iter().filter_map(|name| name.parent());
        found.or_else(|| {
            let places: BTreeSet<&Path> = places.filter(|_| item.linked).collect();
            let found = |entry: &DirEntry| {
                let same = entry.ino() == identity.inode;
                let name = same.then(|| name_of(&entry.path()));
                name.filter(|name| is_it(name))
            };
            search(&places, &found)
        })
    }
}

/// Searches directories and their subdirectories, then those around them, up to [`MOST_ENTRIES`].
fn search(
    places: &BTreeSet<&Path>,
    wanted: &dyn Fn(&DirEntry) -> Option<PathBuf>,
) -> Option<PathBuf> {
    let mut left = MOST_ENTRIES;
    let mut seen = BTreeSet::new();
    let mut around: BTreeSet<&Path> = places.clone();
    while !around.is_empty() {
        let mut below: Vec<PathBuf> = around.iter().map(|place| (*place).to_owned()).collect();
        while let Some(place) = below.pop() {
            if !seen.insert(place.clone()) {
                continue;
            }
            for entry in fs::read_dir(&place).into_iter().flatten().flatten() {
                left = left.checked_sub(1)?;
                if let Some(name) = wanted(&entry) {
                    return Some(name);
                }
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    below.push(entry.path());
                }
            }
        }
        around = around
            .into_iter()
            .filter_map(|place| place.parent())
            .collect();
    }
    None
}

/// Whether a file with this device and inode may be the file of the key, for a process on that host. A copy from
/// another machine has another number.
pub(crate) fn may_be((scope, identity): &Key, [device, inode]: [u64; 2], host: &str) -> bool {
    match scope {
        Some(there) if there == host => (device, inode) == (identity.device, identity.inode),
        Some(_) => true,
        None => inode == identity.inode,
    }
}

/// Device and inode.
pub(crate) fn inode(facts: &Metadata) -> [u64; 2] {
    [facts.dev(), facts.ino()]
}

/// All renames of directories, in order.
fn moves(sources: &[Source]) -> Vec<Move> {
    let mut all: Vec<Move> = Vec::new();
    for source in sources {
        let mut own: Vec<Move> = Vec::new();
        let number = source.records.len();
        for (place, (record, _)) in source.records.iter().enumerate() {
            match record {
                Record::Moved {
                    directory,
                    from,
                    to,
                    exchange,
                    time,
                } => own.push(Move {
                    directory: source.key(*directory),
                    from: from.path().to_owned(),
                    to: to.path().to_owned(),
                    exchange: *exchange,
                    time: *time,
                    is_last: place + 1 == number,
                }),
                Record::Stayed { from, to } => {
                    let is_it = |m: &Move| (&*m.from, &*m.to) == (from.path(), to.path());
                    if let Some(last) = own.iter().rposition(is_it) {
                        own.remove(last);
                    }
                }
                _ => {}
            }
        }
        all.extend(own);
    }
    all.sort_by_key(|m| m.time);
    all
}

impl Source {
    /// Reads a log; none if it does not exist yet.
    fn read(path: &Path) -> io::Result<Option<Source>> {
        let log = match File::open(path) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
            log => log?,
        };
        let mut records = record::read(&log)?;
        if records.is_empty() {
            return Ok(None);
        }
        match records.remove(0).0 {
            Record::Begin { version, host, .. }
                if (OLDEST_VERSION..=VERSION).contains(&version) =>
            {
                Ok(Some(Source {
                    host,
                    directory: path.parent().unwrap_or(path).to_owned(),
                    log: Arc::new(log),
                    records,
                }))
            }
            _ => Err(io::Error::other("another version of Stasis has written it")),
        }
    }

    fn scope(&self, local: bool) -> Scope {
        local.then(|| self.host.clone())
    }

    pub fn key(&self, identity: Identity) -> Key {
        (self.scope(identity.local), identity)
    }
}

/// Temporary name of a file, in the directory of `beside`.
pub(crate) fn stash(beside: &Path, inode: u64) -> Option<PathBuf> {
    Some(beside.parent()?.join(format!("{OURS}of-{inode}")))
}

/// Whether an undo has given the name.
pub(crate) fn is_ours(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with(OURS))
}

impl Item {
    /// Current key of the file, if it still exists.
    pub(crate) fn now(&self, scope: &Scope) -> Option<Key> {
        (!self.gone).then(|| (scope.clone(), self.identity))
    }

    /// Names under which the file may be found if another file has its inode, `path` first. Empty if it cannot have
    /// been created again.
    pub(crate) fn may_be_back<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = &'a Path> {
        let names = std::iter::once(path).chain(self.names.iter().map(PathBuf::as_path));
        let has_all = self.has_all();
        names.take_while(move |_| has_all)
    }

    /// Reason why the file is lost, if no name leads to it.
    pub(crate) fn why_lost(&self) -> String {
        let lost = self.lost.clone();
        lost.unwrap_or_else(|| "it is gone, and no link was kept".to_owned())
    }

    /// Reason why the file is not found, if another file has its name.
    pub(crate) fn why_missing(&self) -> String {
        let gone = "it is gone, or another program has put another file in its place";
        self.lost.clone().unwrap_or_else(|| gone.to_owned())
    }

    /// Whether the journal has all of the old content.
    pub(crate) fn has_all(&self) -> bool {
        let end = self.patches.iter().fold(0, |end, patch| {
            let range = patch.range();
            if range.start == end {
                range.end
            } else {
                end
            }
        });
        end >= self.size && self.lost.is_none()
    }
}

/// A regular file in its state at the cut.
#[derive(Debug)]
pub struct View<'a> {
    item: &'a Item,
    source: Option<PathBuf>,
    /// Whether the file that has the name now is this file.
    pub in_place: bool,
}

impl<'a> View<'a> {
    pub(crate) fn new(item: &'a Item, source: Option<PathBuf>, path: &Path) -> View<'a> {
        View {
            item,
            in_place: source.as_deref() == Some(path),
            source,
        }
    }
}

impl View<'_> {
    /// Length in bytes.
    pub fn size(&self) -> u64 {
        self.item.size
    }

    /// Time of the last modification, in nanoseconds since 1970.
    pub fn modified(&self) -> i64 {
        self.item.modified
    }

    /// Current path of the file, if the job has not changed it: at most it has other names.
    pub fn unchanged(&self) -> Option<&Path> {
        let now = self.source.as_deref().filter(|_| !self.item.touched)?;
        let len = fs::symlink_metadata(now).ok()?.len();
        (len == self.item.size).then_some(now)
    }

    /// Number of bytes of it that the journals hold. It only grows while the job runs.
    pub fn known(&self) -> u64 {
        self.item.patches.iter().map(|patch| patch.len).sum()
    }

    /// Reason why it cannot be restored, if any.
    pub fn lost(&self) -> Option<String> {
        match (&self.item.lost, &self.source) {
            (Some(why), _) => Some(why.clone()),
            (None, None) if !self.item.has_all() => {
                Some("the file is gone, and no link to it was kept".to_owned())
            }
            _ => None,
        }
    }

    /// Reads the old content at an offset.
    ///
    /// # Errors
    /// The journal, or the file with the old content, cannot be read.
    pub fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        bytes.fill(0);
        if let Some(source) = &self.source {
            let (file, mut done) = (File::open(source)?, 0);
            while done < bytes.len() {
                match file.read_at(&mut bytes[done..], at + done as u64)? {
                    0 => break,
                    n => done += n,
                }
            }
        }
        let end = at + bytes.len() as u64;
        let patches = &self.item.patches;
        let first = patches.partition_point(|patch| patch.range().end <= at);
        for patch in patches[first..].iter().take_while(|patch| patch.at < end) {
            let Range { start, end } = patch.range().start.max(at)..patch.range().end.min(end);
            let old = patch.bytes()?;
            let old = &old[(start - patch.at) as usize..(end - patch.at) as usize];
            bytes[(start - at) as usize..(end - at) as usize].copy_from_slice(old);
        }
        Ok(())
    }
}
