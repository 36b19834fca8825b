//! Prediction of an undo, without changes.
//!
//! The steps are those of `apply.rs`, on names as they would be then: the names on the disk, overlaid with the results
//! of earlier steps. A test compares both after random changes.
//!
//! # Safety
//! The one unsafe call queries a name that is a C string.
#![allow(unsafe_code)]

use crate::apply::{has_mode, is_own, not_moved_back, Done, BACK};
use crate::plan::{
    is_ours, may_be, renamed, stash, Item, Key, Move, Plan, Scope, Stage, Temporary, View, Was,
    OURS,
};
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

/// Change of one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum Deed {
    /// A file created since the cut is removed.
    Removed {
        /// Bytes in the file.
        bytes: u64,
    },
    /// The name gets its old target again.
    Restored {
        /// Current name of the target; none if it is created again.
        from: Option<PathBuf>,
    },
    /// The file was overwritten and gets its old content.
    Rewritten {
        /// Bytes that differ.
        bytes: u64,
        /// Current length in bytes.
        from: u64,
        /// Length at the cut in bytes.
        to: u64,
    },
    /// The file has grown and is truncated.
    #[serde(rename = "cut-back")]
    Truncated {
        /// Bytes cut off.
        bytes: u64,
        /// Length at the cut in bytes.
        to: u64,
    },
    /// The file cannot be restored, and stays as it is.
    Left {
        /// Reason.
        why: String,
    },
    /// The file cannot be restored, and the restart is refused.
    Refused {
        /// Reason.
        why: String,
    },
}

/// One predicted change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Name: the current one of a file that would be removed, else the one at the cut.
    pub path: PathBuf,
    /// Change of the name.
    #[serde(flatten)]
    pub deed: Deed,
}

/// Predicted effect of an undo on this host.
#[derive(Debug, Default)]
pub struct Outlook {
    /// Changes in their order.
    pub changes: Vec<Change>,
    /// Numbers of files and names on local file systems of other hosts, which this host cannot reach.
    pub unseen: BTreeMap<String, u64>,
    names: Names,
}

/// Target of a name.
#[derive(Clone, Debug)]
struct Node {
    kind: Kind,
    /// Path on the disk; none for a file that would be created.
    real: Option<PathBuf>,
    inode: [u64; 2],
    /// Number of names on the disk; predicted changes are counted in `Names::links`.
    links: u64,
    /// Key of the file that would be created again.
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

    fn is(&self, key: &Key, host: &str) -> bool {
        self.kind == Kind::File && self.real.is_some() && may_be(key, self.inode, host)
    }
}

/// Predicted names of the file system.
#[derive(Debug, Default)]
struct Names {
    /// Changed names.
    over: BTreeMap<PathBuf, Option<Node>>,
    /// Renamed directories: old and new path.
    moved: Vec<(PathBuf, PathBuf)>,
    /// Change of the number of links, by inode.
    links: BTreeMap<[u64; 2], i64>,
    /// Inodes of files that an interrupted undo has created again.
    back: BTreeMap<Key, [u64; 2]>,
    /// Number of directories and links that would be created.
    made: u64,
}

/// Devices that no file has: the inodes of files, and of directories and links, that the undo would create.
const NEW_FILES: u64 = u64::MAX;
const NEW_OTHERS: u64 = u64::MAX - 1;

impl Names {
    fn look(&self, path: &Path) -> Option<Node> {
        match self.over.get(path) {
            Some(node) => node.clone(),
            None => Node::at(&self.on_disk(path)?),
        }
    }

    /// Directory or link that the undo would create. Its inode differs from that of any other: after a move, a
    /// directory is known by it.
    fn make(&mut self, kind: Kind) -> Node {
        self.made += 1;
        Node {
            kind,
            real: None,
            inode: [NEW_OTHERS, self.made],
            links: 1,
            anew: None,
        }
    }

    /// Predicted number of names.
    fn links(&self, node: &Node) -> u64 {
        let more = self.links.get(&node.inode).copied().unwrap_or(0);
        node.links.saturating_add_signed(more)
    }

