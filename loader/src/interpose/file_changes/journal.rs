//! Undo journal of this process, and the inputs of its records: the identity of a file, the target of a name, and the
//! content that is about to be overwritten.
//!
//! All functions run with the lower half's FS. Nothing is recorded before the first checkpoint, nor in processes that
//! the rank has forked.
//!
//! Closing any descriptor of a file drops the locks (F_SETLK) that the process has on it. Therefore no file is opened
//! here: its content is read through the application's own descriptor, or by a thread with its own descriptor table.

use super::absolute_names::{is_device, link_of};
use super::name_locks::NameLocks;
use super::watched_fds;
use crate::interpose::descriptors::launcher_stdio;
use crate::interpose::descriptors::own_fd_table::spawn_on_own_fd_table;
use crate::sys::descriptor::{self, fcntl, stat, writable};
use crate::sys::file_system::{file_system_of, is_full, is_made_up};
use crate::sys::mutex::lock_of;
use crate::sys::syscall;
use std::collections::{BTreeMap, HashMap};
use std::fs::Metadata;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{channel, Sender};
use std::sync::{Mutex, MutexGuard};
use undo::{Current, Facts, Identity, Journal, Place};

/// The journal and the state of descriptors.
pub(super) struct Noting {
    pub(super) journal: Journal,
    say: Box<dyn Fn(&str) + Send>,
    pub(super) reader: Sender<Request>,
    pub(super) names: NameLocks,
    /// Descriptors that `watched_fds` reports as changing.
    pub(super) open: HashMap<i32, Open>,
    /// Magic number of the file system of each device.
    systems: BTreeMap<u64, u64>,
}

/// A watched descriptor of a regular file.
#[derive(Clone)]
pub(super) struct Open {
    facts: Facts,
    /// Whether the old content can be read through it.
    readable: bool,
    /// Whether writes append.
    pub(super) appends: bool,
}

/// Request to read a file, with the channel for the reply.
pub(super) struct Request {
    path: PathBuf,
    /// Expected device and inode, if known.
    file: Option<(u64, u64)>,
    at: u64,
    len: usize,
    reply: Sender<io::Result<Vec<u8>>>,
}

pub(super) static NOTING: Mutex<Option<Noting>> = Mutex::new(None);

/// Starts the journal, which records from the next cut on. `say` prints messages for the user.
///
/// # Errors
/// If a thread cannot be started.
pub fn keep_journal(journal: Journal, say: impl Fn(&str) + Send + 'static) -> io::Result<()> {
    let (reader, requests) = channel::<Request>();
    let read = move || {
        for request in requests {
            // The requesting thread may have ended with the whole process.
            let _ = request.reply.send(read_file(&request));
        }
    };
    spawn_on_own_fd_table("undo-reader", read)?;
    *lock_of(&NOTING) = Some(Noting {
        names: NameLocks::new(journal.locks()),
        journal,
        say: Box::new(say),
        reader,
        open: HashMap::new(),
        systems: BTreeMap::new(),
    });
    Ok(())
}

/// Number of the links that the journals of all ranks keep to a file.
pub fn kept_links(device: u64, inode: u64) -> u64 {
    let noting = lock_of(&NOTING);
    let noting = noting.as_ref();
    noting.map_or(0, |noting| noting.journal.kept_links(device, inode))
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
        // Another rank has given the name to another file, after it journaled the old one.
        return Ok(Vec::new());
    }
    read_through(file.as_raw_fd(), request.at, request.len)
}

/// Path of a descriptor's file for the calling thread and for the reading thread.
pub(super) fn fd_path(fd: i32) -> PathBuf {
    let thread = syscall::gettid();
    PathBuf::from(format!("/proc/self/task/{thread}/fd/{fd}"))
}

