//! The undo journal of this process: what the application is about to change in files, told by its system calls
//! (`syscalls/changes.rs`) and by the MPI library's writes to files of MPI (the lower half).
//!
//! All functions are called with the lower half's FS. Before the first cut, and in processes that the rank has
//! forked, nothing is noted.
//!
//! Closing any descriptor of a file drops the locks (F_SETLK) that the process has on it. So files are never
//! opened here: what was in one is read through the application's own descriptor, or by a thread that has a table
//! of descriptors of its own.

pub mod below;

use super::aside::spawn_aside;
use super::descriptor::{self, fcntl, file_system_of, stat, writable};
use super::names::Names;
use super::{place, standard, written};
use crate::state::lock_of;
use crate::stop::Stopped;
use crate::{fds, raw, watched};
use std::collections::{BTreeMap, HashMap};
use std::ffi::{CStr, CString, OsStr};
use std::fs::Metadata;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{channel, Sender};
use std::sync::{Mutex, MutexGuard};
use undo::{Current, Cut, Facts, Identity, Journal, Place};

/// The journal and what is remembered of descriptors.
struct Noting {
    journal: Journal,
    say: Box<dyn Fn(&str) + Send>,
    reader: Sender<Request>,
    names: Names,
    /// Descriptors that `watched` does not let pass.
    open: HashMap<i32, Open>,
    /// The magic number of the file system of each device.
    systems: BTreeMap<u64, u64>,
}

/// A descriptor of a regular file that is to be watched.
#[derive(Clone)]
struct Open {
    facts: Facts,
    /// Whether its old content can be read through it.
    readable: bool,
}

/// What is to be read of a file, and where the answer goes.
struct Request {
    path: PathBuf,
    /// Device and inode that the file must have, where they are known.
    file: Option<(u64, u64)>,
    at: u64,
    len: usize,
    reply: Sender<io::Result<Vec<u8>>>,
}

static NOTING: Mutex<Option<Noting>> = Mutex::new(None);

/// Keeps a journal from the next cut on. What people are to be told goes to `say`.
pub fn keep_journal(journal: Journal, say: impl Fn(&str) + Send + 'static) -> io::Result<()> {
    let (reader, requests) = channel::<Request>();
    let read = move || {
        for request in requests {
            // Who asked may have gone, with the whole process.
            let _ = request.reply.send(read_file(&request));
        }
    };
    spawn_aside("undo-reader", read)?;
    *lock_of(&NOTING) = Some(Noting {
        names: Names::new(journal.locks()),
        journal,
        say: Box::new(say),
        reader,
        open: HashMap::new(),
        systems: BTreeMap::new(),
    });
    Ok(())
}

fn read_file(request: &Request) -> io::Result<Vec<u8>> {
    let mut options = std::fs::OpenOptions::new();
    options.custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
    let file = options.read(true).open(&request.path)?;
    let facts = file.metadata()?;
    if request
        .file
        .is_some_and(|(device, inode)| (facts.dev(), facts.ino()) != (device, inode))
    {
        // Another rank has given the name to another file, and has noted first what was there.
        return Ok(Vec::new());
    }
    read_through(file.as_raw_fd(), request.at, request.len)
}

/// The journal goes on with a new segment: the threads stand still at this cut.
pub fn begin_segment(_stopped: &Stopped, cut: Cut) {
    let mut noting = lock_of(&NOTING);
    let Some(noting) = noting.as_mut() else {
        return;
    };
    let mut sizes = HashMap::new();
    for (path, file) in written::all() {
        // A file that is open, too, was not looked at for the image.
        let found = std::fs::symlink_metadata(&path);
        if let Some(found) = found
            .ok()
            .filter(|found| (found.dev(), found.ino()) == file.identity)
        {
            let facts = noting.facts(&found, &path);
            sizes.insert(facts.identity, facts.size);
        }
    }
    for fd in fds::owned(0, i32::MAX) {
        let Ok(facts) = stat(fd) else { continue };
        let flags = fcntl(fd, libc::F_GETFL, 0).unwrap_or(0);
        if facts.st_mode & libc::S_IFMT == libc::S_IFREG && writable(flags) {
            let identity = noting.identity(facts.st_dev, facts.st_ino, &fd_path(fd));
            sizes.insert(identity, facts.st_size as u64);
        }
    }
    for (path, file) in below::all() {
        let found = std::fs::symlink_metadata(&path);
        let found = found.ok().filter(|now| (now.dev(), now.ino()) == file);
        if let Some(found) = found {
            let facts = noting.facts(&found, &path);
            sizes.insert(facts.identity, facts.size);
        }
    }
    noting.open.clear();
    noting.journal.begin(cut, sizes);
    watched::begin();
}

