//! A rank's agent: the threads around a [`Rank`] machine. One owns the machine, one reads the
//! socket, one does what takes long (stop, save), so that the end of a checkpoint is heard meanwhile.
//! What touches the process is behind [`Process`].
//!
//! All threads inherit the signal mask of the thread that calls [`Agent::connect`].

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::addresses;
use crate::frame::{self, MAX_FRAME};
use crate::job::Address;
use crate::protocol::{Doing, First, FromRank, Member, Outcome, Summary, Times, ToRank};
use crate::rank::{Effect, Input, Rank, View};
use crate::shared::{Part, Share};
use crate::stream::Stream;

/// How long activity must stay the same before it is told.
const SETTLE: Duration = Duration::from_millis(2);
/// How long it may keep changing untold: threads that wait for different ranks speak for their rank in
/// turn.
const RESTLESS: Duration = Duration::from_millis(50);
/// While a checkpoint is pending the agent also looks without being notified.
const LOOK: Duration = Duration::from_millis(10);
/// How often it looks at other times, so that it can say since when nothing has changed.
const GLANCE: Duration = Duration::from_secs(5);

/// Where and as what a rank is to save.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaveOrder {
    /// Name that the set will have.
    pub set: String,
    /// Id that its images carry.
    pub id: Vec<u8>,
    /// Directory to write into.
    pub directory: String,
    /// Id of the set to build upon; none for a full one.
    pub parent: Option<Vec<u8>>,
    /// What to do about the shared memory that [`Process::stop`] has named.
    pub shared: Vec<Share>,
    /// The job ends with this checkpoint: there is nothing to go on for.
    pub stop: bool,
}

/// What the agent does to its process. `stop` and `save` are called on one thread of the agent,
/// everything else on another, possibly at the same time as these two.
pub trait Process: Send + Sync + 'static {
    /// Sets the phase to Approach and makes sure that every thread sees it.
    fn approach(&self);
    /// Looks at the clocks and the activity.
    fn look(&self) -> View;
    /// Stores the targets in the clocks, and 0 in those that have none: they may still have one from a
    /// checkpoint that was given up. Called again and again, for clocks made meanwhile.
    fn set_targets(&self, targets: &BTreeMap<u64, u64>);
    /// Sets the phase to Stop, stops all threads, drains. Where the rank must refuse although its
    /// threads could be stopped, it drains first all the same: the others wait for it. Returns the
    /// memory that other ranks may share.
    fn stop(&self) -> Result<Vec<Part>, String>;
    /// Writes the image. Calls `copied` as soon as nothing that the threads do any more can get into
    /// it, if that is before its end: from then on they may be let go. `times` is filled by the agent.
    fn save(&self, order: &SaveOrder, copied: &mut (dyn FnMut() + Send))
        -> Result<Summary, String>;
    /// Sets the phase to Run and lets the threads go, while images are written.
    fn go_on(&self);
    /// The checkpoint is over while `stop` or `save` runs: sets the phase to Run, on which a drain
    /// gives up, as may `save` once it has called `copied`.
    fn hurry(&self);
    /// Sets the phase to Run and lets the threads go.
    fn resume(&self, outcome: &Outcome);
    /// The checkpoint is committed and the process is to end.
    fn exit(&self, set: &str);
    /// What the program does, for people, and a number that changes with whatever it does in MPI.
    fn doing(&self) -> (String, u64);
    /// Tells people.
    fn say(&self, text: &str);
}

/// Why an agent could not connect.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody answers.
    #[error(
        "the coordinator (rank 0, {0}) cannot be reached: {1}; the job cannot be \
         checkpointed. Do firewalls let ranks connect to each other?"
    )]
    Unreachable(String, frame::Error),
    /// A thread could not be started.
    #[error("the checkpoint agent could not start a thread: {0}; the job cannot be checkpointed")]
    Thread(io::Error),
}