/// Lock on the journal while changes are recorded.
pub(super) struct Guard(MutexGuard<'static, Option<Noting>>);

pub(super) fn noting() -> Option<Guard> {
    let guard = watched_fds::is_on().then(|| lock_of(&NOTING))?;
    guard.is_some().then_some(Guard(guard))
}

impl Guard {
    pub(super) fn run<R>(&mut self, work: impl FnOnce(&mut Noting) -> R) -> Option<R> {
        let noting = self.0.as_mut()?;
        let result = work(noting);
        for message in noting.journal.take_messages() {
            (noting.say)(&message);
        }
        Some(result)
    }
}

impl Noting {
    pub(super) fn identity(&mut self, device: u64, inode: u64, path: &Path) -> Identity {
        let system = self.systems.entry(device);
        let system = *system.or_insert_with(|| file_system_of(path));
        Identity::of(device, inode, system)
    }

    pub(super) fn facts(&mut self, found: &Metadata, path: &Path) -> Facts {
        Facts::found(self.identity(found.dev(), found.ino(), path), found)
    }

    /// Examines a descriptor; returns it if writes through it are to be journaled.
    pub(super) fn look(&mut self, fd: i32) -> Option<Open> {
        if let (Some(open), true) = (self.open.get(&fd), watched_fds::is_watched(fd)) {
            return Some(open.clone());
        }
        let open = self.look_at_new(fd);
        match &open {
            Some(open) if open.appends => watched_fds::let_append(fd),
            Some(open) => {
                self.open.insert(fd, open.clone());
                watched_fds::watch(fd);
            }
            None => watched_fds::let_pass(fd),
        }
        open
    }

    fn look_at_new(&mut self, fd: i32) -> Option<Open> {
        let facts = stat(fd).ok()?;
        let flags = fcntl(fd, libc::F_GETFL, 0).ok()?;
        // The content of an unnamed file is in the image.
        let passes = facts.st_mode & libc::S_IFMT != libc::S_IFREG
            || facts.st_nlink == 0
            || !writable(flags)
            || launcher_stdio::is_given(fd, (facts.st_dev, facts.st_ino))
            || is_made_up(fd);
        if passes || is_device(&link_of(fd)?) {
            return None;
        }
        let identity = self.identity(facts.st_dev, facts.st_ino, &fd_path(fd));
        let facts = Facts::open(identity, &facts);
        let direct = flags & libc::O_DIRECT != 0;
        (!self.journal.ignores(&identity)).then_some(Open {
            facts,
            readable: flags & libc::O_ACCMODE == libc::O_RDWR && !direct,
            appends: flags & libc::O_APPEND != 0,
        })
    }

    /// Journals the content of these bytes of an open file.
    pub(super) fn changing(&mut self, fd: i32, open: &Open, bytes: Range<u64>) {
        let reader = self.reader.clone();
        let read = |at, len| match open.readable {
            true => read_through(fd, at, len),
            false => ask(&reader, fd_path(fd), None, at, len),
        };
        let name = || link_of(fd).unwrap_or_default();
        self.journal.changing(&open.facts, &name, bytes, &read);
        if self.journal.ignores(&open.facts.identity) {
            watched_fds::let_pass(fd);
        }
    }

    /// Current target of a name.
    pub(super) fn current(&mut self, path: &Path) -> Current {
        let Ok(found) = std::fs::symlink_metadata(path) else {
            return Current::Absent;
        };
        let kind = found.file_type();
        if kind.is_file() {
            let found = self.in_upper_layer(found, path);
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

    /// The file, after overlayfs has copied it to the upper layer if it would get another inode number then. That is so
    /// for files of a lower layer with several names, at the first change. A file that another user owns stays.
    fn in_upper_layer(&mut self, found: Metadata, path: &Path) -> Metadata {
        const OVERLAY: u64 = libc::OVERLAYFS_SUPER_MAGIC as u64;
        let system = self.systems.entry(found.dev());
        let system = *system.or_insert_with(|| file_system_of(path));
        if found.nlink() < 2 || system != OVERLAY {
            return found;
        }
        // Any change of the inode has the file copied: here its access rights, to what they are.
        let since = undo::now();
        let copied = std::fs::set_permissions(path, found.permissions());
        let Ok(again) = copied.and_then(|()| std::fs::symlink_metadata(path)) else {
            return found;
        };
        if again.ino() != found.ino() {
            let identity = self.identity(again.dev(), again.ino(), path);
            self.journal.copied(identity, since);
        }
        again
    }

    pub(super) fn place<'a>(&mut self, path: &'a Path) -> Place<'a> {
        let parent = path.parent().unwrap_or(path);
        let device = std::fs::metadata(parent).map_or(0, |found| found.dev());
        Place {
            name: path,
            local: self.identity(device, 0, parent).local,
        }
    }

    /// Journals that a name is about to lose its file.
    pub(super) fn losing_name(&mut self, path: &Path) {
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

    /// Journals that a name is about to get a file, or another one while its file keeps a second name.
    pub(super) fn naming(&mut self, path: &Path) {
        let current = self.current(path);
        let place = self.place(path);
        self.journal.naming(place, &current);
    }
}

/// Reads through a descriptor up to the end of the file. Another rank has cut off, and journaled, the rest.
pub(super) fn read_through(fd: i32, at: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    let read = descriptor::read_at(fd, &mut bytes, at)?;
    bytes.truncate(read);
    Ok(bytes)
}

pub(super) fn device_and_inode(identity: &Identity) -> Option<(u64, u64)> {
    identity.local.then_some((identity.device, identity.inode))
}

pub(super) fn ask(
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

/// Frees the space of the journal when the disk is full; returns whether there was any.
pub fn make_room() -> bool {
    let work = |noting: &mut Noting| noting.journal.make_room();
    noting().and_then(|mut all| all.run(work)).unwrap_or(false)
}

/// Frees the space of the journal after a short write to a regular file on a full disk. A write can be short for other
/// reasons, too.
pub fn make_room_for(fd: i32) -> bool {
    let regular = |facts: libc::stat| facts.st_mode & libc::S_IFMT == libc::S_IFREG;
    stat(fd).is_ok_and(regular) && is_full(fd) && make_room()
}
