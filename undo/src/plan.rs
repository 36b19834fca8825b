//! What a restart has to undo: the journals of all ranks, put together.

use crate::history::History;
use crate::record::{self, Cut, Data, Identity, Record, State, VERSION};
use crate::segment::{self, LOG};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirEntry, File, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{DirEntryExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The host on whose own file system something is; none on one that all hosts reach.
pub type Scope = Option<String>;

/// All that was changed since a cut.
#[derive(Debug, Default)]
pub struct Plan {
    /// The checkpoint directory.
    pub(crate) checkpoints: PathBuf,
    pub(crate) cut: Option<Cut>,
    /// Regular files that were there at the cut.
    pub(crate) files: BTreeMap<Key, Item>,
    /// What names led to, in the order in which the job changed them. Each stage but the first begins with a
    /// directory that gets another name: names below it mean something else from then on.
    pub(crate) stages: Vec<Stage>,
    /// Files that the job has made.
    pub(crate) born: BTreeSet<Key>,
    /// What an undo that was interrupted has left under names that it gave.
    pub(crate) left: Vec<PathBuf>,
    /// Journals that could not be read, and why.
    pub damaged: Vec<String>,
}

/// So many names are looked at to find one of a file that has lost another: about a second's work.
const MOST_ENTRIES: usize = 100_000;

/// How names begin that an undo gives: to files that wait for their own.
pub(crate) const OURS: &str = ".stasis-undo-";

/// What tells a file from all others of the job.
pub type Key = (Scope, Identity);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Was {
    Absent,
    File(Key),
    Directory(u32),
    Link(PathBuf),
}

/// What names led to when a stage began.
#[derive(Debug, Default)]
pub(crate) struct Stage {
    /// None in the first stage, which begins with the cut.
    pub begun_by: Option<Move>,
    pub names: BTreeMap<(Scope, PathBuf), Was>,
}

/// A directory that got another name.
#[derive(Clone, Debug)]
pub(crate) struct Move {
    pub directory: Key,
    pub from: PathBuf,
    pub to: PathBuf,
    time: u64,
}

/// A file that was there at the cut.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    /// By which it was changed first; the job may have given it that name since.
    pub name: PathBuf,
    /// Names that it had at the cut, as far as they were changed since.
    pub names: Vec<PathBuf>,
    /// Names by which the job has opened it since.
    others: Vec<PathBuf>,
    pub size: u64,
    pub mode: u32,
    /// When that was noted, and by which number.
    pub time: u64,
    pub seen: Identity,
    /// By which it is known now: an undo from a later set may have made it anew.
    pub identity: Identity,
    /// What was in it, from the journals.
    notes: Vec<Patch>,
    /// Of those the earliest for each byte, in ascending order and without overlaps.
    pub patches: Vec<Patch>,
    /// Links to it.
    pub kept: Vec<PathBuf>,
    /// It has lost a name and kept others, which the journal may not have.
    pub linked: bool,
    /// It has lost its last name: a file that has its inode now is another one.
    pub gone: bool,
    /// Why its content cannot be brought back.
    pub lost: Option<String>,
}

/// Bytes that a file had.
#[derive(Clone, Debug)]
pub(crate) struct Patch {
    time: u64,
    /// Where in the file.
    at: u64,
    len: u64,
    /// The record that holds them, from this byte of its data on.
    data: Data,
    skip: u64,
    log: Arc<File>,
}

impl Patch {
    pub fn range(&self) -> Range<u64> {
        self.at..self.at + self.len
    }

    /// The bytes; an error if they are not what was written.
    pub fn bytes(&self) -> io::Result<Vec<u8>> {
        let mut bytes = self.data.read(&self.log)?;
        bytes.drain(..self.skip as usize);
        bytes.truncate(self.len as usize);
        Ok(bytes)
    }

    /// A part of it.
    fn part(&self, range: Range<u64>) -> Patch {
        Patch {
            at: range.start,
            len: range.end - range.start,
            skip: self.skip + range.start - self.at,
            ..self.clone()
        }
    }
}

