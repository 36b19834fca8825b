//! Application of an undo: names first, then the content of files.
//!
//! Each step restores one thing to its state at the cut from any later state, and does nothing if that state is there.
//! So an interrupted or a repeated restart has the same result.

use crate::plan::{
    inode, is_ours, may_be, stash, Item, Key, Move, Plan, Scope, Share, Stage, Temporary, Was, OURS,
};
use crate::record::{self, Identity, Record};
use crate::segment::{note_renewed, Progress};
use nix::sys::stat::{utimensat, UtimensatFlags};
use nix::sys::time::{TimeSpec, TimeValLike};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Keeps data that an undo removes.
pub trait Keeper {
    /// Keeps the content of the file from an offset on, before it is overwritten or removed; returns whether that
    /// succeeded.
    fn keep(&mut self, path: &Path, file: &File, from: u64, why: &str) -> bool;
    /// Reports a file that stays as it is.
    fn leave(&mut self, path: &Path, why: &dyn Display);
}

/// Numbers of undone changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// Files, links and directories that the job had created and the undo removed.
    pub removed: u64,
    /// Files, links and directories that the job had removed or renamed and the undo restored.
    pub restored: u64,
    /// Files whose old content was restored.
    pub rewritten: u64,
    /// Changes that could not be undone for a reason that the user can fix: the job must not go on before that.
    pub failed: u64,
}

impl Plan {
    /// Undoes this process's share.
    pub fn apply(&self, share: &Share<'_>, keeper: &mut dyn Keeper) -> Done {
        let mut work = Work {
            plan: self,
            share,
            keeper,
            done: Done::default(),
            temporary: 0,
            renewed: BTreeMap::new(),
            unnoted: Vec::new(),
            left: self.left.clone(),
        };
        work.left.retain(|(scope, _)| share.has(scope));
        // Of a file whose other names are unknown, such a name may be the only one by which it is found.
        work.tidy(|_| false);
        let places = self.stages.iter().flat_map(|stage| {
            let names = stage.names.keys().map(|(scope, _)| scope);
            names.chain(stage.begun_by.as_ref().map(|m| &m.directory.0))
        });
        let places: BTreeSet<&Scope> = places.filter(|scope| share.has(scope)).collect();
        for scope in places {
            if let Err(why) = work.stages(scope) {
                let noted = self.checkpoints.display();
                let why =
                    format_args!("cannot be restored, because {noted} cannot be written: {why}");
                work.fail(&self.checkpoints, &why);
            }
        }
        work.tidy(|_| true);
        work.contents();
        work.modes();
        work.done
    }
}

pub(crate) const BACK: &str = "cannot be restored";

/// Message for a rename that cannot be reversed.
pub(crate) fn not_moved_back(m: &Move) -> String {
    let from = m.from.display();
    match m.exchange {
        true => format!("cannot exchange its name with {from} again"),
        false => format!("cannot be renamed to {from} again"),
    }
}

/// Exchanges two names.
fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    let here = nix::fcntl::AT_FDCWD;
    let flags = nix::fcntl::RenameFlags::RENAME_EXCHANGE;
    Ok(nix::fcntl::renameat2(here, one, here, other, flags)?)
}

struct Work<'a> {
    plan: &'a Plan,
    share: &'a Share<'a>,
    keeper: &'a mut dyn Keeper,
    done: Done,
    temporary: u32,
    /// New identities of files that were created again.
    renewed: BTreeMap<Key, Identity>,
    /// Records of these identities that are not written yet.
    unnoted: Vec<Record>,
    /// Temporary names of files that wait for their own.
    left: Vec<Temporary>,
}

/// Opens a file for examination only: if another file has the name, the open neither blocks nor follows a link.
fn open(path: &Path, write: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(write);
    options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY);
    options.open(path)
}

/// Adds the operation and the file to an error.
fn with(why: io::Error, what: &str, path: &Path) -> io::Error {
    io::Error::new(why.kind(), format!("{what} {}: {why}", path.display()))
}

fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

