//! A rank's agent: the threads around a [`Rank`] machine. One thread owns the machine. One reads the
//! socket. One does the slow work (stop, save), so that the end of a checkpoint is received meanwhile. All
//! access to the process goes through [`Process`].
//!
//! All threads inherit the signal mask of the thread that calls [`Agent::connect`].

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::net::addresses;
use crate::net::contact::Address;
use crate::net::frame::{self, MAX_FRAME};
use crate::net::stream::Stream;
use crate::protocol::messages::{
    Doing, FromRank, Hello, Member, Outcome, Summary, ThreadStack, Times, ToRank, WantedStacks,
};
use crate::protocol::rank::{Effect, Input, Rank, SaveOrder, View};
use crate::protocol::region_assignment::SharedRange;
use crate::protocol::waits::RankWaits;
use crate::threads::begin;

/// Time that an activity must stay the same before it is reported.
const DEBOUNCE: Duration = Duration::from_millis(2);
/// Longest time that a changing activity stays unreported. Threads that wait for different ranks change it
/// in turn.
const DEBOUNCE_LIMIT: Duration = Duration::from_millis(50);
/// Interval of snapshots without a notification while a checkpoint is pending.
const SNAPSHOT_INTERVAL: Duration = Duration::from_millis(10);
/// Interval of samples at other times. They date the last change of the rank's activity.
const ACTIVITY_INTERVAL: Duration = Duration::from_secs(5);

/// Operations of the agent on its process. `stop` and `save` are called on one thread of the agent, all
/// others on another thread, possibly at the same time.
pub trait Process: Send + Sync + 'static {
    /// Sets the phase to Approach and ensures that every thread sees it.
    fn approach(&self);
    /// Reads the clocks and the activity.
    fn look(&self) -> View;
    /// Stores the targets in the clocks, and 0 in clocks without one: those may still have a target of an
    /// abandoned checkpoint. Called repeatedly, because clocks are created meanwhile.
    fn set_targets(&self, targets: &BTreeMap<u64, u64>);
    /// Sets the phase to Stop, stops all threads, and drains. A rank that must refuse although its threads
    /// could be stopped still drains first, because the other ranks wait for it. Returns the memory that
    /// other ranks may share.
    ///
    /// # Errors
    /// The reason why this rank cannot be saved. The checkpoint is given up.
    fn stop(&self) -> Result<Vec<SharedRange>, String>;
    /// Writes the image. Calls `copied` once later writes of the threads cannot reach the image, if that is
    /// before its end: the threads may then be resumed. The agent fills in `times`.
    ///
    /// # Errors
    /// The reason why there is no image. The checkpoint is given up.
    fn save(&self, order: &SaveOrder, copied: &mut (dyn FnMut() + Send))
        -> Result<Summary, String>;
    /// Sets the phase to Run and resumes the threads, while images are written.
    fn resume_while_saving(&self);
    /// Sets the phase to Run, because the checkpoint is over while `stop` or `save` runs. A drain then
    /// gives up. `save` may give up once it has called `copied`.
    fn cancel_work(&self);
    /// Sets the phase to Run and resumes the threads.
    fn resume(&self, outcome: &Outcome);
    /// Ends the process: the checkpoint is committed.
    fn exit(&self, set: &str);
    /// The program's activity, for the user, and a number that changes with every activity in MPI.
    fn doing(&self) -> (String, u64);
    /// Writes the file of the rank's profile, if it has one.
    fn write_profile(&self);
    /// The last events of the flight recorder, at most `most`, oldest first, a line each.
    fn events(&self, most: usize) -> Vec<String>;
    /// The stack of a thread that cannot be stopped: its call in the kernel, and a line for each frame. Empty if there
    /// is no such thread.
    fn stack(&self) -> Vec<String>;
    /// The stacks of the program's threads. `lines`: with the lines of the source.
    fn stacks(&self, lines: bool) -> Vec<ThreadStack>;
    /// What the program's threads wait for. Looks for a while, and lets the program run on.
    fn waits(&self) -> RankWaits;
    /// Prints a message for the user.
    fn say(&self, text: &str);
}

