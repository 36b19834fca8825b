//! Socket operations that the standard library lacks: poll on many sockets, reads that do not block, the
//! user of a peer, and Unix sockets whose path is too long for an address.

use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{getsockopt, recv, MsgFlags};
use nix::unistd::geteuid;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Path length in bytes that fits into every Unix socket address.
const SHORT: usize = 100;

/// A socket that [`wait`] polls.
pub struct Watched<'a>(PollFd<'a>);

impl<'a> Watched<'a> {
    /// Polls for data to read, or the end of the connection.
    pub fn new(socket: &'a impl AsFd) -> Watched<'a> {
        Watched(PollFd::new(socket.as_fd(), PollFlags::POLLIN))
    }
}

/// Polls until at least one socket is ready, or until the limit is over. Returns for each whether it has
/// data or has ended.
pub fn wait(watched: Vec<Watched<'_>>, limit: Option<Duration>) -> Vec<bool> {
    // Rounded up: a thread that wakes too early would have to poll again.
    let limit = limit.map_or(PollTimeout::NONE, |limit| {
        PollTimeout::try_from(limit.as_nanos().div_ceil(1_000_000)).unwrap_or(PollTimeout::MAX)
    });
    let mut watched: Vec<PollFd<'_>> = watched.into_iter().map(|one| one.0).collect();
    // After an interrupted poll, no socket counts as ready.
    let waited = poll(&mut watched, limit).is_ok();
    let ready = watched.iter().map(|one| waited && one.any() != Some(false));
    ready.collect()
}

/// Reads the available bytes without blocking; 0 is the end of the connection.
pub fn read_now(socket: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<usize> {
    Ok(recv(socket.as_raw_fd(), into, MsgFlags::MSG_DONTWAIT)?)
}

/// Whether the process at the other end belongs to the user of this one, or to root.
pub fn is_of_this_user(socket: &UnixStream) -> bool {
    let peer = getsockopt(socket, PeerCredentials);
    peer.is_ok_and(|peer| [0, geteuid().as_raw()].contains(&peer.uid()))
}

/// Calls `use_it` with a path to `socket` that fits into an address. A long path is replaced by one through
/// a descriptor of its directory, which stays open meanwhile.
pub fn by_short_path<T>(
    socket: &Path,
    use_it: impl FnOnce(&Path) -> io::Result<T>,
) -> io::Result<T> {
    let (Some(directory), Some(name)) = (socket.parent(), socket.file_name()) else {
        return use_it(socket);
    };
    if socket.as_os_str().len() <= SHORT {
        return use_it(socket);
    }
    let mut options = OpenOptions::new();
    options.read(true);
    let directory = options
        .custom_flags(libc::O_PATH | libc::O_DIRECTORY)
        .open(directory)?;
    let short = PathBuf::from(format!("/proc/thread-self/fd/{}", directory.as_raw_fd()));
    use_it(&short.join(name))
}
