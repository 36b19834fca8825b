//! The door of the coordinator and of each relay: it listens, hears who is there, and reads what those
//! say who were let in. One thread does all of that, which is there before anybody comes: neither a thread nor
//! much memory has to be had for one who does.
//!
//! Where all ranks are on one machine it is a Unix socket in the checkpoint directory, which no other user can
//! open; where the file system has no sockets, or ranks are on several machines, it is a TCP port. There anybody
//! may come, so a stranger has little time to show the token, and the oldest stranger goes when there are too
//! many. Those who were let in are not counted among them.

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
use std::thread;
use std::time::{Duration, Instant};

use crate::addresses;
use crate::frame::{self, Inbox, MAX_FIRST, MAX_FRAME};
use crate::job::{random_word, Address};
use crate::partner;
use crate::protocol::{Down, First, FromRank, Hello, To, ToRank, ToTool, Up, PROTOCOL};
use crate::ranks::Ranks;
use crate::routes::LinkId;
use crate::socket::{self, Watched};
use crate::stream::Stream;

/// A stranger must have said who is there within this time.
const FIRST_LIMIT: Duration = Duration::from_secs(2);
/// A peer that does not take a message within this time is lost.
pub const WRITE_LIMIT: Duration = Duration::from_secs(20);
/// How long nobody is let in when a connection could not be taken.
const PAUSE: Duration = Duration::from_millis(50);
/// Connections beyond those expected that may be open before they have said who they are.
const STRANGERS: usize = 32;
/// Connections that are taken before those who are there are heard again.
const AT_ONCE: usize = 8;
/// Descriptors that are held for connections, for a program that leaves none.
const SPARES: usize = 3;
/// Stack of each thread of the control plane.
const STACK: usize = 256 << 10;

/// What comes in through the door.
pub enum Heard {
    /// Somebody of this job wants in, by this name from now on. Who is not let in has his connection ended.
    Knock(LinkId, First, Arc<Stream>),
    /// What was said over a connection.
    Said(LinkId, Vec<Up>),
    /// A connection is gone.
    Gone(LinkId),
}

/// Who can come to a door.
pub enum Reach<'a> {
    /// All machines.
    Network,
    /// This machine. By a socket in the directory, where there is one and it can hold sockets.
    Machine(Option<&'a Path>),
}