/// Failure to connect an agent.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No address accepts a connection.
    #[error(
        "the coordinator (rank 0, {0}) cannot be reached: {1}; the job cannot be \
         checkpointed. Do firewalls let ranks connect to each other?"
    )]
    Unreachable(String, frame::Error),
    /// A thread could not be started.
    #[error("the checkpoint agent could not start a thread: {0}; the job cannot be checkpointed")]
    Thread(io::Error),
}

/// Time that a process at its end waits before it prints a message.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// A running agent, for the rank's own threads.
pub struct Agent {
    events: Sender<AgentEvent>,
    notified: Arc<AtomicBool>,
    pending: Arc<Pending>,
    stream: Mutex<Arc<Stream>>,
    process: Arc<dyn Process>,
}

enum AgentEvent {
    Notify,
    Ask { stop: bool },
    Message(ToRank),
    Gone,
    Stopped(Result<Vec<SharedRange>, String>),
    Copied,
    Saved(Result<Summary, String>),
}

enum Work {
    Stop,
    Save(SaveOrder),
}

/// State that threads read while they wait for targets.
#[derive(Default)]
struct Pending {
    known: Mutex<Known>,
    changed: Condvar,
}

#[derive(Default)]
enum Known {
    /// No checkpoint is pending.
    #[default]
    Nothing,
    /// A checkpoint is pending, but its targets are not known yet.
    Intent,
    Targets(BTreeMap<u64, u64>),
    /// The ranks run again, while images are being written.
    Writing,
}

impl Pending {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, known: Known) {
        *self.lock() = known;
        self.changed.notify_all();
    }
}

impl Agent {
    /// Connects this rank to the coordinator and starts the agent's threads.
    ///
    /// # Errors
    /// No connection, or no thread can be made.
    pub fn connect(
        address: &Address,
        rank: u32,
        size: u32,
        process: Arc<dyn Process>,
    ) -> Result<Agent, Error> {
        let member = Member {
            rank,
            size,
            host: addresses::host(),
            pid: std::process::id(),
        };
        let first = Hello::rank(&address.token, member);
        let open = || -> Result<Arc<Stream>, frame::Error> {
            let stream = address.connect()?;
            frame::send(&mut &stream, &first)?;
            Ok(Arc::new(stream))
        };
        let stream = open().map_err(|e| Error::Unreachable(address.to_string(), e))?;
        let (to_read, to_write) = (stream.clone(), stream.clone());
        let (events, incoming) = mpsc::channel();
        let (work, orders) = mpsc::channel();
        let notified = Arc::new(AtomicBool::new(false));
        let pending = Arc::new(Pending::default());
        let spawn = |name: &str, body: Box<dyn FnOnce() + Send>| {
            begin(thread::Builder::new().name(name.into()), body).map_err(Error::Thread)
        };
        let back = events.clone();
        spawn("ckpt-read", Box::new(move || read(to_read, &back)))?;
        let (back, worker) = (events.clone(), process.clone());
        spawn(
            "ckpt-work",
            Box::new(move || work_on(worker.as_ref(), &orders, &back)),
        )?;
        let seen = process.doing();
        let main = AgentLoop {
            machine: Rank::new(),
            process: process.clone(),
            stream: to_write,
            work,
            notified: notified.clone(),
            pending: pending.clone(),
            unreported_since: None,
            seen: (seen, Instant::now()),
            gone: false,
        };
        spawn("ckpt-agent", Box::new(move || main.run(&incoming)))?;
        Ok(Agent {
            events,
            notified,
            pending,
            stream: Mutex::new(stream),
            process,
        })
    }

    /// Whether the targets of the pending checkpoint are known.
    pub fn targets_are_known(&self) -> bool {
        matches!(&*self.pending.lock(), Known::Targets(_))
    }

    /// Notifies the agent that clocks or activity have changed.
    pub fn notify(&self) {
        if !self.notified.swap(true, Ordering::AcqRel) {
            let _ = self.events.send(AgentEvent::Notify);
        }
    }

