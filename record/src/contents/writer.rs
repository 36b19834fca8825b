//! Writing. The file is mapped, so that what is written outlives a process that is killed, and an event takes no system
//! call. Space is allocated before it is mapped: a store to a page that the disk has no room for would kill the
//! process.
//!
//! # Safety
//! Nobody else changes the file.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{fence, Ordering};

use memmap2::{MmapMut, MmapOptions};
use nix::fcntl::posix_fallocate;

use super::header::{Header, END_AT, HEADER_BYTES};
use super::{checksum, space, HEAD, REPEATED};
use crate::error::{Error, Result};
use crate::writer::create_file;

/// Bytes by which the file grows.
const STEP: usize = 4 << 20;
const PAGE: usize = 4096;

/// The last event, if it may be repeated in place.
struct Last {
    at: usize,
    slot: u32,
    content: Vec<u8>,
    repeated: u32,
}

/// The contents of a run that are written.
pub struct Writer {
    file: File,
    path: PathBuf,
    header: MmapMut,
    /// The end of the file, mapped, and the offset of its first byte among the events.
    window: MmapMut,
    begin: usize,
    end: usize,
    last: Option<Last>,
}

impl Writer {
    /// Makes a file.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::Io`], [`Error::LongCommand`].
    pub fn create(path: &Path, header: &Header) -> Result<Writer> {
        let bytes = header.encode(path)?;
        let file = create_file(path)?;
        let made = || {
            file.write_all_at(&bytes, 0)?;
            Ok((map(&file, 0, PAGE)?, grown(&file, 0, STEP)?))
        };
        let (header, window) = made().map_err(Error::io(path))?;
        Ok(Writer {
            file,
            path: path.to_owned(),
            header,
            window,
            begin: 0,
            end: 0,
            last: None,
        })
    }

    /// Whether an event with that content fits without [`Writer::make_room`].
    pub fn fits(&self, content: usize) -> bool {
        self.end + space(content) <= self.begin + self.window.len()
    }

    /// Makes room for an event with that content.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot grow: the disk is full.
    pub fn make_room(&mut self, content: usize) -> Result<()> {
        self.last = None;
        let begin = self.end / PAGE * PAGE;
        let length = (space(content) + PAGE).next_multiple_of(PAGE).max(STEP);
        self.window = grown(&self.file, begin, length).map_err(Error::io(&self.path))?;
        self.begin = begin;
        Ok(())
    }

    /// Appends an event, for which there is room. One that is like the last takes no space.
    pub fn append(&mut self, slot: u32, content: &[u8]) {
        if self.repeat(slot, content) {
            return;
        }
        let at = self.end - self.begin;
        let event = &mut self.window[at..at + HEAD + content.len()];
        let numbers = [content.len() as u32, 1, checksum(slot, content), slot];
        for (place, number) in event.chunks_exact_mut(4).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        event[HEAD..].copy_from_slice(content);
        self.end += space(content.len());
        // Only now it counts: a process that is killed leaves whole events.
        fence(Ordering::SeqCst);
        self.header[END_AT..END_AT + 8].copy_from_slice(&(self.end as u64).to_le_bytes());
        self.last = (content.len() <= REPEATED).then(|| Last {
            at,
            slot,
            content: content.to_vec(),
            repeated: 1,
        });
    }

    fn repeat(&mut self, slot: u32, content: &[u8]) -> bool {
        let Some(last) = &mut self.last else {
            return false;
        };
        let is_same = last.slot == slot && last.content == content && last.repeated < u32::MAX;
        if is_same {
            last.repeated += 1;
            let place = &mut self.window[last.at + 4..last.at + 8];
            place.copy_from_slice(&last.repeated.to_le_bytes());
        }
        is_same
    }

    /// Takes back the space that is not used.
    ///
    /// # Errors
    /// [`Error::Io`]. The contents are complete all the same.
    pub fn close(self) -> Result<()> {
        let cut = self.file.set_len((HEADER_BYTES + self.end) as u64);
        cut.map_err(Error::io(&self.path))
    }
}

/// The part of the file with these events, allocated and mapped.
fn grown(file: &File, begin: usize, length: usize) -> io::Result<MmapMut> {
    let at = HEADER_BYTES + begin;
    posix_fallocate(
        file,
        (at as u64).cast_signed(),
        (length as u64).cast_signed(),
    )?;
    map(file, at, length)
}

fn map(file: &File, at: usize, length: usize) -> io::Result<MmapMut> {
    // SAFETY: see the head.
    unsafe {
        MmapOptions::new()
            .offset(at as u64)
            .len(length)
            .map_mut(file)
    }
}
