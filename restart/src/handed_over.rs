//! Hands shared objects over to ranks that the kernel forbids to open them through this process: each rank has a user
//! namespace of its own, as by `mpirun apptainer exec IMAGE`. A rank asks by a socket, and gets the descriptor.
//!
//! # Safety
//! The descriptors that the kernel has received with a message are new ones of this process, and nothing else owns
//! them.
#![allow(unsafe_code)]

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::thread;

use nix::cmsg_space;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{
    getsockopt, recvmsg, sendmsg, ControlMessage, ControlMessageOwned, MsgFlags, UnixCredentials,
};

/// Number that asks for the end.
const END: i32 = -1;

/// Descriptors that other ranks of this user may get, as long as it exists.
#[derive(Debug)]
pub(crate) struct Offer(());

/// The socket of a process. It has no file.
fn address(process: u32) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("stasis-shared-memory-{process}"))
}

fn peer(stream: &UnixStream) -> io::Result<UnixCredentials> {
    Ok(getsockopt(stream, PeerCredentials)?)
}

fn is_own_user(peer: &UnixCredentials) -> bool {
    peer.uid() == nix::unistd::geteuid().as_raw()
}

impl Offer {
    /// Offers descriptors. They stay open as long as the offer.
    pub(crate) fn of(descriptors: Vec<RawFd>) -> io::Result<Offer> {
        let listener = UnixListener::bind_addr(&address(std::process::id())?)?;
        let serve = move || {
            for stream in listener.incoming().flatten() {
                if answer(&stream, &descriptors).is_ok_and(|goes_on| !goes_on) {
                    break;
                }
            }
        };
        thread::Builder::new()
            .name("shared-memory".to_owned())
            .spawn(serve)?;
        Ok(Offer(()))
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        let end = || request(std::process::id(), END);
        // The process ends otherwise, and the thread with it.
        let _ = end();
    }
}

/// Answers a request. Returns whether others may follow.
fn answer(mut stream: &UnixStream, descriptors: &[RawFd]) -> io::Result<bool> {
    let peer = peer(stream)?;
    if !is_own_user(&peer) {
        return Ok(true);
    }
    let mut wanted = [0; 4];
    stream.read_exact(&mut wanted)?;
    let wanted = i32::from_le_bytes(wanted);
    if wanted == END {
        return Ok(u32::try_from(peer.pid()) != Ok(std::process::id()));
    }
    if descriptors.contains(&wanted) {
        let files = [wanted];
        let beside = [ControlMessage::ScmRights(&files)];
        let flags = MsgFlags::MSG_NOSIGNAL;
        sendmsg::<()>(
            stream.as_raw_fd(),
            &[IoSlice::new(b"f")],
            &beside,
            flags,
            None,
        )?;
    }
    Ok(true)
}

fn request(process: u32, wanted: i32) -> io::Result<UnixStream> {
    let mut stream = UnixStream::connect_addr(&address(process)?)?;
    stream.write_all(&wanted.to_le_bytes())?;
    Ok(stream)
}

/// Gets a descriptor that a process offers.
pub(crate) fn get(process: u32, descriptor: i32) -> io::Result<OwnedFd> {
    let stream = request(process, descriptor)?;
    let peer = peer(&stream)?;
    if !is_own_user(&peer) || u32::try_from(peer.pid()) != Ok(process) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let mut byte = [0];
    let mut content = [IoSliceMut::new(&mut byte)];
    let mut beside = cmsg_space!([RawFd; 1]);
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let received = recvmsg::<()>(stream.as_raw_fd(), &mut content, Some(&mut beside), flags)?;
    for message in received.cmsgs()? {
        if let ControlMessageOwned::ScmRights(came) = message {
            // SAFETY: see the head of this file.
            let mut came = came
                .into_iter()
                .map(|file| unsafe { OwnedFd::from_raw_fd(file) });
            if let Some(file) = came.next() {
                return Ok(file);
            }
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn only_what_is_offered_is_handed_over_and_only_as_long() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"shared").unwrap();
        let own = std::process::id();
        let offer = Offer::of(vec![file.as_raw_fd()]).unwrap();
        let got = File::from(get(own, file.as_raw_fd()).unwrap());
        assert_ne!(got.as_raw_fd(), file.as_raw_fd());
        assert_eq!(got.metadata().unwrap().len(), 6);
        let other = get(own, 0).unwrap_err();
        assert_eq!(other.kind(), io::ErrorKind::NotFound);
        drop(offer);
        // The thread ends after the request.
        while get(own, file.as_raw_fd()).is_ok() {
            thread::yield_now();
        }
    }
}