    /// Whether this is the file that had the key at the cut, or is created again from its journal.
    fn is_old(&self, node: &Node, key: &Key, item: &Item, host: &str) -> bool {
        match (&node.anew, self.back.get(key)) {
            (Some(anew), _) => anew == key,
            (None, Some(back)) => node.kind == Kind::File && node.inode == *back,
            (None, None) => item.now(&key.0).is_some_and(|now| node.is(&now, host)),
        }
    }

    /// Predicted path of a target on the disk, unless its name changes otherwise than by renames of directories.
    fn predicted(&self, path: &Path) -> PathBuf {
        let mut path = path.to_owned();
        for (from, to) in &self.moved {
            path = renamed(&path, from, to).unwrap_or(path);
        }
        path
    }

    /// Path on the disk of the predicted target of a name.
    fn on_disk(&self, path: &Path) -> Option<PathBuf> {
        let mut path = path.to_owned();
        for (from, to) in self.moved.iter().rev() {
            path = match renamed(&path, to, from) {
                Some(path) => path,
                None if path.starts_with(from) => return None,
                None => path,
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
        // A renamed directory is listed only below its new parent.
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
        let mut over = BTreeMap::new();
        for (path, node) in std::mem::take(&mut self.over) {
            match renamed(&path, from, to) {
                Some(path) => over.insert(path, node),
                None if path.starts_with(to) => None,
                None => over.insert(path, node),
            };
        }
        self.over = over;
        self.moved.push((from.to_owned(), to.to_owned()));
    }

    /// An exchange has the result of three renames.
    fn exchange(&mut self, one: &Path, other: &Path) {
        let between = one.with_file_name(format!("{OURS}exchange"));
        self.rename(one, &between);
        self.rename(other, one);
        self.rename(&between, other);
    }
}

/// Error that a change in this directory or file would cause, if any.
fn refusal(path: &Path) -> Option<io::Error> {
    let name = CString::new(path.as_os_str().as_bytes()).ok()?;
    // SAFETY: access only reads the path, which is a C string.
    let answer =
        unsafe { libc::faccessat(libc::AT_FDCWD, name.as_ptr(), libc::W_OK, libc::AT_EACCESS) };
    (answer != 0).then(io::Error::last_os_error)
}

impl Plan {
    /// Predicts the undo of a process on this host, if it is the only one there. A tail longer than `longest` bytes
    /// would not be kept, except of files that the job has created.
    pub fn outlook(&self, host: &str, longest: u64) -> Outlook {
        let mut work = Work {
            plan: self,
            host,
            longest,
            left: self.left.clone(),
            anew: BTreeSet::new(),
            found: Outlook::default(),
        };
        let scopes = [None, Some(host.to_owned())];
        work.left.retain(|(scope, _)| scopes.contains(scope));
        work.tidy(|_| false);
        for scope in &scopes {
            work.stages(scope);
        }
        work.tidy(|_| true);
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
    /// Numbers of undone changes, as `Plan::apply` counts them.
    pub fn count(&self) -> Done {
        let mut done = Done::default();
        for change in &self.changes {
            match change.deed {
                Deed::Removed { .. } => done.removed += 1,
                Deed::Restored { .. } => done.restored += 1,
                Deed::Rewritten { .. } | Deed::Truncated { .. } => done.rewritten += 1,
                Deed::Refused { .. } => done.failed += 1,
                Deed::Left { .. } => {}
            }
        }
        done
    }

    /// Changes of the file that would have this name.
    pub fn of<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = &'a Deed> {
        let linked = self.names.look(path);
        let linked = linked.filter(|node| self.names.links(node) > 1);
        let is_same = move |change: &Change| match change.deed {
            // The change may be listed under any of the file's names.
            Deed::Rewritten { .. } | Deed::Truncated { .. } => {
                linked.as_ref().is_some_and(|node| {
                    let other = self.names.look(&change.path);
                    other.is_some_and(|other| other.inode == node.inode)
                })
            }
            _ => false,
        };
        let changes = self.changes.iter();
        let own = changes.filter(move |change| change.path == path || is_same(change));
        own.map(|change| &change.deed)
    }

    /// Current path of the file that would have this name; none if there is no such file or it is created again.
    pub fn place(&self, path: &Path) -> Option<PathBuf> {
        self.names.look(path)?.real
    }

    /// Whether the name would exist.
    pub fn leads(&self, path: &Path) -> bool {
        self.names.look(path).is_some()
    }

    /// Whether a directory would have the name.
    pub fn is_directory(&self, path: &Path) -> bool {
        self.names.is_directory(path)
    }

    /// The regular file that would have this name, if it was changed since the cut.
    pub fn view<'a>(&self, plan: &'a Plan, path: &Path, host: &str) -> Option<View<'a>> {
        let node = self.names.look(path)?;
        let mut files = plan.files.iter();
        let (_, item) = files.find(|(key, item)| self.names.is_old(&node, key, item, host))?;
        Some(View::new(item, node.real, path))
    }
}

