//! The listener of the coordinator and of each relay. It accepts connections, authenticates them, and reads
//! the messages of authenticated peers. One thread does all of that. It starts before the first connection,
//! so that a connection needs neither a new thread nor much memory.
//!
//! If all ranks are on one machine, the listener is a Unix socket in the checkpoint directory, which no
//! other user can open. If the file system has no sockets, or ranks are on several machines, it is a TCP
//! port, open to everyone. An unauthenticated peer then has little time to send the token, and the oldest
//! one is dropped when there are too many. Authenticated peers do not count among them.

use std::collections::VecDeque;
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::net::addresses;
use crate::net::contact::{random_token, Address};
use crate::net::frame::{self, Inbox, MAX_FRAME, MAX_HELLO};
use crate::net::routes::LinkId;
use crate::net::socket::{self, Watched};
use crate::net::stream::{Stream, WRITE_LIMIT};
use crate::protocol::messages::{
    CopyAnswer, FromRank, Hello, RankHello, To, ToChild, ToClient, ToParent, ToRank, PROTOCOL,
};
use crate::protocol::rank_set::RankSet;
use crate::threads::spawn;

/// Time limit for the [`Hello`] of a new connection.
const HELLO_LIMIT: Duration = Duration::from_secs(2);
/// Pause after a failure to accept a connection.
const PAUSE: Duration = Duration::from_millis(50);
/// Limit of open unauthenticated connections beyond the expected ones.
const MAX_UNAUTHENTICATED: usize = 32;
/// Connections accepted before peers are read again.
const ACCEPTS_AT_ONCE: usize = 8;
/// Descriptors reserved for connections, because the application may use up all others.
const SPARE_DESCRIPTORS: usize = 3;

/// An event of a listener.
pub enum NetEvent {
    /// An authenticated peer has connected; the link is its id from now on. An unwanted peer is
    /// [`reject`]ed.
    Connect(LinkId, Hello, Arc<Stream>),
    /// Messages received over a connection.
    Message(LinkId, Vec<ToParent>),
    /// A connection is closed.
    Disconnect(LinkId),
}

/// Machines from which a listener can be reached.
pub enum Reach<'a> {
    /// All machines.
    Network,
    /// This machine only: a socket in the directory, if there is one and its file system has sockets.
    Machine(Option<&'a Path>),
}

/// An open port or socket that accepts no connections yet.
pub struct Listener {
    listener: ListenSocket,
    /// Address of the listener, with the token.
    pub address: Address,
}

enum ListenSocket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl ListenSocket {
    /// Accepts the next pending connection, if there is one. A peer at a Unix socket must belong to this
    /// user.
    fn accept(&self) -> io::Result<Option<Stream>> {
        let stream = match self {
            ListenSocket::Tcp(listener) => listener.accept().map(|(stream, _)| {
                let _ = stream.set_nodelay(true);
                Some(Stream::Tcp(stream))
            }),
            ListenSocket::Unix(listener) => listener.accept().map(|(stream, _)| {
                let own = socket::is_of_this_user(&stream);
                own.then_some(Stream::Unix(stream))
            }),
        };
        let stream = stream?;
        if let Some(stream) = &stream {
            stream.set_write_timeout(Some(WRITE_LIMIT))?;
        }
        Ok(stream)
    }
}

impl AsFd for ListenSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            ListenSocket::Tcp(listener) => listener.as_fd(),
            ListenSocket::Unix(listener) => listener.as_fd(),
        }
    }
}

/// Prefix and suffix of the names of sockets in a checkpoint directory.
const SOCKET: (&str, &str) = (".stasis-", ".socket");

/// Removes the sockets in the checkpoint directory except `own`. They belong to the job of this directory,
/// which is ending, or to a job that was killed.
pub fn remove_sockets(directory: &Path, own: Option<&Path>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let name = name.to_string_lossy();
        let socket = name.starts_with(SOCKET.0) && name.ends_with(SOCKET.1);
        if socket && own != Some(&path) {
            let _ = fs::remove_file(path);
        }
    }
}

/// Listens at a new socket with this path, which only this user can open.
fn listen_at(path: &Path) -> io::Result<UnixListener> {
    socket::by_short_path(path, |path| {
        let listener = UnixListener::bind(path)?;
        // Until then, only the check of the peer's user protects the socket.
        fs::set_permissions(path, Permissions::from_mode(0o700))?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    })
}