/// For each byte the earliest, in ascending order.
fn earliest(mut notes: Vec<Patch>) -> Vec<Patch> {
    notes.sort_by_key(|patch| patch.time);
    let mut settled: BTreeMap<u64, Patch> = BTreeMap::new();
    for note in notes {
        let Range { mut start, end } = note.range();
        let before = settled.range(..=start).next_back();
        start = start.max(before.map_or(start, |(_, patch)| patch.range().end));
        while start < end {
            let next = settled.range(start..).next();
            let (gap, after) = next.map_or((end, end), |(at, patch)| (*at, patch.range().end));
            if start < gap.min(end) {
                settled.insert(start, note.part(start..gap.min(end)));
            }
            start = after.max(gap);
        }
    }
    settled.into_values().collect()
}

/// A log, read.
pub(crate) struct Source {
    host: String,
    directory: PathBuf,
    log: Arc<File>,
    pub records: Vec<(Record, Data)>,
}

/// Which part of a plan a process does.
#[derive(Clone, Copy, Debug)]
pub struct Share<'a> {
    /// The host that the process runs on.
    pub host: &'a str,
    /// All hosts that the job runs on now.
    pub hosts: &'a [String],
    /// Whether the process has the lowest rank on its host.
    pub first_here: bool,
    /// Whether it has the lowest of all.
    pub first: bool,
}

impl Share<'_> {
    /// Whether what is there is to be done by this process.
    pub(crate) fn has(&self, scope: &Scope) -> bool {
        match scope {
            Some(host) if host == self.host => self.first_here,
            // What was on a host that the job has left is looked for where the first rank is: its files may
            // have been copied.
            Some(host) => self.first && !self.hosts.contains(host),
            None => self.first,
        }
    }
}

