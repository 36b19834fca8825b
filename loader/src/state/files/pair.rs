//! Socket pairs of which the process has both ends, with what is in them. (Event loops wake
//! themselves up through one.) All other sockets have somebody at the other end.
//!
//! # Safety
//! System calls on descriptors made here or found open, with locals and vectors for memory. A
//! socket is wrapped for asking its addresses and never dropped as one.
#![allow(unsafe_code)]

use super::bytes::Bytes;
use super::descriptor::{checked, fresh, poll, stat, waiting, Look};
use crate::error::{CaptureError, RestoreError};
use crate::pairs;
use serde::{Deserialize, Serialize};
use std::io;
use std::mem::ManuallyDrop;
use std::net::TcpStream;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Options that an end keeps; those that set a size are read as twice what was set.
const OPTIONS: [(i32, i32); 3] = [
    (libc::SO_SNDBUF, 2),
    (libc::SO_RCVBUF, 2),
    (libc::SO_PASSCRED, 1),
];

/// Two connected stream sockets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// An end that was closed is none.
    ends: [Option<End>; 2],
}

/// One end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct End {
    /// What waits to be read here.
    incoming: Bytes,
    /// Nothing more will come: the other end was shut down for writing, or this one for reading.
    shut: bool,
    options: [i32; OPTIONS.len()],
}

/// The inode of the other end, if this is an end of a socket pair that can be saved.
pub fn other_end(look: &Look) -> Result<u64, CaptureError> {
    match pairs::other(look.facts.st_ino) {
        Some(other) => Ok(other),
        None => look.refuse(describe(look)),
    }
}

fn option(fd: i32, name: i32) -> io::Result<i32> {
    let (mut value, mut size) = (0, size_of::<i32>() as u32);
    // SAFETY: an int and its size.
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
    // SAFETY: an int and its size.
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

/// What kind of socket, and whom it is connected to.
fn describe(look: &Look) -> String {
    let family = match option(look.fd, libc::SO_DOMAIN) {
        Ok(libc::AF_UNIX) => "a local socket".to_owned(),
        Ok(libc::AF_INET | libc::AF_INET6) => "a network socket".to_owned(),
        Ok(libc::AF_NETLINK) => "a netlink socket".to_owned(),
        Ok(other) => format!("a socket of address family {other}"),
        Err(_) => "a socket".to_owned(),
    };
    // SAFETY: only asked for addresses, which works for every kind of network socket.
    let socket = ManuallyDrop::new(unsafe { TcpStream::from_raw_fd(look.fd) });
    match (socket.local_addr(), socket.peer_addr()) {
        (_, Ok(peer)) => format!("{family} connected to {peer}"),
        (Ok(own), _) => format!("{family} at {own}"),
        _ => format!("{family} ({})", look.link.display()),
    }
}

impl Pair {
    /// Notes one end.
    pub fn see_end(&mut self, at: usize, look: &Look) -> Result<(), CaptureError> {
        if option(look.fd, libc::SO_TYPE).map_err(|e| look.failed(e))? != libc::SOCK_STREAM {
            return look.refuse("a socket pair that is not a stream");
        }
        let Some(incoming) = incoming(look.fd).map_err(|e| look.failed(e))? else {
            return look.refuse("a socket pair with a descriptor under way in it");
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

    /// Makes it anew; an end that was closed is none.
    pub fn make(&self) -> Result<[Option<OwnedFd>; 2], RestoreError> {
        self.try_make()
            .map_err(RestoreError::system("making a socket pair anew"))
    }

    fn try_make(&self) -> io::Result<[Option<OwnedFd>; 2]> {
        let mut ends = [0; 2];
        // SAFETY: the kernel writes two fresh descriptors.
        let ends = unsafe {
            let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
            checked(libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()))?;
            [fresh(ends[0])?, fresh(ends[1])?]
        };
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
                // SAFETY: our own descriptor.
                checked(unsafe { libc::shutdown(ends[1 - at].as_raw_fd(), libc::SHUT_WR) })?;
            }
        }
        let inode = |end: &OwnedFd| Ok::<_, io::Error>(stat(end.as_raw_fd())?.st_ino);
        pairs::note(inode(&ends[0])?, inode(&ends[1])?);
        let mut there = self.ends.iter().map(Option::is_some);
        Ok(ends.map(|end| Some(end).filter(|_| there.next() == Some(true))))
    }
}

fn send(to: &OwnedFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        // SAFETY: a slice.
        let sent = unsafe {
            libc::send(
                to.as_raw_fd(),
                bytes.as_ptr().cast(),
                bytes.len(),
                libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
            )
        };
        match usize::try_from(sent) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(_) => return Err(io::Error::last_os_error()),
        }
    }
    Ok(())
}

/// What waits to be read, which stays there; none if a descriptor comes with it.
fn incoming(fd: i32) -> io::Result<Option<Bytes>> {
    let total = waiting(fd)?;
    let mut bytes = vec![0_u8; total];
    if total == 0 {
        return Ok(Some(Bytes(bytes)));
    }
    let mut part = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: total,
    };
    let mut control = [0_u64; 64];
    // SAFETY: zero is valid; the kernel writes at most as much as is stated.
    let (copied, with_control) = unsafe {
        let mut message: libc::msghdr = core::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control);
        let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
        let copied = libc::recvmsg(fd, &raw mut message, flags);
        (copied, carries_descriptors(&message))
    };
    if copied < 0 {
        return Err(io::Error::last_os_error());
    }
    if with_control {
        // They were given to this thread, whose table of descriptors ends with it.
        return Ok(None);
    }
    if copied as usize != total {
        return Err(io::Error::other(format!(
            "only {copied} of the {total} bytes in the socket could be copied"
        )));
    }
    Ok(Some(Bytes(bytes)))
}

/// # Safety
/// A message that was received.
unsafe fn carries_descriptors(message: &libc::msghdr) -> bool {
    // SAFETY: by the caller's word, the control data is well formed.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(message);
        while !at.is_null() {
            if (*at).cmsg_level == libc::SOL_SOCKET && (*at).cmsg_type == libc::SCM_RIGHTS {
                return true;
            }
            at = libc::CMSG_NXTHDR(message, at);
        }
    }
    false
}
