//! The ranks on other machines, and the node keepers there. Each has a connection by TCP, over which it asks for a
//! longer lease again and again. The lease of a node keeper does not end with the incarnation.
//!
//! A thread answers, so that no lease ends because the loop of [`run`](crate::run) waits for a file system. That loop,
//! too, reads what has come when it treats the ranks, since the order of deaths and last words counts.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use ckpt_image::SetId;
use coordinator::net::addresses;
use dump::WrittenImage;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};

use crate::hosts::LostHost;
use crate::keeper::Left;
use crate::leases::{Id, Leases, Terms};
use crate::memory_sets::{Image, Word};
use crate::messages::{
    send, take_line, FromRank, JobEnd, Member, Process, Refusal, ToRank, LONGEST,
};
use crate::node_messages::{self, FromNode, ToNode};
use crate::recovery::Departure;
use crate::run_file::{Network, RunFile};

/// Time limit for the first message of a connection.
const HELLO_LIMIT: Duration = Duration::from_secs(5);
/// Limit of connections without a first message.
const MOST_UNKNOWN: usize = 1024;
/// Number of connections beyond which heartbeats are collected for a time, to be answered at once.
const FEW: usize = 64;
const COLLECT: Duration = Duration::from_millis(5);
/// Pause after a failure to accept a connection, for want of descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// What has become of the ranks.
#[derive(Default)]
pub struct News {
    /// Ranks that have left.
    pub left: Vec<Left>,
    /// Lines about them for the user.
    pub lines: Vec<String>,
    /// Machines whose ranks do not answer.
    pub lost_hosts: Vec<LostHost>,
    /// The checkpoint from which the job would go on, if rank 0 has told one.
    pub covered: Option<u64>,
    /// Sets that ranks cannot go on from, and why.
    pub unusable: Vec<(u64, String)>,
    /// Why ranks cannot be started or restored.
    pub refusals: Vec<Refusal>,
    /// How a rank wants the job to be ended, since it cannot do that itself.
    pub ends_job: Option<JobEnd>,
    /// Messages of ranks and node keepers about checkpoints in memory.
    pub words: Vec<Word>,
    /// Node keepers' answers to orders to write, and their ends, in their order.
    pub answers: Vec<Answer>,
}

/// A node keeper's answer to an order to write images, or its end.
#[derive(Debug)]
pub struct Answer {
    /// The node keeper.
    pub node: Id,
    /// Its machine.
    pub host: String,
    /// An image of the set; without it the node keeper has ended.
    pub image: Option<(SetId, Result<WrittenImage, String>)>,
}

/// Place of a run file.
pub struct RunPath {
    /// The checkpoint directory.
    pub directory: PathBuf,
    /// Name of the file.
    pub name: &'static str,
}

/// The ranks on other machines.
pub struct Remote {
    state: Arc<Mutex<State>>,
    /// Becomes readable when there is news.
    wake: UnixStream,
}

