//! Maps the regions of an image at their addresses and fills them.
//!
//! # Safety
//! All mappings are made with MAP_FIXED_NOREPLACE or by `shmat` without SHM_REMAP, so no existing mapping is ever
//! replaced. All memory that is written afterwards is inside a mapping that [`map`] has just made, and to which no
//! other part of the process refers. A verified image guarantees that regions do not overlap and that each piece of
//! content is inside its region.
#![allow(unsafe_code)]

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Instant;

use ckpt_image::{side_by_side, Backing, GuardPages, Image, Piece, Region};
use contract::MADV_GUARD_INSTALL;

use crate::error::{RestartError, Result};
use crate::sections;
use crate::shared_objects::{SharedHandle, SharedMemory};

/// Totals of the mapped upper half.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MappedUpper {
    /// Mappings made.
    pub regions: usize,
    /// Bytes of address space.
    pub mapped_bytes: u64,
    /// Bytes filled from the image.
    pub filled_bytes: u64,
}

/// Maps every region of `image` at its address, fills it and protects it. Regions with their start and length in
/// `early` are mapped already. `shared` holds the image's shared objects. Must be called when no other memory of an
/// upper half is mapped. After an error the process must end.
///
/// # Errors
/// [`RestartError::Occupied`] if something else lies there, [`RestartError::Map`] if the kernel refuses a mapping,
/// [`RestartError::Image`] if the image was changed since it was verified.
pub fn map(image: &Image, shared: &SharedMemory, early: &[(u64, u64)]) -> Result<MappedUpper> {
    let (memory, guards) = (image.memory()?, sections::guards(image)?);
    let mut mapped = MappedUpper::default();
    let begun = Instant::now();
    attach_segments(image, shared)?;
    for (index, region) in image.regions().iter().enumerate() {
        let is_early = early.contains(&(region.start, region.len));
        if is_early || matches!(region.backing, Backing::SharedContent { .. }) {
            continue;
        }
        let pieces = memory.pieces_of(index);
        let mapper = RegionMapper::new(image, region, shared);
        if mapper.segment().is_some() {
            mapper.protect()?;
        } else {
            mapper.map(pieces)?;
        }
        mapper.complete(pieces, image, &guards)?;
        mapped.regions += 1;
        mapped.mapped_bytes += region.len;
        mapped.filled_bytes += pieces.iter().map(|piece| u64::from(piece.len)).sum::<u64>();
    }
    let in_advance = !early.is_empty();
    tracing::info!(took = ?begun.elapsed(), ?mapped, in_advance, "memory mapped");
    Ok(mapped)
}

/// One region, while it is mapped and filled.
pub(crate) struct RegionMapper<'a> {
    region: &'a Region,
    rank: u32,
    shared: &'a SharedMemory,
}

/// Attaches System V segments, before any other region is mapped. A segment is attached as a whole. The parts that the
/// program had unmapped are unmapped again, since other regions may be at their addresses.
fn attach_segments(image: &Image, shared: &SharedMemory) -> Result<()> {
    let mappers: Vec<RegionMapper> = image
        .regions()
        .iter()
        .map(|region| RegionMapper::new(image, region, shared))
        .filter(|mapper| mapper.segment().is_some())
        .collect();
    let mut attached = Vec::new();
    for mapper in &mappers {
        let Some(attachment) = mapper.segment().filter(|a| !attached.contains(a)) else {
            continue;
        };
        mapper.attach(attachment)?;
        let (start, len) = (attachment.base, attachment.len);
        let mut from = start;
        let parts = mappers.iter().filter(|p| p.segment() == Some(attachment));
        let gaps = parts.map(|p| (p.region.start, p.region.end()));
        for (part, end) in gaps.chain([(start + len, start + len)]) {
            mapper.detach(from, part)?;
            from = end;
        }
        attached.push(attachment);
    }
    Ok(())
}

/// The mapping of a whole System V segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SegmentMapping {
    id: i32,
    base: u64,
    len: u64,
    writable: bool,
}

impl<'a> RegionMapper<'a> {
    pub(crate) fn new(image: &Image, region: &'a Region, shared: &'a SharedMemory) -> Self {
        RegionMapper {
            region,
            rank: image.header().rank,
            shared,
        }
    }

