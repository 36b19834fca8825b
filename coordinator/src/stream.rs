//! A connection of the control plane, over TCP or over a Unix socket. One object serves the thread that reads
//! and those that write, so that each takes one descriptor of the application's.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use crate::door::WRITE_LIMIT;

/// See the head of this file.
#[derive(Debug)]
pub enum Stream {
    /// To this machine or another.
    Tcp(TcpStream),
    /// Within this machine.
    Unix(UnixStream),
}

impl Stream {
    /// Bounds how long one read may wait.
    pub fn set_read_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_read_timeout(limit),
            Stream::Unix(stream) => stream.set_read_timeout(limit),
        }
    }

    /// Bounds how long one write may wait.
    pub fn set_write_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_write_timeout(limit),
            Stream::Unix(stream) => stream.set_write_timeout(limit),
        }
    }

    /// Ends the connection for both sides. One that has ended needs no other end.
    pub fn end(&self) {
        let _ = match self {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

/// The kernel had no memory for it just now: the connection is as it was.
pub(crate) fn is_want_of_memory(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOMEM | libc::ENOBUFS))
}

/// Before it is tried again.
pub(crate) const PAUSE: Duration = Duration::from_millis(10);

/// Does it, again as long as the kernel has no memory for it, for as long as a peer is waited for.
fn patiently(mut act: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    let begun = Instant::now();
    loop {
        match act() {
            Err(e) if is_want_of_memory(&e) && begun.elapsed() < WRITE_LIMIT => {
                thread::sleep(PAUSE);
            }
            done => return done,
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }
}

impl Read for &Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        patiently(|| match self {
            Stream::Tcp(stream) => (&mut &*stream).read(into),
            Stream::Unix(stream) => (&mut &*stream).read(into),
        })
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        patiently(|| match self {
            Stream::Tcp(stream) => (&mut &*stream).write(bytes),
            Stream::Unix(stream) => (&mut &*stream).write(bytes),
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