impl Remote {
    /// Listens, and starts the thread that answers.
    ///
    /// # Errors
    /// No socket or no thread can be made.
    pub fn start(terms: Terms) -> io::Result<Remote> {
        let (wake, waker) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        waker.set_nonblocking(true)?;
        let listener = addresses::listen_to_all()?;
        listener.set_nonblocking(true)?;
        let state = State {
            listener: Arc::new(listener),
            terms,
            started: Instant::now(),
            run: None,
            leases: Leases::new(terms.until_dead()),
            nodes: Leases::new(terms.until_dead()),
            next: 0,
            connections: BTreeMap::new(),
            news: News::default(),
            starved: false,
            over: false,
            stirred: false,
            closed: false,
            waker,
        };
        let state = Arc::new(Mutex::new(state));
        let shared = state.clone();
        thread::Builder::new()
            .name("stasis-leases".into())
            .spawn(move || answer(&shared))?;
        Ok(Remote { state, wake })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Where the ranks connect.
    ///
    /// # Errors
    /// The address of the socket cannot be read.
    pub fn network(&self) -> io::Result<Network> {
        let state = self.state();
        Ok(Network {
            addresses: addresses::of_listener(&state.listener)?,
            port: state.listener.local_addr()?.port(),
            terms: state.terms,
            used: state.is_used(),
        })
    }

    /// Lets the ranks of the next incarnation run, or of a standby world, which `file` names. All ranks of the last one
    /// are dead.
    pub fn next(&self, file: RunFile, path: RunPath) {
        let mut state = self.state();
        state.leases = Leases::new(state.terms.until_dead());
        state.connections.retain(|_, known| known.holder.is_none());
        state.news = News::default();
        state.run = Some((file, path));
        // A rank may have handed over an image before it died, and `stasis run` may not have heard of it.
        let nodes = state.connections.iter();
        let nodes = nodes.filter_map(|(id, known)| known.node.as_ref().map(|_| *id));
        for node in nodes.collect::<Vec<_>>() {
            state.tell_node(node, &ToNode::DropAll);
        }
    }

    /// A handle by which node keepers are told what to do.
    pub fn orders(&self) -> Orders {
        Orders {
            state: self.state.clone(),
        }
    }

    /// The standby world of these ranks is the running incarnation from now on, which `file` names.
    pub fn take_over(&self, file: RunFile, path: RunPath) {
        self.state().run = Some((file, path));
    }

    /// For each rank that is asleep, the size of its standby world.
    pub fn asleep(&self) -> Vec<u32> {
        let state = self.state();
        let holders = state.connections.values();
        let holders = holders.filter_map(|known| known.holder.as_ref());
        holders.filter_map(|holder| holder.asleep).collect()
    }

    /// For each rank the checkpoint whose image it has mapped in its sleep.
    pub fn mapped(&self) -> Vec<Option<u64>> {
        let state = self.state();
        let holders = state.connections.values();
        let holders = holders.filter_map(|known| known.holder.as_ref());
        let ranks = holders.filter(|holder| !holder.announced);
        ranks.map(|holder| holder.mapped).collect()
    }

    /// Tells all ranks that sleep. One that cannot be told is lost when its lease ends.
    pub fn tell_asleep(&self, message: ToRank) {
        let state = self.state();
        for known in state.connections.values() {
            let asleep = known.holder.as_ref().and_then(|holder| holder.asleep);
            if let (Some(stream), Some(_)) = (&known.stream, asleep) {
                let _ = send(&**stream, &message);
            }
        }
    }

    /// Descriptor to poll.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// What has become of the ranks since the last call.
    pub fn turn(&self) -> News {
        // Only wakes the caller.
        let _ = (&self.wake).read(&mut [0; 64]);
        let mut state = self.state();
        // New connections are left to the thread, which has to watch them.
        let known = state.connections.iter();
        let known = known.filter(|(_, known)| !known.is_unknown());
        let known: Vec<Id> = known.map(|(id, _)| *id).collect();
        state.pump(&known);
        std::mem::take(&mut state.news)
    }

    /// Ends the incarnation: no lease is given or prolonged any more, and all ranks are told to die.
    pub fn end(&self) {
        let mut state = self.state();
        state.leases.end();
        for known in state
            .connections
            .values()
            .filter(|known| known.holder.is_some())
        {
            if let Some(stream) = &known.stream {
                // One that does not hear it dies when its lease ends.
                let _ = send(&**stream, &ToRank::Dies);
            }
        }
    }

    /// Whether ranks of the incarnation have connected.
    pub fn has_ranks(&self) -> bool {
        let state = self.state();
        let mut connections = state.connections.values();
        connections.any(|known| {
            let holder = known.holder.as_ref();
            holder.is_some_and(|holder| !holder.announced)
        })
    }

    /// The ranks of the incarnation that have connected or were announced.
    pub fn members(&self) -> Vec<Member> {
        let state = self.state();
        let holders = state.connections.values();
        let holders = holders.filter_map(|known| known.holder.as_ref());
        holders.map(|holder| holder.member).collect()
    }

    /// Whether a rank is not known to be dead and has not said that it ends.
    pub fn has_running(&self) -> bool {
        let state = self.state();
        let mut connections = state.connections.iter();
        connections.any(|(id, known)| {
            let holder = known.holder.as_ref();
            holder.is_some_and(|holder| !holder.told) && !state.leases.is_dead(*id)
        })
    }

    /// Whether none of its ranks can run anything of the program.
    pub fn all_dead(&self) -> bool {
        self.state().leases.all_dead()
    }

    /// Whether the incarnation ends, and none of its ranks can live.
    pub fn is_over(&self) -> bool {
        self.state().leases.is_over()
    }
}

impl Drop for Remote {
    /// Ends the thread, which a connection wakes.
    fn drop(&mut self) {
        let listener = {
            let mut state = self.state();
            state.closed = true;
            state.listener.clone()
        };
        if let Ok(address) = listener.local_addr() {
            let port = address.port();
            let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, port))
                .or_else(|_| TcpStream::connect((Ipv6Addr::LOCALHOST, port)));
        }
    }
}

