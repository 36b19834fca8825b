//! Files that the MPI library has open for the application (MPI_File_open), and the changes that it makes to them.
//!
//! Only these files are recorded. The library writes others too: those of its session, shared memory, the file of a
//! shared file pointer. Its opens and closes are not intercepted, so a descriptor number does not identify a file. The
//! device and inode of a descriptor are read each time and compared with those of the files open by MPI_File_open.

use super::absolute_names::{link_of, name_of};
use super::journal::{ask, fd_path, noting, read_through, Noting};
use super::watched_fds;
use crate::interpose::threads;
use crate::sys::descriptor::{fcntl, position, stat};
use crate::sys::file_system::file_system_of;
use crate::sys::mutex::lock_of;
use std::ffi::CStr;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;
use undo::{Current, Facts, Identity};

/// Device and inode.
pub type FileId = (u64, u64);

/// A file that is open by MPI_File_open.
struct File {
    path: PathBuf,
    id: FileId,
    identity: Identity,
    /// Number of opens.
    times: u32,
}

static FILES: Mutex<Vec<File>> = Mutex::new(Vec::new());
/// Whether any file is open by MPI_File_open.
static SOME: AtomicBool = AtomicBool::new(false);

fn register(path: &Path, id: FileId) {
    let mut files = lock_of(&FILES);
    match files.iter_mut().find(|file| file.id == id) {
        Some(file) => file.times += 1,
        None => files.push(File {
            path: path.to_owned(),
            id,
            identity: Identity::of(id.0, id.1, file_system_of(path)),
            times: 1,
        }),
    }
    SOME.store(true, Ordering::Release);
}

/// Records MPI_File_close.
pub fn closed(id: FileId) {
    let mut files = lock_of(&FILES);
    files.retain_mut(|file| {
        file.times -= u32::from(file.id == id);
        file.times > 0
    });
    SOME.store(!files.is_empty(), Ordering::Release);
}

/// All files open by MPI_File_open.
pub(super) fn all() -> Vec<(PathBuf, FileId)> {
    let files = lock_of(&FILES);
    let all = files.iter().map(|file| (file.path.clone(), file.id));
    all.collect()
}

/// Descriptor of a file open by MPI_File_open whose changes are to be journaled.
pub struct Descriptor {
    fd: i32,
    facts: libc::stat,
    identity: Identity,
}

/// Examines a descriptor that the MPI library is about to write to. Takes no lock if nothing is journaled: the caller
/// may be a forked child or a signal handler.
pub fn look(fd: i32) -> Option<Descriptor> {
    if !SOME.load(Ordering::Acquire) || !watched_fds::is_on() || threads::is_forked_child() {
        return None;
    }
    let facts = stat(fd).ok()?;
    // The removal of the last name was journaled, or cannot be undone.
    if facts.st_mode & libc::S_IFMT != libc::S_IFREG || facts.st_nlink == 0 {
        return None;
    }
    let id = (facts.st_dev, facts.st_ino);
    let files = lock_of(&FILES);
    let file = files.iter().find(|file| file.id == id)?;
    let identity = file.identity;
    Some(Descriptor {
        fd,
        facts,
        identity,
    })
}

impl Descriptor {
    /// Position; 0 if the file has none.
    pub fn position(&self) -> u64 {
        position(self.fd).unwrap_or(0)
    }

    /// Journals the bytes of the file that are about to be overwritten or cut off.
    pub fn changing(&self, bytes: Range<u64>) {
        noting().map(|mut all| all.run(|noting| noting.changing_below(self, bytes)));
    }
}

impl Noting {
    fn changing_below(&mut self, descriptor: &Descriptor, bytes: Range<u64>) {
        let (fd, found) = (descriptor.fd, &descriptor.facts);
        let facts = Facts::open(descriptor.identity, found);
        let reader = self.reader.clone();
        let read = |at, len| match reads_as_written(fd) {
            true => read_through(fd, at, len),
            false => ask(&reader, fd_path(fd), None, at, len),
        };
        let name = || link_of(fd).unwrap_or_default();
        self.journal.changing(&facts, &name, bytes, &read);
    }
}