/// How long a process that has come to its end waits without a word.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// A running agent, as the rank's own threads see it.
pub struct Agent {
    said: Sender<Said>,
    notified: Arc<AtomicBool>,
    pending: Arc<Pending>,
    stream: Mutex<Arc<Stream>>,
    process: Arc<dyn Process>,
}

enum Said {
    Notify,
    Ask { stop: bool },
    Message(ToRank),
    Gone,
    Stopped(Result<Vec<Part>, String>),
    Copied,
    Saved(Result<Summary, String>),
}

enum Work {
    Stop,
    Save(SaveOrder),
}

/// What threads that wait for targets need to know.
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
    /// One is, but its targets are not known yet.
    Intent,
    Targets(BTreeMap<u64, u64>),
    /// None is pending any more, but images are being written.
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
        let first = First::rank(&address.token, member);
        let open = || -> Result<Arc<Stream>, frame::Error> {
            let stream = address.connect()?;
            frame::send(&mut &stream, &first)?;
            Ok(Arc::new(stream))
        };
        let stream = open().map_err(|e| Error::Unreachable(address.to_string(), e))?;
        let (to_read, to_write) = (stream.clone(), stream.clone());
        let (said, hear) = mpsc::channel();
        let (work, orders) = mpsc::channel();
        let notified = Arc::new(AtomicBool::new(false));
        let pending = Arc::new(Pending::default());
        let spawn = |name: &str, body: Box<dyn FnOnce() + Send>| {
            thread::Builder::new()
                .name(name.into())
                .spawn(body)
                .map(drop)
                .map_err(Error::Thread)
        };
        let back = said.clone();
        spawn("ckpt-read", Box::new(move || read(to_read, &back)))?;
        let (back, worker) = (said.clone(), process.clone());
        spawn(
            "ckpt-work",
            Box::new(move || work_on(worker.as_ref(), &orders, &back)),
        )?;
        let seen = process.doing();
        let main = Main {
            machine: Rank::new(),
            process: process.clone(),
            stream: to_write,
            work,
            notified: notified.clone(),
            pending: pending.clone(),
            unsettled: None,
            seen: (seen, Instant::now()),
            gone: false,
        };
        spawn("ckpt-agent", Box::new(move || main.run(&hear)))?;
        Ok(Agent {
            said,
            notified,
            pending,
            stream: Mutex::new(stream),
            process,
        })
    }

    /// Clocks or activity changed.
    pub fn notify(&self) {
        if !self.notified.swap(true, Ordering::AcqRel) {
            let _ = self.said.send(Said::Notify);
        }
    }

    /// The target of a clock in the pending checkpoint (0 if it has none); waits until the targets
    /// are known. Returns 0 at once when no checkpoint is pending.
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

    /// Asks for a checkpoint on the rank's own behalf; `stop`: with which the job is to end.
    pub fn ask(&self, stop: bool) {
        let _ = self.said.send(Said::Ask { stop });
    }

    /// The process is about to end as it should. Returns when the checkpoint that is being written,
    /// if any, has ended: its image can only be finished by this process. Says so if that takes long.
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

fn read(stream: Arc<Stream>, said: &Sender<Said>) {
    while let Ok(message) = frame::receive(&mut &*stream, MAX_FRAME) {
        if said.send(Said::Message(message)).is_err() {
            return;
        }
    }
    // Whatever has ended it here, the other side has to hear of it.
    stream.end();
    let _ = said.send(Said::Gone);
}

fn work_on(process: &dyn Process, orders: &Receiver<Work>, said: &Sender<Said>) {
    let micros = |since: Instant| since.elapsed().as_micros() as u64;
    let mut drain = 0;
    for order in orders {
        let begun = Instant::now();
        let done = match order {
            Work::Stop => {
                let result = process.stop();
                drain = micros(begun);
                Said::Stopped(result)
            }
            Work::Save(order) => {
                let mut copy = 0;
                let mut copied = || {
                    copy = micros(begun);
                    let _ = said.send(Said::Copied);
                };
                let result = process.save(&order, &mut copied);
                Said::Saved(result.map(|mut summary| {
                    let save = micros(begun);
                    summary.times = Times { drain, copy, save };
                    summary
                }))
            }
        };
        if said.send(done).is_err() {
            return;
        }
    }
}

