//! Files that the MPI library below has open for the application (MPI_File_open): `library_files.rs` tells what the
//! library writes.
//!
//! Only these are noted. The library writes other files too: those of its session, shared memory, where a shared
//! pointer stands. It opens and closes descriptors unseen, so a number says nothing: which file a descriptor is of is
//! asked each time, and compared with device and inode of those that are open by MPI_File_open.

use super::{
    ask, descriptor, fcntl, fd_path, link_of, name_of, noting, read_through, stat, watched,
    Current, Facts, Noting,
};
use crate::state::lock_of;
use crate::thread;
use std::ffi::CStr;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;
use undo::Identity;

/// Device and inode.
pub type FileId = (u64, u64);

/// A file that is open by MPI_File_open.
struct File {
    path: PathBuf,
    id: FileId,
    identity: Identity,
    /// How often.
    times: u32,
}

static FILES: Mutex<Vec<File>> = Mutex::new(Vec::new());
/// Whether there are any.
static SOME: AtomicBool = AtomicBool::new(false);

fn register(path: &Path, id: FileId) {
    let mut files = lock_of(&FILES);
    match files.iter_mut().find(|file| file.id == id) {
        Some(file) => file.times += 1,
        None => files.push(File {
            path: path.to_owned(),
            id,
            identity: Identity::of(id.0, id.1, descriptor::file_system_of(path)),
            times: 1,
        }),
    }
    SOME.store(true, Ordering::Release);
}

/// A file was closed by MPI_File_close.
pub fn closed(id: FileId) {
    let mut files = lock_of(&FILES);
    files.retain_mut(|file| {
        file.times -= u32::from(file.id == id);
        file.times > 0
    });
    SOME.store(!files.is_empty(), Ordering::Release);
}

/// All that are open.
pub(super) fn all() -> Vec<(PathBuf, FileId)> {
    let files = lock_of(&FILES);
    let all = files.iter().map(|file| (file.path.clone(), file.id));
    all.collect()
}

/// A descriptor of a file that is open by MPI_File_open, where what is changed in it is to be noted.
pub struct Descriptor {
    fd: i32,
    facts: libc::stat,
    identity: Identity,
}

/// Looks at a descriptor that the library below is about to write to. Takes no lock where nothing is noted: the
/// caller may be a child that was forked, or have a signal's handler under it.
pub fn look(fd: i32) -> Option<Descriptor> {
    if !SOME.load(Ordering::Acquire) || !watched::is_on() || thread::is_forked_child() {
        return None;
    }
    let facts = stat(fd).ok()?;
    // What has lost its last name was noted then, or cannot be brought back.
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
    /// The position; 0 if it has none.
    pub fn position(&self) -> u64 {
        descriptor::position(self.fd).unwrap_or(0)
    }

    /// These bytes of the file are about to be overwritten or cut off.
    pub fn changing(&self, bytes: Range<u64>) {
        noting().map(|mut all| all.run(|noting| noting.changing_below(self, bytes)));
    }
}

impl Noting {
    fn changing_below(&mut self, descriptor: &Descriptor, bytes: Range<u64>) {
        let (fd, found) = (descriptor.fd, &descriptor.facts);
        let facts = Facts {
            identity: descriptor.identity,
            size: found.st_size as u64,
            mode: found.st_mode,
            links: found.st_nlink,
        };
        let reader = self.reader.clone();
        let read = |at, len| match reads_as_written(fd) {
            true => read_through(fd, at, len),
            false => ask(&reader, fd_path(fd), None, at, len),
        };
        let name = || link_of(fd).unwrap_or_default();
        self.journal.changing(&facts, &name, bytes, &read);
    }
}

/// Whether any bytes can be read through the descriptor.
fn reads_as_written(fd: i32) -> bool {
    let flags = fcntl(fd, libc::F_GETFL, 0).unwrap_or(libc::O_WRONLY);
    flags & libc::O_ACCMODE == libc::O_RDWR && flags & libc::O_DIRECT == 0
}

/// The paths that a name for MPI may mean: libraries take the kind of the file system before it ("ufs:out.dat"), as
/// other files may have a colon in their names.
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
    /// Before it.
    since: u64,
    /// A bit for each path to which nothing led then.
    absent: u32,
}

impl Opening {
    /// Before the call: the names that it may give to a file that it makes are noted.
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

    /// Which of the names led nowhere when this process looked, as a number to be put together with those of the other
    /// processes that open the file, by "or": one of them makes it, and another may find it there.
    pub fn absent(&self) -> u32 {
        self.absent
    }

    /// The file is open. `absent` is that of all processes. Gives what is to be told to [`closed`].
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

/// MPI_File_delete is about to remove a file.
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
    fn a_name_for_mpi_may_begin_with_a_kind_of_file_system() {
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
        assert!(names("/dev/shm/out.dat".to_owned()).is_empty());
    }

    #[test]
    fn a_file_is_known_until_it_is_closed_as_often_as_it_was_opened() {
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