impl Listener {
    /// Opens a port or socket and listens.
    pub fn open(reach: &Reach<'_>, token: String) -> io::Result<Listener> {
        if let Reach::Machine(Some(directory)) = reach {
            let word = random_token()?;
            let name = format!("{}{}{}", SOCKET.0, &word[..8], SOCKET.1);
            let path = directory.join(name);
            match listen_at(&path) {
                Ok(listener) => {
                    return Ok(Listener {
                        listener: ListenSocket::Unix(listener),
                        address: Address {
                            addresses: vec![],
                            port: 0,
                            socket: Some(path),
                            token,
                        },
                    })
                }
                // The file system may have no sockets.
                Err(_) => drop(fs::remove_file(&path)),
            }
        }
        let (listener, mut addresses) = match reach {
            Reach::Machine(_) => (addresses::listen_here()?, vec![]),
            Reach::Network => {
                let listener = addresses::listen_to_all()?;
                let addresses = addresses::of_listener(&listener)?;
                (listener, addresses)
            }
        };
        listener.set_nonblocking(true)?;
        let own = listener.local_addr()?;
        if addresses.is_empty() {
            addresses.push(match own.ip() {
                IpAddr::V6(ip) if ip.is_loopback() => ip.into(),
                _ => Ipv4Addr::LOCALHOST.into(),
            });
        }
        let port = own.port();
        let address = Address {
            addresses,
            port,
            socket: None,
            token,
        };
        let listener = ListenSocket::Tcp(listener);
        Ok(Listener { listener, address })
    }

    /// Starts the thread, which sends its events to `events`. `expected`: number of expected peers.
    pub fn serve<S>(self, events: Sender<S>, expected: usize) -> io::Result<ListenerHandle>
    where
        S: From<NetEvent> + Send + 'static,
    {
        let (wake, woken) = UnixStream::pair()?;
        let (more, fresh) = mpsc::channel();
        let mut thread = ListenerThread {
            listeners: vec![self.listener],
            woken,
            fresh,
            token: self.address.token,
            events,
            max_unauthenticated: expected + MAX_UNAUTHENTICATED,
            unauthenticated: VecDeque::new(),
            peers: Vec::new(),
            spares: Vec::new(),
            paused: None,
            next: 1,
        };
        thread.spare();
        spawn("ckpt-door", move || while thread.step().is_ok() {})?;
        Ok(ListenerHandle { more, wake })
    }
}

/// A listener whose thread runs until the handle is dropped.
pub struct ListenerHandle {
    more: Sender<UnixListener>,
    wake: UnixStream,
}

impl ListenerHandle {
    /// Listens at a further socket, because the one at `path` is gone.
    pub fn listen_again(&self, path: &Path) -> io::Result<()> {
        let _ = self.more.send(listen_at(path)?);
        (&self.wake).write_all(&[0])
    }
}

/// Kind of an authenticated peer, which determines its messages.
enum PeerKind {
    Rank(u32),
    Relay,
    Client,
}

/// A connection that has not sent its [`Hello`] yet.
struct Unauthenticated {
    stream: Stream,
    since: Instant,
    inbox: Inbox,
}

/// An authenticated connection.
struct Peer {
    stream: Arc<Stream>,
    link: LinkId,
    kind: PeerKind,
    inbox: Inbox,
}

/// The receiver of events is closed.
struct Closed;

/// The thread of a listener.
struct ListenerThread<S> {
    listeners: Vec<ListenSocket>,
    woken: UnixStream,
    fresh: Receiver<UnixListener>,
    token: String,
    events: Sender<S>,
    /// Limit of simultaneous unauthenticated connections.
    max_unauthenticated: usize,
    /// Unauthenticated connections, the oldest first.
    unauthenticated: VecDeque<Unauthenticated>,
    peers: Vec<Peer>,
    /// Reserved descriptors, closed when a connection needs one and none is free.
    spares: Vec<File>,
    /// End of the pause in which no connection is accepted.
    paused: Option<Instant>,
    next: LinkId,
}

