//! What an undo would do, found out without doing it.
//!
//! The steps are those of `apply.rs`, on names as they would be then: what is on the disk, and over it what earlier
//! steps would have made of that. A test compares both after random changes.
//!
//! # Safety
//! The one unsafe call asks about a name that is a C string.
#![allow(unsafe_code)]

use crate::apply::{has_mode, Done, BACK};
use crate::plan::{is_ours, may_be, stash, Item, Key, Move, Plan, Scope, Stage, View, Was};
use crate::segment::Progress;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::fmt::Display;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// What would be done to one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum Deed {
    /// What has it was made since, and goes.
    Removed {
        /// In it.
        bytes: u64,
    },
    /// It leads again to what it led to.
    Restored {
        /// The name that this has now; none where it is made anew.
        from: Option<PathBuf>,
    },
    /// The file was overwritten and gets its bytes again.
    Rewritten {
        /// That differ.
        bytes: u64,
        /// Its length now.
        from: u64,
        /// Its length then.
        to: u64,
    },
    /// The file has grown, and loses its new end.
    CutBack {
        /// Of that.
        bytes: u64,
        /// Its length then.
        to: u64,
    },
    /// It cannot be brought back, and stays as it is.
    Left {
        /// Why.
        why: String,
    },
    /// It cannot be brought back, which ends the restart.
    Refused {
        /// Why.
        why: String,
    },
}

/// What would be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// A name: for what would go the one that it has now, else the one that it had at the cut.
    pub path: PathBuf,
    /// What is done to it.
    #[serde(flatten)]
    pub deed: Deed,
}

/// What an undo on this host would do.
#[derive(Debug, Default)]
pub struct Outlook {
    /// In the order in which it would be done.
    pub changes: Vec<Change>,
    /// How many files and names lie on other hosts' own file systems, which cannot be seen from here.
    pub unseen: BTreeMap<String, u64>,
    names: Names,
}

/// What has a name.
#[derive(Clone, Debug)]
struct Node {
    kind: Kind,
    /// Where it is on the disk; none for what would be made anew.
    real: Option<PathBuf>,
    inode: [u64; 2],
    /// Names that it has now; those that are made and removed are counted beside.
    links: u64,
    /// The file that would be made anew.
    anew: Option<Key>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    File,
    Directory,
    Link(PathBuf),
    Other,
}

impl Node {
    fn at(path: &Path) -> Option<Node> {
        let facts = fs::symlink_metadata(path).ok()?;
        let kind = match facts.file_type() {
            kind if kind.is_file() => Kind::File,
            kind if kind.is_dir() => Kind::Directory,
            kind if kind.is_symlink() => Kind::Link(fs::read_link(path).ok()?),
            _ => Kind::Other,
        };
        Some(Node {
            kind,
            real: Some(path.to_owned()),
            inode: [facts.dev(), facts.ino()],
            links: facts.nlink(),
            anew: None,
        })
    }

    /// What the undo would make.
    fn made(kind: Kind) -> Node {
        Node {
            kind,
            real: None,
            inode: [0; 2],
            links: 1,
            anew: None,
        }
    }

    fn is(&self, key: &Key, host: &str) -> bool {
        self.kind == Kind::File && self.real.is_some() && may_be(key, self.inode, host)
    }

    /// It is the file that had this key at the cut, or is made of what the journal has of that.
    fn is_old(&self, key: &Key, item: &Item, host: &str) -> bool {
        match &self.anew {
            Some(anew) => anew == key,
            None => item.now(&key.0).is_some_and(|now| self.is(&now, host)),
        }
    }
}

/// The names of the file system as they would be.
#[derive(Debug, Default)]
struct Names {
    /// What was done to some of them.
    over: BTreeMap<PathBuf, Option<Node>>,
    /// Directories that have got another name: from which, and to which.
    moved: Vec<(PathBuf, PathBuf)>,
    /// Links that were made or removed, by inode.
    links: BTreeMap<[u64; 2], i64>,
}