/// Through which the calling thread, and the thread that reads, see a descriptor's file.
fn fd_path(fd: i32) -> PathBuf {
    let thread = raw::gettid();
    PathBuf::from(format!("/proc/self/task/{thread}/fd/{fd}"))
}

/// The journal, where changes are noted now.
struct Guard(MutexGuard<'static, Option<Noting>>);

fn noting() -> Option<Guard> {
    let guard = watched::is_on().then(|| lock_of(&NOTING))?;
    guard.is_some().then_some(Guard(guard))
}

impl Guard {
    fn run<R>(&mut self, work: impl FnOnce(&mut Noting) -> R) -> Option<R> {
        let noting = self.0.as_mut()?;
        let result = work(noting);
        for message in noting.journal.take_messages() {
            (noting.say)(&message);
        }
        Some(result)
    }
}

impl Noting {
    fn identity(&mut self, device: u64, inode: u64, path: &Path) -> Identity {
        let system = self.systems.entry(device);
        let system = *system.or_insert_with(|| file_system_of(path));
        Identity::of(device, inode, system)
    }

    fn facts(&mut self, found: &Metadata, path: &Path) -> Facts {
        Facts {
            identity: self.identity(found.dev(), found.ino(), path),
            size: found.len(),
            mode: found.mode(),
            links: found.nlink(),
        }
    }

    /// Looks at a descriptor: whether what is written through it is to be noted.
    fn look(&mut self, fd: i32) -> Option<Open> {
        if let (Some(open), true) = (self.open.get(&fd), watched::is_watched(fd)) {
            return Some(open.clone());
        }
        let open = self.look_at_new(fd);
        match &open {
            Some(open) => {
                self.open.insert(fd, open.clone());
                watched::watch(fd);
            }
            None => watched::let_pass(fd),
        }
        open
    }

    fn look_at_new(&mut self, fd: i32) -> Option<Open> {
        let facts = stat(fd).ok()?;
        let flags = fcntl(fd, libc::F_GETFL, 0).ok()?;
        // What is appended goes behind all that was there; what has no name is in the image.
        let passes = facts.st_mode & libc::S_IFMT != libc::S_IFREG
            || facts.st_nlink == 0
            || !writable(flags)
            || flags & libc::O_APPEND != 0
            || standard::is_given(fd, (facts.st_dev, facts.st_ino))
            || place::is_made_up(fd);
        if passes || is_device(&link_of(fd)?) {
            return None;
        }
        let identity = self.identity(facts.st_dev, facts.st_ino, &fd_path(fd));
        let facts = Facts {
            identity,
            size: facts.st_size as u64,
            mode: facts.st_mode,
            links: facts.st_nlink,
        };
        let direct = flags & libc::O_DIRECT != 0;
        (!self.journal.ignores(&identity)).then_some(Open {
            facts,
            readable: flags & libc::O_ACCMODE == libc::O_RDWR && !direct,
        })
    }

    /// Notes what is in these bytes of an open file.
    fn changing(&mut self, fd: i32, open: &Open, bytes: Range<u64>) {
        let reader = self.reader.clone();
        let read = |at, len| match open.readable {
            true => read_through(fd, at, len),
            false => ask(&reader, fd_path(fd), None, at, len),
        };
        let name = || link_of(fd).unwrap_or_default();
        self.journal.changing(&open.facts, &name, bytes, &read);
        if self.journal.ignores(&open.facts.identity) {
            watched::let_pass(fd);
        }
    }

    /// What a name leads to now.
    fn current(&mut self, path: &Path) -> Current {
        let Ok(found) = std::fs::symlink_metadata(path) else {
            return Current::Absent;
        };
        let kind = found.file_type();
        if kind.is_file() {
            return Current::File(self.facts(&found, path));
        }
        if kind.is_dir() {
            return Current::Directory(self.facts(&found, path));
        }
        match std::fs::read_link(path) {
            Ok(target) if !kind.is_fifo() => Current::Link(target),
            _ => Current::Other,
        }
    }

    fn place<'a>(&mut self, path: &'a Path) -> Place<'a> {
        let parent = path.parent().unwrap_or(path);
        let device = std::fs::metadata(parent).map_or(0, |found| found.dev());
        Place {
            name: path,
            local: self.identity(device, 0, parent).local,
        }
    }

    /// A name is about to lead to another file, or nowhere.
    fn losing_name(&mut self, path: &Path) {
        let current = self.current(path);
        let place = self.place(path);
        match &current {
            Current::File(facts) => {
                let reader = self.reader.clone();
                let file = device_and_inode(&facts.identity);
                let read = |at, len| ask(&reader, path.to_owned(), file, at, len);
                self.journal.unlinking(place, facts, &read);
            }
            other => self.journal.naming(place, other),
        }
    }

    /// A name is about to lead somewhere, or elsewhere while the file keeps another name.
    fn naming(&mut self, path: &Path) {
        let current = self.current(path);
        let place = self.place(path);
        self.journal.naming(place, &current);
    }
}

