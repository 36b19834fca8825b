//! The start of the node keeper (`supervisor::node_keeper`) by the first rank of a machine other than that of `stasis
//! run`, before its process becomes the rank. No launcher has to know of it, so it leaves what belongs to the launcher:
//! its session, its parent and all inherited descriptors. It is the child of its guard, which starts another one if it
//! was killed.

use std::convert::Infallible;
use std::ffi::{CStr, OsStr};
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{exit, Command, Stdio};

use nix::sys::prctl::set_name;
use nix::sys::resource::{getrlimit, setrlimit, Resource};
use nix::unistd::{close, setsid};
use supervisor::node_keeper;

use crate::check::memory_left;

/// First words of the command lines of the process that leaves the launcher's session, of the guard that it starts
/// and leaves behind, and of the node keeper. They are no commands for users.
const LEAVES: &str = "leave-for-node-keeper";
const GUARDS: &str = "guard-of-node-keeper";
const KEEPS: &str = "node-keeper";

/// Names of the last two, as `ps` shows them.
const GUARD_NAME: &CStr = c"stasis-guard";
const NAME: &CStr = c"stasis-node";

/// Starts the node keeper of this machine, unless there is one. `socket` is its name; `directory` and `file` tell where
/// the run file is.
///
/// # Errors
/// No process can be started.
pub fn start(socket: &str, directory: &Path, file: &str) -> io::Result<()> {
    let Some(listener) = node_keeper::claim(socket)? else {
        return Ok(());
    };
    // The second process is no child of the rank then, which waits for all children that it knows of.
    let mut left = command(LEAVES, directory, file.as_ref());
    let left = left.stdin(OwnedFd::from(listener)).status()?;
    match left.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!("it ends with {left}"))),
    }
}

fn command(word: &str, directory: &Path, file: &OsStr) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg(word).arg(directory).arg(file);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Does the work of one of the three processes, and ends. Returns if this is none.
pub fn answer() {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let [word, directory, file] = words.as_slice() else {
        return;
    };
    let directory = Path::new(directory);
    let done = match word.to_str() {
        Some(LEAVES) => leave(directory, file),
        Some(GUARDS) => guard(directory, file),
        Some(KEEPS) => keep(directory, file).map(|never| match never {}),
        _ => return,
    };
    // Nobody reads a reason. Without a node keeper the ranks say at a checkpoint in memory that there is none.
    exit(i32::from(done.is_err()));
}

/// Leaves the launcher's session, which it may kill.
fn leave(directory: &Path, file: &OsStr) -> io::Result<()> {
    setsid()?;
    command(GUARDS, directory, file).spawn().map(drop)
}

/// Is the guard. Standard input is the socket of the node keeper.
fn guard(directory: &Path, file: &OsStr) -> io::Result<()> {
    let _ = set_name(GUARD_NAME);
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    close_others(socket.as_raw_fd())?;
    let directory = directory.canonicalize()?;
    let _ = std::env::set_current_dir("/");
    let name = file.to_str().ok_or(io::ErrorKind::InvalidInput)?;
    let listener = UnixListener::from(socket);
    node_keeper::guard(&directory, name, &listener, || {
        command(KEEPS, &directory, file).spawn()
    })
}

/// Is the node keeper. Standard input is its socket.
fn keep(directory: &Path, file: &OsStr) -> io::Result<Infallible> {
    let _ = set_name(NAME);
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    // A copy takes three descriptors.
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
    let file = file.to_str().ok_or(io::ErrorKind::InvalidInput)?;
    let listener = UnixListener::from(socket);
    node_keeper::keep(directory, file, listener, memory_left::suffices)
}

/// Closes what the launcher has given to the rank: it may wait for the end of a pipe.
fn close_others(socket: RawFd) -> io::Result<()> {
    let open: Vec<RawFd> = fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    for descriptor in open {
        if descriptor > 2 && descriptor != socket {
            // That of the directory is closed already.
            let _ = close(descriptor);
        }
    }
    Ok(())
}
