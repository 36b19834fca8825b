//! Mapping an image's regions at their addresses and filling them.
//!
//! # Safety
//! All mappings are made with MAP_FIXED_NOREPLACE, so nothing that exists is ever replaced: what
//! is written afterwards lies inside a mapping that this function has just made and that nothing
//! else in the process knows of. A verified image guarantees that regions do not overlap and that
//! every piece of content lies inside its region.
#![allow(unsafe_code)]

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use ckpt_image::{side_by_side, Backing, Image, Piece, Region};

use crate::error::{RestartError, Result};
use crate::shared::{Held, SharedMemory};

/// What was mapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MappedUpper {
    /// Mappings made.
    pub regions: usize,
    /// Bytes of address space.
    pub mapped_bytes: u64,
    /// Bytes filled from the image.
    pub filled_bytes: u64,
}

/// Maps every region of `image` at its address, fills it and protects it; `shared` holds the
/// image's shared objects. To be called when nothing of an upper half is mapped; after an error the
/// process is of no further use.
pub fn map(image: &Image, shared: &SharedMemory) -> Result<MappedUpper> {
    let memory = image.memory()?;
    let mut mapped = MappedUpper::default();
    let rank = image.header().rank;
    attach_segments(image, shared)?;
    for (index, region) in image.regions().iter().enumerate() {
        if matches!(region.backing, Backing::SharedContent { .. }) {
            continue;
        }
        let pieces = memory.pieces_of(index);
        let place = Place {
            region,
            rank,
            shared,
        };
        if place.segment().is_some() {
            place.protect()?;
        } else {
            place.map(!pieces.is_empty())?;
        }
        place.advise()?;
        place.fill(pieces, image)?;
        let filled_as_it_is = region.prot == 3;
        if !pieces.is_empty() && !filled_as_it_is {
            place.protect()?;
        }
        mapped.regions += 1;
        mapped.mapped_bytes += region.len;
        mapped.filled_bytes += pieces.iter().map(|piece| u64::from(piece.len)).sum::<u64>();
    }
    Ok(mapped)
}

/// One region on its way back.
struct Place<'a> {
    region: &'a Region,
    rank: u32,
    shared: &'a SharedMemory,
}

/// Attaches System V segments, before anything else is mapped: a segment comes as a whole, and what
/// the program had unmapped of it may be in use for something else.
fn attach_segments(image: &Image, shared: &SharedMemory) -> Result<()> {
    let rank = image.header().rank;
    let places: Vec<Place> = image
        .regions()
        .iter()
        .map(|region| Place {
            region,
            rank,
            shared,
        })
        .filter(|place| place.segment().is_some())
        .collect();
    let mut attached = Vec::new();
    for place in &places {
        let Some(attachment) = place.segment().filter(|a| !attached.contains(a)) else {
            continue;
        };
        place.attach(attachment)?;
        let (start, len) = (attachment.base, attachment.len);
        let mut from = start;
        let parts = places.iter().filter(|p| p.segment() == Some(attachment));
        let gaps = parts.map(|p| (p.region.start, p.region.end()));
        for (part, end) in gaps.chain([(start + len, start + len)]) {
            place.detach(from, part)?;
            from = end;
        }
        attached.push(attachment);
    }
    Ok(())
}

/// A System V segment at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Attachment {
    id: i32,
    base: u64,
    len: u64,
    writable: bool,
}

impl Place<'_> {
    /// The attachment that the region is a part of, if it is one of a System V segment.
    fn segment(&self) -> Option<Attachment> {
        let Backing::Shared {
            object,
            offset,
            writable,
        } = &self.region.backing
        else {
            return None;
        };
        let Held::Segment(view) = self.shared.held(*object) else {
            return None;
        };
        Some(Attachment {
            id: view.id,
            base: self.region.start.checked_sub(*offset)?,
            len: self.shared.size(*object).next_multiple_of(ckpt_image::PAGE),
            writable: *writable,
        })
    }

    fn attach(&self, to: Attachment) -> Result<()> {
        let mut flags = if to.writable { 0 } else { libc::SHM_RDONLY };
        if self.region.prot & 4 != 0 {
            flags |= libc::SHM_EXEC;
        }
        // SAFETY: without SHM_REMAP this replaces nothing.
        let at = unsafe { libc::shmat(to.id, to.base as *const libc::c_void, flags) };
        match at as isize {
            -1 => Err(self.failed("attach a System V segment as", io::Error::last_os_error())),
            _ => Ok(()),
        }
    }

    /// Unmaps a part of what was just attached.
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

    fn map(&self, to_fill: bool) -> Result<()> {
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
                (Some(self.again(*object, *writable)?), *offset)
            }
            // The caller leaves it out: it is no memory of the process.
            Backing::SharedContent { .. } => return Ok(()),
        };
        let prot = match to_fill {
            true => libc::PROT_READ | libc::PROT_WRITE,
            false => i32::from(region.prot),
        };
        // SAFETY: see the head of this file: this replaces nothing.
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

    /// A shared object, opened as it has to be for this mapping.
    fn again(&self, object: u32, writable: bool) -> Result<File> {
        let Held::File(file) = self.shared.held(object) else {
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
        // A kernel without huge pages refuses to hear of them, and nothing is lost.
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
        // SAFETY: the range lies in this region, which has just been mapped; none of the kinds of
        // advice given here takes anything away from it.
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
        let prot = i32::from(region.prot);
        // SAFETY: the region has just been mapped and nothing refers to it.
        let done =
            unsafe { libc::mprotect(region.start as *mut libc::c_void, region.len as usize, prot) };
        match done {
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
            let (from, rest) = line.split_once('-')?;
            let (to, _) = rest.split_once(' ')?;
            let hex = |text| u64::from_str_radix(text, 16).ok();
            Some(hex(from)? < end && hex(to)? > start)
        };
        RestartError::Occupied {
            start,
            end,
            by: maps
                .lines()
                .find(|line| overlaps(line).unwrap_or(false))
                .unwrap_or("something that is gone again")
                .to_owned(),
        }
    }
}
