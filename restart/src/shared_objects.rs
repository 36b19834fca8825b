//! Shared objects: memory that several ranks shared, or that one rank had mapped at several places. Each object is
//! created once, and all ranks that had it hold a handle until they have mapped it.
//!
//! The ranks go through the same steps together. The caller hands the result of a step to all of them, and no rank
//! takes the next step before all have succeeded:
//!
//! 1. each rank claims the objects that it had ([`SharedClaim::of`]);
//! 2. the first rank that had an object creates it ([`SharedMemory::create`]);
//! 3. the others open it ([`SharedMemory::join`]);
//! 4. the ranks whose images hold the content write it into the objects ([`SharedMemory::fill`]).
//!
//! # Safety
//! The system calls create objects and descriptors, with local variables as arguments. A System V segment is filled
//! through a mapping of this module, and no reference to it outlives the copying.
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
use nix::fcntl::{fcntl, FcntlArg};
use nix::sys::memfd::{memfd_create, MFdFlags};
use serde::{Deserialize, Serialize};

use crate::error::{RestartError, Result};
use crate::handed_over::{self, Offer};

/// The shared objects in a rank's image, and the machine of the rank now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedClaim {
    /// Boot id, and PID and IPC namespaces. Processes with equal values can share memory.
    pub node: String,
    /// The objects that the rank had.
    pub objects: Vec<SharedObject>,
}

impl SharedClaim {
    /// The claim of the rank that `image` belongs to, on this machine.
    ///
    /// # Errors
    /// [`RestartError::Machine`] if `/proc` cannot be read.
    pub fn of(image: &Image) -> Result<SharedClaim> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id");
        let mut node = boot.map_err(RestartError::Machine)?.trim().to_owned();
        for space in ["pid", "ipc"] {
            let link = fs::read_link(format!("/proc/self/ns/{space}"));
            node += &format!(" {}", link.map_err(RestartError::Machine)?.display());
        }
        Ok(SharedClaim {
            node,
            objects: image.shared().to_vec(),
        })
    }
}

/// An object that a rank has created, with the location at which other ranks open it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreatedObject {
    /// The object's name.
    pub object: String,
    /// Location of the object.
    pub location: ObjectLocation,
}

impl CreatedObject {
    fn descriptor(&self) -> Option<i32> {
        match self.location {
            ObjectLocation::Descriptor { fd, .. } => Some(fd),
            ObjectLocation::Segment(_) => None,
        }
    }
}

/// Location of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ObjectLocation {
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
    /// The objects that this rank has created, for ranks in other user namespaces.
    offer: Option<Offer>,
}

#[derive(Debug)]
struct Object {
    described: SharedObject,
    /// Whether this rank creates the object.
    first: bool,
    handle: SharedHandle,
}

#[derive(Debug)]
pub(crate) enum SharedHandle {
    Nothing,
    File(File),
    Segment(Attachment),
}

/// A System V segment, attached at an address of the kernel's choice, so that it is not destroyed.
#[derive(Debug)]
pub(crate) struct Attachment {
    pub(crate) id: i32,
    at: *mut libc::c_void,
}

impl Attachment {
    fn of(id: i32) -> io::Result<Attachment> {
        // SAFETY: the kernel chooses the address of the new mapping, so it replaces none.
        let at = unsafe { libc::shmat(id, std::ptr::null(), 0) };
        match at as isize {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(Attachment { id, at }),
        }
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        // SAFETY: `Attachment` owns the mapping, and no reference into it exists.
        unsafe { libc::shmdt(self.at) };
    }
}