/// Nothing in /dev, memory that has a name above all, is the job's file.
fn is_device(path: &Path) -> bool {
    !path.is_absolute() || path.starts_with("/dev") || path.starts_with("/proc")
}

fn link_of(fd: i32) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/thread-self/fd/{fd}")).ok()
}

/// Reads through a descriptor, up to the file's end: what was behind that another rank has cut off, and noted.
fn read_through(fd: i32, at: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    let read = descriptor::read_at(fd, &mut bytes, at)?;
    bytes.truncate(read);
    Ok(bytes)
}

fn device_and_inode(identity: &Identity) -> Option<(u64, u64)> {
    identity.local.then_some((identity.device, identity.inode))
}

fn ask(
    reader: &Sender<Request>,
    path: PathBuf,
    file: Option<(u64, u64)>,
    at: u64,
    len: usize,
) -> io::Result<Vec<u8>> {
    let (reply, answer) = channel();
    let request = Request {
        path,
        file,
        at,
        len,
        reply,
    };
    reader.send(request).map_err(io::Error::other)?;
    answer.recv().map_err(io::Error::other)?
}

/// The absolute name that a call means: of the last part only if `follow`, the file that a link leads to.
pub fn name_of(directory: i32, path: &CStr, follow: bool) -> Option<PathBuf> {
    let given = Path::new(OsStr::from_bytes(path.to_bytes()));
    let path = match directory {
        libc::AT_FDCWD => given.to_owned(),
        _ if given.is_absolute() => given.to_owned(),
        fd => link_of(fd)?.join(given),
    };
    let mut whole = resolve(&path)?;
    // A link that leads nowhere leads to the file that is about to be made.
    for _ in 0..MOST_LINKS {
        match std::fs::read_link(&whole) {
            Ok(target) if follow => whole = resolve(&whole.parent()?.join(target))?,
            _ => break,
        }
    }
    (!is_device(&whole)).then_some(whole)
}

/// The kernel follows no more.
const MOST_LINKS: u32 = 40;

/// The path without links, but perhaps for its last part.
fn resolve(path: &Path) -> Option<PathBuf> {
    let parent = path.parent()?;
    let parent = match parent.as_os_str().is_empty() {
        true => Path::new("."),
        false => parent,
    };
    Some(parent.canonicalize().ok()?.join(path.file_name()?))
}

/// Whether a call that opens a file makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// It does not.
    Not,
    /// It was there, so that the call need not make it, and must not: another process may have put a link to nowhere in
    /// its place, and what that leads to was not noted.
    There,
    /// It makes it. Should another process be faster, it must fail (O_EXCL) and be begun again, because what that has
    /// put there was not noted.
    Exclusively,
    /// It makes what a link leads to.
    ByLink,
}

/// What is left to do of a call that opens a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// The call.
    All(Made),
    /// Nothing: this is its result.
    Nothing(Made, isize),
    /// The call, from its beginning: another rank has put something else there meanwhile.
    Again,
}

