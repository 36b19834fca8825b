//! Shared objects: memory that the upper half shares with other processes, or has mapped at several places. This
//! module lists the objects, reads their content, and finds other processes that have them mapped.
//!
//! # Safety
//! The only unsafe operation asks the kernel about a System V segment; it fills a local.
#![allow(unsafe_code)]

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use ckpt_image::{ImageError, MemorySource, SharedKind, SharedObject, PAGE};
use nix::unistd::{lseek, Whence};

use proc_maps::Mapping;

use crate::page_memory::PageMemory;

/// Why an object cannot be saved.
pub type Refusal = String;

/// A shared object that is mapped here.
pub struct MappedObject {
    /// As the image lists it.
    pub described: SharedObject,
    /// Its device and inode, as /proc/PID/maps prints them.
    device: String,
    inode: u64,
    /// Its parts that are mapped here, with the address of each.
    mapped: Vec<(Range<u64>, u64)>,
    /// Path by which all of it can be read, if it can be opened. It is not kept open: to close a descriptor of
    /// a file drops the locks that the process has on it, so it is opened on a thread with descriptors of its
    /// own.
    source: Option<PathBuf>,
}

/// The kinds of shared objects.
pub enum MappedKind {
    /// Memory without a name.
    Memory,
    /// A file of a memory file system, which has its name.
    Named,
    /// A System V segment.
    SystemV,
    /// An ordinary file.
    File,
}

/// The objects found so far.
pub struct ObjectTable {
    boot: String,
    /// The application's id for the kernel's id of a System V segment.
    shm_id: fn(i32) -> i32,
    found: Vec<MappedObject>,
}

impl ObjectTable {
    pub fn new(shm_id: fn(i32) -> i32) -> ckpt_image::Result<ObjectTable> {
        const BOOT: &str = "/proc/sys/kernel/random/boot_id";
        let boot = fs::read_to_string(BOOT).map_err(|source| ImageError::Io {
            action: "read",
            path: PathBuf::from(BOOT),
            source,
        })?;
        Ok(ObjectTable {
            boot: boot.trim().to_owned(),
            shm_id,
            found: Vec::new(),
        })
    }

    pub fn all(&self) -> &[MappedObject] {
        &self.found
    }

    /// The index of the object that `mapping` maps a part of.
    pub fn index(&mut self, mapping: &Mapping, kind: MappedKind) -> Result<u32, Refusal> {
        let mut id = format!("{}/{}/{}", self.boot, mapping.device, mapping.inode);
        match kind {
            MappedKind::Memory | MappedKind::Named => {}
            // Segments are numbered anew in every namespace.
            MappedKind::SystemV => {
                let namespace = fs::read_link("/proc/self/ns/ipc").unwrap_or_default();
                id += &format!("/{}", namespace.display());
            }
            // Subvolumes may number their files alike.
            MappedKind::File => id += &String::from_utf8_lossy(&mapping.path),
        }
        let at = match self.found.iter().position(|o| o.described.id == id) {
            Some(at) => at,
            None => {
                let object = self.describe(mapping, &kind, id)?;
                self.found.push(object);
                self.found.len() - 1
            }
        };
        let object = &mut self.found[at];
        let part = mapping.offset..mapping.offset + (mapping.end - mapping.start);
        if object.source.is_none() && matches!(kind, MappedKind::Memory | MappedKind::Named) {
            object.described.size = object.described.size.max(part.end);
        }
        object.mapped.push((part, mapping.start));
        u32::try_from(at).map_err(|_| "is one shared object too many".to_owned())
    }

    fn describe(
        &self,
        mapping: &Mapping,
        kind: &MappedKind,
        id: String,
    ) -> Result<MappedObject, Refusal> {
        let path = Path::new(OsStr::from_bytes(&mapping.path));
        let (kind, source, size) = match kind {
            MappedKind::Memory => {
                let name = mapping.path.clone();
                (SharedKind::Memory { name }, descriptor(mapping), None)
            }
            MappedKind::Named => {
                let mode = fs::metadata(path).map_err(|e| format!("cannot be looked at: {e}"))?;
                let mode = mode.mode() & 0o7777;
                let readable = File::open(path).is_ok();
                let source = readable.then(|| path.to_owned());
                let path = mapping.path.clone();
                (SharedKind::Named { path, mode }, source, None)
            }
            MappedKind::SystemV => {
                let (kind, size) = segment(mapping, self.shm_id)?;
                (kind, None, Some(size))
            }
            MappedKind::File => {
                File::open(path).map_err(|e| format!("cannot be read: {e}"))?;
                let source = Some(path.to_owned());
                let path = mapping.path.clone();
                (SharedKind::File { path }, source, None)
            }
        };
        let length = source
            .as_ref()
            .and_then(|path| Some(fs::metadata(path).ok()?.len()));
        Ok(MappedObject {
            described: SharedObject {
                id,
                kind,
                size: size.or(length).unwrap_or(0),
            },
            device: mapping.device.clone(),
            inode: mapping.inode,
            mapped: Vec::new(),
            source,
        })
    }
}