impl<'a> Work<'a> {
    /// Undoes the changes of names, the latest stage first. Each stage ends with the reversal of the move that it began
    /// with, and the names of the earlier stage are those before the move. So no stage may be undone twice, and the
    /// progress is recorded.
    fn stages(&mut self, scope: &'a Scope) -> io::Result<()> {
        let stages = &self.plan.stages;
        let progress = Progress::of(&self.plan.checkpoints, scope.as_deref());
        let (mut left, mut moving) = progress.read().unwrap_or((stages.len(), None));
        while let Some(stage) = left.checked_sub(1).and_then(|last| stages.get(last)) {
            let moved = stage.begun_by.as_ref();
            let moved = moved.filter(|m| m.directory.0 == *scope);
            if moving.is_none() {
                self.directories(stage, scope);
                self.files(stage, scope);
                self.tidy(|there| there == scope);
                self.remove(stage, scope);
                self.note_renewed(scope)?;
            }
            if let Some(m) = moved {
                let inode = |path: &Path| Some(fs::symlink_metadata(path).ok()?.ino());
                let was_made = moving.is_some() || m.was_made(inode(&m.from));
                if moving.is_none() && was_made {
                    moving = inode(&m.to);
                    progress.write(left, moving)?;
                }
                if moving.is_some() && inode(&m.from) != moving {
                    self.move_back(m);
                }
                progress.write(left - 1, None)?;
            }
            (left, moving) = (left - 1, None);
        }
        Ok(())
    }

    /// Removes temporary names of this or of an interrupted undo, except those of a file of the cut that has no other
    /// name, or that is in a scope that is not `named`: one whose files may still wait for their names.
    fn tidy(&mut self, named: impl Fn(&Scope) -> bool) {
        let left = std::mem::take(&mut self.left);
        let waits = |(scope, path): &Temporary| {
            let waits = fs::symlink_metadata(path)
                .is_ok_and(|facts| self.is_old(&facts) && (facts.nlink() == 1 || !named(scope)));
            if !waits {
                // A file that cannot be removed stays visible in the directory.
                let _ = fs::remove_file(path);
            }
            waits
        };
        self.left = left.into_iter().filter(waits).collect();
    }

    /// Whether a file existed at the cut.
    fn is_old(&self, facts: &Metadata) -> bool {
        let mut old = self.plan.files.iter();
        let is = |now: Key| may_be(&now, inode(facts), self.share.host);
        facts.is_file() && old.any(|(key, item)| self.now(key, item).is_some_and(is))
    }

    /// Records the files created again. Older segments, and a second undo, know them by their old identities.
    fn note_renewed(&mut self, scope: &Scope) -> io::Result<()> {
        let Some(cut) = self.plan.cut else {
            return Ok(());
        };
        let new = std::mem::take(&mut self.unnoted);
        note_renewed(&self.plan.checkpoints, scope.as_deref(), cut, &new)
    }

    fn move_back(&mut self, m: &Move) {
        // A file that the job has made since the cut has been removed by now: its name is free.
        let (made, names) = match m.exchange && exists(&m.from) {
            true => (exchange(&m.from, &m.to), 2),
            false => (fs::rename(&m.to, &m.from), 1),
        };
        match made {
            Ok(()) => {
                self.done.restored += names;
                for (_, left) in &mut self.left {
                    *left = m.before(left).unwrap_or_else(|| left.clone());
                }
            }
            Err(why) => self.trouble(&m.to, &not_moved_back(m), &why),
        }
    }