impl<S: From<NetEvent>> ListenerThread<S> {
    /// Waits for events on the sockets and handles them.
    fn step(&mut self) -> Result<(), Closed> {
        let now = Instant::now();
        self.paused = self.paused.filter(|until| *until > now);
        let taking = self.paused.is_none();
        let mut watched = vec![Watched::new(&self.woken)];
        let listeners = self.listeners.iter().filter(|_| taking);
        watched.extend(listeners.map(Watched::new));
        let unauthenticated = self.unauthenticated.iter();
        watched.extend(unauthenticated.map(|peer| Watched::new(&peer.stream)));
        let peers = self.peers.iter();
        watched.extend(peers.map(|peer| Watched::new(&*peer.stream)));
        let limit = self.unauthenticated.front().map(|s| s.since + HELLO_LIMIT);
        let limit = limit.into_iter().chain(self.paused).min();
        let limit = limit.map(|limit| limit.saturating_duration_since(now));
        let mut ready = socket::wait(watched, limit).into_iter();
        let woken = ready.next() == Some(true);
        let taking = if taking { self.listeners.len() } else { 0 };
        let taking: Vec<bool> = ready.by_ref().take(taking).collect();
        let unauthenticated: Vec<bool> = ready.by_ref().take(self.unauthenticated.len()).collect();
        let peers: Vec<bool> = ready.collect();

        let before = std::mem::take(&mut self.peers);
        for (mut peer, ready) in before.into_iter().zip(peers) {
            match ready && !read_peer(&mut peer, &self.events)? {
                true => self.tell(NetEvent::Disconnect(peer.link))?,
                false => self.peers.push(peer),
            }
        }
        let before = std::mem::take(&mut self.unauthenticated);
        for (peer, ready) in before.into_iter().zip(unauthenticated) {
            if ready {
                self.authenticate(peer)?;
            } else if peer.since.elapsed() < HELLO_LIMIT {
                self.unauthenticated.push_back(peer);
            }
        }
        self.spare();
        if woken {
            self.wake()?;
        }
        for (at, ready) in taking.into_iter().enumerate() {
            if ready {
                self.accept(at)?;
            }
        }
        Ok(())
    }

    fn wake(&mut self) -> Result<(), Closed> {
        if (&self.woken)
            .read(&mut [0; 64])
            .is_ok_and(|bytes| bytes == 0)
        {
            // The handle is dropped.
            return Err(Closed);
        }
        let fresh = self.fresh.try_iter().map(ListenSocket::Unix);
        self.listeners.extend(fresh);
        Ok(())
    }

    fn tell(&self, event: NetEvent) -> Result<(), Closed> {
        self.events.send(event.into()).map_err(|_| Closed)
    }

    /// Reserves descriptors, as far as any are free.
    fn spare(&mut self) {
        while self.spares.len() < SPARE_DESCRIPTORS {
            match File::open("/dev/null") {
                Ok(spare) => self.spares.push(spare),
                Err(_) => break,
            }
        }
    }

