//! Memory that several ranks shared, or one at several places: made once, and held by all of them
//! until each has mapped it.
//!
//! The ranks go through the same steps together; what a step returns is handed to all of them by the
//! caller, and nobody takes the next one before everybody has succeeded:
//!
//! 1. each says what it had ([`Claim::of`]);
//! 2. the first rank that had an object makes it ([`SharedMemory::make`]);
//! 3. the others open it ([`SharedMemory::join`]);
//! 4. those whose images hold the content put it in ([`SharedMemory::fill`]).
//!
//! # Safety
//! System calls that create objects and files' descriptors, with locals as arguments. A System V
//! segment is filled through a mapping of our own, of which no reference outlives the copying.
#![allow(unsafe_code)]

use std::ffi::{CString, OsStr};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

use ckpt_image::{Backing, Chunk, Encoding, Image, SharedKind, SharedObject};
use serde::{Deserialize, Serialize};

use crate::error::{RestartError, Result};

/// What a rank's image says about shared objects, and where the rank is now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// Processes with the same text here can reach each other's memory.
    pub node: String,
    /// The objects that the rank had.
    pub objects: Vec<SharedObject>,
}

impl Claim {
    /// The claim of the rank that `image` belongs to, made here.
    pub fn of(image: &Image) -> Result<Claim> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id");
        let mut node = boot.map_err(RestartError::Machine)?.trim().to_owned();
        for space in ["pid", "ipc"] {
            let link = fs::read_link(format!("/proc/self/ns/{space}"));
            node += &format!(" {}", link.map_err(RestartError::Machine)?.display());
        }
        Ok(Claim {
            node,
            objects: image.shared().to_vec(),
        })
    }
}

/// How the other ranks find an object that this one has made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    /// The object's name.
    pub object: String,
    /// Where it is.
    pub place: Where,
}

/// Where an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Where {
    /// Under a descriptor of a process.
    Descriptor {
        /// The process.
        pid: u32,
        /// The descriptor.
        fd: i32,
    },
    /// A System V segment of this id.
    Segment(i32),
}

/// The shared objects of one rank.
#[derive(Debug, Default)]
pub struct SharedMemory {
    objects: Vec<Object>,
    /// Ids of System V segments on this node: the application's, the kernel's. Complete after
    /// [`SharedMemory::join`].
    segments: Vec<(i32, i32)>,
}

#[derive(Debug)]
struct Object {
    described: SharedObject,
    /// This rank makes it.
    first: bool,
    held: Held,
}

#[derive(Debug)]
pub(crate) enum Held {
    Nothing,
    File(File),
    Segment(View),
}

/// A System V segment, attached where the kernel likes, so that it lives.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) id: i32,
    at: *mut libc::c_void,
}

impl View {
    fn of(id: i32) -> io::Result<View> {
        // SAFETY: a new mapping at a place of the kernel's choice.
        let at = unsafe { libc::shmat(id, std::ptr::null(), 0) };
        match at as isize {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(View { id, at }),
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: our own mapping, to which nothing refers.
        unsafe { libc::shmdt(self.at) };
    }
}

impl SharedMemory {
    /// The objects of `rank`, given what all ranks claim; refused where ranks that shared an object
    /// cannot share it any more.
    pub fn new(set: &str, rank: usize, claims: &[Claim]) -> Result<SharedMemory> {
        let own = &claims[rank];
        let refuse = |why: String| RestartError::Shared {
            set: set.to_owned(),
            why,
        };
        let mut shared = SharedMemory::default();
        for object in &own.objects {
            let what = object.kind.describe();
            let with = |claim: &Claim| claim.objects.iter().any(|o| o.id == object.id);
            let members: Vec<usize> = (0..claims.len()).filter(|r| with(&claims[*r])).collect();
            if let Some(other) = members.iter().find(|r| claims[**r].node != own.node) {
                return Err(refuse(format!(
                    "ranks {rank} and {other} share {what} and have been started on different \
                     machines (or in different containers); start the ranks {members:?} on one"
                )));
            }
            let mut described = object.clone();
            let sizes = members.iter().flat_map(|r| &claims[*r].objects);
            let sizes = sizes.filter(|o| o.id == object.id).map(|o| o.size);
            described.size = sizes.max().unwrap_or(object.size);
            shared.objects.push(Object {
                described,
                first: members.first() == Some(&rank),
                held: Held::Nothing,
            });
        }
        shared.check_names(own, claims).map_err(refuse)?;
        Ok(shared)
    }

