//! The node keeper: the process that holds the copies of the ranks' memory on another machine than `stasis run`. A copy
//! ends when no living process has its socket (`dump/src/held.rs`), and the rank that has made it may be dead.
//!
//! A rank's process starts it before it becomes the rank, unless the machine has one: the process binds an abstract
//! Unix socket. The run file has the name of that socket. The node keeper holds the copies through all incarnations,
//! and runs no part of the program. It ends with its connection to `stasis run`. Its kernel kills it when its lease
//! ends, as it does with a rank ([`leases`](crate::leases)): so nothing is written here any more when `stasis run`
//! uses the number of a set again.
//!
//! Its parent is the *guard* ([`guard`]), which starts another one if it was killed, with the same socket: ranks can
//! hand over again. The copies are lost.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::{self, Read};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use ckpt_image::{FileSystem, SetId};
use coordinator::net::addresses;
use coordinator::process_liveness;
use dump::{ChildParts, HeldImage};
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::signal::{SigEvent, SigevNotify, Signal};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::sys::time::TimeSpec;
use nix::sys::timer::{Expiration, Timer, TimerSetTimeFlags};
use nix::time::{clock_gettime, ClockId};
use nix::unistd::geteuid;

use crate::child_parts;
use crate::leases::Terms;
use crate::memory_sets::COPY_KILLED;
use crate::messages::{receive, send, take_line, FromRank, Member, Process, ToRank, LONGEST};
use crate::node_messages::{self, FromNode, ToNode};
use crate::rescue::write_all;
use crate::run_file::{RunFile, RUN_FILE};

/// Claims the place of the node keeper of this machine. None if there is one.
///
/// # Errors
/// No socket can be made.
pub fn claim(socket: &str) -> io::Result<Option<UnixListener>> {
    match UnixListener::bind_addr(&SocketAddr::from_abstract_name(socket)?) {
        Ok(listener) => Ok(Some(listener)),
        Err(why) if why.kind() == io::ErrorKind::AddrInUse => Ok(None),
        Err(why) => Err(why),
    }
}

/// The node keeper, as a rank of its machine knows it.
#[derive(Clone, Debug)]
pub struct NodeKeeper {
    socket: String,
    token: String,
    incarnation: u32,
    limit: Duration,
}

impl NodeKeeper {
    /// That of this machine. `None` if ranks connect to the `stasis run` of this run file by no network.
    pub fn of(file: &RunFile) -> Option<NodeKeeper> {
        Some(NodeKeeper {
            socket: file.node_socket(),
            token: file.token.clone(),
            incarnation: file.incarnation,
            limit: file.network.as_ref()?.terms.lease,
        })
    }

    /// Name of its abstract Unix socket.
    pub fn socket(&self) -> &str {
        &self.socket
    }