    /// The target of a clock in the pending checkpoint (0 if it has none). Waits until the targets are
    /// known. Returns 0 at once if no checkpoint is pending.
    pub fn clock_target(&self, id: u64) -> u64 {
        let mut known = self.pending.lock();
        loop {
            match &*known {
                Known::Nothing | Known::Writing => return 0,
                Known::Targets(targets) => return targets.get(&id).copied().unwrap_or(0),
                Known::Intent => {
                    known = self
                        .pending
                        .changed
                        .wait(known)
                        .unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// Requests a checkpoint on the rank's own behalf. `stop`: the job ends with it.
    pub fn ask(&self, stop: bool) {
        let _ = self.events.send(AgentEvent::Ask { stop });
    }

    /// Waits for the end of a checkpoint whose image is being written, if there is one. The process is
    /// about to end normally, and only this process can complete its image. Prints a message if the wait
    /// takes long.
    pub fn finished(&self) {
        let writing = |known: &mut Known| matches!(known, Known::Writing);
        let changed = &self.pending.changed;
        let known = changed.wait_timeout_while(self.pending.lock(), PATIENCE, writing);
        let (known, over) = known.unwrap_or_else(PoisonError::into_inner);
        if over.timed_out() {
            self.process.say(
                "has come to its end, and waits until its image of the checkpoint that is being taken \
                 is written; if the rank is killed instead, there will be no such checkpoint",
            );
        }
        drop(changed.wait_while(known, writing));
        let stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = frame::send(&mut &**stream, &FromRank::Finished);
    }
}

fn read(stream: Arc<Stream>, events: &Sender<AgentEvent>) {
    while let Ok(message) = frame::receive(&mut &*stream, MAX_FRAME) {
        if events.send(AgentEvent::Message(message)).is_err() {
            return;
        }
    }
    // The other side must be notified, whatever ended the thread here.
    stream.end();
    let _ = events.send(AgentEvent::Gone);
}

fn work_on(process: &dyn Process, orders: &Receiver<Work>, events: &Sender<AgentEvent>) {
    let micros = |since: Instant| since.elapsed().as_micros() as u64;
    let mut drain = 0;
    for order in orders {
        let begun = Instant::now();
        let done = match order {
            Work::Stop => {
                let result = process.stop();
                drain = micros(begun);
                AgentEvent::Stopped(result)
            }
            Work::Save(order) => {
                let mut copy = 0;
                let mut copied = || {
                    copy = micros(begun);
                    let _ = events.send(AgentEvent::Copied);
                };
                let result = process.save(&order, &mut copied);
                AgentEvent::Saved(result.map(|mut summary| {
                    let save = micros(begun);
                    summary.times = Times { drain, copy, save };
                    summary
                }))
            }
        };
        if events.send(done).is_err() {
            return;
        }
    }
}

struct AgentLoop {
    machine: Rank,
    process: Arc<dyn Process>,
    stream: Arc<Stream>,
    work: Sender<Work>,
    notified: Arc<AtomicBool>,
    pending: Arc<Pending>,
    /// Time of the first change that is not reported.
    unreported_since: Option<Instant>,
    /// The last sampled activity, and the time of its first sample.
    seen: ((String, u64), Instant),
    gone: bool,
}

impl AgentLoop {
    fn run(mut self, incoming: &Receiver<AgentEvent>) {
        while !(self.gone && self.machine.idle()) {
            self.unreported_since = match (self.machine.has_unreported(), self.unreported_since) {
                (true, Some(since)) if since.elapsed() > DEBOUNCE_LIMIT => {
                    self.on(Input::Debounced);
                    None
                }
                (true, since) => since.or_else(|| Some(Instant::now())),
                (false, _) => None,
            };
            let wait = match (self.machine.has_unreported(), self.machine.watching()) {
                (true, _) => DEBOUNCE,
                (false, true) => SNAPSHOT_INTERVAL,
                (false, false) => ACTIVITY_INTERVAL,
            };
            match incoming.recv_timeout(wait) {
                Ok(AgentEvent::Notify) => {
                    self.notified.store(false, Ordering::Release);
                    self.look();
                }
                Ok(AgentEvent::Ask { stop }) => self.do_it(Effect::Send(FromRank::Asks { stop })),
                Ok(AgentEvent::Message(ToRank::Tell { question, details })) => {
                    let mut doing = self.sample_activity(details.events as usize);
                    match details.stacks {
                        WantedStacks::None => {}
                        WantedStacks::Stuck => doing.stack = self.process.stack(),
                        WantedStacks::All => doing.threads = self.process.stacks(false),
                        WantedStacks::Lines => doing.threads = self.process.stacks(true),
                    }
                    if details.profile {
                        self.process.write_profile();
                    }
                    if details.waits {
                        doing.waits = Some(Box::new(self.process.waits()));
                    }
                    self.do_it(Effect::Send(FromRank::Doing { question, doing }));
                }
                Ok(AgentEvent::Message(message)) => {
                    tracing::debug!(?message, "received");
                    self.on(Input::Message(message));
                }
                Ok(AgentEvent::Gone) => {
                    self.gone = true;
                    self.on(Input::Gone);
                }
                Ok(AgentEvent::Stopped(result)) => self.on(Input::Stopped(result)),
                Ok(AgentEvent::Copied) => self.on(Input::Copied),
                Ok(AgentEvent::Saved(result)) => self.on(Input::Saved(result)),
                Err(RecvTimeoutError::Timeout) if self.machine.has_unreported() => {
                    self.on(Input::Debounced)
                }
                Err(RecvTimeoutError::Timeout) if self.machine.watching() => self.look(),
                Err(RecvTimeoutError::Timeout) => drop(self.sample_activity(0)),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn look(&mut self) {
        if self.machine.watching() {
            // New communicators get their targets too.
            self.process.set_targets(self.machine.targets());
            self.on(Input::Look(self.process.look()));
        }
    }

    /// The program's activity, the time since its first sample, and the last events.
    fn sample_activity(&mut self, events: usize) -> Doing {
        let now = self.process.doing();
        if self.seen.0 != now {
            self.seen = (now, Instant::now());
        }
        let ((what, _), since) = &self.seen;
        Doing {
            what: what.clone(),
            since: since.elapsed().as_micros() as u64,
            events: self.process.events(events),
            ..Doing::default()
        }
    }

    fn on(&mut self, input: Input) {
        for effect in self.machine.on(input) {
            self.do_it(effect);
        }
    }

    fn do_it(&mut self, effect: Effect) {
        match effect {
            Effect::Send(message) => {
                if frame::send(&mut &*self.stream, &message).is_err() {
                    // The reading thread notices it too.
                    self.stream.end();
                }
            }
            Effect::Approach => {
                self.pending.set(Known::Intent);
                self.process.approach();
                self.on(Input::Look(self.process.look()));
            }
            Effect::Targets(targets) => {
                // The clocks come first: a waiting thread reads them as soon as its wait ends.
                self.process.set_targets(&targets);
                self.pending.set(Known::Targets(targets));
                self.on(Input::Look(self.process.look()));
            }
            Effect::Stop => self.order(Work::Stop),
            Effect::Save(order) => self.order(Work::Save(order)),
            Effect::ResumeWhileSaving => {
                self.pending.set(Known::Writing);
                self.process.resume_while_saving();
            }
            Effect::CancelWork => self.process.cancel_work(),
            Effect::Resume(outcome) => {
                self.process.resume(&outcome);
                // The targets say which messages are not to be pulled, so that they stay as long as some may be.
                self.pending.set(Known::Nothing);
            }
            Effect::Exit { set } => {
                self.pending.set(Known::Nothing);
                self.process.exit(&set);
            }
            Effect::Rejected(reason) => {
                self.process
                    .say(&format!("the coordinator refused this rank: {reason}"));
            }
        }
    }

    fn order(&self, work: Work) {
        // The worker ends only after this thread, so the send succeeds.
        let _ = self.work.send(work);
    }
}