    /// Accepts pending connections.
    fn accept(&mut self, listener: usize) -> Result<(), Closed> {
        for _ in 0..ACCEPTS_AT_ONCE {
            match self.listeners[listener].accept() {
                Ok(Some(stream)) => self.accepted(stream)?,
                // The peer belongs to another user.
                Ok(None) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.raw_os_error() == Some(libc::EMFILE) => {
                    // The application holds all descriptors that this process may have.
                    if self.spares.pop().is_none() && self.unauthenticated.pop_front().is_none() {
                        self.paused = Some(Instant::now() + PAUSE);
                        return Ok(());
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    // Memory may be exhausted.
                    self.paused = Some(Instant::now() + PAUSE);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Handles an accepted connection.
    fn accepted(&mut self, stream: Stream) -> Result<(), Closed> {
        if self.unauthenticated.len() >= self.max_unauthenticated {
            // A peer whose Hello is complete is no longer in this queue.
            if let Some(oldest) = self.unauthenticated.pop_front() {
                let waiting = self.unauthenticated.len();
                self.authenticate(oldest)?;
                self.unauthenticated.truncate(waiting);
            }
        }
        let peer = Unauthenticated {
            stream,
            since: Instant::now(),
            inbox: Inbox::default(),
        };
        // For most peers, the Hello arrives together with the connection.
        self.authenticate(peer)
    }

    /// Reads the Hello, and hands the peer on when it is complete.
    fn authenticate(&mut self, mut peer: Unauthenticated) -> Result<(), Closed> {
        let socket = peer.stream.as_fd();
        let hello = peer
            .inbox
            .fill(MAX_HELLO, |into| socket::read_now(socket, into));
        match hello {
            Ok(Some(hello)) => self.admit(hello, peer.stream),
            Ok(None) => {
                if peer.since.elapsed() < HELLO_LIMIT {
                    self.unauthenticated.push_back(peer);
                }
                Ok(())
            }
            Err(_) => Ok(()),
        }
    }

    fn admit(&mut self, hello: Hello, stream: Stream) -> Result<(), Closed> {
        let (protocol, shown) = hello.credentials();
        if let Err(reason) = check(protocol, shown, &self.token) {
            reject(&hello, &stream, reason);
            return Ok(());
        }
        let link = self.next;
        self.next += 1;
        let stream = Arc::new(stream);
        let kind = match &hello {
            Hello::Rank(RankHello { member, .. }) => Some(PeerKind::Rank(member.rank)),
            Hello::Relay { .. } => Some(PeerKind::Relay),
            Hello::Client { .. } => Some(PeerKind::Client),
            // The image follows; the receiver of the event reads it.
            Hello::CopySender { .. } => None,
        };
        self.peers.extend(kind.map(|kind| Peer {
            stream: stream.clone(),
            link,
            kind,
            inbox: Inbox::default(),
        }));
        self.tell(NetEvent::Connect(link, hello, stream))
    }
}

/// Sends the received messages to `events`. Returns false when the connection is closed.
fn read_peer<S: From<NetEvent>>(peer: &mut Peer, events: &Sender<S>) -> Result<bool, Closed> {
    let socket = peer.stream.as_fd();
    let read = |into: &mut [u8]| socket::read_now(socket, into);
    let messages = match peer.kind {
        PeerKind::Rank(rank) => {
            let message = peer.inbox.fill::<FromRank>(MAX_FRAME, read);
            let ranks = RankSet::one(rank);
            message
                .map(|message| message.map(|message| vec![ToParent::FromRanks { ranks, message }]))
        }
        PeerKind::Relay => peer.inbox.fill(MAX_FRAME, read),
        // A client sends one frame only, so anything further is the end of the connection.
        PeerKind::Client => return Ok(false),
    };
    match messages {
        Ok(Some(messages)) => {
            let event = NetEvent::Message(peer.link, messages);
            events.send(event.into()).map_err(|_| Closed)?;
            Ok(true)
        }
        Ok(None) => Ok(true),
        Err(_) => Ok(false),
    }
}

/// Closes a rejected connection, after sending the reason.
pub fn reject(hello: &Hello, mut stream: &Stream, reason: String) {
    let rejected = |reason| ToRank::Rejected { reason };
    // The rejection holds even if the peer does not receive the reason.
    let _ = match hello {
        Hello::Rank(_) => frame::send(&mut stream, &rejected(reason)),
        Hello::Client { .. } => frame::send(&mut stream, &ToClient::Rejected(reason)),
        Hello::CopySender { .. } => frame::send(&mut stream, &CopyAnswer::Err(reason)),
        Hello::Relay { .. } => frame::send(
            &mut stream,
            &[ToChild {
                to: To::All,
                message: rejected(reason),
            }]
            .as_slice(),
        ),
    };
    stream.end();
}

fn check(protocol: u32, token: &str, expected: &str) -> Result<(), String> {
    if protocol != PROTOCOL {
        return Err(format!(
            "it speaks version {protocol} of the protocol, the job speaks {PROTOCOL}: use the Stasis \
             that started the job"
        ));
    }
    // All characters are compared, wherever the first difference is: the time must not reveal it.
    let different = token.len() != expected.len()
        || token
            .bytes()
            .zip(expected.bytes())
            .fold(0, |d, (a, b)| d | (a ^ b))
            != 0;
    match different {
        true => Err("the token is wrong: it belongs to another job".into()),
        false => Ok(()),
    }
}

/// The directory of a listener's Unix socket, if it has one.
pub fn directory_of(address: &Address) -> Option<PathBuf> {
    Some(address.socket.as_ref()?.parent()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_without_a_socket_uses_a_local_port() {
        let nowhere = Reach::Machine(Some(Path::new("/proc/self")));
        let listener = Listener::open(&nowhere, "word".into()).unwrap();
        assert_eq!(listener.address.socket, None);
        assert_eq!(listener.address.addresses, [Ipv4Addr::LOCALHOST]);
        let ListenSocket::Tcp(listener) = listener.listener else {
            panic!("it is a socket");
        };
        assert!(listener.local_addr().unwrap().ip().is_loopback());
    }
}
