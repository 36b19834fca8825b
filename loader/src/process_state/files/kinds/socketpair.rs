//! Socket pairs with both ends in this process, and the bytes in them. (Event loops wake themselves up through one.)
//! All other connected sockets have another process at the other end.
//!
//! # Safety
//! System calls on descriptors made here or found open, with locals for memory. A `TcpStream` around a socket only
//! reads its addresses and is never dropped.
#![allow(unsafe_code)]

use super::bytes::Bytes;
use crate::error::{CaptureError, RestoreError};
use crate::interpose::descriptors::socketpair_registry;
use crate::process_state::files::look::Look;
use crate::sys::descriptor::{checked, poll, stat, waiting};
use nix::sys::socket::{self, socketpair, AddressFamily, MsgFlags, Shutdown, SockFlag, SockType};
use nix::sys::socket::{ControlMessageOwned, RecvMsg};
use serde::{Deserialize, Serialize};
use std::io::{self, IoSliceMut};
use std::mem::ManuallyDrop;
use std::net::TcpStream;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Descriptors that a message can have (the kernel's SCM_MAX_FD).
const MOST_DESCRIPTORS: usize = 253;

/// Options saved for each end; options for a size are read as twice the value that was set.
const OPTIONS: [(i32, i32); 3] = [
    (libc::SO_SNDBUF, 2),
    (libc::SO_RCVBUF, 2),
    (libc::SO_PASSCRED, 1),
];

/// Two connected stream sockets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketPair {
    /// Both ends; none for a closed one.
    ends: [Option<End>; 2],
}

/// One end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct End {
    /// Unread bytes at this end.
    incoming: Bytes,
    /// End of input: the other end was shut down for writing, or this one for reading.
    shut: bool,
    options: [i32; OPTIONS.len()],
}

/// Inode of the other end, if this is an end of a socket pair that can be saved.
pub fn other_end(look: &Look) -> Result<u64, CaptureError> {
    match socketpair_registry::other(look.facts.st_ino) {
        Some(other) => Ok(other),
        None => look.refuse(describe(look)),
    }
}

/// An option of a socket that is a number.
pub fn option(fd: i32, name: i32) -> io::Result<i32> {
    let (mut value, mut size) = (0, size_of::<i32>() as u32);
    // SAFETY: the kernel writes at most an int and its size to these locals.
    checked(unsafe {
        libc::getsockopt(
            fd,
            libc::SOL_SOCKET,
            name,
            (&raw mut value).cast(),
            &raw mut size,
        )
    })?;
    Ok(value)
}

fn set_option(fd: i32, name: i32, value: i32) -> io::Result<()> {
    // SAFETY: the kernel writes at most an int and its size to these locals.
    checked(unsafe {
        libc::setsockopt(
            fd,
            libc::SOL_SOCKET,
            name,
            (&raw const value).cast(),
            size_of::<i32>() as u32,
        )
    })
    .map(drop)
}

/// Kind and peer of a socket, for a message.
fn describe(look: &Look) -> String {
    let family = match option(look.fd, libc::SO_DOMAIN) {
        Ok(libc::AF_UNIX) => "a local socket".to_owned(),
        Ok(libc::AF_INET | libc::AF_INET6) => "a network socket".to_owned(),
        Ok(libc::AF_NETLINK) => "a netlink socket".to_owned(),
        Ok(other) => format!("a socket of address family {other}"),
        Err(_) => "a socket".to_owned(),
    };
    // SAFETY: the stream only reads addresses, which works for every network socket, and does not close the descriptor.
    let socket = ManuallyDrop::new(unsafe { TcpStream::from_raw_fd(look.fd) });
    match (socket.local_addr(), socket.peer_addr()) {
        (_, Ok(peer)) => format!("{family} connected to {peer}"),
        (Ok(own), _) => format!("{family} at {own}"),
        _ => format!("{family} ({})", look.link.display()),
    }
}

impl SocketPair {
    /// Captures one end.
    pub fn see_end(&mut self, at: usize, look: &Look) -> Result<(), CaptureError> {
        if option(look.fd, libc::SO_TYPE).map_err(|e| look.failed(e))? != libc::SOCK_STREAM {
            return look.refuse("a socket pair that is not a stream");
        }
        let Some(incoming) = incoming(look.fd).map_err(|e| look.failed(e))? else {
            return look.refuse("a socket pair with an unreceived descriptor in it");
        };
        let shut = poll(look.fd, libc::POLLRDHUP).map_err(|e| look.failed(e))?;
        let mut options = [0; OPTIONS.len()];
        for (value, (name, _)) in options.iter_mut().zip(OPTIONS) {
            *value = option(look.fd, name).map_err(|e| look.failed(e))?;
        }
        self.ends[at] = Some(End {
            incoming,
            shut: shut & libc::POLLRDHUP != 0,
            options,
        });
        Ok(())
    }