/// An open port, at which nobody is heard yet.
pub struct Door {
    listener: Listener,
    /// Where it is, and the token that opens it.
    pub address: Address,
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// The next who waits; none if nobody does. Whoever comes by a socket must be of this user.
    fn accept(&self) -> io::Result<Option<Stream>> {
        let stream = match self {
            Listener::Tcp(listener) => listener.accept().map(|(stream, _)| {
                let _ = stream.set_nodelay(true);
                Some(Stream::Tcp(stream))
            }),
            Listener::Unix(listener) => listener.accept().map(|(stream, _)| {
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

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix(listener) => listener.as_fd(),
        }
    }
}

/// How the names of sockets in a checkpoint directory begin and end.
const SOCKET: (&str, &str) = (".stasis-", ".socket");

/// Removes the sockets in the checkpoint directory but `own`: those of the job that has it, which is at its end,
/// or of one that was killed there.
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

/// Listens at a new socket of this path, which only this user can open.
fn listen_at(path: &Path) -> io::Result<UnixListener> {
    socket::by_short_path(path, |path| {
        let listener = UnixListener::bind(path)?;
        // Before that only who is asked at the other end keeps others out.
        fs::set_permissions(path, Permissions::from_mode(0o700))?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    })
}

impl Door {
    /// Listens.
    pub fn open(reach: &Reach<'_>, token: String) -> io::Result<Door> {
        if let Reach::Machine(Some(directory)) = reach {
            let word = random_word()?;
            let name = format!("{}{}{}", SOCKET.0, &word[..8], SOCKET.1);
            let path = directory.join(name);
            match listen_at(&path) {
                Ok(listener) => {
                    return Ok(Door {
                        listener: Listener::Unix(listener),
                        address: Address {
                            addresses: vec![],
                            port: 0,
                            socket: Some(path),
                            token,
                        },
                    })
                }
                // The file system has no sockets, for example.
                Err(_) => drop(fs::remove_file(&path)),
            }
        }
        let bind = match reach {
            Reach::Machine(_) => Ipv4Addr::LOCALHOST,
            Reach::Network => Ipv4Addr::UNSPECIFIED,
        };
        let listener = TcpListener::bind((bind, 0))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let mut addresses: Vec<IpAddr> = vec![];
        if let Reach::Network = reach {
            addresses = addresses::of_this_machine();
            addresses.retain(IpAddr::is_ipv4);
        }
        if addresses.is_empty() {
            addresses = vec![Ipv4Addr::LOCALHOST.into()];
        }
        let address = Address {
            addresses,
            port,
            socket: None,
            token,
        };
        let listener = Listener::Tcp(listener);
        Ok(Door { listener, address })
    }

    /// From now on `said` hears who comes; `expected` are so many.
    pub fn serve<S>(self, said: Sender<S>, expected: usize) -> io::Result<Entrance>
    where
        S: From<Heard> + Send + 'static,
    {
        let (wake, woken) = UnixStream::pair()?;
        let (more, fresh) = mpsc::channel();
        let mut hall = Hall {
            listeners: vec![self.listener],
            woken,
            fresh,
            token: self.address.token,
            said,
            most: expected + STRANGERS,
            strangers: VecDeque::new(),
            peers: Vec::new(),
            spares: Vec::new(),
            paused: None,
            next: 1,
        };
        hall.spare();
        spawn("ckpt-door", move || while hall.step().is_ok() {})?;
        Ok(Entrance { more, wake })
    }
}

/// A door at which somebody is heard, until this is dropped.
pub struct Entrance {
    more: Sender<UnixListener>,
    wake: UnixStream,
}

impl Entrance {
    /// Listens at another socket as well, since the one that was at `path` is gone.
    pub fn listen_again(&self, path: &Path) -> io::Result<()> {
        let _ = self.more.send(listen_at(path)?);
        (&self.wake).write_all(&[0])
    }
}

/// Starts a thread of the control plane.
pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = thread::Builder::new().name(name.into()).stack_size(STACK);
    thread.spawn(body).map(drop)
}

/// Who was let in, and so what he says.
enum Speaker {
    Rank(u32),
    Relay,
    Tool,
}

/// One who has not said yet who is there.
struct Stranger {
    stream: Stream,
    since: Instant,
    inbox: Inbox,
}

/// One who was let in.
struct Peer {
    stream: Arc<Stream>,
    link: LinkId,
    speaker: Speaker,
    inbox: Inbox,
}

/// Nobody hears any more what is said.
struct Over;

/// The thread behind the door.
struct Hall<S> {
    listeners: Vec<Listener>,
    woken: UnixStream,
    fresh: Receiver<UnixListener>,
    token: String,
    said: Sender<S>,
    /// So many strangers.
    most: usize,
    /// The oldest first.
    strangers: VecDeque<Stranger>,
    peers: Vec<Peer>,
    /// Descriptors that are given up for connections when there are no others.
    spares: Vec<File>,
    /// No connection can be taken before this.
    paused: Option<Instant>,
    next: LinkId,
}

impl<S: From<Heard>> Hall<S> {
    /// Waits until something comes, and hears it.
    fn step(&mut self) -> Result<(), Over> {
        let now = Instant::now();
        self.paused = self.paused.filter(|until| *until > now);
        let taking = self.paused.is_none();
        let mut watched = vec![Watched::new(&self.woken)];
        let listeners = self.listeners.iter().filter(|_| taking);
        watched.extend(listeners.map(Watched::new));
        let strangers = self.strangers.iter();
        watched.extend(strangers.map(|stranger| Watched::new(&stranger.stream)));
        let peers = self.peers.iter();
        watched.extend(peers.map(|peer| Watched::new(&*peer.stream)));
        let limit = self.strangers.front().map(|s| s.since + FIRST_LIMIT);
        let limit = limit.into_iter().chain(self.paused).min();
        let limit = limit.map(|limit| limit.saturating_duration_since(now));
        let mut ready = socket::wait(watched, limit).into_iter();
        let woken = ready.next() == Some(true);
        let taking = if taking { self.listeners.len() } else { 0 };
        let taking: Vec<bool> = ready.by_ref().take(taking).collect();
        let strangers: Vec<bool> = ready.by_ref().take(self.strangers.len()).collect();
        let peers: Vec<bool> = ready.collect();

        let before = std::mem::take(&mut self.peers);
        for (mut peer, ready) in before.into_iter().zip(peers) {
            match ready && !hear_peer(&mut peer, &self.said)? {
                true => self.tell(Heard::Gone(peer.link))?,
                false => self.peers.push(peer),
            }
        }
        let before = std::mem::take(&mut self.strangers);
        for (stranger, ready) in before.into_iter().zip(strangers) {
            if ready {
                self.hear_stranger(stranger)?;
            } else if stranger.since.elapsed() < FIRST_LIMIT {
                self.strangers.push_back(stranger);
            }
        }
        self.spare();
        if woken {
            self.wake()?;
        }
        for (at, ready) in taking.into_iter().enumerate() {
            if ready {
                self.take(at)?;
            }
        }
        Ok(())
    }

    fn wake(&mut self) -> Result<(), Over> {
        if (&self.woken)
            .read(&mut [0; 64])
            .is_ok_and(|bytes| bytes == 0)
        {
            // The entrance is gone.
            return Err(Over);
        }
        let fresh = self.fresh.try_iter().map(Listener::Unix);
        self.listeners.extend(fresh);
        Ok(())
    }

    fn tell(&self, heard: Heard) -> Result<(), Over> {
        self.said.send(heard.into()).map_err(|_| Over)
    }

    /// Sets descriptors aside, as far as there are any.
    fn spare(&mut self) {
        while self.spares.len() < SPARES {
            match File::open("/dev/null") {
                Ok(spare) => self.spares.push(spare),
                Err(_) => break,
            }
        }
    }