impl Plan {
    /// What all ranks have changed since the cut of this set, as the journals in the checkpoint directory tell.
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
        plan.left = plan.left();
        Ok(plan)
    }

    /// Whether there is nothing to undo.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
            && self
                .stages
                .iter()
                .all(|stage| stage.names.is_empty() && stage.begun_by.is_none())
    }

    /// What lies now under names that an undo gives, in directories in which the job has changed something.
    fn left(&self) -> Vec<PathBuf> {
        let names = self.stages.iter().flat_map(|stage| stage.names.keys());
        let names = names.map(|(_, path)| path);
        let items = self.files.values();
        let files =
            items.flat_map(|item| item.names.iter().chain([&item.name]).chain(&item.others));
        let places: BTreeSet<&Path> = names
            .chain(files)
            .filter_map(|path| path.parent())
            .collect();
        let entries = places
            .into_iter()
            .filter_map(|place| fs::read_dir(place).ok());
        let names = entries.flatten().flatten().map(|entry| entry.path());
        names.filter(|path| is_ours(path)).collect()
    }

    /// Whether directories have got other names: a name leads to another file until that is undone.
    pub fn renames_directories(&self) -> bool {
        self.stages.len() > 1
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
            let patches = earliest(std::mem::take(&mut item.notes));
            // Another rank may have seen more of it later.
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
        // By the number that the segment gives them: what they are called there, and what they were at the cut.
        let mut known: BTreeMap<u32, (Key, Key)> = BTreeMap::new();
        for (record, data) in &source.records {
            if let Some((number, own, key, noted)) = self.noted(source, history, record) {
                known.insert(number, (own, key.clone()));
                let time = noted.time;
                let item = self.files.entry(key).or_insert_with(|| noted.clone());
                if time < item.time {
                    item.name = noted.name;
                    (item.size, item.mode) = (noted.size, noted.mode);
                    (item.time, item.identity, item.seen) = (time, noted.identity, noted.seen);
                }
                continue;
            }
            let about = record.about();
            let about = about.and_then(|(number, time)| Some((known.get(&number)?, time)));
            let Some(((own, key), time)) = about else {
                continue;
            };
            // Its number may be another file's by then, which this rank has taken for it.
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
                Record::Linked { .. } => item.linked = true,
                Record::Lost { why, .. } => item.lost = Some(why.clone()),
                _ => item.others.extend(moved_back),
            }
        }
    }

    /// A file that is called by a number from this record on: that number, what the file is called in the segment, what
    /// it was at the cut, and the rest. None of one that was made since.
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

    /// Finds the names that files had at the cut.
    fn name_files(&mut self) {
        let mut at_cut: BTreeMap<(Scope, PathBuf), Was> = BTreeMap::new();
        for (number, stage) in self.stages.iter().enumerate() {
            for ((scope, path), was) in &stage.names {
                if let Some(name) = self.at_cut(number, scope, path) {
                    at_cut.insert((scope.clone(), name), was.clone());
                }
            }
        }
        for ((_, name), was) in &at_cut {
            if let Was::File(key) = was {
                if let Some(item) = self.files.get_mut(key) {
                    item.names.push(name.clone());
                }
            }
        }
        // A file that has a name which led elsewhere at the cut has got it since. One that was there at the cut is
        // noted by its own name before it gets another. So it is new, and who made it was killed before that was noted.
        self.files.retain(|key, item| {
            let place = (key.0.clone(), item.name.clone());
            let led = at_cut.get(&place);
            !item.names.is_empty() || led.is_none_or(|was| *was == Was::File(key.clone()))
        });
    }

    /// The name at the cut of what had this one when a stage began; none if it had another, or got this one since.
    fn at_cut(&self, stage: usize, scope: &Scope, path: &Path) -> Option<PathBuf> {
        let mut path = path.to_owned();
        for number in (0..stage).rev() {
            let moved = self.stages[number + 1].begun_by.as_ref();
            let moved = moved.filter(|m| m.directory.0 == *scope);
            if let Some(m) = moved {
                path = match path.strip_prefix(&m.to) {
                    Ok(rest) => m.from.join(rest),
                    // What has been put where the directory was before.
                    Err(_) if path.starts_with(&m.from) => return None,
                    Err(_) => path,
                };
            }
            let place = (scope.clone(), path);
            if self.stages[number].names.contains_key(&place) {
                // What is noted there counts.
                return None;
            }
            path = place.1;
        }
        Some(path)
    }

    /// What the name of that time was at the cut, before directories got other names.
    fn moves_back(&self, scope: &Scope, path: &Path, time: u64) -> PathBuf {
        let mut path = path.to_owned();
        let moves = self.stages.iter().rev();
        let moves = moves.filter_map(|stage| stage.begun_by.as_ref());
        for m in moves.filter(|m| m.time < time && m.directory.0 == *scope) {
            if let Ok(rest) = path.strip_prefix(&m.to) {
                path = m.from.join(rest);
            }
        }
        path
    }

    /// The regular file that had this name at the cut, if it was changed since, for a process of that host.
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
        // By another of its names.
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

    /// Where the file is now that had this name at the cut, and is known by this key. It may be `left` by an undo.
    pub(crate) fn whereabouts(
        &self,
        now: &Key,
        item: &Item,
        path: &Path,
        host: &str,
        left: &[PathBuf],
    ) -> Option<PathBuf> {
        let is_it = |path: &Path| {
            let facts = fs::symlink_metadata(path);
            facts.is_ok_and(|facts| facts.is_file() && may_be(now, inode(&facts), host))
        };
        self.whereabouts_by(now, item, path, host, left, &is_it)
    }

    /// The same where `is_it` tells whether the file has a name.
    pub(crate) fn whereabouts_by(
        &self,
        (scope, identity): &Key,
        item: &Item,
        path: &Path,
        host: &str,
        left: &[PathBuf],
        is_it: &dyn Fn(&Path) -> bool,
    ) -> Option<PathBuf> {
        let names = self.stages.iter().flat_map(|stage| stage.names.keys());
        let names = names
            .filter(|(there, _)| there == scope)
            .map(|(_, path)| path);
        let moved = scope.as_ref().is_some_and(|there| there != host);
        let names = item.names.iter().chain(names.filter(|_| !moved));
        let names = names.chain([&item.name]).chain(&item.others);
        let own = || Some(path.to_owned());
        // Of what was copied from another machine only the link is surely the file itself.
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
        let left = left.iter().cloned();
        let mut all = own().into_iter().chain(named).chain(left).chain(kept);
        let found = all.find(|path| is_it(path));
        let places = names.iter().filter_map(|name| name.parent());
        found.or_else(|| {
            let places: BTreeSet<&Path> = places.filter(|_| item.linked).collect();
            let is_it = |entry: &DirEntry| entry.ino() == identity.inode && is_it(&entry.path());
            search(&places, &is_it)
        })
    }
}