struct Work<'a> {
    plan: &'a Plan,
    host: &'a str,
    longest: u64,
    /// Temporary names, as in `apply.rs`.
    left: Vec<Temporary>,
    /// Files that would be created again: a file that has their inode now is another one.
    anew: BTreeSet<Key>,
    found: Outlook,
}

impl<'a> Work<'a> {
    /// As in `apply.rs`.
    fn tidy(&mut self, named: impl Fn(&Scope) -> bool) {
        for (scope, path) in std::mem::take(&mut self.left) {
            let Some(node) = self.found.names.look(&path) else {
                continue;
            };
            let only = self.found.names.links(&node) <= 1;
            match self.is_old(&node) && (only || !named(&scope)) {
                true => self.left.push((scope, path)),
                false => self.found.names.remove(&path, &node),
            }
        }
    }

    fn is_old(&self, node: &Node) -> bool {
        let mut files = self.plan.files.iter();
        files.any(|(key, item)| self.is(node, key, item))
    }

    /// Whether this is the file of the key.
    fn is(&self, node: &Node, key: &Key, item: &Item) -> bool {
        let names = &self.found.names;
        let made = node.anew.is_some() || names.back.contains_key(key);
        (made || !self.anew.contains(key)) && names.is_old(node, key, item, self.host)
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
                self.tidy(|there| there == scope);
                self.remove(stage, scope);
            }
            let moved = stage.begun_by.as_ref();
            if let Some(m) = moved.filter(|m| m.directory.0 == *scope) {
                let names = &self.found.names;
                let inode = |path: &Path| names.look(path).map(|node| node.inode[1]);
                let was_made = moving.is_some() || m.was_made(inode(&m.from));
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
        let exchange = m.exchange && names.look(&m.from).is_some();
        let why = match (names.look(&m.to), names.look(&m.from)) {
            (None, _) => Some(io::ErrorKind::NotFound.into()),
            (_, Some(node)) if !exchange && node.kind != Kind::Directory => {
                Some(io::ErrorKind::NotADirectory.into())
            }
            (_, Some(_)) if !exchange && !names.is_empty(&m.from) => {
                Some(io::ErrorKind::DirectoryNotEmpty.into())
            }
            _ => self.in_the_way(&m.to).or(self.in_the_way(&m.from)),
        };
        match why {
            None => {
                let [from, to] = [&m.to, &m.from].map(|path| self.found.names.on_disk(path));
                match exchange {
                    true => self.found.names.exchange(&m.from, &m.to),
                    false => self.found.names.rename(&m.to, &m.from),
                }
                for (_, left) in &mut self.left {
                    *left = m.before(left).unwrap_or_else(|| left.clone());
                }
                for change in &mut self.found.changes {
                    if !matches!(change.deed, Deed::Removed { .. }) {
                        change.path = m.before(&change.path).unwrap_or(change.path.clone());
                    }
                }
                self.note(&m.from, Deed::Restored { from });
                if exchange {
                    self.note(&m.to, Deed::Restored { from: to });
                }
            }
            Some(why) => self.trouble(&m.to, &not_moved_back(m), &why),
        }
    }

    /// Error that a change in the directory of this name would cause, if any.
    fn in_the_way(&self, path: &Path) -> Option<io::Error> {
        let parent = path.parent()?;
        match self.found.names.look(parent) {
            None => Some(io::ErrorKind::NotFound.into()),
            Some(Node { real: None, .. }) => None,
            Some(node) => refusal(&node.real?).filter(|_| !self.opens(parent)),
        }
    }