    /// Hands it a child with a copy of a rank's memory, and waits until it has it.
    ///
    /// # Errors
    /// It has ended or does not answer, or its socket cannot take descriptors.
    pub fn hand_over(&self, message: &FromRank, child: &ChildParts) -> io::Result<()> {
        let socket = SocketAddr::from_abstract_name(&self.socket)?;
        let stream = UnixStream::connect_addr(&socket)?;
        stream.set_read_timeout(Some(self.limit))?;
        let hello = FromRank::Hello {
            token: self.token.clone(),
            incarnation: self.incarnation,
            member: Member::default(),
            process: None,
            announced: false,
        };
        send(&stream, &hello)?;
        child_parts::send(&stream, message, child)?;
        match receive(&stream, &mut Vec::new())? {
            ToRank::Welcome => Ok(()),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// Keeps the copies of this machine's ranks until the connection to `stasis run` ends. `file` is the name of the run
/// file, or of that of a standby world. `room` tells whether the memory of this machine still suffices, or why not.
///
/// # Errors
/// `stasis run` cannot be reached, or the connection to it has ended; the run file is not that of this socket.
pub fn keep(
    directory: &Path,
    file: &str,
    listener: UnixListener,
    room: impl Fn() -> Result<(), String>,
) -> io::Result<Infallible> {
    let found = run_file_of(directory, file, &listener)?;
    listener.set_nonblocking(true)?;
    let (stream, terms) = found.connect_by_network()?;
    let mut keeping = Keeping {
        directory: directory.to_owned(),
        token: found.token,
        listener,
        run: Arc::new(ToRun {
            stream,
            sending: Mutex::new(()),
        }),
        lease: Lease::new(terms)?,
        text: Vec::new(),
        guests: Vec::new(),
        sets: BTreeMap::new(),
    };
    keeping.greet()?;
    loop {
        keeping.turn(&room)?;
    }
}

/// The run file that names this socket. Another standby world may have taken the place of the one whose ranks have
/// claimed this machine. That one may be the job by now.
fn run_file_of(directory: &Path, file: &str, listener: &UnixListener) -> io::Result<RunFile> {
    let address = listener.local_addr()?;
    for name in [file, RUN_FILE] {
        let found = RunFile::read(directory, name).map_err(io::Error::other)?;
        let ours =
            |found: &RunFile| address.as_abstract_name() == Some(found.node_socket().as_bytes());
        if let Some(found) = found.filter(ours) {
            return Ok(found);
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

/// Starts the node keeper of this socket by `start`, and another one each time that it was killed, but not more often
/// than once in the time of a lease. Returns when one has ended by itself: the job is over, or cannot be reached.
///
/// The kernel kills the guard when it cannot run for the time of a lease: one that is stopped with its machine's other
/// processes would outlive the job.
///
/// # Errors
/// The run file is not that of this socket, or no process can be started or watched.
pub fn guard(
    directory: &Path,
    file: &str,
    listener: &UnixListener,
    mut start: impl FnMut() -> io::Result<Child>,
) -> io::Result<()> {
    let found = run_file_of(directory, file, listener)?;
    let network = found.network.ok_or(io::ErrorKind::Unsupported)?;
    let mut lease = Lease::new(network.terms)?;
    loop {
        lease.begin()?;
        let begun = lease.sent;
        let mut child = start()?;
        let process = process_liveness::open(child.id())?;
        let end = loop {
            if let Some(end) = child.try_wait()? {
                break end;
            }
            let mut watched = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
            let limit = PollTimeout::try_from(network.terms.lease / 2);
            let _ = poll(&mut watched, limit.unwrap_or(PollTimeout::MAX));
            lease.begin()?;
        };
        if end.signal().is_none() {
            return Ok(());
        }
        // Something may kill them again and again.
        let next = begun + network.terms.lease;
        while let Some(left) = next
            .checked_sub(lease.now()?)
            .filter(|left| !left.is_zero())
        {
            thread::sleep(left.min(network.terms.lease / 2));
            lease.begin()?;
        }
    }
}

/// The connection to `stasis run`.
struct ToRun {
    stream: TcpStream,
    /// Held while a message is sent.
    sending: Mutex<()>,
}

impl ToRun {
    fn tell(&self, message: &FromNode) -> io::Result<()> {
        let _sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        send(&self.stream, message)
    }
}

/// The lease of this process.
struct Lease {
    terms: Terms,
    clock: ClockId,
    timer: Timer,
    /// When the last heartbeat was sent.
    sent: Duration,
    /// Whether it was answered.
    answered: bool,
}

impl Lease {
    fn new(terms: Terms) -> io::Result<Lease> {
        let kill = || {
            SigEvent::new(SigevNotify::SigevSignal {
                signal: Signal::SIGKILL,
                si_value: 0,
            })
        };
        // The first one also counts the time during which the machine is suspended.
        let mut clock = ClockId::CLOCK_BOOTTIME;
        let timer = Timer::new(clock, kill()).or_else(|_| {
            clock = ClockId::CLOCK_MONOTONIC;
            Timer::new(clock, kill())
        })?;
        let sent = Duration::from(clock_gettime(clock)?);
        Ok(Lease {
            terms,
            clock,
            timer,
            sent,
            answered: false,
        })
    }

    fn now(&self) -> io::Result<Duration> {
        Ok(clock_gettime(self.clock)?.into())
    }

    /// It counts from the sending of what is answered now.
    fn prolong(&mut self) -> io::Result<()> {
        let end = TimeSpec::from(self.sent + self.terms.lease);
        let at = TimerSetTimeFlags::TFD_TIMER_ABSTIME;
        self.timer.set(Expiration::OneShot(end), at)?;
        self.answered = true;
        Ok(())
    }

    /// Makes it last from now on.
    fn begin(&mut self) -> io::Result<()> {
        self.sent = self.now()?;
        self.prolong()
    }

    /// Time until the next heartbeat, if the last one was answered.
    fn pause(&self) -> io::Result<Option<Duration>> {
        let next = self.sent + self.terms.heartbeat;
        let pause = next.saturating_sub(self.now()?);
        Ok(self.answered.then_some(pause))
    }
}

/// A rank that hands over.
struct Guest {
    stream: UnixStream,
    text: Vec<u8>,
    files: Vec<OwnedFd>,
    /// Whether it has told the token.
    known: bool,
    over: bool,
}

/// The images of a set, by rank.
type Images = BTreeMap<u32, HeldImage>;

struct Keeping {
    directory: PathBuf,
    token: String,
    listener: UnixListener,
    run: Arc<ToRun>,
    lease: Lease,
    /// Received bytes of an unfinished line of `stasis run`.
    text: Vec<u8>,
    guests: Vec<Guest>,
    sets: BTreeMap<[u8; 16], Images>,
}

impl Keeping {
    /// Sends the first message, and waits until this process is welcome.
    fn greet(&mut self) -> io::Result<()> {
        let limit = Some(self.lease.terms.lease);
        self.run.stream.set_read_timeout(limit)?;
        let hello = FromRank::KeepsNode {
            token: self.token.clone(),
            process: Process {
                host: addresses::host(),
                pid: std::process::id(),
            },
        };
        send(&self.run.stream, &hello)?;
        while !self.lease.answered {
            self.hear(&|| Ok(()))?;
        }
        Ok(())
    }

    /// Waits for an event and treats it.
    fn turn(&mut self, room: &impl Fn() -> Result<(), String>) -> io::Result<()> {
        let pause = self.lease.pause()?;
        let limit = pause.map_or(PollTimeout::NONE, |pause| {
            PollTimeout::try_from(pause + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
        });
        let mut watched = vec![self.run.stream.as_fd(), self.listener.as_fd()];
        watched.extend(self.guests.iter().map(|guest| guest.stream.as_fd()));
        let images = self.sets.values().flat_map(Images::values);
        watched.extend(images.map(HeldImage::end));
        let watched = watched.into_iter();
        let mut watched: Vec<PollFd<'_>> = watched
            .map(|fd: BorrowedFd<'_>| PollFd::new(fd, PollFlags::POLLIN))
            .collect();
        let _ = poll(&mut watched, limit);
        if watched[0].any().unwrap_or(true) {
            self.hear(room)?;
        }
        self.accept();
        for mut guest in std::mem::take(&mut self.guests) {
            self.serve(&mut guest)?;
            if !guest.over {
                self.guests.push(guest);
            }
        }
        let dead = |images: &Images| !images.values().all(HeldImage::lives);
        self.lose(dead, COPY_KILLED)?;
        if self.lease.pause()?.is_some_and(|pause| pause.is_zero()) {
            (self.lease.sent, self.lease.answered) = (self.lease.now()?, false);
            self.run.tell(&FromNode::Beat)?;
        }
        Ok(())
    }

    /// Reads what `stasis run` says, once.
    fn hear(&mut self, room: &impl Fn() -> Result<(), String>) -> io::Result<()> {
        let mut buffer = [0; 512];
        match (&self.run.stream).read(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => self.text.extend_from_slice(&buffer[..n]),
        }
        while let Some(message) = node_messages::take(&mut self.text)? {
            match message {
                ToNode::Welcome => self.lease.prolong()?,
                ToNode::Lives => {
                    self.lease.prolong()?;
                    if self.sets.is_empty() {
                        continue;
                    }
                    if let Err(why) = room() {
                        self.lose(|_| true, &format!("on {}: {why}", addresses::host()))?;
                    }
                }
                ToNode::Drop(set) => {
                    self.sets.remove(&set.0);
                }
                ToNode::DropAll => self.sets.clear(),
                ToNode::Write { set, directory } => {
                    let images = self.sets.remove(&set.0).unwrap_or_default();
                    self.write(set, images, &directory)?;
                }
            }
        }
        Ok(())
    }

    /// Gives up these sets, for this reason.
    fn lose(&mut self, which: impl Fn(&Images) -> bool, why: &str) -> io::Result<()> {
        let sets = std::mem::take(&mut self.sets).into_iter();
        let (lost, kept): (BTreeMap<_, _>, _) = sets.partition(|(_, images)| which(images));
        self.sets = kept;
        for set in lost.into_keys() {
            self.run.tell(&FromNode::Lost {
                set: SetId(set),
                why: why.to_owned(),
            })?;
        }
        Ok(())
    }

    /// Writes images in threads of their own, since the lease goes on.
    fn write(&self, set: SetId, images: Images, directory: &str) -> io::Result<()> {
        let directory = self.directory.join(directory);
        let run = self.run.clone();
        let thread = thread::Builder::new().name("stasis-rescue".into());
        thread.spawn(move || {
            let images: Vec<&HeldImage> = images.values().collect();
            let _ = write_all(&FileSystem::default(), &directory, &images, |image| {
                let image = image.as_ref().map_err(ToString::to_string);
                // Without a connection the process ends.
                let _ = run.tell(&FromNode::Wrote {
                    set,
                    image: image.cloned(),
                });
            });
        })?;
        Ok(())
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            let peer = getsockopt(&stream, PeerCredentials);
            let ours = peer.is_ok_and(|peer| peer.uid() == geteuid().as_raw());
            if ours && stream.set_nonblocking(true).is_ok() {
                self.guests.push(Guest {
                    stream,
                    text: Vec::new(),
                    files: Vec::new(),
                    known: false,
                    over: false,
                });
            }
        }
    }

    /// Reads what a rank says. A connection that breaks the rules is closed. An error is one of the connection to
    /// `stasis run`.
    fn serve(&mut self, guest: &mut Guest) -> io::Result<()> {
        let mut buffer = [0; 512];
        while !guest.over {
            match child_parts::receive(&guest.stream, &mut buffer, &mut guest.files) {
                Ok(n @ 1..) if guest.text.len() + n <= LONGEST => {
                    guest.text.extend_from_slice(&buffer[..n]);
                }
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => break,
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => guest.over = true,
            }
            while let Some(line) = take_line(&mut guest.text) {
                self.treat(guest, &line)?;
            }
        }
        Ok(())
    }

    fn treat(&mut self, guest: &mut Guest, line: &[u8]) -> io::Result<()> {
        match serde_json::from_slice(line) {
            Ok(FromRank::Hello { token, .. }) if token == self.token => guest.known = true,
            Ok(FromRank::Holds {
                set,
                number,
                rank,
                ranks,
                recipe,
            }) if guest.known => {
                guest.over = true;
                let child = child_parts::child_of(&mut guest.files);
                let image = child.and_then(|child| HeldImage::adopt(child, recipe).ok());
                // Otherwise its child is dead, and the rank gets no answer.
                if let Some(image) = image {
                    self.sets.entry(set.0).or_default().insert(rank, image);
                    self.run.tell(&FromNode::Holds {
                        set,
                        number,
                        rank,
                        ranks,
                    })?;
                    let _ = send(&guest.stream, &ToRank::Welcome);
                }
            }
            _ => guest.over = true,
        }
        Ok(())
    }
}
