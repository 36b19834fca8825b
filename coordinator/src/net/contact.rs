//! Contact data of the coordinator and of relays: addresses and the job's token.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::net::socket;
use crate::net::stream::Stream;

const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// Addresses of the coordinator or of a relay, and the token that authenticates a peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// Addresses of its machine; empty if it listens at a socket.
    pub addresses: Vec<IpAddr>,
    /// TCP port.
    pub port: u16,
    /// Unix socket in the checkpoint directory, if all ranks are on one machine.
    #[serde(default)]
    pub socket: Option<PathBuf>,
    /// Random token; its possession proves that a peer belongs to the job or to its owner.
    pub token: String,
}

/// Contact data that a rank receives through MPI.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contact {
    /// Address of the coordinator or of a relay.
    pub address: Address,
    /// Fan-out of the tree ([`crate::net::tree`]).
    pub fan_out: u32,
    /// Whether ranks keep copies of each other's images ([`crate::partner`]).
    pub partners: bool,
}

impl Contact {
    /// Encodes the data for a broadcast through MPI.
    pub fn to_bytes(&self) -> Vec<u8> {
        postcard::to_stdvec(self).unwrap_or_default()
    }

    /// Decodes the bytes of [`Contact::to_bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Option<Contact> {
        postcard::from_bytes(bytes).ok()
    }
}

impl Address {
    /// Connects to the socket, or to the first address that accepts.
    ///
    /// # Errors
    /// That of the last address.
    pub fn connect(&self) -> io::Result<Stream> {
        if let Some(path) = &self.socket {
            let stream = socket::by_short_path(path, |path| UnixStream::connect(path));
            return stream.map(Stream::Unix);
        }
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for ip in &self.addresses {
            match TcpStream::connect_timeout(&SocketAddr::new(*ip, self.port), CONNECT_LIMIT) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(Stream::Tcp(stream));
                }
                Err(e) => last = e,
            }
        }
        Err(last)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.socket {
            Some(path) => write!(f, "socket {}", path.display()),
            None => {
                let addresses = self.addresses.iter().map(ToString::to_string);
                let addresses: Vec<_> = addresses.collect();
                write!(f, "port {} on {}", self.port, addresses.join(" or "))
            }
        }
    }
}

/// 128 random bits in hexadecimal.
///
/// # Errors
/// The kernel gives no random numbers.
pub fn random_token() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}