impl SharedMemory {
    /// The objects of `rank`, from the claims of all ranks. Returns an error if ranks that shared an object cannot
    /// share it any more.
    ///
    /// # Errors
    /// [`RestartError::Shared`] says which ranks belong together.
    pub fn new(set: &str, rank: usize, claims: &[SharedClaim]) -> Result<SharedMemory> {
        let own = &claims[rank];
        let refuse = |why: String| RestartError::Shared {
            set: set.to_owned(),
            why,
        };
        let mut shared = SharedMemory::default();
        for object in &own.objects {
            let what = object.kind.describe();
            let with = |claim: &SharedClaim| claim.objects.iter().any(|o| o.id == object.id);
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
                handle: SharedHandle::Nothing,
            });
        }
        shared.check_names(own, claims).map_err(refuse)?;
        Ok(shared)
    }

    /// Refuses objects of different machines that have the same name and would now be on one machine.
    fn check_names(
        &self,
        own: &SharedClaim,
        claims: &[SharedClaim],
    ) -> std::result::Result<(), String> {
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

    /// Creates the objects for which this rank is the first member, without content.
    ///
    /// # Errors
    /// [`RestartError::Object`].
    pub fn create(&mut self) -> Result<Vec<CreatedObject>> {
        let mut created = Vec::new();
        for object in self.objects.iter_mut().filter(|object| object.first) {
            let described = &object.described;
            let handle = create(described).map_err(|e| failed("make", described, e))?;
            let location = match &handle {
                SharedHandle::Nothing => continue,
                SharedHandle::File(file) => ObjectLocation::Descriptor {
                    pid: std::process::id(),
                    fd: file.as_raw_fd(),
                },
                SharedHandle::Segment(attachment) => ObjectLocation::Segment(attachment.id),
            };
            object.handle = handle;
            created.push(CreatedObject {
                object: described.id.clone(),
                location,
            });
        }
        let descriptors: Vec<i32> = created
            .iter()
            .filter_map(CreatedObject::descriptor)
            .collect();
        if !descriptors.is_empty() && launcher::is_in_user_namespace() {
            // Without it, the ranks that need it say so.
            self.offer = Offer::of(descriptors).ok();
        }
        Ok(created)
    }

    /// Opens the objects that other ranks have created. `claims` and `created` are those of all ranks, in order.
    ///
    /// # Errors
    /// [`RestartError::Object`].
    pub fn join(
        &mut self,
        rank: usize,
        claims: &[SharedClaim],
        created: &[Vec<CreatedObject>],
    ) -> Result<()> {
        let location = |id: &str| {
            created
                .iter()
                .flatten()
                .find(|m| m.object == id)
                .map(|m| m.location)
        };
        for object in self.objects.iter_mut().filter(|object| !object.first) {
            let handle = match location(&object.described.id) {
                None => Ok(SharedHandle::Nothing),
                Some(ObjectLocation::Descriptor { pid, fd }) => {
                    let file = open_again(&format!("/proc/{pid}/fd/{fd}"));
                    let file = match file {
                        Err(why) if why.kind() == io::ErrorKind::PermissionDenied => {
                            handed_over(pid, fd).map_err(|_| why)
                        }
                        file => file,
                    };
                    file.and_then(|file| high(file.into()))
                        .map(SharedHandle::File)
                }
                Some(ObjectLocation::Segment(id)) => Attachment::of(id).map(SharedHandle::Segment),
            };
            object.handle = handle.map_err(|e| failed("open", &object.described, e))?;
        }
        // Segments that this rank had not attached are included, since it may use their ids.
        let here = claims
            .iter()
            .filter(|claim| claim.node == claims[rank].node);
        for object in here.flat_map(|claim| &claim.objects) {
            let SharedKind::SystemV { id, .. } = object.kind else {
                continue;
            };
            if let Some(ObjectLocation::Segment(real)) = location(&object.id) {
                self.segments.push((id, real));
            }
        }
        self.segments.sort_unstable();
        self.segments.dedup();
        Ok(())
    }

    /// Fills objects with the content in this rank's image. In ordinary files, the mapped parts are written.
    ///
    /// # Errors
    /// [`RestartError::Image`] if the image was changed since it was verified, [`RestartError::Object`] if an object
    /// cannot be written.
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
                // A new object holds zeros already.
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
        match &found.handle {
            SharedHandle::File(file) => Some(file.as_raw_fd()),
            SharedHandle::Nothing | SharedHandle::Segment(_) => None,
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

    pub(crate) fn handle(&self, object: u32) -> &SharedHandle {
        let found = self.objects.get(object as usize);
        found.map_or(&SharedHandle::Nothing, |object| &object.handle)
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
        match (target, &self.handle) {
            (Some(file), _) => {
                // Equal content is not written again, so that the file keeps its modification time.
                let bytes = &bytes[..inside];
                let mut now = vec![0; inside];
                match file.read_exact_at(&mut now, at) {
                    Ok(()) if now == bytes => Ok(()),
                    _ => file.write_all_at(bytes, at),
                }
            }
            (None, SharedHandle::File(file)) => file.write_all_at(&bytes[..inside], at),
            (None, SharedHandle::Segment(attachment)) => {
                // SAFETY: the attachment is as long as the object, and no thread of the application runs yet.
                unsafe {
                    let to = attachment.at.cast::<u8>().add(at as usize);
                    std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, inside);
                }
                Ok(())
            }
            (None, SharedHandle::Nothing) => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

/// A file that has a name in /proc, with a position of its own.
fn open_again(path: &str) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

fn handed_over(process: u32, descriptor: i32) -> io::Result<File> {
    let got = handed_over::get(process, descriptor)?;
    open_again(&format!("/proc/self/fd/{}", got.as_raw_fd()))
}

fn failed(action: &'static str, object: &SharedObject, source: io::Error) -> RestartError {
    RestartError::Object {
        action,
        what: object.kind.describe(),
        source,
    }
}

fn create(object: &SharedObject) -> io::Result<SharedHandle> {
    match &object.kind {
        SharedKind::File { .. } => Ok(SharedHandle::Nothing),
        SharedKind::Memory { name } => {
            let name = CString::new(memory_name(name))?;
            let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
            let file = memfd_create(name.as_c_str(), flags)?;
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
            let attachment = Attachment::of(segment(*key, *mode, object.size)?)?;
            if *doomed {
                // The segment exists while it is attached, and can be attached by its id until then.
                // SAFETY: IPC_RMID accesses no memory.
                unsafe { libc::shmctl(attachment.id, libc::IPC_RMID, null_mut()) };
            }
            Ok(SharedHandle::Segment(attachment))
        }
    }
}

/// The name of a memfd, from the name in /proc/PID/maps without the kernel's prefix and suffix.
fn memory_name(name: &[u8]) -> Vec<u8> {
    const LONGEST: usize = 249;
    let name = name.strip_prefix(b"/memfd:").unwrap_or(name);
    let name = name.strip_suffix(b" (deleted)").unwrap_or(name);
    name[..name.len().min(LONGEST)].to_vec()
}

fn sized(file: File, size: u64) -> io::Result<SharedHandle> {
    file.set_len(size)?;
    Ok(SharedHandle::File(file))
}

/// Creates a new file. Removes a file that the killed job has left there; other processes that have it open keep it.
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

/// Creates a new segment. Removes a segment with the same key that no process has attached: the killed job has left it.
fn segment(key: i32, mode: u32, size: u64) -> io::Result<i32> {
    let flags = libc::IPC_CREAT | libc::IPC_EXCL | mode as i32;
    // SAFETY: the arguments are numbers and a local variable, which the kernel fills before it is read.
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

/// The same file under a high descriptor number. The low numbers are the application's.
fn high(file: OwnedFd) -> io::Result<File> {
    const HIGH: i32 = 512;
    let fd = fcntl(&file, FcntlArg::F_DUPFD_CLOEXEC(HIGH))?;
    // SAFETY: the descriptor is new, and the file becomes its only owner.
    Ok(unsafe { File::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(id: &str, kind: SharedKind) -> SharedObject {
        let (id, size) = (id.to_owned(), 4096);
        SharedObject { id, kind, size }
    }

    fn claim(node: &str, objects: &[SharedObject]) -> SharedClaim {
        SharedClaim {
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

    fn refusal(rank: usize, claims: &[SharedClaim]) -> String {
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
        let created = [first.create().unwrap(), second.create().unwrap()];
        assert_eq!(created[0].len(), 1);
        assert_eq!(created[1].len(), 1);
        first.join(0, &claims, &created).unwrap();
        second.join(1, &claims, &created).unwrap();
        let (SharedHandle::File(one), SharedHandle::File(other)) =
            (first.handle(0), second.handle(1))
        else {
            panic!("the first rank's object 0 is the second's object 1");
        };
        assert_eq!(one.metadata().unwrap().len(), 8192);
        one.write_all_at(b"hello", 100).unwrap();
        let mut read = [0; 5];
        other.read_exact_at(&mut read, 100).unwrap();
        assert_eq!(&read, b"hello");
        let SharedHandle::Segment(attachment) = second.handle(0) else {
            panic!("a segment");
        };
        assert_eq!(first.segments(), [(77, attachment.id)]);
        assert_eq!(second.segments(), [(77, attachment.id)]);
    }
}
