//! Mapping an image's regions at their addresses and filling them.
//!
//! # Safety
//! All mappings are made with MAP_FIXED_NOREPLACE, so nothing that exists is ever replaced: what
//! is written afterwards lies inside a mapping that this function has just made and that nothing
//! else in the process knows of. A verified image guarantees that regions do not overlap and that
//! every chunk lies inside its region.
#![allow(unsafe_code)]

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use ckpt_image::{Backing, Chunk, Image, Loader, Region};

use crate::error::{RestartError, Result};

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

/// Maps every region of `image` at its address, fills it and protects it. To be called when
/// nothing of an upper half is mapped; after an error the process is of no further use.
pub fn map(image: &Image) -> Result<MappedUpper> {
    let mut loader = image.loader()?;
    let mut mapped = MappedUpper::default();
    for (index, region) in image.regions().iter().enumerate() {
        let chunks = image.chunks_of(index);
        let place = Place {
            region,
            rank: image.header().rank,
        };
        place.map(!chunks.is_empty())?;
        place.advise()?;
        place.fill(chunks, &mut loader)?;
        if !chunks.is_empty() {
            place.protect()?;
        }
        mapped.regions += 1;
        mapped.mapped_bytes += region.len;
        mapped.filled_bytes += chunks.iter().map(|chunk| u64::from(chunk.len)).sum::<u64>();
    }
    Ok(mapped)
}

/// One region on its way back.
struct Place<'a> {
    region: &'a Region,
    rank: u32,
}

impl Place<'_> {
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
        let path = self.file().unwrap_or_default();
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

    fn fill(&self, chunks: &[Chunk], loader: &mut Loader<'_>) -> Result<()> {
        for chunk in chunks {
            // SAFETY: see the head of this file. The slice ends with this iteration.
            let into = unsafe {
                std::slice::from_raw_parts_mut(chunk.address as *mut u8, chunk.len as usize)
            };
            loader.load(chunk, into)?;
        }
        Ok(())
    }

    fn protect(&self) -> Result<()> {
        let region = self.region;
        let prot = i32::from(region.prot);
        if prot == libc::PROT_READ | libc::PROT_WRITE {
            return Ok(());
        }
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
            Backing::Anonymous | Backing::SharedAnonymous => None,
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
