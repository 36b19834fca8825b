//! The coordinator's threads and sockets, in rank 0's lower half: one thread that owns the machine
//! and all writing ends, one that accepts, one per connection that reads, and one for the disk.
//!
//! All threads inherit the signal mask of the thread that calls [`Server::start`].

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::addresses;
use crate::client::Client;
use crate::coordinator::{Action, Config, Coordinator, Event, PartialSet, Time, ToolId};
use crate::frame::{self, MAX_FIRST, MAX_FRAME};
use crate::job::{self, random_word, Address, JobFile};
use crate::protocol::{First, FromRank, Request, Summary, ToRank, ToTool, PROTOCOL};
use crate::schedule::{Due, Plan, Schedule};

/// How often time is told to the machine while a checkpoint is being taken.
const TICK: Duration = Duration::from_millis(50);
/// A stranger must say who he is within this time.
const FIRST_LIMIT: Duration = Duration::from_secs(10);
/// A peer that does not take a message within this time is lost.
const WRITE_LIMIT: Duration = Duration::from_secs(20);
/// The disk must be done with what it has begun within this time, when the job ends.
const DISK_LIMIT: Duration = Duration::from_secs(10);
/// Connections beyond the ranks' that may be open before they have said who they are.
const STRANGERS: usize = 64;

/// Where images are put: what the coordinator needs of it. Called on one thread.
pub trait Store: Send + 'static {
    /// Makes a directory for a new set.
    fn prepare(&mut self) -> Result<PartialSet, String>;
    /// Makes the prepared set whole. `images` are in the order of ranks.
    fn commit(&mut self, images: &[Summary]) -> Result<(), String>;
    /// Throws the prepared set away.
    fn discard(&mut self);
    /// What is left to do when a set was made whole, and nobody waits for: called once those who asked
    /// for it have their answer. The server ends only after it.
    fn tidy(&mut self);
}

/// What the server is to know.
pub struct Options {
    /// Number of ranks, and limits.
    pub config: Config,
    /// The checkpoint directory, in which the job file is left.
    pub directory: PathBuf,
    /// All ranks are on this machine: do not listen to any other.
    pub local: bool,
    /// When checkpoints are taken that no command asks for.
    pub plan: Plan,
    /// The program and its arguments, for people.
    pub program: Vec<String>,
    /// The MPI library below, for people.
    pub mpi: String,
}