    /// Reports a change that could not be undone. If the object no longer exists, or its content is not in the journal,
    /// this is final; every other failure can and must be fixed.
    fn trouble(&mut self, path: &Path, what: &dyn Display, why: &io::Error) {
        let why_text = format_args!("{what}: {why}");
        match why.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::Other => self.keeper.leave(path, &why_text),
            _ => self.fail(path, &why_text),
        }
    }

    fn fail(&mut self, path: &Path, why: &dyn Display) {
        self.done.failed += 1;
        self.keeper.leave(path, why);
    }

    /// Names in a scope.
    fn names(
        stage: &'a Stage,
        scope: &'a Scope,
    ) -> impl DoubleEndedIterator<Item = (&'a Path, &'a Was)> {
        let names = stage.names.iter();
        let own = names.filter(move |((there, _), _)| there == scope);
        own.map(|((_, path), was)| (path.as_path(), was))
    }

    /// Restores directories, outer ones before those in them. Until all names are back, the process may change what is
    /// in them, whatever their modes were or are.
    fn directories(&mut self, stage: &'a Stage, scope: &'a Scope) {
        for (path, was) in Work::names(stage, scope) {
            if !matches!(was, Was::Directory(_)) {
                continue;
            }
            if let Some(facts) = directory(path) {
                let mode = facts.mode() | OWNERS;
                if mode != facts.mode() && is_own(&facts) {
                    // If this fails, so does what needs it, which names the reason.
                    let _ = fs::set_permissions(path, Permissions::from_mode(mode));
                }
                continue;
            }
            self.vacate(path, scope);
            match DirBuilder::new().mode(OWNERS).create(path) {
                Ok(()) => self.done.restored += 1,
                Err(why) => self.trouble(path, &"cannot be made again", &why),
            }
        }
    }

    /// Restores the names of files and links. All get a temporary name first, because one may have the name of another.
    fn files(&mut self, stage: &'a Stage, scope: &'a Scope) {
        let mut ready: Vec<(PathBuf, &Path, &Was)> = Vec::new();
        // Files that are created again, by the first of their names.
        let mut anew: BTreeMap<&Key, PathBuf> = BTreeMap::new();
        for (path, was) in Work::names(stage, scope) {
            let made = match was {
                Was::File(key) => self.bring(path, key, &mut anew),
                Was::Link(target) => match fs::read_link(path) {
                    Ok(now) if now == *target => Ok(None),
                    _ => self.beside(path).and_then(|beside| {
                        std::os::unix::fs::symlink(target, &beside)?;
                        Ok(Some(beside))
                    }),
                },
                Was::Absent | Was::Other | Was::Directory(_) => Ok(None),
            };
            match made {
                Ok(Some(beside)) => ready.push((beside, path, was)),
                Ok(None) => {}
                Err(why) => self.trouble(path, &BACK, &why),
            }
        }
        for (beside, path, was) in ready {
            self.vacate(path, scope);
            match fs::rename(&beside, path) {
                Ok(()) => {
                    self.done.restored += 1;
                    if let Was::File(key) = was {
                        self.renew(key, path);
                    }
                }
                Err(why) => {
                    let _ = fs::remove_file(&beside);
                    self.trouble(path, &BACK, &with(why, "renaming", &beside));
                }
            }
        }
    }

    /// Gives the file of this name a temporary name; none if it has its name already.
    fn bring(
        &mut self,
        path: &Path,
        key: &'a Key,
        anew: &mut BTreeMap<&'a Key, PathBuf>,
    ) -> io::Result<Option<PathBuf>> {
        let Some(item) = self.plan.files.get(key) else {
            return Ok(None);
        };
        let now = self.whereabouts(key, item, path);
        let now = now.or_else(|| anew.get(key).cloned());
        let now = now.or_else(|| {
            let back = self.back(path, item)?;
            self.renew(key, &back);
            Some(back)
        });
        if now.as_deref() == Some(path) {
            return Ok(None);
        }
        let beside = self.beside(path)?;
        match now {
            Some(now) => {
                // If the checkpoints were copied to another file system, so was the file.
                let linked = fs::hard_link(&now, &beside);
                let made = linked.or_else(|_| fs::copy(&now, &beside).map(drop));
                made.map_err(|why| with(why, "linking", &now))?;
            }
            None if item.has_all() => {
                let mut options = OpenOptions::new();
                options.write(true).create_new(true).mode(0o600);
                let opened = options.open(&beside);
                let file = opened.map_err(|why| with(why, "making", &beside))?;
                file.set_permissions(Permissions::from_mode(item.mode & 0o7777))?;
                write(item, &file)?;
                anew.insert(key, beside.clone());
            }
            None => return Err(io::Error::other(item.why_lost())),
        }
        Ok(Some(beside))
    }

    /// Name under which an interrupted undo has created the file again without recording it.
    fn back(&self, path: &Path, item: &Item) -> Option<PathBuf> {
        let mut names = item.may_be_back(path);
        let back = names.find(|name| self.is_back(name, item).unwrap_or(false));
        back.map(Path::to_owned)
    }

    /// Whether this is the file that an interrupted undo created. Another file that existed at the cut must not be
    /// taken for it, even with equal content.
    fn is_back(&self, path: &Path, item: &Item) -> io::Result<bool> {
        let file = open(path, false)?;
        let facts = file.metadata()?;
        let may_be = has_mode(item.mode, &facts) && !self.is_old(&facts);
        Ok(may_be && is_as_it_was(item, &file)?)
    }

    /// Current key of a file, if it still exists.
    fn now(&self, key: &Key, item: &Item) -> Option<Key> {
        let renewed = self.renewed.get(key);
        let renewed = renewed.map(|identity| (key.0.clone(), *identity));
        renewed.or_else(|| item.now(&key.0))
    }

    fn whereabouts(&self, key: &Key, item: &Item, path: &Path) -> Option<PathBuf> {
        let now = self.now(key, item)?;
        let host = self.share.host;
        self.plan.whereabouts(&now, item, path, host, &self.left)
    }

    /// Records the key of a file that has its name again, which may be another file than before.
    fn renew(&mut self, key: &Key, path: &Path) {
        let item = self.plan.files.get(key);
        let (Some(item), Ok(facts)) = (item, fs::symlink_metadata(path)) else {
            return;
        };
        let is_here = key.0.as_deref().is_none_or(|host| host == self.share.host);
        let now = self.now(key, item);
        if !is_here || now.is_some_and(|now| may_be(&now, inode(&facts), self.share.host)) {
            return;
        }
        let device = match key.1.local {
            true => facts.dev(),
            false => key.1.device,
        };
        let became = Identity {
            device,
            inode: facts.ino(),
            ..key.1
        };
        self.renewed.insert(key.clone(), became);
        self.unnoted.push(Record::Renewed {
            was: item.seen,
            seen: item.time,
            became,
            time: record::now(),
            set: self.plan.cut.map_or(0, |cut| cut.number),
        });
    }

    /// An unused name in the same directory.
    fn beside(&mut self, path: &Path) -> io::Result<PathBuf> {
        let directory = path
            .parent()
            .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        loop {
            self.temporary += 1;
            let name = format!("{OURS}{}-{}", std::process::id(), self.temporary);
            let beside = directory.join(name);
            if !exists(&beside) {
                return Ok(beside);
            }
        }
    }

    /// Removes a file from a name that another file had at the cut, or none.
    fn vacate(&mut self, path: &Path, scope: &Scope) -> bool {
        let Ok(facts) = fs::symlink_metadata(path) else {
            return false;
        };
        if facts.is_dir() {
            // A directory that is not empty stays: its content is not the job's.
            return fs::remove_dir(path).is_ok();
        }
        if self.is_old(&facts) {
            // The file existed at the cut: it has its own name by now, or gets it in an earlier stage.
            let stash = stash(path, facts.ino());
            return match facts.nlink() > 1 || stash.is_none() {
                true => fs::remove_file(path).is_ok(),
                false => stash.is_some_and(|stash| {
                    let waits = fs::rename(path, &stash).is_ok();
                    self.left.push((scope.clone(), stash));
                    waits
                }),
            };
        }
        if facts.is_file() {
            let is = |key: &Key| may_be(key, inode(&facts), self.share.host);
            let ours = self.plan.born.iter().any(is);
            let file = open(path, false);
            let mut keep = |file| {
                let why = "was made after the checkpoint";
                self.keeper.keep(path, &file, 0, why)
            };
            if !file.is_ok_and(&mut keep) && !ours {
                return false;
            }
        }
        fs::remove_file(path).is_ok()
    }

    /// Removes names that did not exist at the cut. The content of a directory is removed before it.
    fn remove(&mut self, stage: &'a Stage, scope: &'a Scope) {
        for (path, was) in Work::names(stage, scope).rev() {
            if was.is_gone(|| is_other(path)) && exists(path) {
                match self.vacate(path, scope) {
                    true => self.done.removed += 1,
                    false => self
                        .keeper
                        .leave(path, &"was made since the checkpoint and cannot be removed"),
                }
            }
        }
    }

    fn contents(&mut self) {
        let share = self.share;
        let own = self.plan.files.iter();
        for (key, item) in own.filter(|((scope, _), _)| share.has(scope)) {
            let now = self.whereabouts(key, item, &item.name);
            // A file created again from the journal is a new file, found by its old name.
            let made = || item.names.iter().find(|path| path.is_file()).cloned();
            let found = now.or_else(|| made().filter(|_| item.has_all()));
            let Some(path) = found else {
                self.trouble(&item.name, &BACK, &io::Error::other(item.why_missing()));
                continue;
            };
            let path = &path;
            if is_ours(path) {
                // The file got no name again: it had none at the cut, or the name is unknown.
                self.keeper
                    .leave(path, &"has no name that it had at the checkpoint");
            }
            let done = match &item.lost {
                Some(why) => Err(io::Error::other(why.clone())),
                None => self.content(path, item),
            };
            let done = done.and_then(|rewritten| {
                if rewritten || item.touched {
                    set_modified(path, item.modified);
                }
                set_mode(path, item.mode)
            });
            if let Err(why) = done {
                self.trouble(path, &BACK, &why);
            }
        }
    }

    /// Restores the modes of directories, inner ones before those that they are in.
    fn modes(&mut self) {
        for ((scope, path), mode) in self.plan.directories.iter().rev() {
            if self.share.has(scope) && directory(path).is_some() {
                if let Err(why) = set_mode(path, *mode) {
                    self.trouble(path, &BACK, &why);
                }
            }
        }
    }

    /// Restores the content of a file; returns whether it was another one.
    fn content(&mut self, path: &Path, item: &Item) -> io::Result<bool> {
        let facts = fs::symlink_metadata(path)?;
        if item.patches.is_empty() && facts.len() <= item.size {
            return match facts.len() == item.size {
                true => Ok(false),
                false => Err(io::Error::other("it is shorter than it was")),
            };
        }
        let writable = open(path, true);
        let file = match writable {
            Err(why) if why.kind() == io::ErrorKind::PermissionDenied => {
                // The job had it open before it removed the permission.
                fs::set_permissions(path, Permissions::from_mode(0o600))?;
                open(path, true)?
            }
            opened => opened?,
        };
        if is_as_it_was(item, &file)? {
            return Ok(false);
        }
        let from = match item.patches.is_empty() {
            true => item.size,
            false => 0,
        };
        let what = match item.patches.is_empty() {
            true => "has grown since the checkpoint",
            false => "was overwritten after the checkpoint",
        };
        self.keeper.keep(path, &file, from, what);
        write(item, &file)?;
        self.done.rewritten += 1;
        Ok(true)
    }
}