/// Looks for a name in directories and below them, then below those around them, as long as that is not too much.
fn search(places: &BTreeSet<&Path>, is_it: &dyn Fn(&DirEntry) -> bool) -> Option<PathBuf> {
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
                if is_it(&entry) {
                    return Some(entry.path());
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

/// Whether a file of this device and inode may be that one, as a process of that host sees it. One that was copied from
/// another machine has another number.
pub(crate) fn may_be((scope, identity): &Key, [device, inode]: [u64; 2], host: &str) -> bool {
    match scope {
        Some(there) if there == host => (device, inode) == (identity.device, identity.inode),
        Some(_) => true,
        None => inode == identity.inode,
    }
}

/// The device and the inode.
pub(crate) fn inode(facts: &Metadata) -> [u64; 2] {
    [facts.dev(), facts.ino()]
}

/// All moves that were made, in order.
fn moves(sources: &[Source]) -> Vec<Move> {
    let mut all: Vec<Move> = Vec::new();
    for source in sources {
        let mut own: Vec<Move> = Vec::new();
        for (record, _) in &source.records {
            match record {
                Record::Moved {
                    directory,
                    from,
                    to,
                    time,
                } => own.push(Move {
                    directory: source.key(*directory),
                    from: from.path().to_owned(),
                    to: to.path().to_owned(),
                    time: *time,
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
    /// None where there is no such log yet.
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
            Record::Begin { version, host, .. } if version == VERSION => Ok(Some(Source {
                host,
                directory: path.parent().unwrap_or(path).to_owned(),
                log: Arc::new(log),
                records,
            })),
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

/// The name under which a file waits for its own, beside another.
pub(crate) fn stash(beside: &Path, inode: u64) -> Option<PathBuf> {
    Some(beside.parent()?.join(format!("{OURS}of-{inode}")))
}

/// Whether an undo has given that name.
pub(crate) fn is_ours(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with(OURS))
}

impl Item {
    /// By what it is known now, if it is anywhere.
    pub(crate) fn now(&self, scope: &Scope) -> Option<Key> {
        (!self.gone).then(|| (scope.clone(), self.identity))
    }

    /// The names under which it may be found where its inode is another file's: the one that is asked for first. None
    /// where it cannot have been made anew.
    pub(crate) fn may_be_back<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = &'a Path> {
        let names = std::iter::once(path).chain(self.names.iter().map(PathBuf::as_path));
        let has_all = self.has_all();
        names.take_while(move |_| has_all)
    }

    /// Why it is lost where nothing leads to it.
    pub(crate) fn why_lost(&self) -> String {
        let lost = self.lost.clone();
        lost.unwrap_or_else(|| "it is gone, and no link was kept".to_owned())
    }

    /// Why it is not found where its name is another's now.
    pub(crate) fn why_missing(&self) -> String {
        let gone = "it is gone, or another program has put another file in its place";
        self.lost.clone().unwrap_or_else(|| gone.to_owned())
    }

    /// Whether the journal has all that was in the file.
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

/// A regular file as it was at the cut.
#[derive(Debug)]
pub struct View<'a> {
    item: &'a Item,
    source: Option<PathBuf>,
    /// Whether the file that has the name now is that file.
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
    /// Its length.
    pub fn size(&self) -> u64 {
        self.item.size
    }

    /// Why it cannot be brought back, if so.
    pub fn lost(&self) -> Option<String> {
        match (&self.item.lost, &self.source) {
            (Some(why), _) => Some(why.clone()),
            (None, None) if !self.item.has_all() => {
                Some("the file is gone, and no link to it was kept".to_owned())
            }
            _ => None,
        }
    }

    /// Reads what it had at a position.
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