/// Why the server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The job file.
    #[error(transparent)]
    Job(#[from] job::Error),
    /// Sockets, threads, randomness.
    #[error("the coordinator could not {0}: {1}; the job cannot be checkpointed")]
    System(&'static str, io::Error),
}

/// A running coordinator.
pub struct Server {
    job: JobFile,
    directory: PathBuf,
    said: Sender<Said>,
    connected: Arc<Connected>,
    /// Says nothing, and is closed when the disk's thread has ended.
    disk: Mutex<Receiver<Infallible>>,
}

/// How many ranks other than 0 are connected.
#[derive(Default)]
struct Connected {
    others: Mutex<usize>,
    changed: Condvar,
}

impl Connected {
    fn change(&self, change: impl FnOnce(&mut usize)) {
        change(&mut self.others.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }
}

enum Said {
    /// Somebody wants in. The answer admits the reading thread.
    Knock(First, TcpStream, Sender<Option<Peer>>),
    Rank(u32, FromRank),
    Gone(Peer),
    Disk(Event),
    Close,
}

#[derive(Clone, Copy)]
enum Peer {
    Rank(u32),
    Tool(ToolId),
}

enum Errand {
    Prepare(u64),
    Commit(u64, Vec<Summary>),
    Discard,
    Tidy,
}

impl Server {
    /// Starts listening and leaves the job file.
    pub fn start(options: Options, store: impl Store) -> Result<Server, Error> {
        // It was free before the program was loaded, or the image opened; but another job may have
        // been started at the same time.
        Client::check_free(&options.directory)?;
        let system = |what| move |e| Error::System(what, e);
        let bind = if options.local {
            Ipv4Addr::LOCALHOST
        } else {
            Ipv4Addr::UNSPECIFIED
        };
        let listener = TcpListener::bind((bind, 0)).map_err(system("listen for its ranks"))?;
        let port = listener
            .local_addr()
            .map_err(system("listen for its ranks"))?
            .port();
        let token = random_word().map_err(system("read /dev/urandom"))?;
        let mut addresses: Vec<IpAddr> = vec![];
        if !options.local {
            addresses = addresses::of_this_machine();
            addresses.retain(IpAddr::is_ipv4);
        }
        if addresses.is_empty() || options.local {
            addresses = vec![Ipv4Addr::LOCALHOST.into()];
        }
        let address = Address {
            addresses,
            port,
            token: token.clone(),
        };
        let job = JobFile::new(address, options.config.size, options.program, options.mpi);

        let (said, hear) = mpsc::channel();
        let (errands, orders) = mpsc::channel();
        let connected = Arc::new(Connected::default());
        let spawn = |name: &str, body: Box<dyn FnOnce() + Send>| {
            let thread = thread::Builder::new()
                .name(name.into())
                .stack_size(256 << 10)
                .spawn(body);
            thread.map(drop).map_err(system("start a thread"))
        };
        let begun = Instant::now();
        let main = Main {
            schedule: Schedule::new(options.plan, micros(begun)),
            machine: Coordinator::new(options.config),
            size: options.config.size,
            token,
            ranks: HashMap::new(),
            tools: HashMap::new(),
            next_tool: 1,
            errands,
            connected: connected.clone(),
            begun,
        };
        spawn("ckpt-coord", Box::new(move || main.run(&hear)))?;
        let back = said.clone();
        let (working, disk) = mpsc::channel();
        spawn(
            "ckpt-disk",
            Box::new(move || {
                errands_of(store, &orders, &back);
                drop(working);
            }),
        )?;
        let back = said.clone();
        let most = options.config.size as usize + STRANGERS;
        spawn(
            "ckpt-accept",
            Box::new(move || accept(&listener, &back, most)),
        )?;
        job.write(&options.directory)?;
        Ok(Server {
            job,
            directory: options.directory,
            said,
            connected,
            disk: Mutex::new(disk),
        })
    }

    /// What ranks need to connect.
    pub fn address(&self) -> &Address {
        &self.job.address
    }

    /// Waits until all ranks but 0 are gone, for at most so long: this process must be the last to
    /// go when the job is to end, since all messages come from here.
    pub fn wait_alone(&self, limit: Duration) {
        let others = self
            .connected
            .others
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let _ = self
            .connected
            .changed
            .wait_timeout_while(others, limit, |n| *n > 0);
    }

    /// The job ends: takes the job file away, stops answering, and lets the disk finish.
    pub fn close(&self) {
        self.job.remove(&self.directory);
        self.stop();
    }

    /// As [`Server::close`], for a job that ends with a checkpoint: the job file says so.
    pub fn close_with(&self, set: &str) {
        if let Err(why) = self.job.end_with(&self.directory, set) {
            eprintln!("stasis: {why}; the job can be continued from {set} all the same");
        }
        self.stop();
    }

    fn stop(&self) {
        let _ = self.said.send(Said::Close);
        let disk = self.disk.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = disk.recv_timeout(DISK_LIMIT);
    }
}

fn errands_of(mut store: impl Store, orders: &Receiver<Errand>, back: &Sender<Said>) {
    for order in orders {
        let event = match order {
            Errand::Prepare(epoch) => Event::Prepared(epoch, store.prepare()),
            Errand::Commit(epoch, images) => Event::Committed(epoch, store.commit(&images)),
            Errand::Discard => {
                store.discard();
                continue;
            }
            Errand::Tidy => {
                store.tidy();
                continue;
            }
        };
        if back.send(Said::Disk(event)).is_err() {
            return;
        }
    }
}

fn accept(listener: &TcpListener, said: &Sender<Said>, most: usize) {
    let strangers = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            // Out of file descriptors, most likely: give others time to close some.
            thread::sleep(TICK);
            continue;
        };
        if strangers.load(Ordering::Relaxed) >= most {
            continue;
        }
        strangers.fetch_add(1, Ordering::Relaxed);
        let (said, count) = (said.clone(), strangers.clone());
        let reader = move || {
            let peer = knock(&stream, &said);
            count.fetch_sub(1, Ordering::Relaxed);
            if let Some(peer) = peer {
                read(stream, peer, &said);
            }
        };
        let spawned = thread::Builder::new()
            .name("ckpt-peer".into())
            .stack_size(256 << 10)
            .spawn(reader);
        if spawned.is_err() {
            strangers.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Reads who is there and has him admitted.
fn knock(stream: &TcpStream, said: &Sender<Said>) -> Option<Peer> {
    stream.set_nodelay(true).ok()?;
    stream.set_read_timeout(Some(FIRST_LIMIT)).ok()?;
    stream.set_write_timeout(Some(WRITE_LIMIT)).ok()?;
    let first = frame::receive(&mut &*stream, MAX_FIRST).ok()?;
    stream.set_read_timeout(None).ok()?;
    let (answer, admitted) = mpsc::channel();
    said.send(Said::Knock(first, stream.try_clone().ok()?, answer))
        .ok()?;
    admitted.recv().ok()?
}

fn read(mut stream: TcpStream, peer: Peer, said: &Sender<Said>) {
    while let Ok(message) = frame::receive::<FromRank>(&mut stream, MAX_FRAME) {
        let Peer::Rank(rank) = peer else { break };
        if said.send(Said::Rank(rank, message)).is_err() {
            return;
        }
    }
    let _ = said.send(Said::Gone(peer));
}

/// The thread that owns the machine.
struct Main {
    schedule: Schedule,
    machine: Coordinator,
    size: u32,
    token: String,
    ranks: HashMap<u32, TcpStream>,
    tools: HashMap<ToolId, TcpStream>,
    next_tool: ToolId,
    errands: Sender<Errand>,
    connected: Arc<Connected>,
    begun: Instant,
}

impl Main {
    fn run(mut self, hear: &Receiver<Said>) {
        let mut tick = Instant::now() + TICK;
        loop {
            let now = Instant::now();
            if self.machine.busy() && now >= tick {
                tick = now + TICK;
                self.event(Event::Tick);
            }
            while let Some(due) = self.schedule.due(micros(self.begun)) {
                self.event(match due {
                    Due::Interval => Event::Due,
                    Due::Last { stop } => Event::Request { tool: None, stop },
                });
            }
            let due = self.schedule.next();
            let due = due.map(|due| self.begun + Duration::from_micros(due));
            let wake = match (self.machine.busy(), due) {
                (true, Some(due)) => Some(tick.min(due)),
                (true, None) => Some(tick),
                (false, due) => due,
            };
            let said = match wake {
                Some(time) => hear.recv_timeout(time.saturating_duration_since(Instant::now())),
                None => hear.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match said {
                Ok(Said::Close) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(said) => self.hear(said),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn hear(&mut self, said: Said) {
        match said {
            Said::Knock(first, stream, answer) => {
                let peer = self.admit(first, stream);
                let _ = answer.send(peer);
            }
            Said::Rank(rank, FromRank::Asks { .. })
                if !self.schedule.asks(micros(self.begun), rank) => {}
            Said::Rank(rank, message) => self.event(Event::Message(rank, message)),
            Said::Gone(Peer::Rank(rank)) => self.lose(rank),
            Said::Gone(Peer::Tool(tool)) => {
                self.tools.remove(&tool);
                self.event(Event::ToolLost(tool));
            }
            Said::Disk(event) => self.event(event),
            Said::Close => {}
        }
    }

    fn lose(&mut self, rank: u32) {
        if let Some(stream) = self.ranks.remove(&rank) {
            let _ = stream.shutdown(Shutdown::Both);
            if rank != 0 {
                self.connected.change(|n| *n -= 1);
            }
            self.event(Event::Lost(rank));
        }
    }

    fn admit(&mut self, first: First, mut stream: TcpStream) -> Option<Peer> {
        match first {
            First::Rank(hello) => {
                let welcome = check(hello.protocol, &hello.token, &self.token)
                    .and_then(|()| self.machine.admits(hello.rank, hello.size));
                if let Err(reason) = welcome {
                    let _ = frame::send(&mut stream, &ToRank::Rejected { reason });
                    return None;
                }
                let rank = hello.rank;
                self.ranks.insert(rank, stream);
                if rank != 0 {
                    self.connected.change(|n| *n += 1);
                }
                self.event(Event::Connected {
                    rank,
                    host: hello.host,
                    pid: hello.pid,
                });
                Some(Peer::Rank(rank))
            }
            First::Tool {
                protocol,
                token,
                request,
            } => {
                if let Err(reason) = check(protocol, &token, &self.token) {
                    let _ = frame::send(&mut stream, &ToTool::Rejected(reason));
                    return None;
                }
                let tool = self.next_tool;
                self.next_tool += 1;
                self.tools.insert(tool, stream);
                self.event(match request {
                    Request::Checkpoint { stop, .. } => Event::Request {
                        tool: Some(tool),
                        stop,
                    },
                    Request::Status => Event::AskStatus(tool),
                });
                if let Request::Checkpoint { wait: false, .. } = request {
                    // If there can be none it was told so before.
                    self.reply(tool, &ToTool::Noted);
                }
                Some(Peer::Tool(tool))
            }
        }
    }

    fn event(&mut self, event: Event) {
        let now = micros(self.begun);
        let mut broken = Vec::new();
        let actions = self.machine.on(now, event);
        for action in actions {
            match action {
                Action::Send(message) => {
                    let bytes = frame::encode(&message).unwrap_or_default();
                    for (rank, stream) in &mut self.ranks {
                        if bytes.is_empty() || io::Write::write_all(stream, &bytes).is_err() {
                            broken.push(*rank);
                        }
                    }
                }
                Action::Tell(rank, message) => {
                    let told = self
                        .ranks
                        .get_mut(&rank)
                        .map(|to| frame::send(to, &message));
                    if !matches!(told, Some(Ok(()))) {
                        broken.push(rank);
                    }
                }
                Action::Reply(tool, ToTool::Status(mut status)) => {
                    status.next = self.schedule.describe(now);
                    self.reply(tool, &ToTool::Status(status));
                }
                Action::Reply(tool, message) => self.reply(tool, &message),
                Action::Prepare(epoch) => self.errand(Errand::Prepare(epoch)),
                Action::Commit(epoch, _, images) => self.errand(Errand::Commit(epoch, images)),
                Action::Discard(_) => self.errand(Errand::Discard),
                // The tools were answered by actions before this one.
                Action::Over(Ok(report)) => {
                    self.schedule.over(now, Some(&report));
                    self.errand(Errand::Tidy);
                }
                Action::Over(Err(reason)) => {
                    self.schedule.over(now, None);
                    eprintln!(
                        "stasis: a checkpoint was given up, the job of {} ranks runs on: {reason}",
                        self.size
                    );
                }
            }
        }
        for rank in broken {
            self.lose(rank);
        }
    }

    fn reply(&mut self, tool: ToolId, message: &ToTool) {
        // A tool that has gone away does not wait for its answer.
        if let Some(stream) = self.tools.get_mut(&tool) {
            let _ = frame::send(stream, message);
        }
    }

    fn errand(&self, errand: Errand) {
        // The disk's thread ends only after this one.
        let _ = self.errands.send(errand);
    }
}

fn micros(since: Instant) -> Time {
    since.elapsed().as_micros() as Time
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
