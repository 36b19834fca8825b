//! Local sockets that listen under an abstract name (unix(7)), by which nobody waits to be accepted. CUDA's driver has
//! one in each process.

use super::socketpair::option;
use crate::error::{CaptureError, RestoreError};
use crate::process_state::files::look::Look;
use crate::sys::descriptor::poll;
use nix::errno::Errno;
use nix::sys::socket::{self, AddressFamily, Backlog, SockFlag, SockType, UnixAddr};
use serde::{Deserialize, Serialize};
use std::os::fd::{AsRawFd, OwnedFd};

/// A socket that listens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalListener {
    /// Abstract name, without the zero at its begin.
    name: Vec<u8>,
    /// SOCK_SEQPACKET, not SOCK_STREAM.
    packets: bool,
}

impl LocalListener {
    /// Captures the socket; none if it is of another kind.
    pub fn capture(look: &Look) -> Result<Option<LocalListener>, CaptureError> {
        let option = |name| option(look.fd, name).map_err(|e| look.failed(e));
        let listens = option(libc::SO_ACCEPTCONN)? != 0;
        let address = socket::getsockname::<UnixAddr>(look.fd).ok();
        let name = address.as_ref().and_then(UnixAddr::as_abstract);
        let Some(name) = name.filter(|_| listens) else {
            return Ok(None);
        };
        let packets = option(libc::SO_TYPE)? == libc::SOCK_SEQPACKET;
        if poll(look.fd, libc::POLLIN).map_err(|e| look.failed(e))? != 0 {
            return look.refuse(format!(
                "the local socket @{}, by which another process waits to be accepted",
                name.escape_ascii()
            ));
        }
        Ok(Some(LocalListener {
            name: name.to_owned(),
            packets,
        }))
    }

    /// Creates the socket again. If another process has its name, it gets one from the kernel, with a warning.
    pub fn open(&self, fd: i32, warnings: &mut Vec<String>) -> Result<OwnedFd, RestoreError> {
        let mut taken = false;
        let made = self.make(&mut taken);
        if taken {
            warnings.push(format!(
                "another process listens at the local socket @{} of descriptor {fd}: nobody can connect to the program \
                 there",
                self.name.escape_ascii()
            ));
        }
        made.map_err(|errno| RestoreError::system("creating a local socket")(errno.into()))
    }

    fn make(&self, taken: &mut bool) -> nix::Result<OwnedFd> {
        let kind = match self.packets {
            true => SockType::SeqPacket,
            false => SockType::Stream,
        };
        let made = socket::socket(AddressFamily::Unix, kind, SockFlag::SOCK_CLOEXEC, None)?;
        match socket::bind(made.as_raw_fd(), &UnixAddr::new_abstract(&self.name)?) {
            Err(Errno::EADDRINUSE) => {
                *taken = true;
                socket::bind(made.as_raw_fd(), &UnixAddr::new_unnamed())?;
            }
            other => other?,
        }
        socket::listen(&made, Backlog::MAXCONN)?;
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

    #[test]
    fn a_listener_comes_back_under_its_name_or_beside_another_one() {
        let name = format!("stasis-test-{}\0", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let first = UnixListener::bind_addr(&address).unwrap();
        let capture =
            |socket: &UnixListener| LocalListener::capture(&Look::at(socket.as_raw_fd()).unwrap());
        let saved = capture(&first).unwrap().unwrap();
        assert_eq!(saved.name, name.as_bytes());
        let mut warnings = Vec::new();
        let beside = saved.open(7, &mut warnings).unwrap();
        assert!(warnings[0].contains("@stasis-test-"), "{warnings:?}");
        drop(first);
        let again = UnixListener::from(saved.open(7, &mut warnings).unwrap());
        assert_eq!(warnings.len(), 1);
        let client = UnixStream::connect_addr(&address).unwrap();
        capture(&again).expect_err("a client waits");
        again.accept().unwrap();
        assert_eq!(capture(&again).unwrap(), Some(saved));
        drop((client, beside));
    }

    #[test]
    fn other_sockets_are_of_other_kinds() {
        let (one, _other) = UnixStream::pair().unwrap();
        let look = Look::at(one.as_raw_fd()).unwrap();
        assert_eq!(LocalListener::capture(&look).unwrap(), None);
    }
}
