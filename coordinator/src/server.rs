//! The coordinator's threads and sockets, in rank 0's lower half. One thread owns the machine and all
//! writing ends, and one does the file operations. The thread of the `Listener` accepts connections and
//! reads. In a small job all ranks are connected, in a large one the relays next to the coordinator
//! ([`crate::net::tree`]).
//!
//! All threads inherit the signal mask of the thread that calls [`Server::start`].

use std::collections::{BTreeSet, HashMap};
use std::convert::Infallible;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use history::event::{self, Cause, MOST_LISTED};
use launcher::message;

use crate::child_programs::{child_programs, ChildProgram};
use crate::chronicle::{self, Chronicle};
use crate::claim::{check_free, claim};
use crate::job_directory::JobDirectory;
use crate::job_file::{self, JobFile};
use crate::net::aggregate::{per_rank, Orders};
use crate::net::children::{ChildKind, Children, Connected};
use crate::net::contact::{random_token, Address};
use crate::net::frame;
use crate::net::listener::{reject, remove_sockets, Listener, NetEvent, Reach};
use crate::net::routes::LinkId;
use crate::net::stream::Stream;
use crate::protocol::coordinator::{
    Action, ClientId, Config, Coordinator, Cost, Event, PartialSet, Time,
};
use crate::protocol::messages::{
    FromRank, Hello, Level, Member, Report, Request, Summary, ToClient, ToParent,
};
use crate::protocol::rank_set::RankSet;
use crate::schedule::{Due, Plan, Schedule};
use crate::threads::spawn;

/// Interval of the ticks for the machine while a checkpoint is being taken.
const TICK: Duration = Duration::from_millis(50);
/// Time limit at the end of the job for file operations that have begun.
const DISK_LIMIT: Duration = Duration::from_secs(10);

/// Interval of the checks that the job still has its directory.
const DIRECTORY_CHECK: Duration = Duration::from_secs(5);

/// Storage of image sets, as far as the coordinator uses it. Called on one thread.
pub trait Store: Send + 'static {
    /// Creates the checkpoint directory if it does not exist.
    ///
    /// # Errors
    /// The reason, for the user.
    fn make_directory(&mut self) -> Result<(), String>;
    /// Creates the directory of a new set.
    ///
    /// # Errors
    /// The reason, for the user. The checkpoint is given up.
    fn prepare(&mut self) -> Result<PartialSet, String>;
    /// Prepares a set whose images stay in memory.
    ///
    /// # Errors
    /// The reason, for the user. The checkpoint is given up.
    fn prepare_in_memory(&mut self) -> Result<PartialSet, String>;
    /// Commits the prepared set. `images` are in the order of ranks.
    ///
    /// # Errors
    /// The reason, for the user. The checkpoint is given up.
    fn commit(&mut self, images: &[Summary], cost: Cost) -> Result<(), String>;
    /// Removes the prepared set.
    fn discard(&mut self);
    /// Does the remaining work after a commit, such as the removal of old sets. Called after the clients
    /// have their answers. The server ends only after it.
    fn tidy(&mut self);
}

/// Settings of the server.
pub struct Options {
    /// Number of ranks, and time limits.
    pub config: Config,
    /// Checkpoint directory, with the job file.
    pub directory: PathBuf,
    /// Whether all ranks are on this machine; no other machine can connect then.
    pub local: bool,
    /// Times of the checkpoints that no command requests.
    pub plan: Plan,
    /// Program and arguments, for the user.
    pub program: Vec<String>,
    /// MPI library of the lower half, for the user.
    pub mpi: String,
    /// The job's history.
    pub history: chronicle::Options,
}