impl Names {
    fn look(&self, path: &Path) -> Option<Node> {
        match self.over.get(path) {
            Some(node) => node.clone(),
            None => Node::at(&self.on_disk(path)?),
        }
    }

    /// How many names it would have.
    fn links(&self, node: &Node) -> u64 {
        let more = self.links.get(&node.inode).copied().unwrap_or(0);
        node.links.saturating_add_signed(more)
    }

    /// The name on the disk of what would have this one.
    fn on_disk(&self, path: &Path) -> Option<PathBuf> {
        let mut path = path.to_owned();
        for (from, to) in self.moved.iter().rev() {
            path = match path.strip_prefix(to) {
                Ok(rest) => from.join(rest),
                Err(_) if path.starts_with(from) => return None,
                Err(_) => path,
            };
        }
        Some(path)
    }

    fn is_directory(&self, path: &Path) -> bool {
        self.look(path)
            .is_some_and(|node| node.kind == Kind::Directory)
    }

    fn is_empty(&self, directory: &Path) -> bool {
        let made = self.over.keys().cloned();
        let made = made.filter(|path| path.parent() == Some(directory));
        let real = self.on_disk(directory).and_then(|at| fs::read_dir(at).ok());
        let real = real.into_iter().flatten().flatten();
        let real = real.map(|entry| directory.join(entry.file_name()));
        // Of a directory with another name the new one is below its new parent only.
        let moved = self.moved.iter().map(|(_, to)| to.clone());
        let moved = moved.filter(|path| path.parent() == Some(directory));
        let mut all = made.chain(real).chain(moved);
        !all.any(|path| self.look(&path).is_some())
    }

    fn put(&mut self, path: &Path, node: Node) {
        self.over.insert(path.to_owned(), Some(node));
    }

    fn count(&mut self, node: &Node, more: i64) {
        if node.real.is_some() || node.anew.is_some() {
            *self.links.entry(node.inode).or_default() += more;
        }
    }

    fn remove(&mut self, path: &Path, node: &Node) {
        self.count(node, -1);
        self.over.insert(path.to_owned(), None);
    }

    fn rename(&mut self, from: &Path, to: &Path) {
        let other = |path: &Path| Some(to.join(path.strip_prefix(from).ok()?));
        let mut over = BTreeMap::new();
        for (path, node) in std::mem::take(&mut self.over) {
            match other(&path) {
                Some(path) => over.insert(path, node),
                None if path.starts_with(to) => None,
                None => over.insert(path, node),
            };
        }
        self.over = over;
        self.moved.push((from.to_owned(), to.to_owned()));
    }
}

/// Why nothing can be changed in a directory or a file, if so.
fn refusal(path: &Path) -> Option<io::Error> {
    let name = CString::new(path.as_os_str().as_bytes()).ok()?;
    // SAFETY: a C string; it asks only.
    let answer =
        unsafe { libc::faccessat(libc::AT_FDCWD, name.as_ptr(), libc::W_OK, libc::AT_EACCESS) };
    (answer != 0).then(io::Error::last_os_error)
}

impl Plan {
    /// What a process of this host would do, the only one there. Of files that the job has not made, an end longer than
    /// `longest` would not be kept.
    pub fn outlook(&self, host: &str, longest: u64) -> Outlook {
        let mut work = Work {
            plan: self,
            host,
            longest,
            left: self.left.clone(),
            anew: BTreeSet::new(),
            found: Outlook::default(),
        };
        work.tidy();
        for scope in [None, Some(host.to_owned())] {
            work.stages(&scope);
        }
        work.contents();
        let mut found = work.found;
        let named = self.stages.iter().flat_map(|stage| stage.names.keys());
        let places = named.map(|(scope, _)| scope);
        for scope in places.chain(self.files.keys().map(|(scope, _)| scope)) {
            if let Some(other) = scope.as_ref().filter(|other| *other != host) {
                *found.unseen.entry(other.clone()).or_default() += 1;
            }
        }
        found
    }
}