    /// Fills the region, which has just been mapped, and protects it.
    pub(crate) fn complete(
        &self,
        pieces: &[Piece],
        image: &Image,
        guards: &GuardPages,
    ) -> Result<()> {
        self.advise()?;
        self.fill(pieces, image)?;
        let filled_as_it_is = self.region.prot == 3;
        if !pieces.is_empty() && !filled_as_it_is {
            self.protect()?;
        }
        guards
            .in_region(self.region)
            .try_for_each(|pages| self.guard(pages.start, pages.end - pages.start))
    }

    /// Makes guard pages. Without those of the kernel, all access is forbidden in the ordinary way.
    fn guard(&self, start: u64, len: u64) -> Result<()> {
        let Err(why) = self.madvise(start, len, MADV_GUARD_INSTALL) else {
            return Ok(());
        };
        tracing::info!(start, len, %why, "no guard pages: mprotect in their place");
        self.set_protection(start, len, libc::PROT_NONE)
    }

    /// The segment that the region is a part of, if it is one of a System V segment.
    fn segment(&self) -> Option<SegmentMapping> {
        let Backing::Shared {
            object,
            offset,
            writable,
        } = &self.region.backing
        else {
            return None;
        };
        let SharedHandle::Segment(attachment) = self.shared.handle(*object) else {
            return None;
        };
        Some(SegmentMapping {
            id: attachment.id,
            base: self.region.start.checked_sub(*offset)?,
            len: self.shared.size(*object).next_multiple_of(ckpt_image::PAGE),
            writable: *writable,
        })
    }

    fn attach(&self, to: SegmentMapping) -> Result<()> {
        let mut flags = if to.writable { 0 } else { libc::SHM_RDONLY };
        if self.region.prot & 4 != 0 {
            flags |= libc::SHM_EXEC;
        }
        // SAFETY: without SHM_REMAP the call replaces no mapping.
        let at = unsafe { libc::shmat(to.id, to.base as *const libc::c_void, flags) };
        match at as isize {
            -1 => Err(self.failed("attach a System V segment as", io::Error::last_os_error())),
            _ => Ok(()),
        }
    }

    /// Unmaps a part of an attachment that was just made.
    fn detach(&self, from: u64, to: u64) -> Result<()> {
        if from >= to {
            return Ok(());
        }
        // SAFETY: the range lies in an attachment that was just made.
        match unsafe { libc::munmap(from as *mut libc::c_void, (to - from) as usize) } {
            0 => Ok(()),
            _ => Err(self.failed("unmap a part beside", io::Error::last_os_error())),
        }
    }

    /// Maps the region, writable if there are pieces to fill it with.
    pub(crate) fn map(&self, pieces: &[Piece]) -> Result<()> {
        let region = self.region;
        let mut flags = libc::MAP_FIXED_NOREPLACE;
        for (wanted, flag) in [
            (region.no_reserve, libc::MAP_NORESERVE),
            (region.grows_down, libc::MAP_GROWSDOWN),
        ] {
            if wanted {
                flags |= flag;
            }
        }
        let (file, offset) = match &region.backing {
            Backing::Anonymous => {
                flags |= libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
                (None, 0)
            }
            Backing::SharedAnonymous => {
                flags |= libc::MAP_SHARED | libc::MAP_ANONYMOUS;
                (None, 0)
            }
            Backing::PrivateFile { offset, .. } => {
                flags |= libc::MAP_PRIVATE;
                (Some(self.open(false)?), *offset)
            }
            Backing::SharedFile {
                offset, writable, ..
            } => {
                flags |= libc::MAP_SHARED;
                (Some(self.open(*writable)?), *offset)
            }
            Backing::Shared {
                object,
                offset,
                writable,
            } => {
                flags |= libc::MAP_SHARED;
                (Some(self.reopen(*object, *writable)?), *offset)
            }
            // The caller skips such regions: they are content of shared objects, not memory of the process.
            Backing::SharedContent { .. } => return Ok(()),
        };
        let prot = match pieces.is_empty() {
            false => libc::PROT_READ | libc::PROT_WRITE,
            true => i32::from(region.prot),
        };
        // SAFETY: with MAP_FIXED_NOREPLACE the call replaces no mapping, see the head of this file.
        let at = unsafe {
            libc::mmap(
                region.start as *mut libc::c_void,
                region.len as usize,
                prot,
                flags,
                file.as_ref().map_or(-1, AsRawFd::as_raw_fd),
                // A verified image has no offset above i64::MAX.
                offset as libc::off_t,
            )
        };
        if at == libc::MAP_FAILED {
            let error = io::Error::last_os_error();
            return Err(match error.kind() {
                io::ErrorKind::AlreadyExists => self.occupied(),
                _ => self.failed("map", error),
            });
        }
        if at as u64 != region.start {
            // A kernel without MAP_FIXED_NOREPLACE (before 4.17) takes the address as a hint.
            return Err(self.occupied());
        }
        Ok(())
    }