/// Failure to start the server.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The job file could not be written.
    #[error(transparent)]
    Job(#[from] job_file::Error),
    /// A system call for sockets, threads or random numbers failed.
    #[error("the coordinator could not {0}: {1}; the job cannot be checkpointed")]
    System(&'static str, io::Error),
}

/// A running coordinator.
pub struct Server {
    job: JobFile,
    directory: PathBuf,
    events: Sender<ServerEvent>,
    connected: Arc<Connected>,
    /// Never receives a value; closed when the file thread has ended.
    disk: Mutex<Receiver<Infallible>>,
}

enum ServerEvent {
    Net(NetEvent),
    Disk(Event),
    /// The job ends, as this event notes.
    Close(event::Event),
}

impl From<NetEvent> for ServerEvent {
    fn from(event: NetEvent) -> ServerEvent {
        ServerEvent::Net(event)
    }
}

enum DiskJob {
    Prepare(u64),
    PrepareInMemory(u64),
    Commit(u64, Vec<Summary>, Cost),
    Discard,
    /// The checkpoint is over: it is noted, and older ones are removed.
    Over(Box<Report>),
    Note(event::Event),
    Glance,
}

impl Server {
    /// Starts the listener and writes the job file. One that cannot be written, for example in a full directory, is
    /// written later.
    ///
    /// # Errors
    /// Another job has taken the directory; or a listener or a thread cannot be made.
    pub fn start(options: Options, store: impl Store) -> Result<Server, Error> {
        // The directory was free before the program was loaded or the image opened. Another job may have
        // started at the same time.
        check_free(&options.directory)?;
        let system = |what| move |e| Error::System(what, e);
        let token = random_token().map_err(system("make a token"))?;
        let reach = match options.local {
            true => Reach::Machine(Some(&options.directory)),
            false => Reach::Network,
        };
        let listener = Listener::open(&reach, token).map_err(system("listen for its ranks"))?;
        let address = listener.address.clone();
        let job = JobFile::new(address, options.config.size, options.program, options.mpi);

        let (events, incoming) = mpsc::channel();
        let (disk_jobs, orders) = mpsc::channel();
        let children = Children::new(0);
        let connected = children.connected();
        let begun = Instant::now();
        let main = ServerLoop {
            schedule: Schedule::new(options.plan, micros(begun)),
            machine: Coordinator::new(options.config),
            size: options.config.size,
            children,
            clients: HashMap::new(),
            started: BTreeSet::new(),
            disk_jobs,
            begun,
            told_not_held: false,
        };
        let thread = system("start a thread");
        spawn("ckpt-coord", move || main.run(&incoming)).map_err(thread)?;
        let ranks = options.config.size as usize;
        let listener = listener.serve(events.clone(), ranks).map_err(thread)?;
        let socket = job.address.socket.as_deref();
        let written = match claim(&job, &options.directory) {
            Ok(()) => Ok(()),
            // A full directory may have room later.
            Err(why @ job_file::Error::Io(..)) => Err(why.to_string()),
            Err(why) => {
                socket.map(fs::remove_file);
                return Err(why.into());
            }
        };
        remove_sockets(&options.directory, socket);
        let place = JobDirectory::new(job.clone(), options.directory.clone(), listener, written);
        let back = events.clone();
        let (working, disk) = mpsc::channel();
        let directory = options.directory.clone();
        let disk_jobs = move || {
            let history = Chronicle::begin(directory, options.history);
            run_disk_jobs(store, place, history, &orders, &back);
            drop(working);
        };
        spawn("ckpt-disk", disk_jobs).map_err(thread)?;
        Ok(Server {
            job,
            directory: options.directory,
            events,
            connected,
            disk: Mutex::new(disk),
        })
    }

    /// Contact data for the ranks.
    pub fn address(&self) -> &Address {
        &self.job.address
    }

    /// Waits until all ranks but 0 are gone, for at most `limit`. At the end of the job this process must
    /// be the last to end, since all messages come from here.
    pub fn wait_alone(&self, limit: Duration) {
        self.connected.wait_for_none(limit);
    }

    /// Ends the job: stops answering, completes the file operations, and removes the job file. The order
    /// matters: a checkpoint that is still requested would write the file again. The exit code is that of this process.
    pub fn close(&self, exit_code: Option<i32>) {
        self.stop(event::Event::End {
            set: None,
            exit_code: exit_code.filter(|code| *code != 0),
        });
        if self.job.is_in(&self.directory).unwrap_or(false) {
            self.job.remove(&self.directory);
            remove_sockets(&self.directory, None);
        }
    }

    /// Like [`Server::close`], for a job that ends with a checkpoint; the job file names the set.
    pub fn close_with(&self, set: &str) {
        if let Err(why) = self.job.end_with(&self.directory, set) {
            message::say(format_args!(
                "{why}; the job can be continued from {set} all the same"
            ));
        }
        if self.job.is_in(&self.directory).unwrap_or(false) {
            remove_sockets(&self.directory, None);
        }
        self.stop(event::Event::End {
            set: Some(set.to_owned()),
            exit_code: None,
        });
    }

    fn stop(&self, end: event::Event) {
        let _ = self.events.send(ServerEvent::Close(end));
        let disk = self.disk.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = disk.recv_timeout(DISK_LIMIT);
    }
}

fn run_disk_jobs(
    mut store: impl Store,
    mut place: JobDirectory,
    mut history: Chronicle,
    orders: &Receiver<DiskJob>,
    back: &Sender<ServerEvent>,
) {
    for order in orders {
        let event = match order {
            DiskJob::Prepare(epoch) => {
                let placed = place.ensure(|| store.make_directory());
                Event::Prepared(epoch, placed.and_then(|()| store.prepare()))
            }
            DiskJob::PrepareInMemory(epoch) => Event::Prepared(epoch, store.prepare_in_memory()),
            DiskJob::Glance => {
                // A failure was reported already, and is reported again at each request for a checkpoint.
                let _ = place.ensure(|| store.make_directory());
                history.lives();
                continue;
            }
            DiskJob::Commit(epoch, images, cost) => {
                let event = Event::Committed(epoch, store.commit(&images, cost));
                if back.send(ServerEvent::Disk(event)).is_err() {
                    return;
                }
                // The commit of a large job does not wait for it.
                history.images(&images);
                continue;
            }
            DiskJob::Discard => {
                store.discard();
                continue;
            }
            DiskJob::Over(report) => {
                history.committed(*report);
                store.tidy();
                continue;
            }
            DiskJob::Note(event) => {
                history.note(event);
                continue;
            }
        };
        if back.send(ServerEvent::Disk(event)).is_err() {
            return;
        }
    }
}

/// The thread that owns the machine.
struct ServerLoop {
    schedule: Schedule,
    machine: Coordinator,
    size: u32,
    children: Children,
    clients: HashMap<ClientId, Arc<Stream>>,
    /// Child processes that were named to the waiting clients.
    started: BTreeSet<u32>,
    disk_jobs: Sender<DiskJob>,
    begun: Instant,
    /// Whether the user knows that no checkpoint is held in memory.
    told_not_held: bool,
}

impl ServerLoop {
    fn run(mut self, incoming: &Receiver<ServerEvent>) {
        let mut tick = Instant::now() + TICK;
        let mut next_check = Instant::now() + DIRECTORY_CHECK;
        loop {
            let now = Instant::now();
            if !self.machine.busy() && now >= next_check {
                next_check = now + DIRECTORY_CHECK;
                self.submit(DiskJob::Glance);
            }
            if self.machine.busy() && now >= tick {
                tick = now + TICK;
                self.event(Event::Tick);
                self.tell_of_started();
            }
            while let Some(due) = self.schedule.due(micros(self.begun)) {
                let absent = self.machine.absent();
                if absent > 0 {
                    eprintln!(
                        "stasis: a checkpoint is due, and waits for the ranks to call MPI_Init ({absent} of {} \
                         have not yet). Where a script was launched, only a program linked with MPI that \
                         it executes itself is followed: begin any other command with `exec`",
                        self.size
                    );
                }
                self.event(match due {
                    Due::Interval => Event::Due,
                    Due::Memory => Event::DueInMemory,
                    Due::Last { stop } => unattended(Cause::BeforeEnd, stop),
                    Due::Again { stop } => unattended(Cause::Retry, stop),
                });
            }
            let due = self.schedule.next();
            let due = due.map(|due| self.begun + Duration::from_micros(due));
            let next = match self.machine.busy() {
                true => tick,
                false => next_check,
            };
            let wake = due.map_or(next, |due| due.min(next));
            match incoming.recv_timeout(wake.saturating_duration_since(Instant::now())) {
                Ok(ServerEvent::Close(end)) => return self.submit(DiskJob::Note(end)),
                Err(RecvTimeoutError::Disconnected) => return,
                Ok(event) => self.handle(event),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Tells the clients that wait for MPI_Init about programs that this rank has started meanwhile.
    fn tell_of_started(&mut self) {
        if !self.machine.waits_for_init() {
            return;
        }
        for ChildProgram { pid, name } in child_programs() {
            if !self.started.insert(pid) {
                continue;
            }
            let note = ToClient::Note(format!(
                "rank 0 has not called MPI_Init, and has started another program, {name} (process {pid})"
            ));
            let clients: Vec<ClientId> = self.clients.keys().copied().collect();
            for client in clients {
                self.reply(client, &note);
            }
        }
    }

    fn handle(&mut self, event: ServerEvent) {
        match event {
            ServerEvent::Net(NetEvent::Connect(link, hello, stream)) => {
                self.admit(link, hello, stream)
            }
            ServerEvent::Net(NetEvent::Message(link, messages)) => {
                for message in messages {
                    self.message(link, message);
                }
            }
            ServerEvent::Net(NetEvent::Disconnect(gone)) => match self.clients.remove(&gone) {
                Some(_) => self.event(Event::ClientLost(gone)),
                None => self.lose(gone),
            },
            ServerEvent::Disk(event) => self.event(event),
            ServerEvent::Close(_) => {}
        }
    }

    fn message(&mut self, link: LinkId, message: ToParent) {
        tracing::trace!(?link, ?message, "received");
        match message {
            ToParent::Joined(member) => self.join(link, member),
            ToParent::FromRanks { ranks, message } => {
                let ranks = self.children.reachable_via(link, &ranks);
                for (rank, message) in per_rank(&ranks, message) {
                    let asks = matches!(message, FromRank::Asks { .. });
                    if !asks || self.schedule.asks(micros(self.begun), rank) {
                        self.event(Event::Message(rank, message));
                    }
                }
            }
            ToParent::Lost { ranks } => {
                let lost = self.children.leave(link, &ranks);
                self.lost(&lost);
            }
        }
    }

    fn join(&mut self, link: LinkId, member: Member) {
        let Member {
            rank,
            size,
            host,
            pid,
        } = member;
        match self.machine.admits(rank, size) {
            Err(reason) => self.children.refuse(link, rank, reason),
            Ok(()) if self.children.join(link, rank) => {
                self.event(Event::Connected { rank, host, pid });
            }
            // The rank has connected already.
            Ok(()) => {}
        }
    }

    fn lose(&mut self, link: LinkId) {
        let lost = self.children.close(link);
        self.lost(&lost);
    }

    fn lost(&mut self, ranks: &RankSet) {
        let needed = ranks.iter().filter(|rank| self.machine.needs(*rank));
        let needed: Vec<u32> = needed.collect();
        if !needed.is_empty() {
            self.submit(DiskJob::Note(event::Event::RanksLost {
                count: needed.len(),
                lost_ranks: needed.into_iter().take(MOST_LISTED).collect(),
            }));
        }
        for rank in ranks.iter() {
            self.event(Event::Lost(rank));
        }
    }

    fn admit(&mut self, link: LinkId, hello: Hello, stream: Arc<Stream>) {
        match hello {
            Hello::Rank(rank) => {
                self.children.open(link, ChildKind::Rank, stream);
                self.join(link, rank.member);
            }
            Hello::Relay { .. } => self.children.open(link, ChildKind::Relay, stream),
            Hello::CopySender { .. } => {
                let reason = "this is the job's coordinator, and no partner";
                reject(&hello, &stream, reason.into());
            }
            Hello::Client { request, .. } => {
                let client = link;
                self.clients.insert(client, stream);
                self.event(match request {
                    Request::Checkpoint { stop, patience, .. } => Event::Request {
                        client: Some(client),
                        cause: Cause::Command,
                        stop,
                        patience,
                    },
                    Request::Status { details } => Event::AskStatus { client, details },
                });
                if let Request::Checkpoint { wait: false, .. } = request {
                    // If no checkpoint is possible, the client has that answer already.
                    self.reply(client, &ToClient::Noted);
                }
            }
        }
    }

    fn event(&mut self, event: Event) {
        let now = micros(self.begun);
        let mut orders = Orders::default();
        let mut broken = vec![];
        for action in self.machine.on(now, event) {
            if !matches!(action, Action::Send(_) | Action::Tell(..)) {
                // Earlier orders must be delivered first.
                broken.extend(self.children.deliver(&orders.take()));
            }
            match action {
                Action::Send(message) => orders.all(message),
                Action::Tell(rank, message) => orders.one(rank, message),
                Action::Reply(client, ToClient::Status(mut status)) => {
                    status.next = self.schedule.describe(now);
                    self.reply(client, &ToClient::Status(status));
                }
                Action::Reply(client, message) => self.reply(client, &message),
                Action::Prepare(epoch) => self.submit(DiskJob::Prepare(epoch)),
                Action::PrepareInMemory(epoch) => self.submit(DiskJob::PrepareInMemory(epoch)),
                Action::Commit(epoch, _, images, cost) => {
                    self.submit(DiskJob::Commit(epoch, images, cost));
                }
                Action::Discard(_) => self.submit(DiskJob::Discard),
                Action::Over(Ok(report)) if report.level == Level::Memory => {
                    tracing::info!(?report, "checkpoint in memory");
                    self.told_not_held = false;
                }
                Action::NotHeld(reason) => {
                    tracing::warn!(reason, "checkpoint in memory given up");
                    // The next one may well be given up for the same reason.
                    if !std::mem::replace(&mut self.told_not_held, true) {
                        message::say(format_args!(
                            "a checkpoint in memory was given up, the job runs on: {reason}"
                        ));
                    }
                }
                // Earlier actions have answered the clients.
                Action::Over(Ok(report)) => {
                    tracing::info!(?report, "checkpoint committed");
                    self.schedule.over(now, Some(&report));
                    self.submit(DiskJob::Over(Box::new(report)));
                }
                Action::Again { stop } => {
                    let after = self.schedule.again(now, stop);
                    message::say(format_args!("it is tried again in {} s", after.as_secs()));
                }
                Action::Over(Err(reason)) => {
                    tracing::warn!(reason, "checkpoint given up");
                    let why = event::shortened(&reason);
                    self.submit(DiskJob::Note(event::Event::CheckpointFailed { why }));
                    self.schedule.over(now, None);
                    message::say(format_args!(
                        "a checkpoint was given up, the job runs on: {reason}"
                    ));
                }
            }
        }
        broken.extend(self.children.deliver(&orders.take()));
        for link in broken {
            self.lose(link);
        }
    }

    fn reply(&mut self, client: ClientId, message: &ToClient) {
        // A closed client needs no answer.
        if let Some(stream) = self.clients.get(&client) {
            if frame::send(&mut &**stream, message).is_err() {
                stream.end();
            }
        }
    }

    fn submit(&self, job: DiskJob) {
        // The file thread ends only after this one, so the send succeeds.
        let _ = self.disk_jobs.send(job);
    }
}

/// A request of the job itself.
fn unattended(cause: Cause, stop: bool) -> Event {
    Event::Request {
        client: None,
        cause,
        stop,
        patience: None,
    }
}

fn micros(since: Instant) -> Time {
    since.elapsed().as_micros() as Time
}