/// Tells node keepers what to do.
pub struct Orders {
    state: Arc<Mutex<State>>,
}

impl Orders {
    /// Tells one of them. One that cannot be told is lost when its lease ends, which is an [`Answer`].
    pub fn tell(&self, node: Id, order: &ToNode) {
        lock(&self.state).tell_node(node, order);
    }
}

/// The thread that answers.
fn answer(shared: &Mutex<State>) {
    let mut ready = Vec::new();
    loop {
        let (listener, streams, limit) = {
            let mut state = lock(shared);
            if state.closed {
                return;
            }
            state.pump(&ready);
            state.accept_all();
            let streams = state.connections.iter();
            let streams = streams.filter_map(|(id, known)| Some((*id, known.stream.clone()?)));
            let streams: Vec<(Id, Arc<TcpStream>)> = streams.collect();
            let listener = (!state.starved).then(|| state.listener.clone());
            (listener, streams, state.pause())
        };
        if streams.len() > FEW {
            thread::sleep(COLLECT);
        }
        let all = streams.iter().map(|(_, stream)| stream.as_fd());
        let all = all.chain(listener.as_ref().map(AsFd::as_fd));
        let mut all: Vec<PollFd<'_>> = all.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        let _ = poll(&mut all, limit);
        let found = streams.iter().zip(&all);
        let found = found.filter(|(_, polled)| polled.any().unwrap_or(true));
        ready = found.map(|((id, _), _)| *id).collect();
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

struct State {
    listener: Arc<TcpListener>,
    terms: Terms,
    started: Instant,
    /// The run file of the incarnation that may run, or of the standby world, and its place.
    run: Option<(RunFile, RunPath)>,
    leases: Leases,
    /// The leases of node keepers.
    nodes: Leases,
    next: Id,
    connections: BTreeMap<Id, Known>,
    news: News,
    /// Whether the last connection could not be accepted.
    starved: bool,
    /// Whether the incarnation was over at the last look.
    over: bool,
    /// Whether a rank has said something besides that it leaves, since the last look.
    stirred: bool,
    /// Whether the thread is to end.
    closed: bool,
    waker: UnixStream,
}

/// A connection.
struct Known {
    /// None after its end.
    stream: Option<Arc<TcpStream>>,
    peer: IpAddr,
    since: Instant,
    /// Received bytes of an unfinished line.
    text: Vec<u8>,
    /// Set by the first message of a rank.
    holder: Option<Holder>,
    /// Set by the first message of a node keeper.
    node: Option<Process>,
}

impl Known {
    /// Whether it has had no first message.
    fn is_unknown(&self) -> bool {
        self.holder.is_none() && self.node.is_none()
    }

    /// Longest line that is read.
    fn longest(&self) -> usize {
        self.node
            .as_ref()
            .map_or(LONGEST, |_| node_messages::LONGEST)
    }
}

struct Holder {
    member: Member,
    process: Process,
    /// Whether it is only announced.
    announced: bool,
    /// Whether it has said that it ends.
    told: bool,
    /// Size of the standby world in which it sleeps.
    asleep: Option<u32>,
    /// The checkpoint whose image it has mapped in its sleep.
    mapped: Option<u64>,
}

impl Holder {
    fn name(&self) -> String {
        match self.member.rank {
            Some(rank) => format!("rank {rank} on {}", self.process.host),
            None => format!("process {} on {}", self.process.pid, self.process.host),
        }
    }
}

/// What reading a connection has found.
enum Found {
    Open,
    Closed,
    Broken,
}

impl State {
    fn is_used(&self) -> bool {
        let network = self
            .run
            .as_ref()
            .and_then(|(file, _)| file.network.as_ref());
        network.is_some_and(|network| network.used)
    }

    /// Does what can be done without waiting. These connections may have something to be read.
    fn pump(&mut self, ready: &[Id]) {
        for id in ready {
            self.read(*id);
        }
        for (id, how) in self.leases.expired(self.started.elapsed()) {
            self.lose(id, how);
        }
        for (id, _) in self.nodes.expired(self.started.elapsed()) {
            self.lose_node(id);
        }
        // Those without a first message are none of the job's.
        self.connections.retain(|_, known| {
            !known.is_unknown() || known.stream.is_some() && known.since.elapsed() < HELLO_LIMIT
        });
        let over = self.leases.is_over();
        let stirred = std::mem::take(&mut self.stirred);
        if stirred || !self.news.left.is_empty() || over && !self.over {
            let _ = (&self.waker).write(b"!");
        }
        self.over = over;
    }

    fn accept_all(&mut self) {
        self.starved = false;
        loop {
            match self.listener.accept() {
                // A socket for both families has addresses of IPv4 in the form of IPv6.
                Ok((stream, peer)) => self.accept(stream, peer.ip().to_canonical()),
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => break,
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(why) if why.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(_) => {
                    self.starved = true;
                    break;
                }
            }
        }
    }

    /// Time until a lease ends, or a connection has to have had its first message.
    fn pause(&self) -> PollTimeout {
        let lease = [&self.leases, &self.nodes].map(Leases::next_end);
        let lease = lease.into_iter().flatten().min();
        let lease = lease.map(|end| end.saturating_sub(self.started.elapsed()));
        let unknown = self.connections.values().any(Known::is_unknown);
        let pauses = [
            lease,
            unknown.then_some(HELLO_LIMIT),
            self.starved.then_some(PAUSE),
        ];
        let pause = pauses.into_iter().flatten().min();
        pause.map_or(PollTimeout::NONE, |pause| {
            PollTimeout::try_from(pause + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
        })
    }

    fn accept(&mut self, stream: TcpStream, peer: IpAddr) {
        if stream.set_nonblocking(true).is_err() || stream.set_nodelay(true).is_err() {
            return;
        }
        let unknown = self
            .connections
            .iter()
            .filter(|(_, known)| known.is_unknown());
        let oldest = unknown.clone().next().map(|(id, _)| *id);
        if unknown.count() >= MOST_UNKNOWN {
            oldest.and_then(|oldest| self.connections.remove(&oldest));
        }
        let id = self.next;
        self.next += 1;
        self.connections.insert(
            id,
            Known {
                stream: Some(Arc::new(stream)),
                peer,
                since: Instant::now(),
                text: Vec::new(),
                holder: None,
                node: None,
            },
        );
        self.read(id);
    }

    /// Reads the messages of a connection. One that breaks the rules is closed.
    fn read(&mut self, id: Id) {
        let mut buffer = [0; 512];
        loop {
            let Some(known) = self.connections.get_mut(&id) else {
                return;
            };
            let Some(stream) = known.stream.clone() else {
                return;
            };
            let end = match (&*stream).read(&mut buffer) {
                Ok(0) => Found::Closed,
                Ok(n) if known.text.len() + n <= known.longest() => {
                    known.text.extend_from_slice(&buffer[..n]);
                    Found::Open
                }
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => return,
                Err(why) if why.kind() == io::ErrorKind::Interrupted => continue,
                Ok(_) | Err(_) => Found::Broken,
            };
            let mut rules = true;
            while let Some(line) = self.line(id) {
                rules = rules && self.treat(id, &stream, &line);
            }
            match end {
                Found::Open if rules => {}
                Found::Closed => {
                    self.drop_stream(id);
                    if let Some(how) = self.leases.closed(id, self.started.elapsed()) {
                        self.lose(id, how);
                    }
                    if self.nodes.closed(id, self.started.elapsed()).is_some() {
                        self.lose_node(id);
                    }
                }
                Found::Open | Found::Broken => {
                    self.break_off(id);
                }
            }
        }
    }

    fn line(&mut self, id: Id) -> Option<Vec<u8>> {
        take_line(&mut self.connections.get_mut(&id)?.text)
    }

    /// The connection is of no use any more. Its other side dies when its lease ends.
    fn break_off(&mut self, id: Id) {
        self.drop_stream(id);
        self.leases.broken(id, self.started.elapsed());
        self.nodes.broken(id, self.started.elapsed());
    }

    /// Treats a line. Returns false if the connection is to be closed.
    fn treat(&mut self, id: Id, stream: &TcpStream, line: &[u8]) -> bool {
        let known = self.connections.get(&id);
        if known.is_some_and(|known| known.node.is_some()) {
            let message = serde_json::from_slice(line);
            return message.is_ok_and(|message| self.receive_of_node(id, stream, message));
        }
        let message = serde_json::from_slice(line);
        message.is_ok_and(|message| self.receive(id, stream, message))
    }

    /// Treats a message of a node keeper.
    fn receive_of_node(&mut self, id: Id, stream: &TcpStream, message: FromNode) -> bool {
        match message {
            FromNode::Beat => {
                let lives = self.nodes.beat(id, self.started.elapsed());
                return !lives || send(stream, &ToNode::Lives).is_ok();
            }
            FromNode::Holds {
                set,
                number,
                rank,
                ranks,
            } => self.news.words.push(Word::Holds {
                set,
                number,
                rank,
                ranks,
                image: Image::At(id),
            }),
            FromNode::Lost { set, why } => self.news.words.push(Word::Lost(set, why)),
            FromNode::Wrote { set, image } => self.answer_of(id, Some((set, image))),
        }
        self.stirred = true;
        true
    }

    fn answer_of(&mut self, node: Id, image: Option<(SetId, Result<WrittenImage, String>)>) {
        let known = self.connections.get(&node);
        if let Some(process) = known.and_then(|known| known.node.as_ref()) {
            let host = process.host.clone();
            self.news.answers.push(Answer { node, host, image });
            self.stirred = true;
        }
    }

    /// A node keeper has ended.
    fn lose_node(&mut self, id: Id) {
        self.answer_of(id, None);
        self.connections.remove(&id);
    }

    fn tell_node(&mut self, node: Id, order: &ToNode) {
        let stream = self
            .connections
            .get(&node)
            .and_then(|known| known.stream.clone());
        if stream.is_some_and(|stream| send(&*stream, order).is_err()) {
            self.break_off(node);
        }
    }

    /// The first message of a node keeper.
    fn welcome_node(&mut self, id: Id, stream: &TcpStream, process: Process) -> bool {
        // If this process dies, the next one has to know that there are leases.
        let welcome = self.note_use() && self.nodes.welcome(id, self.started.elapsed());
        if let Some(known) = self.connections.get_mut(&id).filter(|_| welcome) {
            known.node = Some(process);
        }
        welcome && send(stream, &ToNode::Welcome).is_ok()
    }

    fn drop_stream(&mut self, id: Id) {
        if let Some(known) = self.connections.get_mut(&id) {
            known.stream = None;
        }
    }

    /// Treats a message. Returns false if the connection is to be closed.
    fn receive(&mut self, id: Id, stream: &TcpStream, message: FromRank) -> bool {
        let now = self.started.elapsed();
        let how = match message {
            FromRank::Hello {
                token,
                incarnation,
                member,
                process: Some(process),
                announced,
            } if self.is_ours(&token, incarnation) => {
                let holder = Holder {
                    member,
                    process,
                    announced,
                    told: false,
                    asleep: None,
                    mapped: None,
                };
                return self.hello(id, stream, holder);
            }
            FromRank::Hello { token, .. } => {
                return self.refuse(stream, &token);
            }
            FromRank::KeepsNode { token, process } => {
                return self.file_with(&token).is_some() && self.welcome_node(id, stream, process);
            }
            FromRank::Beat => {
                // One that is not answered any more dies when its lease ends, unless it hears the order before.
                return !self.leases.beat(id, now) || send(stream, &ToRank::Lives).is_ok();
            }
            FromRank::Executes => {
                self.leases.executes(id);
                return true;
            }
            FromRank::Covered(set) => {
                self.news.covered = self.news.covered.max(Some(set));
                self.stirred = true;
                return true;
            }
            FromRank::Unusable { set, why } => {
                self.news.unusable.push((set, why));
                self.stirred = true;
                return true;
            }
            FromRank::Asleep { ranks } => {
                return self.note(id, |holder| holder.asleep = Some(ranks));
            }
            FromRank::Mapped(set) => {
                return self.note(id, |holder| holder.mapped = Some(set));
            }
            FromRank::Held(set) => return self.word(id, Word::Held(set)),
            FromRank::NotHeld(set) => return self.word(id, Word::NotHeld(set)),
            // Its node keeper says so. A job of MPI Stages is on one machine.
            FromRank::Holds { .. } | FromRank::StandIn(_) | FromRank::Survives(_) => return true,
            FromRank::Exits(code) => Departure::Exits(code),
            FromRank::Leaves(code) => Departure::Leaves(code),
            FromRank::EndsJob(end) => {
                let code = end.code;
                self.news.ends_job.get_or_insert(end);
                Departure::Aborts(code)
            }
            FromRank::Aborts(code) => Departure::Aborts(code),
            FromRank::Fails => Departure::Fails,
            FromRank::Refuses(refusal) => {
                self.news.refusals.push(refusal);
                Departure::Refused
            }
        };
        let Some(holder) = self
            .connections
            .get_mut(&id)
            .and_then(|known| known.holder.as_mut())
        else {
            return false;
        };
        holder.told = true;
        let rank = holder.member.rank;
        self.news.left.push(Left { rank, how });
        true
    }

    /// Notes what a rank of a standby world has said.
    fn note(&mut self, id: Id, note: impl FnOnce(&mut Holder)) -> bool {
        let known = self.connections.get_mut(&id);
        known.and_then(|known| known.holder.as_mut()).map(note);
        self.stirred = true;
        true
    }

    /// Notes what a rank has said about a checkpoint in memory.
    fn word(&mut self, id: Id, word: Word) -> bool {
        let known = self.connections.get(&id);
        let is_rank = known.is_some_and(|known| known.holder.is_some());
        if is_rank {
            self.news.words.push(word);
            self.stirred = true;
        }
        is_rank
    }

    /// The run file, if it has this token.
    fn file_with(&self, token: &str) -> Option<&RunFile> {
        let file = self.run.as_ref().map(|(file, _)| file);
        file.filter(|file| file.token == token)
    }

    /// Whether the first message is that of a rank of the incarnation that may run.
    fn is_ours(&self, token: &str, incarnation: u32) -> bool {
        let file = self.file_with(token);
        file.is_some_and(|file| file.incarnation == incarnation)
    }

    /// Tells a rank of another incarnation that it must not run.
    fn refuse(&self, stream: &TcpStream, token: &str) -> bool {
        if let Some(file) = self.file_with(token) {
            let by = file.incarnation;
            let _ = send(stream, &ToRank::Superseded { by });
        }
        false
    }

    /// A rank of the incarnation that may run.
    fn hello(&mut self, id: Id, stream: &TcpStream, holder: Holder) -> bool {
        let Some(peer) = self.connections.get(&id).map(|known| known.peer) else {
            return false;
        };
        let before = self.connections.iter().filter(|(_, known)| {
            let its = known.holder.as_ref();
            known.peer == peer && its.is_some_and(|its| its.process == holder.process)
        });
        let before: Vec<Id> = before.map(|(id, _)| *id).collect();
        for before in before {
            // It may have said so, and not been heard yet.
            self.read(before);
            self.leases.has_executed(before);
        }
        let now = self.started.elapsed();
        let may_run = match holder.announced {
            true => self.leases.announce(id, now),
            // If this process dies, the next one has to know that there are leases.
            false => self.note_use() && self.leases.welcome(id, now),
        };
        if !may_run {
            let next = self
                .run
                .as_ref()
                .map_or(0, |(file, _)| file.incarnation + 1);
            let _ = send(stream, &ToRank::Superseded { by: next });
            return false;
        }
        if let Some(known) = self.connections.get_mut(&id) {
            known.holder = Some(holder);
        }
        send(stream, &ToRank::Welcome).is_ok()
    }

    fn note_use(&mut self) -> bool {
        let Some((file, path)) = &mut self.run else {
            return false;
        };
        let Some(network) = file.network.as_mut().filter(|network| !network.used) else {
            return true;
        };
        network.used = true;
        let written = file.write(&path.directory, path.name);
        if let (Err(why), Some(network)) = (&written, &mut file.network) {
            network.used = false;
            self.news
                .lines
                .push(format!("a rank of another machine is refused: {why}"));
        }
        written.is_ok()
    }

    /// A rank is lost.
    fn lose(&mut self, id: Id, how: Departure) {
        let Some(known) = self.connections.get_mut(&id) else {
            return;
        };
        known.stream = None;
        let Some(holder) = known
            .holder
            .as_ref()
            .filter(|holder| !holder.told || how == Departure::Silent)
        else {
            return;
        };
        self.news.lines.push(match how {
            Departure::Silent => format!(
                "{} has not answered for {} s",
                holder.name(),
                self.terms.lease.as_secs_f64()
            ),
            Departure::Unstarted => format!("{} has ended before it ran", holder.name()),
            _ => format!("{} has died", holder.name()),
        });
        if how == Departure::Silent {
            self.news.lost_hosts.push(LostHost {
                name: holder.process.host.clone(),
                address: known.peer,
            });
        }
        let rank = holder.member.rank;
        self.news.left.push(Left { rank, how });
    }
}
