//! The descriptors of a child with a copy of a rank's memory, on their way from the rank to `stasis run`.
//!
//! # Safety
//! The descriptors that the kernel has received with a message are new ones of this process, and nothing else owns
//! them.
#![allow(unsafe_code)]

use std::io::{self, IoSlice, IoSliceMut, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use dump::ChildParts;
use nix::cmsg_space;
use nix::sys::socket::{recvmsg, sendmsg, ControlMessage, ControlMessageOwned, MsgFlags};

use crate::messages::{line_of, FromRank};

/// Number of descriptors of a child.
const PARTS: usize = 3;

/// Sends a message with the descriptors of a child.
///
/// # Errors
/// The receiver is dead, or its socket cannot take descriptors.
pub fn send(mut stream: &UnixStream, message: &FromRank, child: &ChildParts) -> io::Result<()> {
    let line = line_of(message)?;
    let ChildParts {
        orders,
        process,
        memory,
    } = child;
    let files = [orders, process, memory].map(AsRawFd::as_raw_fd);
    let beside = [ControlMessage::ScmRights(&files)];
    let content = [IoSlice::new(&line)];
    let flags = MsgFlags::MSG_NOSIGNAL;
    let sent = sendmsg::<()>(stream.as_raw_fd(), &content, &beside, flags, None)?;
    stream.write_all(&line[sent..])
}

/// Reads what has come, and the descriptors that came with it.
///
/// # Errors
/// The connection is broken, or there is nothing to read yet.
pub fn receive(
    stream: &UnixStream,
    into: &mut [u8],
    files: &mut Vec<OwnedFd>,
) -> io::Result<usize> {
    let mut content = [IoSliceMut::new(into)];
    let mut beside = cmsg_space!([RawFd; PARTS]);
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let received = recvmsg::<()>(stream.as_raw_fd(), &mut content, Some(&mut beside), flags)?;
    for message in received.cmsgs()? {
        if let ControlMessageOwned::ScmRights(came) = message {
            // SAFETY: see the head of this file.
            let came = came
                .into_iter()
                .map(|file| unsafe { OwnedFd::from_raw_fd(file) });
            files.extend(came);
        }
    }
    Ok(received.bytes)
}

/// Takes the child whose descriptors came first.
pub fn child_of(files: &mut Vec<OwnedFd>) -> Option<ChildParts> {
    let parts = files.drain(..PARTS.min(files.len()));
    let parts: [OwnedFd; PARTS] = parts.collect::<Vec<_>>().try_into().ok()?;
    let [orders, process, memory] = parts;
    Some(ChildParts {
        orders,
        process,
        memory,
    })
}
