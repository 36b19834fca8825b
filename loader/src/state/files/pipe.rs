//! Pipes, with what is in them.
//!
//! # Safety
//! System calls on descriptors made here or found open; `tee` copies without taking.
#![allow(unsafe_code)]

use super::bytes::Bytes;
use super::descriptor::{checked, fcntl, fresh, open, waiting, Look};
use crate::error::{CaptureError, RestoreError};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

/// A pipe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pipe {
    /// Its name, if it has one (mkfifo).
    path: Option<PathBuf>,
    /// How much fits.
    capacity: i32,
    /// What is in it, as reads would return it.
    content: Vec<Bytes>,
    /// Reads return what one write has written (O_DIRECT).
    packets: bool,
}

impl Pipe {
    /// Notes a pipe, of which this is one end, without what is in it.
    pub fn capture(look: &Look) -> Result<Pipe, CaptureError> {
        Ok(Pipe {
            path: look.link.is_absolute().then(|| look.link.clone()),
            capacity: fcntl(look.fd, libc::F_GETPIPE_SZ, 0).map_err(|e| look.failed(e))?,
            content: Vec::new(),
            packets: false,
        })
    }

    /// Notes one of its ends and, if that can be read, what is in the pipe.
    pub fn see_end(&mut self, look: &Look) -> Result<(), CaptureError> {
        self.packets |= look.writable() && look.flags & libc::O_DIRECT != 0;
        if look.readable() && self.content.is_empty() {
            let content = content(look.fd, self.capacity);
            self.content = content.map_err(|e| look.failed(e))?;
        }
        Ok(())
    }

    /// Makes it anew: an end to read from and one to write to.
    pub fn make(&self) -> Result<[OwnedFd; 2], RestoreError> {
        self.try_make()
            .map_err(RestoreError::system("making a pipe anew"))
    }

    fn try_make(&self) -> io::Result<[OwnedFd; 2]> {
        let ends = match &self.path {
            Some(path) => {
                let end = open(path, libc::O_RDWR | libc::O_NONBLOCK)?;
                [end.try_clone()?, end]
            }
            None => pair(if self.packets { libc::O_DIRECT } else { 0 })?,
        };
        fcntl(ends[1].as_raw_fd(), libc::F_SETPIPE_SZ, self.capacity)?;
        let mut writer = File::from(ends[1].try_clone()?);
        for Bytes(bytes) in &self.content {
            writer.write_all(bytes)?;
        }
        Ok(ends)
    }
}

/// A new pipe that never blocks.
fn pair(flags: i32) -> io::Result<[OwnedFd; 2]> {
    let mut ends = [0; 2];
    // SAFETY: the kernel writes two fresh descriptors.
    unsafe {
        let flags = flags | libc::O_CLOEXEC | libc::O_NONBLOCK;
        checked(libc::pipe2(ends.as_mut_ptr(), flags))?;
        Ok([fresh(ends[0])?, fresh(ends[1])?])
    }
}

/// What is in a pipe, which keeps it.
fn content(fd: i32, capacity: i32) -> io::Result<Vec<Bytes>> {
    let total = waiting(fd)?;
    if total == 0 {
        return Ok(Vec::new());
    }
    let [reader, writer] = pair(0)?;
    fcntl(writer.as_raw_fd(), libc::F_SETPIPE_SZ, capacity)?;
    // SAFETY: both are pipes.
    let copied = unsafe {
        libc::tee(
            fd,
            writer.as_raw_fd(),
            i32::MAX as usize,
            libc::SPLICE_F_NONBLOCK,
        )
    };
    if copied < 0 {
        return Err(io::Error::last_os_error());
    }
    drop(writer);
    let mut reader = File::from(reader);
    let mut pieces = Vec::new();
    let mut piece = vec![0; total];
    loop {
        match reader.read(&mut piece)? {
            0 => break,
            n => pieces.push(Bytes(piece[..n].to_vec())),
        }
    }
    let read: usize = pieces.iter().map(|Bytes(bytes)| bytes.len()).sum();
    if read != total {
        return Err(io::Error::other(format!(
            "only {read} of the {total} bytes in the pipe could be copied"
        )));
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything that can be read at once, piece by piece.
    fn read(end: &OwnedFd) -> Vec<Vec<u8>> {
        let mut reader = File::from(end.try_clone().unwrap());
        let mut pieces = Vec::new();
        let mut piece = vec![0; 1 << 20];
        while let Ok(n) = reader.read(&mut piece) {
            pieces.push(piece[..n].to_vec());
        }
        pieces
    }

    #[test]
    fn content_is_copied_and_stays() {
        for packets in [0, libc::O_DIRECT] {
            let ends = pair(packets).unwrap();
            let mut writer = File::from(ends[1].try_clone().unwrap());
            for n in [1, 5000, 40_000] {
                writer.write_all(&vec![n as u8; n]).unwrap();
            }
            let looks = [0, 1].map(|end: usize| Look::at(ends[end].as_raw_fd()).unwrap());
            let mut saved = Pipe::capture(&looks[0]).unwrap();
            looks.iter().for_each(|look| saved.see_end(look).unwrap());
            let made = saved.make().unwrap();
            let (old, new) = (read(&ends[0]), read(&made[0]));
            assert_eq!(old.concat().len(), 45_001);
            assert_eq!(old, new);
            assert_eq!(old.len() > 3, packets != 0);
        }
    }
}