    /// Objects of different machines that now meet on one may want the same name.
    fn check_names(&self, own: &Claim, claims: &[Claim]) -> std::result::Result<(), String> {
        let here = claims.iter().filter(|claim| claim.node == own.node);
        for other in here.flat_map(|claim| &claim.objects) {
            for object in self.objects.iter().map(|o| &o.described) {
                let same_name = match (&object.kind, &other.kind) {
                    (SharedKind::Named { path, .. }, SharedKind::Named { path: other, .. }) => {
                        path == other
                    }
                    (SharedKind::SystemV { id, .. }, SharedKind::SystemV { id: other, .. }) => {
                        id == other
                    }
                    _ => false,
                };
                if same_name && object.id != other.id {
                    return Err(format!(
                        "{} was there once on each of two machines whose ranks have now been \
                         started on one; start them on two",
                        object.kind.describe()
                    ));
                }
            }
        }
        Ok(())
    }

    /// Makes the objects that are this rank's to make, empty.
    pub fn make(&mut self) -> Result<Vec<Made>> {
        let mut made = Vec::new();
        for object in self.objects.iter_mut().filter(|object| object.first) {
            let described = &object.described;
            let held = make(described).map_err(|e| failed("make", described, e))?;
            let place = match &held {
                Held::Nothing => continue,
                Held::File(file) => Where::Descriptor {
                    pid: std::process::id(),
                    fd: file.as_raw_fd(),
                },
                Held::Segment(view) => Where::Segment(view.id),
            };
            object.held = held;
            made.push(Made {
                object: described.id.clone(),
                place,
            });
        }
        Ok(made)
    }

    /// Opens what the other ranks have made. `claims` and `made` are all ranks', in order.
    pub fn join(&mut self, rank: usize, claims: &[Claim], made: &[Vec<Made>]) -> Result<()> {
        let place = |id: &str| {
            made.iter()
                .flatten()
                .find(|m| m.object == id)
                .map(|m| m.place)
        };
        for object in self.objects.iter_mut().filter(|object| !object.first) {
            let held = match place(&object.described.id) {
                None => Ok(Held::Nothing),
                Some(Where::Descriptor { pid, fd }) => {
                    let path = format!("/proc/{pid}/fd/{fd}");
                    let file = OpenOptions::new().read(true).write(true).open(path);
                    file.and_then(|file| high(file.into())).map(Held::File)
                }
                Some(Where::Segment(id)) => View::of(id).map(Held::Segment),
            };
            object.held = held.map_err(|e| failed("open", &object.described, e))?;
        }
        // Also of segments that this rank had not attached: it may know their ids.
        let here = claims
            .iter()
            .filter(|claim| claim.node == claims[rank].node);
        for object in here.flat_map(|claim| &claim.objects) {
            let SharedKind::SystemV { id, .. } = object.kind else {
                continue;
            };
            if let Some(Where::Segment(real)) = place(&object.id) {
                self.segments.push((id, real));
            }
        }
        self.segments.sort_unstable();
        self.segments.dedup();
        Ok(())
    }

    /// Puts in what this rank's image holds. Ordinary files get back what was mapped of them.
    pub fn fill(&self, image: &Image) -> Result<()> {
        let mut loader = image.loader()?;
        let mut buffer = Vec::new();
        for (index, region) in image.regions().iter().enumerate() {
            let Backing::SharedContent { object, offset } = &region.backing else {
                continue;
            };
            let Some(object) = self.objects.get(*object as usize) else {
                continue;
            };
            let target = object.target()?;
            for chunk in image.chunks_of(index) {
                // A new object is zero already.
                if chunk.encoding == Encoding::Zero && !object.is_file() {
                    continue;
                }
                buffer.resize(chunk.len as usize, 0);
                loader.load(chunk, &mut buffer)?;
                let at = offset + (chunk.address - region.start);
                let filled = object.put(target.as_ref(), at, &buffer, chunk);
                filled.map_err(|e| failed("fill", &object.described, e))?;
            }
        }
        Ok(())
    }