impl Outlook {
    /// How many things would be undone, as those who undo them count.
    pub fn count(&self) -> Done {
        let mut done = Done::default();
        for change in &self.changes {
            match change.deed {
                Deed::Removed { .. } => done.removed += 1,
                Deed::Restored { .. } => done.restored += 1,
                Deed::Rewritten { .. } | Deed::CutBack { .. } => done.rewritten += 1,
                Deed::Refused { .. } => done.failed += 1,
                Deed::Left { .. } => {}
            }
        }
        done
    }

    /// What would be done to what has this name afterwards.
    pub fn of<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = &'a Deed> {
        let linked = self.names.look(path);
        let linked = linked.filter(|node| self.names.links(node) > 1);
        let is_same = move |change: &Change| match change.deed {
            // By whichever of its names.
            Deed::Rewritten { .. } | Deed::CutBack { .. } => linked.as_ref().is_some_and(|node| {
                let other = self.names.look(&change.path);
                other.is_some_and(|other| other.inode == node.inode)
            }),
            _ => false,
        };
        let changes = self.changes.iter();
        let own = changes.filter(move |change| change.path == path || is_same(change));
        own.map(|change| &change.deed)
    }

    /// Where what would have this name is now; none if there would be nothing, or what is made anew.
    pub fn place(&self, path: &Path) -> Option<PathBuf> {
        self.names.look(path)?.real
    }

    /// Whether something would have this name.
    pub fn leads(&self, path: &Path) -> bool {
        self.names.look(path).is_some()
    }

    /// The regular file that would have this name, if it was changed since.
    pub fn view<'a>(&self, plan: &'a Plan, path: &Path, host: &str) -> Option<View<'a>> {
        let node = self.names.look(path)?;
        let mut files = plan.files.iter();
        let (_, item) = files.find(|(key, item)| node.is_old(key, item, host))?;
        Some(View::new(item, node.real, path))
    }
}

struct Work<'a> {
    plan: &'a Plan,
    host: &'a str,
    longest: u64,
    /// As `apply.rs` has it.
    left: Vec<PathBuf>,
    /// Files that would be made anew: what has their inodes now is another one then.
    anew: BTreeSet<Key>,
    found: Outlook,
}

impl<'a> Work<'a> {
    /// As `apply.rs` does.
    fn tidy(&mut self) {
        for path in std::mem::take(&mut self.left) {
            let Some(node) = self.found.names.look(&path) else {
                continue;
            };
            match self.found.names.links(&node) <= 1 && self.is_old(&node) {
                true => self.left.push(path),
                false => self.found.names.remove(&path, &node),
            }
        }
    }

    fn is_old(&self, node: &Node) -> bool {
        let mut files = self.plan.files.iter();
        files.any(|(key, item)| self.is(node, key, item))
    }

    /// It is that file.
    fn is(&self, node: &Node, key: &Key, item: &Item) -> bool {
        let stays = node.anew.is_some() || !self.anew.contains(key);
        stays && node.is_old(key, item, self.host)
    }

    fn note(&mut self, path: &Path, deed: Deed) {
        let path = path.to_owned();
        self.found.changes.push(Change { path, deed });
    }

    fn leave(&mut self, path: &Path, why: impl Display) {
        let why = why.to_string();
        self.note(path, Deed::Left { why });
    }