/// Mode bits that `chmod` sets.
const BITS: u32 = 0o7777;
/// Mode bits with which the owner of a directory may change what is in it.
const OWNERS: u32 = 0o700;

/// Whether a file has the permissions of the old one.
pub(crate) fn has_mode(mode: u32, facts: &Metadata) -> bool {
    (facts.mode() ^ mode) & BITS == 0
}

/// Gives a file or a directory the mode that it had. One of another user has a mode that the job could not change.
fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    let facts = fs::symlink_metadata(path)?;
    match has_mode(mode, &facts) || !is_own(&facts) {
        true => Ok(()),
        false => fs::set_permissions(path, Permissions::from_mode(mode & BITS)),
    }
}

/// Gives a file the time of modification that it had. Where that is not allowed, because the file is another user's,
/// nothing needs it but a mapping of the file, which a restart compares.
fn set_modified(path: &Path, modified: i64) {
    let time = TimeSpec::nanoseconds(modified);
    let (here, follow) = (nix::fcntl::AT_FDCWD, UtimensatFlags::NoFollowSymlink);
    let _ = utimensat(here, path, &TimeSpec::UTIME_OMIT, &time, follow);
}

/// Whether this process may change the mode.
pub(crate) fn is_own(facts: &Metadata) -> bool {
    let user = nix::unistd::geteuid();
    user.is_root() || facts.uid() == user.as_raw()
}

fn directory(path: &Path) -> Option<Metadata> {
    let facts = fs::symlink_metadata(path).ok();
    facts.filter(Metadata::is_dir)
}

/// Whether a pipe, a device or a socket has the name.
fn is_other(path: &Path) -> bool {
    let facts = fs::symlink_metadata(path);
    facts.is_ok_and(|facts| !facts.is_file() && !facts.is_dir() && !facts.is_symlink())
}

fn is_as_it_was(item: &Item, file: &File) -> io::Result<bool> {
    if file.metadata()?.len() != item.size {
        return Ok(false);
    }
    for patch in &item.patches {
        let old = patch.bytes()?;
        let mut now = vec![0; old.len()];
        file.read_exact_at(&mut now, patch.range().start)?;
        if now != old {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Writes the old content of a file and sets its length, durably.
fn write(item: &Item, file: &File) -> io::Result<()> {
    for patch in &item.patches {
        file.write_all_at(&patch.bytes()?, patch.range().start)?;
    }
    file.set_len(item.size)?;
    file.sync_data()
}
