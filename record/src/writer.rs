//! A record that is written. The file is mapped, so that what is written outlives a process that is killed, and no
//! event takes a system call. Space is allocated before it is mapped: a store to a page that the disk has no room for
//! would kill the process.
//!
//! # Safety
//! The number of bytes of events is an aligned word of the mapped header, which is never unmapped.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};
use nix::fcntl::posix_fallocate;

use crate::error::{Error, Result};
use crate::event::Event;
use crate::header::{Header, END_AT, HEADER_BYTES};
use crate::log::Log;

/// Bytes by which the file grows and of the window.
const STEP: u64 = 1 << 20;

/// The end of the file, mapped for writing.
pub struct Window {
    map: MmapRaw,
    /// Offset of its first byte among the events.
    pub begin: u64,
}

impl Window {
    /// Address of the first byte.
    pub fn address(&self) -> usize {
        self.map.as_mut_ptr() as usize
    }

    /// Offset behind the last byte.
    pub fn end(&self) -> u64 {
        self.begin + self.map.len() as u64
    }
}

/// A rank's record that is written.
pub struct Writer {
    file: File,
    path: PathBuf,
    header: &'static MmapRaw,
    /// The part that is written to.
    pub window: Window,
}

impl Writer {
    /// Makes a new record.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::Io`].
    pub fn create(path: &Path, header: &Header) -> Result<Writer> {
        let file = create_file(path)?;
        let written = file.write_all_at(&header.encode(), 0);
        written.map_err(Error::io(path))?;
        Writer::of(file, path, 0)
    }

    /// Goes on with a record at an offset among its events. What follows there is dropped.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn go_on(path: &Path, offset: u64) -> Result<Writer> {
        let mut writer = Writer::cut(path, offset)?;
        // The calls in the table are those of the run that was lost.
        writer.append(Event::Anew)?;
        Ok(writer)
    }

    /// The same of a file with any events.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn cut(path: &Path, offset: u64) -> Result<Writer> {
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.map_err(Error::io(path))?;
        let cut = file.set_len(HEADER_BYTES as u64 + offset);
        cut.map_err(Error::io(path))?;
        Writer::of(file, path, offset)
    }

    fn of(file: File, path: &Path, end: u64) -> Result<Writer> {
        let header = MmapOptions::new().len(HEADER_BYTES).map_raw(&file);
        let header = header.map_err(Error::io(path))?;
        let window = window(&file, end).map_err(Error::io(path))?;
        let writer = Writer {
            file,
            path: path.to_owned(),
            header: Box::leak(Box::new(header)),
            window,
        };
        writer.end_word().store(end, Ordering::Release);
        Ok(writer)
    }

    /// Address of the number of bytes of events.
    pub fn end_address(&self) -> usize {
        self.header.as_mut_ptr() as usize + END_AT
    }

    /// The number of bytes of events, which grows when an event is whole.
    pub fn end_word(&self) -> &'static AtomicU64 {
        // SAFETY: see the head.
        unsafe { &*(self.end_address() as *const AtomicU64) }
    }

    /// Number of bytes of events.
    pub fn end(&self) -> u64 {
        self.end_word().load(Ordering::Acquire)
    }

    /// Moves the window to the end of the events.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot grow: the disk is full.
    pub fn make_room(&mut self) -> Result<()> {
        let end = self.end();
        self.window = window(&self.file, end).map_err(Error::io(&self.path))?;
        Ok(())
    }

    /// Appends an event, while nobody writes to the window.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn append(&mut self, event: Event) -> Result<()> {
        self.append_bytes(event.encode().bytes())
    }

    /// The same of encoded events.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn append_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        let end = self.end();
        let at = HEADER_BYTES as u64 + end;
        let written = self.file.write_all_at(bytes, at);
        written.map_err(Error::io(&self.path))?;
        let end = end + bytes.len() as u64;
        self.end_word().store(end, Ordering::Release);
        if end > self.window.end() {
            self.make_room()?;
        }
        Ok(())
    }

    /// The record as it is so far.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn log(&self) -> Result<Log> {
        Log::of_file(&self.file, &self.path)
    }

    /// Takes back the space that is not used. Nothing can be written afterwards.
    ///
    /// # Errors
    /// [`Error::Io`]. The record is complete all the same.
    pub fn close(self) -> Result<()> {
        let end = self.end();
        let cut = self.file.set_len(HEADER_BYTES as u64 + end);
        cut.map_err(Error::io(&self.path))
    }
}

/// Makes a file that is not there yet, to be written and mapped.
///
/// # Errors
/// [`Error::Exists`], [`Error::Io`].
pub(crate) fn create_file(path: &Path) -> Result<File> {
    let made = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    made.map_err(|why| match why.kind() {
        io::ErrorKind::AlreadyExists => Error::Exists(path.to_owned()),
        _ => Error::io(path)(why),
    })
}

/// Maps the file from the page of `end` on, with its space allocated.
fn window(file: &File, end: u64) -> io::Result<Window> {
    let page = HEADER_BYTES as u64;
    let begin = end / page * page;
    posix_fallocate(file, (page + begin).cast_signed(), STEP.cast_signed())?;
    let map = MmapOptions::new()
        .offset(page + begin)
        .len(STEP as usize)
        .map_raw(file)?;
    Ok(Window { map, begin })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::tests::header;
    use crate::log::Events;

    fn events(path: &Path) -> Vec<Event> {
        let log = Log::open(path).unwrap();
        let events = Events::from(log.bytes(), 0);
        events.map(|(_, event)| event).collect()
    }

    #[test]
    fn what_is_appended_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let mut writer = Writer::create(&path, &header()).unwrap();
        assert!(matches!(
            Writer::create(&path, &header()),
            Err(Error::Exists(_))
        ));
        writer.append(Event::Misses(1)).unwrap();
        writer.append(Event::Mark(2)).unwrap();
        assert_eq!(events(&path), [Event::Misses(1), Event::Mark(2)]);
        let end = writer.end();
        writer.close().unwrap();
        let bytes = std::fs::metadata(&path).unwrap().len();
        assert_eq!(bytes, HEADER_BYTES as u64 + end);
    }

    #[test]
    fn a_record_goes_on_where_it_is_cut() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let mut writer = Writer::create(&path, &header()).unwrap();
        writer.append(Event::Misses(1)).unwrap();
        let cut = writer.end();
        writer.append(Event::Mark(2)).unwrap();
        drop(writer);
        let mut writer = Writer::go_on(&path, cut).unwrap();
        writer.append(Event::Index(3)).unwrap();
        assert_eq!(
            events(&path),
            [Event::Misses(1), Event::Anew, Event::Index(3)]
        );
    }

    #[test]
    fn the_window_moves_with_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = Writer::create(&dir.path().join("x"), &header()).unwrap();
        let end = 3 * HEADER_BYTES as u64 + 5;
        writer.end_word().store(end, Ordering::Release);
        writer.make_room().unwrap();
        let window = &writer.window;
        assert_eq!((window.begin, window.end()), (end - 5, end - 5 + STEP));
    }
}