/// The kernel's facts about a segment, whose id stands in the place of its inode.
fn segment(mapping: &Mapping, shm_id: fn(i32) -> i32) -> Result<(SharedKind, u64), Refusal> {
    const SHM_DEST: u32 = 0o1000;
    let real = i32::try_from(mapping.inode).map_err(|_| "has no segment id".to_owned())?;
    let mut facts = core::mem::MaybeUninit::<libc::shmid_ds>::zeroed();
    // SAFETY: the kernel fills the local.
    let facts = unsafe {
        if libc::shmctl(real, libc::IPC_STAT, facts.as_mut_ptr()) != 0 {
            let error = io::Error::last_os_error();
            return Err(format!(
                "is System V shared memory {real}, which cannot be looked at: {error}"
            ));
        }
        facts.assume_init()
    };
    let mode = u32::from(facts.shm_perm.mode);
    let kind = SharedKind::SystemV {
        id: shm_id(real),
        key: facts.shm_perm.__key,
        mode: mode & 0o777,
        doomed: mode & SHM_DEST != 0,
    };
    Ok((kind, facts.shm_segsz as u64))
}

/// A descriptor through which this process can open the object.
fn descriptor(mapping: &Mapping) -> Option<PathBuf> {
    let device = device(&mapping.device)?;
    let descriptors = fs::read_dir("/proc/self/fd").ok()?.flatten();
    descriptors.map(|entry| entry.path()).find(|path| {
        let same = |facts: fs::Metadata| {
            facts.is_file() && (facts.dev(), facts.ino()) == (device, mapping.inode)
        };
        fs::metadata(path).is_ok_and(same) && File::open(path).is_ok()
    })
}

/// The number of a device that is printed as `major:minor`.
fn device(printed: &str) -> Option<u64> {
    let (major, minor) = printed.split_once(':')?;
    let number = |text| u32::from_str_radix(text, 16).ok();
    Some(libc::makedev(number(major)?, number(minor)?))
}

impl MappedObject {
    /// The parts of the object that this process can read, in whole pages. An object that can be opened is readable as
    /// a whole. Of an ordinary file only the mapped parts count.
    pub fn readable(&self) -> Vec<Range<u64>> {
        let end = self.described.size.next_multiple_of(PAGE);
        let whole =
            self.source.is_some() && !matches!(self.described.kind, SharedKind::File { .. });
        if whole {
            return std::iter::once(0..end).filter(|r| !r.is_empty()).collect();
        }
        let mapped = self.mapped.iter().map(|(part, _)| part.clone());
        mapped
            .map(|part| part.start..part.end.min(end))
            .filter(|part| !part.is_empty())
            .collect()
    }

    /// The error that it cannot be saved, with the addresses at which it is mapped.
    pub fn unsaveable(&self, why: Refusal) -> ImageError {
        let first = self.mapped.first();
        let (start, end) = first.map_or((0, 0), |(part, at)| (*at, at + (part.end - part.start)));
        let why = format!("{} {why}", self.described.kind.describe());
        ImageError::Unsaveable { start, end, why }
    }

    /// Whether this is the file of that device and inode.
    pub fn is(&self, dev: u64, ino: u64) -> bool {
        let system_v = matches!(self.described.kind, SharedKind::SystemV { .. });
        !system_v && self.inode == ino && device(&self.device) == Some(dev)
    }

    /// Opens the object to read it, if it can be opened.
    pub fn open(&self) -> Result<Option<File>, ImageError> {
        let opened = self.source.as_ref().map(File::open).transpose();
        opened.map_err(|e| self.unsaveable(format!("cannot be read: {e}")))
    }

    /// The parts of `range` that hold data. For an ordinary file this is the whole range, since a restart would not
    /// change the other parts of the file. `file` is the result of [`MappedObject::open`].
    pub fn content(&self, range: Range<u64>, file: Option<&File>) -> Vec<Range<u64>> {
        match (file, &self.described.kind) {
            (Some(file), kind) if !matches!(kind, SharedKind::File { .. }) => data(file, &range),
            _ => vec![range],
        }
    }