    /// Creates the pair again; a closed end is none.
    pub fn make(&self) -> Result<[Option<OwnedFd>; 2], RestoreError> {
        self.try_make()
            .map_err(RestoreError::system("creating a socket pair"))
    }

    fn try_make(&self) -> io::Result<[Option<OwnedFd>; 2]> {
        let ends: [OwnedFd; 2] = socketpair(
            AddressFamily::Unix,
            SockType::Stream,
            None,
            SockFlag::SOCK_CLOEXEC,
        )?
        .into();
        for (end, made) in self.ends.iter().zip(&ends) {
            let Some(end) = end else { continue };
            for (value, (name, scale)) in end.options.iter().zip(OPTIONS) {
                if option(made.as_raw_fd(), name)? != *value {
                    set_option(made.as_raw_fd(), name, value / scale)?;
                }
            }
        }
        for (at, end) in self.ends.iter().enumerate() {
            let Some(end) = end else { continue };
            send(&ends[1 - at], &end.incoming.0)?;
            if end.shut {
                socket::shutdown(ends[1 - at].as_raw_fd(), Shutdown::Write)?;
            }
        }
        let inode = |end: &OwnedFd| Ok::<_, io::Error>(stat(end.as_raw_fd())?.st_ino);
        socketpair_registry::note(inode(&ends[0])?, inode(&ends[1])?);
        let mut there = self.ends.iter().map(Option::is_some);
        Ok(ends.map(|end| Some(end).filter(|_| there.next() == Some(true))))
    }
}

fn send(to: &OwnedFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        let sent = socket::send(to.as_raw_fd(), bytes, flags)?;
        bytes = &bytes[sent..];
    }
    Ok(())
}

/// Copies the unread bytes, which stay in the socket; none if a descriptor comes with them.
fn incoming(fd: i32) -> io::Result<Option<Bytes>> {
    let total = waiting(fd)?;
    let mut bytes = vec![0_u8; total];
    if total == 0 {
        return Ok(Some(Bytes(bytes)));
    }
    let mut control = nix::cmsg_space!([RawFd; MOST_DESCRIPTORS], libc::ucred, [u8; 1024]);
    let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let message = socket::recvmsg::<()>(fd, &mut parts, Some(&mut control), flags)?;
    let (copied, with_descriptors) = (message.bytes, carries_descriptors(&message));
    if with_descriptors {
        // The received descriptors belong to this thread, whose descriptor table ends with it.
        return Ok(None);
    }
    if copied != total {
        return Err(io::Error::other(format!(
            "only {copied} of the {total} bytes in the socket could be copied"
        )));
    }
    Ok(Some(Bytes(bytes)))
}

fn carries_descriptors(message: &RecvMsg<()>) -> bool {
    // The kernel leaves descriptors out of a message if this process may not open as many.
    let Ok(mut parts) = message.cmsgs() else {
        return true;
    };
    parts.any(|part| matches!(part, ControlMessageOwned::ScmRights(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::{sendmsg, ControlMessage};
    use std::io::IoSlice;
    use std::os::unix::net::UnixStream;

    #[test]
    fn unread_bytes_are_copied_but_no_descriptors() {
        let (from, to) = UnixStream::pair().unwrap();
        let unread = || incoming(to.as_raw_fd()).unwrap();
        assert_eq!(unread(), Some(Bytes(Vec::new())));
        let say = |control: &[ControlMessage]| {
            let text = [IoSlice::new(b"text")];
            sendmsg::<()>(from.as_raw_fd(), &text, control, MsgFlags::empty(), None).unwrap();
        };
        say(&[]);
        assert_eq!(unread(), Some(Bytes(b"text".to_vec())));
        let descriptors = [from.as_raw_fd(); MOST_DESCRIPTORS];
        say(&[ControlMessage::ScmRights(&descriptors)]);
        socket::recv(to.as_raw_fd(), &mut [0; 4], MsgFlags::empty()).unwrap();
        assert_eq!(unread(), None);
    }
}