/// Whether bytes can be read through the descriptor.
fn reads_as_written(fd: i32) -> bool {
    let flags = fcntl(fd, libc::F_GETFL, 0).unwrap_or(libc::O_WRONLY);
    flags & libc::O_ACCMODE == libc::O_RDWR && flags & libc::O_DIRECT == 0
}

/// Candidate paths of an MPI file name: libraries accept a file system type before it ("ufs:out.dat"), but a file name
/// may contain a colon, too.
fn paths(name: &CStr, follow: bool) -> Vec<PathBuf> {
    let bytes = name.to_bytes_with_nul();
    let colon = bytes.iter().position(|&byte| byte == b':');
    let behind = colon.map(|at| &bytes[at + 1..]);
    let names = std::iter::once(bytes).chain(behind);
    names
        .filter_map(|path| CStr::from_bytes_with_nul(path).ok())
        .filter_map(|path| name_of(libc::AT_FDCWD, path, follow))
        .collect()
}

/// A call of MPI_File_open.
pub struct Opening {
    paths: Vec<PathBuf>,
    /// Time before the call.
    since: u64,
    /// One bit for each path that did not exist then.
    absent: u32,
}

impl Opening {
    /// Prepares the call: journals the names that it may create.
    pub fn begin(name: &CStr, creates: bool) -> Opening {
        let (paths, since) = (paths(name, true), undo::now());
        let mut absent = 0;
        for (number, path) in paths.iter().enumerate().filter(|_| creates) {
            let note = |noting: &mut Noting| match noting.current(path) {
                Current::Absent => {
                    noting.naming(path);
                    1 << number
                }
                _ => 0,
            };
            absent |= noting().and_then(|mut all| all.run(note)).unwrap_or(0);
        }
        Opening {
            paths,
            since,
            absent,
        }
    }

    /// Bits of the names that did not exist for this process, to be combined with those of the other processes by "or":
    /// one process creates the file, and another may find it.
    pub fn absent(&self) -> u32 {
        self.absent
    }

    /// Records the open file; `absent` is the combination of all processes. Returns the ids for [`closed`].
    pub fn end(self, absent: u32) -> Vec<FileId> {
        let mut opened = Vec::new();
        for (number, path) in self.paths.iter().enumerate() {
            let found = std::fs::symlink_metadata(path);
            let Some(found) = found.ok().filter(|found| found.is_file()) else {
                continue;
            };
            register(path, (found.dev(), found.ino()));
            opened.push((found.dev(), found.ino()));
            let note = |noting: &mut Noting| {
                let facts = noting.facts(&found, path);
                match absent & 1 << number {
                    0 => noting.journal.opened(&facts, &|| path.clone()),
                    _ => {
                        let place = noting.place(path);
                        let identity = facts.identity;
                        noting.journal.created(identity, Some(place), self.since);
                    }
                }
            };
            noting().map(|mut all| all.run(note));
        }
        opened
    }
}

/// Journals the file that MPI_File_delete is about to remove.
pub fn deleting(name: &CStr) {
    for path in paths(name, false) {
        noting().map(|mut all| all.run(|noting| noting.losing_name(&path)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;

    #[test]
    fn mpi_file_name_may_begin_with_a_file_system_type() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let plain = dir.join("out.dat");
        let names = |text: String| paths(&CString::new(text).unwrap(), true);
        assert_eq!(
            names(plain.display().to_string()),
            std::slice::from_ref(&plain)
        );
        let prefixed = names(format!("ufs:{}", plain.display()));
        assert_eq!(prefixed.last(), Some(&plain));
        assert!(names("/dev/out.dat".to_owned()).is_empty());
    }

    #[test]
    fn file_is_known_until_its_last_close() {
        let id = (u64::MAX, 7);
        register(Path::new("/out.dat"), id);
        register(Path::new("/out.dat"), id);
        let known = || all().iter().any(|(_, file)| *file == id);
        closed(id);
        assert!(known());
        closed((u64::MAX, 8));
        assert!(known());
        closed(id);
        assert!(!known());
    }
}