    /// Refuses the object if a process that is not one of `ranks`, nor made by one, has it mapped: that process would
    /// continue without the job, or the job without it. Returns the processes made by ranks that have it mapped.
    pub fn other_processes(&self, ranks: &[u32]) -> Result<Vec<String>, Refusal> {
        if matches!(self.described.kind, SharedKind::File { .. }) || self.is_of_window() {
            return Ok(Vec::new());
        }
        let own: BTreeSet<u32> = ranks.iter().copied().chain([std::process::id()]).collect();
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut children = Vec::new();
        for pid in pids.filter(|pid| !own.contains(pid)) {
            if !self.is_mapped_by(pid) {
                continue;
            }
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            let named = format!("{pid} ({})", name.trim_end());
            if !descends(pid, &own) {
                return Err(format!(
                    "is shared with process {named}, which is not part of the job and could not \
                     share it with a restarted one; checkpoint when that process has ended"
                ));
            }
            children.push(named);
        }
        Ok(children)
    }

    /// Whether this is one rank's memory of a window. Other ranks have it mapped in their lower halves, and map it anew
    /// after a restart.
    fn is_of_window(&self) -> bool {
        let SharedKind::Memory { name } = &self.described.kind else {
            return false;
        };
        let name = name.strip_prefix(b"/memfd:");
        name.is_some_and(|name| name.starts_with(contract::WINDOW_MEMORY.to_bytes()))
    }

    fn is_mapped_by(&self, pid: u32) -> bool {
        let system_v = matches!(self.described.kind, SharedKind::SystemV { .. });
        // A process of another user cannot be examined. The kernel lets it share only what this user let it open.
        let maps = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
        let lines = maps.split(|byte| *byte == b'\n');
        lines.filter_map(proc_maps::parse_line).any(|mapping| {
            (mapping.device == self.device && mapping.inode == self.inode)
                && mapping.path.starts_with(b"/SYSV") == system_v
        })
    }
}

/// Whether one of `ancestors` has made the process.
fn descends(mut pid: u32, ancestors: &BTreeSet<u32>) -> bool {
    while pid > 1 {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let parent = status.lines().find_map(|l| l.strip_prefix("PPid:"));
        pid = parent.and_then(|p| p.trim().parse().ok()).unwrap_or(0);
        if ancestors.contains(&pid) {
            return true;
        }
    }
    false
}

/// The parts of `range` in which a file has data, in whole pages. A file system without support for holes reports the
/// whole range.
fn data(file: &File, range: &Range<u64>) -> Vec<Range<u64>> {
    // Moves the offset of this process's own file description, which has no other user.
    let seek = |from: u64, whence| {
        let at = lseek(file, from as i64, whence).ok()?;
        u64::try_from(at).ok()
    };
    let mut parts = Vec::new();
    let mut from = range.start;
    while let Some(start) = seek(from, Whence::SeekData).filter(|start| *start < range.end) {
        let end = seek(start, Whence::SeekHole)
            .unwrap_or(range.end)
            .min(range.end);
        let end = end.next_multiple_of(PAGE).max(start + 1);
        parts.push(start - start % PAGE..end);
        from = end;
    }
    parts
}

/// Reads a part of an object as if it were memory.
pub struct ObjectReader<'a> {
    pub object: &'a MappedObject,
    /// The result of [`MappedObject::open`].
    pub file: Option<File>,
    /// The object's first byte has this address (wrapping: parts begin further on).
    pub origin: u64,
    /// /proc/self/mem.
    pub mem: &'a File,
}

impl MemorySource for ObjectReader<'_> {
    fn read(&mut self, address: u64, into: &mut [u8]) -> io::Result<()> {
        let offset = address.wrapping_sub(self.origin);
        match &self.file {
            Some(file) => read_file(file, offset, into),
            None => self.read_mapped(offset, into),
        }
    }
}

impl PageMemory for ObjectReader<'_> {}

impl ObjectReader<'_> {
    fn read_mapped(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        for (page, at) in into
            .chunks_mut(PAGE as usize)
            .zip((offset..).step_by(PAGE as usize))
        {
            let part = self
                .object
                .mapped
                .iter()
                .find(|(part, _)| part.contains(&at));
            let (part, address) = part.ok_or(io::ErrorKind::NotFound)?;
            // Behind the end of the object nothing can be read.
            if self
                .mem
                .read_exact_at(page, address + (at - part.start))
                .is_err()
            {
                page.fill(0);
            }
        }
        Ok(())
    }
}

/// Reads from a file, with zeros behind its end.
fn read_file(file: &File, mut offset: u64, mut into: &mut [u8]) -> io::Result<()> {
    while !into.is_empty() {
        match file.read_at(into, offset) {
            Ok(0) => {
                into.fill(0);
                return Ok(());
            }
            Ok(count) => {
                into = &mut into[count..];
                offset += count as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}