    /// This process's descriptor of an object that has one, by the object's name.
    pub fn descriptor(&self, object: &str) -> Option<i32> {
        let found = self.objects.iter().find(|o| o.described.id == object)?;
        match &found.held {
            Held::File(file) => Some(file.as_raw_fd()),
            Held::Nothing | Held::Segment(_) => None,
        }
    }

    /// Ids of System V segments: the application's and the kernel's.
    pub fn segments(&self) -> &[(i32, i32)] {
        &self.segments
    }

    /// Bytes of an object.
    pub(crate) fn size(&self, object: u32) -> u64 {
        let found = self.objects.get(object as usize);
        found.map_or(0, |object| object.described.size)
    }

    pub(crate) fn held(&self, object: u32) -> &Held {
        let found = self.objects.get(object as usize);
        found.map_or(&Held::Nothing, |object| &object.held)
    }
}

impl Object {
    fn is_file(&self) -> bool {
        matches!(self.described.kind, SharedKind::File { .. })
    }

    /// The ordinary file to write to.
    fn target(&self) -> Result<Option<File>> {
        let SharedKind::File { path } = &self.described.kind else {
            return Ok(None);
        };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(OsStr::from_bytes(path));
        file.map(Some)
            .map_err(|e| failed("open", &self.described, e))
    }

