//! Pipes and the bytes in them.

use super::bytes::Bytes;
use crate::error::{CaptureError, RestoreError};
use crate::process_state::files::look::Look;
use crate::sys::c_library;
use crate::sys::descriptor::{fcntl, open, waiting};
use nix::fcntl::OFlag;
use nix::unistd::pipe2;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

/// A pipe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pipe {
    /// Path of a named pipe (mkfifo).
    path: Option<PathBuf>,
    /// Capacity in bytes.
    capacity: i32,
    /// Unread content, divided as reads would return it.
    content: Vec<Bytes>,
    /// Packet mode (O_DIRECT): a read returns the bytes of one write.
    packets: bool,
}

impl Pipe {
    /// Captures the pipe of this end, without its content.
    pub fn capture(look: &Look) -> Result<Pipe, CaptureError> {
        Ok(Pipe {
            path: look.link.is_absolute().then(|| look.link.clone()),
            capacity: fcntl(look.fd, libc::F_GETPIPE_SZ, 0).map_err(|e| look.failed(e))?,
            content: Vec::new(),
            packets: false,
        })
    }

    /// Captures one end and, if it is readable, the content of the pipe.
    pub fn see_end(&mut self, look: &Look) -> Result<(), CaptureError> {
        self.packets |= look.writable() && look.flags & libc::O_DIRECT != 0;
        if look.readable() && self.content.is_empty() {
            let content = content(look.fd, self.capacity);
            self.content = content.map_err(|e| look.failed(e))?;
        }
        Ok(())
    }

    /// Creates the pipe again: the read end and the write end.
    pub fn make(&self) -> Result<[OwnedFd; 2], RestoreError> {
        self.try_make()
            .map_err(RestoreError::system("creating a pipe"))
    }

    fn try_make(&self) -> io::Result<[OwnedFd; 2]> {
        let ends = match &self.path {
            Some(path) => {
                let end = open(path, libc::O_RDWR | libc::O_NONBLOCK)?;
                [end.try_clone()?, end]
            }
            None => pair(match self.packets {
                true => OFlag::O_DIRECT,
                false => OFlag::empty(),
            })?,
        };
        fcntl(ends[1].as_raw_fd(), libc::F_SETPIPE_SZ, self.capacity)?;
        let mut writer = File::from(ends[1].try_clone()?);
        for Bytes(bytes) in &self.content {
            writer.write_all(bytes)?;
        }
        Ok(ends)
    }
}

/// A new non-blocking pipe.
fn pair(flags: OFlag) -> io::Result<[OwnedFd; 2]> {
    Ok(pipe2(flags | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?.into())
}

/// Copies the content of a pipe, which stays in it.
fn content(fd: i32, capacity: i32) -> io::Result<Vec<Bytes>> {
    let total = waiting(fd)?;
    if total == 0 {
        return Ok(Vec::new());
    }
    let [reader, writer] = pair(OFlag::empty())?;
    fcntl(writer.as_raw_fd(), libc::F_SETPIPE_SZ, capacity)?;
    let copied = c_library::tee(
        fd,
        writer.as_raw_fd(),
        i32::MAX as usize,
        libc::SPLICE_F_NONBLOCK,
    );
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

    /// Reads all available bytes, one item for each read.
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
        for packets in [OFlag::empty(), OFlag::O_DIRECT] {
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
            assert_eq!(old.len() > 3, !packets.is_empty());
        }
    }
}
