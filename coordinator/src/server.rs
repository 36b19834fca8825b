//! The coordinator's threads and sockets, in rank 0's lower half: one thread that owns the machine
//! and all writing ends, one that accepts, one per connection that reads, and one for the disk.
//! Connected are the ranks of a small job, and in a large one the relays next to it ([`crate::tree`]).
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

use launcher::message;

use crate::below::{Below, Connected, Kind};
use crate::bundle::{each, Orders};
use crate::client::Client;
use crate::coordinator::{Action, Config, Coordinator, Event, PartialSet, Time, ToolId};
use crate::door::{remove_sockets, spawn, turn_away, Door, Heard, Reach};
use crate::frame;
use crate::job::{self, random_word, Address, JobFile};
use crate::place::Place;
use crate::protocol::{First, FromRank, Member, Request, Summary, ToTool, Up};
use crate::ranks::Ranks;
use crate::routes::LinkId;
use crate::schedule::{Due, Plan, Schedule};
use crate::started::{started, Started};
use crate::stream::Stream;

/// How often time is told to the machine while a checkpoint is being taken.
const TICK: Duration = Duration::from_millis(50);
/// The disk must be done with what it has begun within this time, when the job ends.
const DISK_LIMIT: Duration = Duration::from_secs(10);

/// How often the job looks whether it still has its directory.
const GLANCE: Duration = Duration::from_secs(5);

/// Where images are put: what the coordinator needs of it. Called on one thread.
pub trait Store: Send + 'static {
    /// Makes the checkpoint directory if there is none.
    fn make_directory(&mut self) -> Result<(), String>;
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

enum Said {
    Heard(Heard),
    Disk(Event),
    Close,
}

impl From<Heard> for Said {
    fn from(heard: Heard) -> Said {
        Said::Heard(heard)
    }
}

enum Errand {
    Prepare(u64),
    Commit(u64, Vec<Summary>),
    Discard,
    Tidy,
    Glance,
}

impl Server {
    /// Starts listening and leaves the job file.
    pub fn start(options: Options, store: impl Store) -> Result<Server, Error> {
        // It was free before the program was loaded, or the image opened; but another job may have
        // been started at the same time.
        Client::check_free(&options.directory)?;
        let system = |what| move |e| Error::System(what, e);
        let token = random_word().map_err(system("make a token"))?;
        let reach = match options.local {
            true => Reach::Machine(Some(&options.directory)),
            false => Reach::Network,
        };
        let door = Door::open(&reach, token).map_err(system("listen for its ranks"))?;
        let address = door.address.clone();
        let job = JobFile::new(address, options.config.size, options.program, options.mpi);

        let (said, hear) = mpsc::channel();
        let (errands, orders) = mpsc::channel();
        let below = Below::new(0);
        let connected = below.connected();
        let begun = Instant::now();
        let main = Main {
            schedule: Schedule::new(options.plan, micros(begun)),
            machine: Coordinator::new(options.config),
            size: options.config.size,
            below,
            tools: HashMap::new(),
            started: BTreeSet::new(),
            errands,
            begun,
        };
        let thread = system("start a thread");
        spawn("ckpt-coord", move || main.run(&hear)).map_err(thread)?;
        let ranks = options.config.size as usize;
        let door = door.serve(said.clone(), ranks).map_err(thread)?;
        let socket = job.address.socket.as_deref();
        Client::claim(&job, &options.directory).inspect_err(|_| {
            socket.map(fs::remove_file);
        })?;
        remove_sockets(&options.directory, socket);
        let place = Place::new(job.clone(), options.directory.clone(), door);
        let back = said.clone();
        let (working, disk) = mpsc::channel();
        let errands = move || {
            errands_of(store, place, &orders, &back);
            drop(working);
        };
        spawn("ckpt-disk", errands).map_err(thread)?;
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
        self.connected.wait_for_none(limit);
    }

    /// The job ends: stops answering, lets the disk finish, and takes the job file away. Not before: a checkpoint
    /// that is still asked for would leave it there again.
    pub fn close(&self) {
        self.stop();
        if self.job.is_in(&self.directory).unwrap_or(false) {
            self.job.remove(&self.directory);
            remove_sockets(&self.directory, None);
        }
    }

    /// As [`Server::close`], for a job that ends with a checkpoint: the job file says so.
    pub fn close_with(&self, set: &str) {
        if let Err(why) = self.job.end_with(&self.directory, set) {
            message::say(format_args!(
                "{why}; the job can be continued from {set} all the same"
            ));
        }
        if self.job.is_in(&self.directory).unwrap_or(false) {
            remove_sockets(&self.directory, None);
        }
        self.stop();
    }

    fn stop(&self) {
        let _ = self.said.send(Said::Close);
        let disk = self.disk.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = disk.recv_timeout(DISK_LIMIT);
    }
}