    fn trouble(&mut self, path: &Path, what: &dyn Display, why: &io::Error) {
        let text = format!("{what}: {why}");
        match why.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::Other => self.leave(path, text),
            _ => self.note(path, Deed::Refused { why: text }),
        }
    }

    fn stages(&mut self, scope: &Scope) {
        let plan = self.plan;
        let progress = Progress::of(&plan.checkpoints, scope.as_deref());
        let begun = progress.read().unwrap_or((plan.stages.len(), None));
        let (mut left, mut moving) = begun;
        while let Some(stage) = left.checked_sub(1).and_then(|last| plan.stages.get(last)) {
            if moving.is_none() {
                self.directories(stage, scope);
                self.files(stage, scope);
                self.tidy();
                self.remove(stage, scope);
            }
            let moved = stage.begun_by.as_ref();
            if let Some(m) = moved.filter(|m| m.directory.0 == *scope) {
                let names = &self.found.names;
                let inode = |path: &Path| names.look(path).map(|node| node.inode[1]);
                let was_made = moving.is_some() || inode(&m.from) != Some(m.directory.1.inode);
                if moving.is_none() && was_made {
                    moving = inode(&m.to);
                }
                if moving.is_some() && inode(&m.from) != moving {
                    self.move_back(m);
                }
            }
            (left, moving) = (left - 1, None);
        }
    }

    fn move_back(&mut self, m: &Move) {
        let names = &self.found.names;
        let why = match (names.look(&m.to), names.look(&m.from)) {
            (None, _) => Some(io::ErrorKind::NotFound.into()),
            (_, Some(node)) if node.kind != Kind::Directory => {
                Some(io::ErrorKind::NotADirectory.into())
            }
            (_, Some(_)) if !names.is_empty(&m.from) => {
                Some(io::ErrorKind::DirectoryNotEmpty.into())
            }
            _ => self.in_the_way(&m.to).or(self.in_the_way(&m.from)),
        };
        match why {
            None => {
                let from = self.found.names.on_disk(&m.to);
                self.found.names.rename(&m.to, &m.from);
                for left in &mut self.left {
                    if let Ok(rest) = left.strip_prefix(&m.to) {
                        *left = m.from.join(rest);
                    }
                }
                for change in &mut self.found.changes {
                    let inside = change
                        .path
                        .strip_prefix(&m.to)
                        .map(|rest| m.from.join(rest));
                    match (&change.deed, inside) {
                        (Deed::Removed { .. }, _) | (_, Err(_)) => {}
                        (_, Ok(path)) => change.path = path,
                    }
                }
                self.note(&m.from, Deed::Restored { from });
            }
            Some(why) => {
                let from = m.from.display();
                let what = format_args!("cannot be renamed to {from} again");
                self.trouble(&m.to, &what, &why);
            }
        }
    }

    /// Why the directory of this name cannot be changed, if so.
    fn in_the_way(&self, path: &Path) -> Option<io::Error> {
        let parent = path.parent()?;
        match self.found.names.look(parent) {
            None => Some(io::ErrorKind::NotFound.into()),
            Some(Node { real: None, .. }) => None,
            Some(node) => refusal(&node.real?),
        }
    }

    fn names<'s>(
        stage: &'a Stage,
        scope: &'s Scope,
    ) -> impl DoubleEndedIterator<Item = (&'a Path, &'a Was)> + use<'a, 's> {
        let own = move |((there, path), was): (&'a (Scope, PathBuf), &'a Was)| {
            (there == scope).then_some((path.as_path(), was))
        };
        stage.names.iter().filter_map(own)
    }

    fn directories(&mut self, stage: &'a Stage, scope: &Scope) {
        for (path, was) in Work::names(stage, scope) {
            if !matches!(was, Was::Directory(_)) || self.found.names.is_directory(path) {
                continue;
            }
            self.step_aside(path);
            let taken = || Some(io::ErrorKind::AlreadyExists.into());
            let there = self.found.names.look(path).is_some();
            match there.then(taken).flatten().or(self.in_the_way(path)) {
                None => {
                    self.found.names.put(path, Node::made(Kind::Directory));
                    self.note(path, Deed::Restored { from: None });
                }
                Some(why) => self.trouble(path, &"cannot be made again", &why),
            }
        }
    }

    fn files(&mut self, stage: &'a Stage, scope: &Scope) {
        let mut ready: Vec<(Node, &Path)> = Vec::new();
        for (path, was) in Work::names(stage, scope) {
            let made = match was {
                Was::File(key) => self.bring(path, key),
                Was::Link(target) => match self.found.names.look(path).map(|node| node.kind) {
                    Some(Kind::Link(now)) if now == *target => Ok(None),
                    _ => Ok(Some(Node::made(Kind::Link(target.clone())))),
                },
                Was::Absent | Was::Directory(_) => Ok(None),
            };
            let made = made.and_then(|node| match node.is_some().then(|| self.in_the_way(path)) {
                Some(Some(why)) => Err(why),
                _ => Ok(node),
            });
            match made {
                Ok(Some(node)) => {
                    self.found.names.count(&node, 1);
                    ready.push((node, path));
                }
                Ok(None) => {}
                Err(why) => self.trouble(path, &BACK, &why),
            }
        }
        for (node, path) in ready {
            self.step_aside(path);
            if self.found.names.is_directory(path) {
                self.found.names.count(&node, -1);
                let why = io::ErrorKind::IsADirectory.into();
                self.trouble(path, &BACK, &why);
                continue;
            }
            // It takes the place of what would not go, without a word.
            if let Some(old) = self.found.names.look(path) {
                self.found.names.remove(path, &old);
            }
            let from = node.real.clone();
            self.anew.extend(node.anew.clone());
            self.found.names.put(path, node);
            self.note(path, Deed::Restored { from });
        }
    }

    fn whereabouts(&self, key: &Key, item: &Item, path: &Path) -> Option<PathBuf> {
        let is_it = |path: &Path| {
            let node = self.found.names.look(path);
            node.is_some_and(|node| self.is(&node, key, item))
        };
        // One that is made anew is looked for by the key that it had.
        let now = item.now(&key.0).unwrap_or_else(|| key.clone());
        let (host, left) = (self.host, &self.left);
        self.plan
            .whereabouts_by(&now, item, path, host, left, &is_it)
    }

    fn bring(&mut self, path: &Path, key: &Key) -> io::Result<Option<Node>> {
        let Some(item) = self.plan.files.get(key) else {
            return Ok(None);
        };
        let now = self.whereabouts(key, item, path);
        let now = now.or_else(|| {
            let mut names = item.may_be_back(path);
            let back = names.find(|name| self.is_back(name, item))?;
            let node = self.found.names.look(back)?;
            let anew = Some(key.clone());
            self.found.names.put(back, Node { anew, ..node });
            self.anew.insert(key.clone());
            Some(back.to_owned())
        });
        if now.as_deref() == Some(path) {
            return Ok(None);
        }
        match now.and_then(|now| self.found.names.look(&now)) {
            Some(node) => Ok(Some(node)),
            None if item.has_all() => {
                let number = self.plan.files.keys().position(|other| other == key);
                Ok(Some(Node {
                    anew: Some(key.clone()),
                    // Like no inode that there is.
                    inode: [u64::MAX, number.map_or(0, |number| number as u64)],
                    links: 0,
                    ..Node::made(Kind::File)
                }))
            }
            None => Err(io::Error::other(item.why_lost())),
        }
    }

    /// Whether an undo that was interrupted has made what has this name.
    fn is_back(&self, name: &Path, item: &Item) -> bool {
        let node = self.found.names.look(name);
        let node = node.filter(|node| node.kind == Kind::File && !self.is_old(node));
        let real = node.and_then(|node| node.real);
        real.is_some_and(|real| {
            fs::symlink_metadata(&real).is_ok_and(|facts| has_mode(item, &facts))
                && Now::of(item, &real).is_ok_and(|now| now.is_as_it_was())
        })
    }

    fn step_aside(&mut self, path: &Path) -> bool {
        let Some(node) = self.found.names.look(path) else {
            return false;
        };
        if self.in_the_way(path).is_some() {
            return false;
        }
        if node.kind == Kind::Directory {
            let empty = self.found.names.is_empty(path);
            if empty {
                self.found.names.remove(path, &node);
            }
            return empty;
        }
        if self.is_old(&node) {
            match stash(path, node.inode[1]) {
                Some(stash) if self.found.names.links(&node) <= 1 => {
                    self.found.names.over.insert(path.to_owned(), None);
                    self.found.names.put(&stash, node);
                    self.left.push(stash);
                }
                _ => self.found.names.remove(path, &node),
            }
            return true;
        }
        let ours = self.plan.born.iter().any(|key| node.is(key, self.host));
        let kept = |real: &PathBuf| File::open(real).is_ok() && length(real) <= self.longest;
        if node.kind == Kind::File && !ours && !node.real.as_ref().is_none_or(kept) {
            return false;
        }
        self.found.names.remove(path, &node);
        true
    }

    fn remove(&mut self, stage: &'a Stage, scope: &Scope) {
        for (path, was) in Work::names(stage, scope).rev() {
            let there = self.found.names.look(path).filter(|_| *was == Was::Absent);
            let Some(node) = there else { continue };
            let now = node.real.unwrap_or_else(|| path.to_owned());
            let bytes = match node.kind {
                Kind::File => length(&now),
                _ => 0,
            };
            match self.step_aside(path) {
                true => self.note(&now, Deed::Removed { bytes }),
                false => self.leave(&now, "was made since the checkpoint and cannot be removed"),
            }
        }
    }

    fn contents(&mut self) {
        for (key, item) in &self.plan.files {
            if key.0.as_ref().is_some_and(|there| there != self.host) {
                continue;
            }
            let now = self.whereabouts(key, item, &item.name);
            let is_file = |path: &&PathBuf| {
                let node = self.found.names.look(path);
                node.is_some_and(|node| node.kind == Kind::File)
            };
            let made = || item.names.iter().find(is_file).cloned();
            let found = now.or_else(|| made().filter(|_| item.has_all()));
            let Some(path) = &found else {
                let why = io::Error::other(item.why_missing());
                self.trouble(&item.name, &BACK, &why);
                continue;
            };
            if is_ours(path) {
                self.leave(path, "has no name that it had at the checkpoint");
            }
            let deed = match &item.lost {
                Some(why) => Err(io::Error::other(why.clone())),
                None => self.content(path, item),
            };
            match deed {
                Ok(None) => {}
                Ok(Some(deed)) => self.note(path, deed),
                Err(why) => self.trouble(path, &BACK, &why),
            }
        }
    }

    fn content(&self, path: &Path, item: &Item) -> io::Result<Option<Deed>> {
        let node = self.found.names.look(path);
        let node = node.ok_or(io::Error::from(io::ErrorKind::NotFound))?;
        let Some(real) = node.real else {
            return Ok(None);
        };
        let len = fs::symlink_metadata(&real)?.len();
        if item.patches.is_empty() && len <= item.size {
            return match len == item.size {
                true => Ok(None),
                false => Err(io::Error::other("it is shorter than it was")),
            };
        }
        if let Some(why) = refusal(&real) {
            // Its owner would be allowed to first.
            // SAFETY: it asks only.
            let owner = unsafe { libc::geteuid() };
            let own = fs::symlink_metadata(&real)?.uid() == owner;
            if why.kind() != io::ErrorKind::PermissionDenied || !own {
                return Err(why);
            }
        }
        let now = Now::of(item, &real)?;
        if now.is_as_it_was() {
            return Ok(None);
        }
        Ok(Some(match item.patches.is_empty() {
            true => Deed::CutBack {
                bytes: len - item.size,
                to: item.size,
            },
            false => Deed::Rewritten {
                bytes: now.differ,
                from: len,
                to: item.size,
            },
        }))
    }
}

fn length(path: &Path) -> u64 {
    fs::symlink_metadata(path).map_or(0, |facts| facts.len())
}

/// How far a file is from what it was.
struct Now {
    /// Bytes that are others now, or gone.
    differ: u64,
    same_length: bool,
}

impl Now {
    fn of(item: &Item, path: &Path) -> io::Result<Now> {
        let file = File::open(path)?;
        let mut differ = 0;
        for patch in &item.patches {
            let old = patch.bytes()?;
            let (mut now, mut done) = (vec![0; old.len()], 0);
            while done < now.len() {
                match file.read_at(&mut now[done..], patch.range().start + done as u64)? {
                    0 => break,
                    read => done += read,
                }
            }
            let same = old[..done]
                .iter()
                .zip(&now)
                .filter(|(then, now)| then == now);
            differ += (old.len() - same.count()) as u64;
        }
        Ok(Now {
            differ,
            same_length: file.metadata()?.len() == item.size,
        })
    }

    fn is_as_it_was(&self) -> bool {
        self.same_length && self.differ == 0
    }
}