/// A file is about to be opened for writing. Where it is emptied by that, or made by way of a link, this function does
/// it: the call is given the name of the file itself, and must not follow links, since another rank may put something
/// else in the place of the link.
pub fn opening(
    directory: i32,
    path: &CStr,
    flags: i32,
    call: impl FnOnce(&CStr, i32) -> isize,
) -> Left {
    const EXCLUSIVE: i32 = libc::O_CREAT | libc::O_EXCL;
    let exclusive = flags & EXCLUSIVE == EXCLUSIVE;
    let follow = flags & libc::O_NOFOLLOW == 0 && !exclusive;
    let Some((name, whole)) = named(directory, path, follow) else {
        return Left::All(Made::Not);
    };
    let empties = flags & libc::O_TRUNC != 0;
    // Of a directory's name the kernel says with O_CREAT why it makes no file.
    let is_directory = path.to_bytes().ends_with(b"/");
    let open = |more| call(&whole, more);
    let note = |noting: &mut Noting| match noting.current(&name) {
        Current::Absent if flags & libc::O_CREAT != 0 => {
            noting.naming(&name);
            match name_of(directory, path, false).as_ref() == Some(&name) {
                true => Left::All(Made::Exclusively),
                false => Left::after(Made::ByLink, open(libc::O_EXCL)),
            }
        }
        Current::Absent if empties => Left::Nothing(Made::Not, open(libc::O_NOFOLLOW)),
        Current::File(facts) if empties => {
            noting.cutting(&name, &facts, 0);
            Left::after(Made::Not, open(libc::O_NOFOLLOW))
        }
        Current::File(_) if flags & EXCLUSIVE == libc::O_CREAT && !is_directory => {
            Left::All(Made::There)
        }
        // It was none when it was followed.
        Current::Link(_) if follow => Left::Again,
        _ => Left::All(Made::Not),
    };
    let work = |noting: &mut Noting| match empties {
        true => noting.while_held(&[&name], false, note),
        false => note(noting),
    };
    let left = noting().and_then(|mut all| all.run(work));
    left.unwrap_or(Left::All(Made::Not))
}

impl Left {
    /// A call has returned this that must have found what was found before it.
    fn after(made: Made, result: isize) -> Left {
        const AGAIN: [isize; 3] = [
            raw::err(libc::EEXIST),
            raw::err(libc::ELOOP),
            raw::err(libc::ENOENT),
        ];
        match AGAIN.contains(&result) {
            true => Left::Again,
            false => Left::Nothing(made, result),
        }
    }
}

/// The absolute name that a call means, twice.
fn named(directory: i32, path: &CStr, follow: bool) -> Option<(PathBuf, CString)> {
    let name = name_of(directory, path, follow)?;
    let whole = CString::new(name.as_os_str().as_bytes()).ok()?;
    Some((name, whole))
}

impl Noting {
    /// Does something while no other rank changes these names; any name, where a directory `moves`.
    fn while_held<R>(
        &mut self,
        names: &[&Path],
        moves: bool,
        work: impl FnOnce(&mut Noting) -> R,
    ) -> R {
        let mut locks = std::mem::replace(&mut self.names, Names::None);
        let held = locks.hold(names, moves);
        let result = work(self);
        drop(held);
        self.names = locks;
        result
    }

    /// A file is about to have so many bytes.
    fn cutting(&mut self, name: &Path, facts: &Facts, len: u64) {
        let reader = self.reader.clone();
        let file = device_and_inode(&facts.identity);
        let read = |at, len| ask(&reader, name.to_owned(), file, at, len);
        let name = || name.to_owned();
        self.journal.changing(facts, &name, len..u64::MAX, &read);
    }
}

/// A file was opened for writing, as `note_opened` has found it, and perhaps made later than a time.
pub fn opened(fd: i32, (facts, name): (libc::stat, PathBuf), made: Option<u64>) {
    let work = |noting: &mut Noting| {
        if is_device(&name) {
            return;
        }
        let identity = noting.identity(facts.st_dev, facts.st_ino, &fd_path(fd));
        // One without a name gets its first later, or never.
        let unnamed = facts.st_nlink == 0;
        if made.is_some() || unnamed {
            let place = noting.place(&name);
            let place = (!unnamed).then_some(place);
            let since = made.unwrap_or_else(undo::now);
            return noting.journal.created(identity, place, since);
        }
        let facts = Facts {
            identity,
            size: facts.st_size as u64,
            mode: facts.st_mode,
            links: facts.st_nlink,
        };
        noting.journal.opened(&facts, &|| name.clone());
    };
    noting().map(|mut all| all.run(work));
}

/// These bytes of a file are about to be overwritten or cut off, through a descriptor.
pub fn changing(fd: i32, bytes: Range<u64>) {
    let work = |noting: &mut Noting| {
        if let Some(open) = noting.look(fd) {
            noting.changing(fd, &open, bytes);
        }
    };
    noting().map(|mut all| all.run(work));
}