fn errands_of(
    mut store: impl Store,
    mut place: Place,
    orders: &Receiver<Errand>,
    back: &Sender<Said>,
) {
    for order in orders {
        let event = match order {
            Errand::Prepare(epoch) => {
                let placed = place.look(|| store.make_directory());
                Event::Prepared(epoch, placed.and_then(|()| store.prepare()))
            }
            Errand::Glance => {
                // It has said what is wrong, and says it to whoever asks for a checkpoint.
                let _ = place.look(|| store.make_directory());
                continue;
            }
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

/// The thread that owns the machine.
struct Main {
    schedule: Schedule,
    machine: Coordinator,
    size: u32,
    below: Below,
    tools: HashMap<ToolId, Arc<Stream>>,
    /// Children of this process of which those who wait were told.
    started: BTreeSet<u32>,
    errands: Sender<Errand>,
    begun: Instant,
}

impl Main {
    fn run(mut self, hear: &Receiver<Said>) {
        let mut tick = Instant::now() + TICK;
        let mut glance = Instant::now() + GLANCE;
        loop {
            let now = Instant::now();
            if !self.machine.busy() && now >= glance {
                glance = now + GLANCE;
                self.errand(Errand::Glance);
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
                    Due::Last { stop } => Event::Request { tool: None, stop },
                });
            }
            let due = self.schedule.next();
            let due = due.map(|due| self.begun + Duration::from_micros(due));
            let next = match self.machine.busy() {
                true => tick,
                false => glance,
            };
            let wake = due.map_or(next, |due| due.min(next));
            match hear.recv_timeout(wake.saturating_duration_since(Instant::now())) {
                Ok(Said::Close) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(said) => self.hear(said),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Tells those who wait for MPI_Init what this rank has started meanwhile.
    fn tell_of_started(&mut self) {
        if !self.machine.waits_for_init() {
            return;
        }
        for Started { pid, name } in started() {
            if !self.started.insert(pid) {
                continue;
            }
            let note = ToTool::Note(format!(
                "rank 0 has not called MPI_Init, and has started another program, {name} (process {pid})"
            ));
            let tools: Vec<ToolId> = self.tools.keys().copied().collect();
            for tool in tools {
                self.reply(tool, &note);
            }
        }
    }

    fn hear(&mut self, said: Said) {
        match said {
            Said::Heard(Heard::Knock(link, first, stream)) => self.admit(link, first, stream),
            Said::Heard(Heard::Said(link, words)) => {
                for word in words {
                    self.word(link, word);
                }
            }
            Said::Heard(Heard::Gone(gone)) => match self.tools.remove(&gone) {
                Some(_) => self.event(Event::ToolLost(gone)),
                None => self.lose(gone),
            },
            Said::Disk(event) => self.event(event),
            Said::Close => {}
        }
    }

    fn word(&mut self, link: LinkId, word: Up) {
        match word {
            Up::Joined(member) => self.join(link, member),
            Up::Said { ranks, message } => {
                let ranks = self.below.behind(link, &ranks);
                for (rank, message) in each(&ranks, message) {
                    let asks = matches!(message, FromRank::Asks { .. });
                    if !asks || self.schedule.asks(micros(self.begun), rank) {
                        self.event(Event::Message(rank, message));
                    }
                }
            }
            Up::Lost { ranks } => {
                let lost = self.below.leave(link, &ranks);
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
            Err(reason) => self.below.refuse(link, rank, reason),
            Ok(()) if self.below.join(link, rank) => {
                self.event(Event::Connected { rank, host, pid });
            }
            // It is in its seat already.
            Ok(()) => {}
        }
    }

    fn lose(&mut self, link: LinkId) {
        let lost = self.below.close(link);
        self.lost(&lost);
    }

    fn lost(&mut self, ranks: &Ranks) {
        for rank in ranks.iter() {
            self.event(Event::Lost(rank));
        }
    }

    fn admit(&mut self, link: LinkId, first: First, stream: Arc<Stream>) {
        match first {
            First::Rank(hello) => {
                self.below.open(link, Kind::Rank, stream);
                self.join(link, hello.member);
            }
            First::Relay { .. } => self.below.open(link, Kind::Relay, stream),
            First::Guest { .. } => {
                let reason = "this is the job's coordinator, and no partner";
                turn_away(&first, &stream, reason.into());
            }
            First::Tool { request, .. } => {
                let tool = link;
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
            }
        }
    }

    fn event(&mut self, event: Event) {
        let now = micros(self.begun);
        let mut orders = Orders::default();
        let mut broken = vec![];
        for action in self.machine.on(now, event) {
            if !matches!(action, Action::Send(_) | Action::Tell(..)) {
                // It happens after what comes before it.
                broken.extend(self.below.deliver(&orders.take()));
            }
            match action {
                Action::Send(message) => orders.all(message),
                Action::Tell(rank, message) => orders.one(rank, message),
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
                    message::say(format_args!(
                        "a checkpoint was given up, the job of {} ranks runs on: {reason}",
                        self.size
                    ));
                }
            }
        }
        broken.extend(self.below.deliver(&orders.take()));
        for link in broken {
            self.lose(link);
        }
    }

    fn reply(&mut self, tool: ToolId, message: &ToTool) {
        // A tool that has gone away does not wait for its answer.
        if let Some(stream) = self.tools.get(&tool) {
            if frame::send(&mut &**stream, message).is_err() {
                stream.end();
            }
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