struct Main {
    machine: Rank,
    process: Arc<dyn Process>,
    stream: Arc<Stream>,
    work: Sender<Work>,
    notified: Arc<AtomicBool>,
    pending: Arc<Pending>,
    /// Since when there is something that was not told.
    unsettled: Option<Instant>,
    /// What the program did when that was last looked at, and since when.
    seen: ((String, u64), Instant),
    gone: bool,
}

impl Main {
    fn run(mut self, hear: &Receiver<Said>) {
        while !(self.gone && self.machine.idle()) {
            self.unsettled = match (self.machine.unsettled(), self.unsettled) {
                (true, Some(since)) if since.elapsed() > RESTLESS => {
                    self.on(Input::Settled);
                    None
                }
                (true, since) => since.or_else(|| Some(Instant::now())),
                (false, _) => None,
            };
            let wait = match (self.machine.unsettled(), self.machine.watching()) {
                (true, _) => SETTLE,
                (false, true) => LOOK,
                (false, false) => GLANCE,
            };
            match hear.recv_timeout(wait) {
                Ok(Said::Notify) => {
                    self.notified.store(false, Ordering::Release);
                    self.look();
                }
                Ok(Said::Ask { stop }) => self.do_it(Effect::Send(FromRank::Asks { stop })),
                Ok(Said::Message(ToRank::Tell { question })) => {
                    let doing = self.glance();
                    self.do_it(Effect::Send(FromRank::Doing { question, doing }));
                }
                Ok(Said::Message(message)) => self.on(Input::Message(message)),
                Ok(Said::Gone) => {
                    self.gone = true;
                    self.on(Input::Gone);
                }
                Ok(Said::Stopped(result)) => self.on(Input::Stopped(result)),
                Ok(Said::Copied) => self.on(Input::Copied),
                Ok(Said::Saved(result)) => self.on(Input::Saved(result)),
                Err(RecvTimeoutError::Timeout) if self.machine.unsettled() => {
                    self.on(Input::Settled)
                }
                Err(RecvTimeoutError::Timeout) if self.machine.watching() => self.look(),
                Err(RecvTimeoutError::Timeout) => drop(self.glance()),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn look(&mut self) {
        if self.machine.watching() {
            // Also for communicators made since.
            self.process.set_targets(self.machine.targets());
            self.on(Input::Look(self.process.look()));
        }
    }

    /// What the program does, and how long it has been seen to do that.
    fn glance(&mut self) -> Doing {
        let now = self.process.doing();
        if self.seen.0 != now {
            self.seen = (now, Instant::now());
        }
        let ((what, _), since) = &self.seen;
        Doing {
            what: what.clone(),
            since: since.elapsed().as_micros() as u64,
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
                    // The reading thread finds out, too.
                    self.stream.end();
                }
            }
            Effect::Approach => {
                self.pending.set(Known::Intent);
                self.process.approach();
                self.on(Input::Look(self.process.look()));
            }
            Effect::Targets(targets) => {
                // First the clocks: who waits reads them when the wait is over.
                self.process.set_targets(&targets);
                self.pending.set(Known::Targets(targets));
                self.on(Input::Look(self.process.look()));
            }
            Effect::Stop => self.order(Work::Stop),
            Effect::Save(order) => self.order(Work::Save(order)),
            Effect::GoOn => {
                self.pending.set(Known::Writing);
                self.process.go_on();
            }
            Effect::Hurry => {
                self.pending.set(Known::Nothing);
                self.process.hurry();
            }
            Effect::Resume(outcome) => {
                self.pending.set(Known::Nothing);
                self.process.resume(&outcome);
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
        // The worker ends only after this thread.
        let _ = self.work.send(work);
    }
}