/// So many bytes are about to be written at a descriptor's position. Makes the call where that position must be
/// nobody else's meanwhile; None where nothing is to be noted, and the call is still to be made.
pub fn changing_at_position(fd: i32, len: u64, call: impl FnOnce() -> isize) -> Option<isize> {
    let work = |noting: &mut Noting| {
        let open = noting.look(fd)?;
        let at = descriptor::position(fd)?;
        noting.changing(fd, &open, at..at.saturating_add(len));
        Some(call())
    };
    noting()?.run(work)?
}

/// The file of this name gets so many bytes by this call, which is given the name of the file itself. Gives its result;
/// None where nothing is to be noted.
pub fn truncating(
    directory: i32,
    path: &CStr,
    len: u64,
    mut call: impl FnMut(&CStr) -> isize,
) -> Option<isize> {
    // Another rank may put a link there meanwhile.
    for _ in 0..MOST_LINKS {
        let (name, whole) = named(directory, path, true)?;
        let note = |noting: &mut Noting| match noting.current(&name) {
            Current::Link(_) => None,
            Current::File(facts) => {
                noting.cutting(&name, &facts, len);
                Some(call(&whole))
            }
            _ => Some(call(&whole)),
        };
        let done = noting()?.run(|noting| noting.while_held(&[&name], false, note))?;
        if done.is_some() {
            return done;
        }
    }
    None
}

/// A name is removed by this call. Gives its result; None where nothing is to be noted.
pub fn unlinking(directory: i32, path: &CStr, call: impl FnOnce() -> isize) -> Option<isize> {
    let name = name_of(directory, path, false)?;
    let note = |noting: &mut Noting| {
        noting.losing_name(&name);
        call()
    };
    noting()?.run(|noting| noting.while_held(&[&name], false, note))
}

/// A file is about to get a second name.
pub fn linking(from: (i32, &CStr), to: (i32, &CStr), follow: bool) {
    if let Some(name) = name_of(from.0, from.1, follow) {
        // It is known by the one that it has.
        let work = |noting: &mut Noting| {
            if let Current::File(facts) = noting.current(&name) {
                noting.journal.opened(&facts, &|| name.clone());
            }
        };
        noting().map(|mut all| all.run(work));
    }
    naming(to.0, to.1);
}

/// A name is about to be given to something: a link, a directory.
pub fn naming(directory: i32, path: &CStr) {
    if let Some(name) = name_of(directory, path, false) {
        let work = |noting: &mut Noting| {
            if matches!(noting.current(&name), Current::Absent) {
                noting.naming(&name);
            }
        };
        noting().map(|mut all| all.run(work));
    }
}

/// A name is replaced by another, or (`exchange`) both are, by this call. Gives its result; None where nothing is to be
/// noted.
pub fn renaming(
    from: (i32, &CStr),
    to: (i32, &CStr),
    exchange: bool,
    call: impl FnOnce() -> isize,
) -> Option<isize> {
    let from = name_of(from.0, from.1, false)?;
    let to = name_of(to.0, to.1, false)?;
    let note = |noting: &mut Noting| {
        let directory = match noting.current(&from) {
            Current::Directory(facts) => Some(facts.identity),
            _ => None,
        };
        match exchange || directory.is_some() {
            true => noting.naming(&to),
            false => noting.losing_name(&to),
        }
        match directory {
            Some(directory) => noting.journal.moving(directory, &from, &to),
            None => noting.naming(&from),
        }
        let result = call();
        if directory.is_some() && raw::is_err(result) {
            noting.journal.stayed(&from, &to);
        }
        result
    };
    let moves = std::fs::symlink_metadata(&from).is_ok_and(|found| found.is_dir());
    noting()?.run(|noting| noting.while_held(&[&from, &to], moves, note))
}

/// The disk is full: gives the room back that the journal takes; whether it took any.
pub fn make_room() -> bool {
    let work = |noting: &mut Noting| noting.journal.make_room();
    noting().and_then(|mut all| all.run(work)).unwrap_or(false)
}

/// The same where less was written to a descriptor than was to be: of a regular file on a disk that is full. Less is
/// written for other reasons, too.
pub fn make_room_for(fd: i32) -> bool {
    let regular = |facts: libc::stat| facts.st_mode & libc::S_IFMT == libc::S_IFREG;
    stat(fd).is_ok_and(regular) && descriptor::is_full(fd) && make_room()
}