    /// Whether the undo gives its process access to the directory.
    fn opens(&self, path: &Path) -> bool {
        let scopes = [None, Some(self.host.to_owned())];
        let mut names = scopes.map(|scope| (scope, path.to_owned())).into_iter();
        let stages = &self.plan.stages;
        let noted = names.any(|name| {
            let mut were = stages.iter().filter_map(|stage| stage.names.get(&name));
            were.any(|was| matches!(was, Was::Directory(_)))
        });
        noted && fs::symlink_metadata(path).is_ok_and(|facts| is_own(&facts))
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
            self.vacate(path, scope);
            let taken = || Some(io::ErrorKind::AlreadyExists.into());
            let there = self.found.names.look(path).is_some();
            match there.then(taken).flatten().or(self.in_the_way(path)) {
                None => {
                    let node = self.found.names.make(Kind::Directory);
                    self.found.names.put(path, node);
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
                Was::File(key) => {
                    let is_it = |(node, _): &(Node, _)| node.anew.as_ref() == Some(key);
                    self.bring(path, key, ready.iter().any(is_it))
                }
                Was::Link(target) => match self.found.names.look(path).map(|node| node.kind) {
                    Some(Kind::Link(now)) if now == *target => Ok(None),
                    _ => Ok(Some(self.found.names.make(Kind::Link(target.clone())))),
                },
                Was::Absent | Was::Other | Was::Directory(_) => Ok(None),
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
            self.vacate(path, scope);
            if self.found.names.is_directory(path) {
                self.found.names.count(&node, -1);
                let why = io::ErrorKind::IsADirectory.into();
                self.trouble(path, &BACK, &why);
                continue;
            }
            // The rename replaces a file that could not be removed, without an error.
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
        // A file that is created again is looked up by its key at the cut.
        let now = item.now(&key.0).unwrap_or_else(|| key.clone());
        let (host, left) = (self.host, &self.left);
        let on_disk = |path: &Path| self.found.names.predicted(path);
        self.plan
            .whereabouts_by(&now, item, path, (host, left), (&is_it, &on_disk))
    }

    /// Predicts the effect of the function of this name in `apply.rs`. `anew` tells that the undo has already created
    /// the file again, under another name.
    fn bring(&mut self, path: &Path, key: &Key, anew: bool) -> io::Result<Option<Node>> {
        let Some(item) = self.plan.files.get(key) else {
            return Ok(None);
        };
        let now = self.whereabouts(key, item, path);
        let now = now.or_else(|| {
            if anew {
                return None;
            }
            let mut names = item.may_be_back(path);
            let back = names.find(|name| self.is_back(name, item))?;
            let node = self.found.names.look(back)?;
            self.found.names.back.insert(key.clone(), node.inode);
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
                    kind: Kind::File,
                    real: None,
                    inode: [NEW_FILES, number.map_or(0, |number| number as u64)],
                    links: 0,
                    anew: Some(key.clone()),
                }))
            }
            None => Err(io::Error::other(item.why_lost())),
        }
    }

    /// Whether an interrupted undo created the file of this name.
    fn is_back(&self, name: &Path, item: &Item) -> bool {
        let node = self.found.names.look(name);
        let node = node.filter(|node| node.kind == Kind::File && !self.is_old(node));
        let real = node.and_then(|node| node.real);
        real.is_some_and(|real| {
            fs::symlink_metadata(&real).is_ok_and(|facts| has_mode(item.mode, &facts))
                && Now::of(item, &real).is_ok_and(|now| now.is_as_it_was())
        })
    }

    fn vacate(&mut self, path: &Path, scope: &Scope) -> bool {
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
                    self.left.push((scope.clone(), stash));
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
            let Some(node) = self.found.names.look(path) else {
                continue;
            };
            if !was.is_gone(|| node.kind == Kind::Other) {
                continue;
            }
            let now = node.real.unwrap_or_else(|| path.to_owned());
            let bytes = match node.kind {
                Kind::File => length(&now),
                _ => 0,
            };
            match self.vacate(path, scope) {
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
            // The owner could change the permission first.
            let own = is_own(&fs::symlink_metadata(&real)?);
            if why.kind() != io::ErrorKind::PermissionDenied || !own {
                return Err(why);
            }
        }
        let now = Now::of(item, &real)?;
        if now.is_as_it_was() {
            return Ok(None);
        }
        Ok(Some(match item.patches.is_empty() {
            true => Deed::Truncated {
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

/// Difference between a file and its old state.
struct Now {
    /// Bytes that differ or are missing.
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
