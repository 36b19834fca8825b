//! What the standard library does not offer for sockets: waiting for many, reading only what is there, who is
//! at the other end, and Unix sockets whose path is too long for an address.

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

/// Bytes of a path that every address of a Unix socket has room for.
const SHORT: usize = 100;

/// A socket that is waited for.
pub struct Watched<'a>(PollFd<'a>);

impl<'a> Watched<'a> {
    /// For something to read, or the end.
    pub fn new(socket: &'a impl AsFd) -> Watched<'a> {
        Watched(PollFd::new(socket.as_fd(), PollFlags::POLLIN))
    }
}

/// Waits until at least one is ready, or until the time is over. Gives which are: something is there, or the end is.
pub fn wait(watched: Vec<Watched<'_>>, limit: Option<Duration>) -> Vec<bool> {
    // Rounded up: a thread that wakes too early has to wait again.
    let limit = limit.map_or(PollTimeout::NONE, |limit| {
        PollTimeout::try_from(limit.as_nanos().div_ceil(1_000_000)).unwrap_or(PollTimeout::MAX)
    });
    let mut watched: Vec<PollFd<'_>> = watched.into_iter().map(|one| one.0).collect();
    // An interrupted wait is one in which nothing was ready.
    let waited = poll(&mut watched, limit).is_ok();
    let ready = watched.iter().map(|one| waited && one.any() != Some(false));
    ready.collect()
}

/// Reads what is there and never waits; 0 is the end of the connection.
pub fn read_now(socket: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<usize> {
    Ok(recv(socket.as_raw_fd(), into, MsgFlags::MSG_DONTWAIT)?)
}

/// The process at the other end belongs to the user who runs this one, or to root.
pub fn is_of_this_user(socket: &UnixStream) -> bool {
    let peer = getsockopt(socket, PeerCredentials);
    peer.is_ok_and(|peer| [0, geteuid().as_raw()].contains(&peer.uid()))
}

/// Gives `use_it` a path to `socket` that fits in an address: one through its directory, held open meanwhile, where
/// its own does not.
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