    /// Takes connections.
    fn take(&mut self, listener: usize) -> Result<(), Over> {
        for _ in 0..AT_ONCE {
            match self.listeners[listener].accept() {
                Ok(Some(stream)) => self.come(stream)?,
                // Of another user.
                Ok(None) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.raw_os_error() == Some(libc::EMFILE) => {
                    // The program has all descriptors that this process may have.
                    if self.spares.pop().is_none() && self.strangers.pop_front().is_none() {
                        self.paused = Some(Instant::now() + PAUSE);
                        return Ok(());
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    // For want of memory, perhaps.
                    self.paused = Some(Instant::now() + PAUSE);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Somebody has come.
    fn come(&mut self, stream: Stream) -> Result<(), Over> {
        if self.strangers.len() >= self.most {
            // Who has said everything meanwhile is none any more.
            if let Some(oldest) = self.strangers.pop_front() {
                let waiting = self.strangers.len();
                self.hear_stranger(oldest)?;
                self.strangers.truncate(waiting);
            }
        }
        let stranger = Stranger {
            stream,
            since: Instant::now(),
            inbox: Inbox::default(),
        };
        // Most have said who they are as soon as they are here.
        self.hear_stranger(stranger)
    }

    /// Reads who is there and passes him on, if all of that has come.
    fn hear_stranger(&mut self, mut stranger: Stranger) -> Result<(), Over> {
        let socket = stranger.stream.as_fd();
        let first = stranger
            .inbox
            .fill(MAX_FIRST, |into| socket::read_now(socket, into));
        match first {
            Ok(Some(first)) => self.admit(first, stranger.stream),
            Ok(None) => {
                if stranger.since.elapsed() < FIRST_LIMIT {
                    self.strangers.push_back(stranger);
                }
                Ok(())
            }
            Err(_) => Ok(()),
        }
    }

    fn admit(&mut self, first: First, stream: Stream) -> Result<(), Over> {
        let (protocol, shown) = first.credentials();
        if let Err(reason) = check(protocol, shown, &self.token) {
            turn_away(&first, &stream, reason);
            return Ok(());
        }
        let link = self.next;
        self.next += 1;
        let stream = Arc::new(stream);
        let speaker = match &first {
            First::Rank(Hello { member, .. }) => Some(Speaker::Rank(member.rank)),
            First::Relay { .. } => Some(Speaker::Relay),
            First::Tool { .. } => Some(Speaker::Tool),
            // An image follows, for whoever takes it.
            First::Guest { .. } => None,
        };
        self.peers.extend(speaker.map(|speaker| Peer {
            stream: stream.clone(),
            link,
            speaker,
            inbox: Inbox::default(),
        }));
        self.tell(Heard::Knock(link, first, stream))
    }
}

/// Passes on what has come over a connection. False when it is gone.
fn hear_peer<S: From<Heard>>(peer: &mut Peer, said: &Sender<S>) -> Result<bool, Over> {
    let socket = peer.stream.as_fd();
    let read = |into: &mut [u8]| socket::read_now(socket, into);
    let words = match peer.speaker {
        Speaker::Rank(rank) => {
            let message = peer.inbox.fill::<FromRank>(MAX_FRAME, read);
            let ranks = Ranks::one(rank);
            message.map(|message| message.map(|message| vec![Up::Said { ranks, message }]))
        }
        Speaker::Relay => peer.inbox.fill(MAX_FRAME, read),
        // It has said all with its first frame: whatever comes is its end.
        Speaker::Tool => return Ok(false),
    };
    match words {
        Ok(Some(words)) => {
            let heard = Heard::Said(peer.link, words);
            said.send(heard.into()).map_err(|_| Over)?;
            Ok(true)
        }
        Ok(None) => Ok(true),
        Err(_) => Ok(false),
    }
}

/// Tells somebody who is not let in why.
pub fn turn_away(first: &First, mut stream: &Stream, reason: String) {
    let rejected = |reason| ToRank::Rejected { reason };
    // He does not come in whether he hears that or not.
    let _ = match first {
        First::Rank(_) => frame::send(&mut stream, &rejected(reason)),
        First::Tool { .. } => frame::send(&mut stream, &ToTool::Rejected(reason)),
        First::Guest { .. } => frame::send(&mut stream, &partner::Answer::Err(reason)),
        First::Relay { .. } => frame::send(
            &mut stream,
            &[Down {
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
    // All characters are compared whatever the first difference is.
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

/// Where a door listens within this machine.
pub fn directory_of(address: &Address) -> Option<PathBuf> {
    Some(address.socket.as_ref()?.parent()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_there_can_be_no_socket_it_is_a_port_of_this_machine() {
        let nowhere = Reach::Machine(Some(Path::new("/proc/self")));
        let door = Door::open(&nowhere, "word".into()).unwrap();
        assert_eq!(door.address.socket, None);
        assert_eq!(door.address.addresses, [Ipv4Addr::LOCALHOST]);
        let Listener::Tcp(listener) = door.listener else {
            panic!("it is a socket");
        };
        assert!(listener.local_addr().unwrap().ip().is_loopback());
    }
}