    fn open(&self, writable: bool) -> Result<File> {
        self.open_path(self.file().unwrap_or_default(), writable)
    }

    /// Opens a shared object once more, with the access that this mapping needs.
    fn reopen(&self, object: u32, writable: bool) -> Result<File> {
        let SharedHandle::File(file) = self.shared.handle(object) else {
            return Err(self.failed("find the object for", io::ErrorKind::NotFound.into()));
        };
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        self.open_path(path, writable)
    }

    fn open_path(&self, path: PathBuf, writable: bool) -> Result<File> {
        OpenOptions::new()
            .read(true)
            .write(writable)
            .open(path)
            .map_err(|e| self.failed("open the file for", e))
    }

    fn advise(&self) -> Result<()> {
        let advice = &self.region.advice;
        // A kernel without huge pages rejects the first two, which is harmless.
        for (wanted, number, needed) in [
            (advice.huge, libc::MADV_HUGEPAGE, false),
            (advice.no_huge, libc::MADV_NOHUGEPAGE, false),
            (advice.dont_fork, libc::MADV_DONTFORK, true),
            (advice.wipe_on_fork, libc::MADV_WIPEONFORK, true),
        ] {
            if wanted {
                let done = self.madvise(self.region.start, self.region.len, number);
                if let (Err(e), true) = (done, needed) {
                    return Err(self.failed("advise on", e));
                }
            }
        }
        Ok(())
    }

    fn madvise(&self, start: u64, len: u64, advice: i32) -> io::Result<()> {
        // SAFETY: the range is in this region, which has just been mapped. Only the advice for guard pages discards
        // memory, and these pages hold nothing.
        match unsafe { libc::madvise(start as *mut libc::c_void, len as usize, advice) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn fill(&self, pieces: &[Piece], image: &Image) -> Result<()> {
        side_by_side(pieces, |_, pieces| {
            let mut memory = image.memory()?;
            for piece in pieces {
                // SAFETY: see the head of this file; no two pieces overlap. The slice ends with this
                // iteration.
                let into = unsafe {
                    std::slice::from_raw_parts_mut(piece.address as *mut u8, piece.len as usize)
                };
                memory.load(piece, into)?;
            }
            Ok(())
        })
    }

    fn protect(&self) -> Result<()> {
        let region = self.region;
        self.set_protection(region.start, region.len, region.prot.into())
    }

    fn set_protection(&self, start: u64, len: u64, prot: i32) -> Result<()> {
        // SAFETY: the range is in this region, which has just been mapped and to which nothing refers.
        match unsafe { libc::mprotect(start as *mut libc::c_void, len as usize, prot) } {
            0 => Ok(()),
            _ => Err(self.failed("protect", io::Error::last_os_error())),
        }
    }

    fn file(&self) -> Option<PathBuf> {
        match &self.region.backing {
            Backing::Anonymous
            | Backing::SharedAnonymous
            | Backing::Shared { .. }
            | Backing::SharedContent { .. } => None,
            Backing::PrivateFile { path, .. } | Backing::SharedFile { path, .. } => {
                Some(PathBuf::from(OsStr::from_bytes(path)))
            }
        }
    }

    fn failed(&self, action: &'static str, source: io::Error) -> RestartError {
        RestartError::Map {
            action,
            rank: self.rank,
            start: self.region.start,
            end: self.region.end(),
            file: self.file(),
            source,
        }
    }

    fn occupied(&self) -> RestartError {
        let (start, end) = (self.region.start, self.region.end());
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let overlaps = |line: &&str| {
            let mapping = proc_maps::parse_line(line.as_bytes());
            mapping.is_some_and(|mapping| mapping.start < end && mapping.end > start)
        };
        RestartError::Occupied {
            start,
            end,
            by: maps
                .lines()
                .find(overlaps)
                .unwrap_or("a mapping that no longer exists")
                .to_owned(),
        }
    }
}
