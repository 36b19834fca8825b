//! A connection of the control plane, over TCP or over a Unix socket. The reading thread and the writing
//! threads share one object, so that each connection uses only one of the process's descriptors.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

/// Time limit of a send; a peer that does not take a message within it counts as lost.
pub(crate) const WRITE_LIMIT: Duration = Duration::from_secs(20);

/// An open TCP or Unix connection.
#[derive(Debug)]
pub enum Stream {
    /// A connection to this machine or another.
    Tcp(TcpStream),
    /// A connection within this machine.
    Unix(UnixStream),
}

impl Stream {
    /// Sets the time limit of one read.
    ///
    /// # Errors
    /// That of setsockopt(2).
    pub fn set_read_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_read_timeout(limit),
            Stream::Unix(stream) => stream.set_read_timeout(limit),
        }
    }

    /// Sets the time limit of one write.
    ///
    /// # Errors
    /// That of setsockopt(2).
    pub fn set_write_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_write_timeout(limit),
            Stream::Unix(stream) => stream.set_write_timeout(limit),
        }
    }

    /// Shuts the connection down in both directions. A second call has no effect.
    pub fn end(&self) {
        let _ = match self {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

/// Whether the kernel lacked memory for the call. The connection is then unchanged.
pub(crate) fn is_want_of_memory(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOMEM | libc::ENOBUFS))
}

/// Pause before the next attempt.
pub(crate) const PAUSE: Duration = Duration::from_millis(10);

/// Repeats the call while the kernel lacks memory for it, up to the time limit for a peer.
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