    fn put(&self, target: Option<&File>, at: u64, bytes: &[u8], chunk: &Chunk) -> io::Result<()> {
        let inside = self.described.size.saturating_sub(at).min(chunk.len.into()) as usize;
        match (target, &self.held) {
            (Some(file), _) => {
                // What is still the same keeps its time of modification.
                let bytes = &bytes[..inside];
                let mut now = vec![0; inside];
                match file.read_exact_at(&mut now, at) {
                    Ok(()) if now == bytes => Ok(()),
                    _ => file.write_all_at(bytes, at),
                }
            }
            (None, Held::File(file)) => file.write_all_at(&bytes[..inside], at),
            (None, Held::Segment(view)) => {
                // SAFETY: the view is as long as the object, and nobody runs who could use it.
                unsafe {
                    let to = view.at.cast::<u8>().add(at as usize);
                    std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, inside);
                }
                Ok(())
            }
            (None, Held::Nothing) => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

fn failed(action: &'static str, object: &SharedObject, source: io::Error) -> RestartError {
    RestartError::Object {
        action,
        what: object.kind.describe(),
        source,
    }
}

fn make(object: &SharedObject) -> io::Result<Held> {
    match &object.kind {
        SharedKind::File { .. } => Ok(Held::Nothing),
        SharedKind::Memory { name } => {
            let name = CString::new(memory_name(name))?;
            // SAFETY: a C string; the descriptor is new.
            let file = unsafe {
                let fd =
                    libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
                if fd < 0 {
                    return Err(io::Error::last_os_error());
                }
                OwnedFd::from_raw_fd(fd)
            };
            sized(high(file)?, object.size)
        }
        SharedKind::Named { path, mode } => {
            let path = PathBuf::from(OsStr::from_bytes(path));
            let file = named(&path, *mode)?;
            sized(high(file.into())?, object.size)
        }
        SharedKind::SystemV {
            key, mode, doomed, ..
        } => {
            let view = View::of(segment(*key, *mode, object.size)?)?;
            if *doomed {
                // It lives as long as it is attached, and can be attached by its id until then.
                // SAFETY: no memory is involved.
                unsafe { libc::shmctl(view.id, libc::IPC_RMID, null_mut()) };
            }
            Ok(Held::Segment(view))
        }
    }
}

/// What /proc/PID/maps showed, without what the kernel adds around the name of a memfd.
fn memory_name(name: &[u8]) -> Vec<u8> {
    const LONGEST: usize = 249;
    let name = name.strip_prefix(b"/memfd:").unwrap_or(name);
    let name = name.strip_suffix(b" (deleted)").unwrap_or(name);
    name[..name.len().min(LONGEST)].to_vec()
}

fn sized(file: File, size: u64) -> io::Result<Held> {
    file.set_len(size)?;
    Ok(Held::File(file))
}

/// A new file in the place of what the killed job may have left there. Who has that open keeps it.
fn named(path: &Path, mode: u32) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    Ok(file)
}

/// A new segment. One of the same key that nobody has attached was left by the killed job.
fn segment(key: i32, mode: u32, size: u64) -> io::Result<i32> {
    let flags = libc::IPC_CREAT | libc::IPC_EXCL | mode as i32;
    // SAFETY: numbers, and a local that the kernel fills.
    unsafe {
        let make = || match libc::shmget(key, size as usize, flags) {
            -1 => Err(io::Error::last_os_error()),
            id => Ok(id),
        };
        make().or_else(|error| {
            let old = libc::shmget(key, 0, 0);
            let mut facts = core::mem::MaybeUninit::<libc::shmid_ds>::zeroed();
            let looked = libc::shmctl(old, libc::IPC_STAT, facts.as_mut_ptr()) == 0;
            if !looked || facts.assume_init().shm_nattch != 0 {
                return Err(error);
            }
            libc::shmctl(old, libc::IPC_RMID, null_mut());
            make()
        })
    }
}

/// The same file under a high number: the low ones are the application's.
fn high(file: OwnedFd) -> io::Result<File> {
    const HIGH: i32 = 512;
    // SAFETY: a new descriptor, which the file owns.
    unsafe {
        match libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, HIGH) {
            -1 => Err(io::Error::last_os_error()),
            fd => Ok(File::from_raw_fd(fd)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(id: &str, kind: SharedKind) -> SharedObject {
        let (id, size) = (id.to_owned(), 4096);
        SharedObject { id, kind, size }
    }

    fn claim(node: &str, objects: &[SharedObject]) -> Claim {
        Claim {
            node: node.to_owned(),
            objects: objects.to_vec(),
        }
    }

    fn memory(id: &str) -> SharedObject {
        object(
            id,
            SharedKind::Memory {
                name: b"/memfd:m".to_vec(),
            },
        )
    }

    fn refusal(rank: usize, claims: &[Claim]) -> String {
        SharedMemory::new("ckpt-1", rank, claims)
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn ranks_that_shared_must_meet_again() {
        let claims = [
            claim("a", &[memory("m")]),
            claim("b", &[]),
            claim("b", &[memory("m")]),
        ];
        let said = refusal(0, &claims);
        assert!(
            said.contains("ckpt-1") && said.contains("ranks 0 and 2 share"),
            "{said}"
        );
        assert!(said.contains("start the ranks [0, 2] on one"), "{said}");
        assert!(SharedMemory::new("ckpt-1", 1, &claims).is_ok());
    }

    #[test]
    fn two_objects_of_one_name_do_not_meet() {
        let named = |id| {
            let path = b"/dev/shm/x".to_vec();
            object(id, SharedKind::Named { path, mode: 0o600 })
        };
        let claims = [claim("a", &[named("m")]), claim("a", &[named("n")])];
        let said = refusal(1, &claims);
        assert!(
            said.contains("/dev/shm/x was there once on each of two machines"),
            "{said}"
        );
        let apart = [claim("a", &[named("m")]), claim("b", &[named("n")])];
        assert!(SharedMemory::new("ckpt-1", 1, &apart).is_ok());
    }

    #[test]
    fn the_first_makes_what_the_others_join() {
        let segment = SharedKind::SystemV {
            id: 77,
            key: 0,
            mode: 0o600,
            doomed: true,
        };
        let mut larger = memory("m");
        larger.size = 8192;
        let claims = [
            claim("a", &[memory("m")]),
            claim("a", &[object("s", segment), larger]),
        ];
        let mut first = SharedMemory::new("ckpt-1", 0, &claims).unwrap();
        let mut second = SharedMemory::new("ckpt-1", 1, &claims).unwrap();
        let made = [first.make().unwrap(), second.make().unwrap()];
        assert_eq!(made[0].len(), 1);
        assert_eq!(made[1].len(), 1);
        first.join(0, &claims, &made).unwrap();
        second.join(1, &claims, &made).unwrap();
        let (Held::File(one), Held::File(other)) = (first.held(0), second.held(1)) else {
            panic!("the first rank's object 0 is the second's object 1");
        };
        assert_eq!(one.metadata().unwrap().len(), 8192);
        one.write_all_at(b"hello", 100).unwrap();
        let mut read = [0; 5];
        other.read_exact_at(&mut read, 100).unwrap();
        assert_eq!(&read, b"hello");
        let Held::Segment(view) = second.held(0) else {
            panic!("a segment");
        };
        assert_eq!(first.segments(), [(77, view.id)]);
        assert_eq!(second.segments(), [(77, view.id)]);
    }
}
