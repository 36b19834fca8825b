//! The coordinator's side of the protocol, as a pure state machine: [`Coordinator::on`] takes what
//! happened, and when, and returns what is to be done, in order.

use std::collections::{BTreeMap, BTreeSet};

use crate::protocol::{
    Doing, FromRank, Level, Outcome, Progress, RankStatus, Report, State, Status, Summary, Times,
    ToRank, ToTool, ENDING,
};
use crate::release::{raises, Quiet};
use crate::shared::{share_out, Part};
use crate::words;

/// A time in microseconds, from whatever start.
pub type Time = u64;

/// Names a connected tool.
pub type ToolId = u64;

/// Ticks after which the job counts as stalled on its way to the targets, if no rank comes nearer to
/// them. Not only if nothing changes: ranks that have reached theirs may go on exchanging messages.
const STALLED_TICKS: u32 = 4;

/// One in so many ranks must have told something before all are looked at again, or a tick has passed.
const NEWS_PER_RANK: u32 = 16;

/// How long a rank may take to tell what it does.
const ANSWER_LIMIT: Time = 1_000_000;

/// How long a checkpoint stays in one stage before the tools that wait are told what it waits for,
/// and from one such note to the next.
const NOTE_AFTER: Time = 5_000_000;

/// What happens to a rank that has reached its targets and comes to a further collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Parking {
    /// It parks, and is released when a rank that has not reached its targets depends on it.
    Tentative,
    /// It parks for good, as in the published algorithm, which can hang. Only for the comparison.
    Final,
}

/// How the coordinator behaves. Times in microseconds; 0 means without limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Number of ranks of the job.
    pub size: u32,
    /// See [`Parking`].
    pub parking: Parking,
    /// A checkpoint is given up when the targets have not been reached after this time.
    pub approach_limit: Time,
    /// ... when the ranks have not all stopped and drained after this time.
    pub drain_limit: Time,
    /// ... when the images have not all been written after this time.
    pub save_limit: Time,
}

impl Config {
    /// The usual behaviour for a job of so many ranks.
    pub fn new(size: u32) -> Self {
        const MINUTE: Time = 60_000_000;
        Config {
            size,
            parking: Parking::Tentative,
            approach_limit: 30 * MINUTE,
            drain_limit: 5 * MINUTE,
            save_limit: 60 * MINUTE,
        }
    }
}

/// A set that is being written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PartialSet {
    /// Name that the set will have.
    pub set: String,
    /// Id that its images carry.
    pub id: Vec<u8>,
    /// Directory to write into.
    pub directory: String,
    /// The set to build upon; none for a full one.
    pub parent: Option<Parent>,
}

/// A committed set that the next may build upon.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Parent {
    /// Its name.
    pub set: String,
    /// Its id.
    pub id: Vec<u8>,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// A rank has connected (its token, version and size are right).
    Connected {
        /// Which.
        rank: u32,
        /// On which host.
        host: String,
        /// With which process id.
        pid: u32,
    },
    /// A rank said something.
    Message(u32, FromRank),
    /// A rank's connection is gone.
    Lost(u32),
    /// A checkpoint is due by the interval.
    Due,
    /// A checkpoint is asked for.
    Request {
        /// By which tool; `None` if the job itself does.
        tool: Option<ToolId>,
        /// The job is to end after it.
        stop: bool,
    },
    /// A tool asks how things stand.
    AskStatus(ToolId),
    /// A tool's connection is gone.
    ToolLost(ToolId),
    /// The end of [`Action::Prepare`].
    Prepared(u64, Result<PartialSet, String>),
    /// The end of [`Action::Commit`].
    Committed(u64, Result<(), String>),
    /// Time passes. To be given regularly while [`Coordinator::busy`].
    Tick,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Send to every rank that is connected.
    Send(ToRank),
    /// Send to one rank.
    Tell(u32, ToRank),
    /// Send to a tool.
    Reply(ToolId, ToTool),
    /// Make a directory for a new set.
    Prepare(u64),
    /// Make the set whole: write its manifest, give it its name.
    Commit(u64, PartialSet, Vec<Summary>),
    /// Throw away what was written.
    Discard(PartialSet),
    /// A checkpoint has ended so.
    Over(Result<Report, String>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Seat {
    Absent,
    Here { host: String, pid: u32 },
    Finished { host: String, pid: u32 },
    Lost { host: String, pid: u32 },
}

impl Seat {
    /// Why no checkpoint can be taken with this rank any more, if so.
    fn gone(&self, rank: u32) -> Option<String> {
        match self {
            Seat::Finished { host, pid } => Some(format!(
                "rank {rank} (process {pid} on {host}) has ended already"
            )),
            Seat::Lost { host, pid } => Some(format!(
                "the connection to rank {rank} (process {pid} on {host}) broke; it probably died"
            )),
            Seat::Absent | Seat::Here { .. } => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// The directory is being made.
    Preparing,
    /// Clocks are being gathered.
    Asking { heard: BTreeSet<u32> },
    /// Targets are being reached.
    Approaching {
        version: u64,
        states: BTreeMap<u32, State>,
        /// How many have told how they stand with this version.
        told: u32,
        /// How many of these have reached it.
        reached: u32,
        /// How many have told since all were looked at.
        news: u32,
        /// Ticks without progress.
        ticks: u32,
        turn: u32,
    },
    /// Threads are being stopped, messages drained.
    Draining { drained: BTreeMap<u32, Vec<Part>> },
    /// Images are being written: by ranks that stand still, or whose memory is copied.
    Saving {
        copied: BTreeSet<u32>,
        saved: BTreeMap<u32, Summary>,
    },
    /// The manifest is being written.
    Committing { saved: BTreeMap<u32, Summary> },
}

impl Stage {
    /// A rank has done what the stage asks of it.
    fn has(&self, rank: u32) -> bool {
        match self {
            Stage::Preparing => false,
            Stage::Asking { heard } => heard.contains(&rank),
            Stage::Approaching { states, .. } => states.get(&rank).is_some_and(|s| s.reached),
            Stage::Draining { drained } => drained.contains_key(&rank),
            Stage::Saving { saved, .. } | Stage::Committing { saved } => saved.contains_key(&rank),
        }
    }

    /// Those of so many ranks that have not.
    fn missing(&self, ranks: u32) -> impl Iterator<Item = u32> + '_ {
        (0..ranks).filter(|rank| !self.has(*rank))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Attempt {
    epoch: u64,
    begun: Time,
    /// When the present stage's limit began to count.
    since: Time,
    asked: Time,
    stopped: Time,
    /// When the ranks were let go while images were being written.
    went_on: Option<Time>,
    /// The job is to end after it.
    stop: bool,
    /// Who waits for it.
    tools: BTreeSet<ToolId>,
    /// What the tools were last told that it waits for, and when.
    note: Option<(Time, String)>,
    /// How far they were last told that it has come.
    progress: Option<Progress>,
    partial: Option<PartialSet>,
    targets: BTreeMap<u64, u64>,
    stage: Stage,
}

/// A checkpoint that is wanted and cannot be begun yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Wanted {
    since: Time,
    stop: bool,
    tools: BTreeSet<ToolId>,
    /// The tools were told that MPI_Init may never be called.
    told: bool,
}

/// Tools that want to know how things stand, and what ranks have told since they asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Question {
    since: Time,
    tools: BTreeSet<ToolId>,
    told: BTreeMap<u32, Doing>,
}

/// The coordinator's machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Coordinator {
    config: Config,
    seats: Vec<Seat>,
    /// How many seats are still empty.
    absent: u32,
    epoch: u64,
    attempt: Option<Attempt>,
    /// The next one, which begins as soon as every rank is there and the one before has ended.
    wanted: Option<Wanted>,
    committed: u64,
    last: Option<Report>,
    failure: Option<String>,
    ending: bool,
    /// How many times ranks were asked what they do.
    questions: u64,
    question: Option<Question>,
}

impl Coordinator {
    /// A coordinator to which no rank has connected yet.
    pub fn new(config: Config) -> Self {
        Coordinator {
            config,
            seats: vec![Seat::Absent; config.size as usize],
            absent: config.size,
            epoch: 0,
            attempt: None,
            wanted: None,
            committed: 0,
            last: None,
            failure: None,
            ending: false,
            questions: 0,
            question: None,
        }
    }

    /// A checkpoint is being taken, or ranks are asked what they do: time matters.
    pub fn busy(&self) -> bool {
        self.attempt.is_some() || self.question.is_some() || self.waits_for_init()
    }

    /// Whether somebody waits for a checkpoint which can only begin when all ranks have called MPI_Init.
    pub fn waits_for_init(&self) -> bool {
        let wanted = self.wanted.as_ref();
        self.absent > 0 && wanted.is_some_and(|wanted| !wanted.tools.is_empty())
    }

    /// How many ranks have not connected, which they do when they have called MPI_Init.
    pub fn absent(&self) -> u32 {
        self.absent
    }

    /// Takes what happened at time `now` and returns what is to be done.
    pub fn on(&mut self, now: Time, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::Connected { rank, host, pid } => {
                self.connected(rank, host, pid, now, &mut actions)
            }
            Event::Message(rank, message) => self.message(rank, message, now, &mut actions),
            Event::Lost(rank) => self.lost(rank, now, &mut actions),
            // If one is being taken, that one will do.
            Event::Due if self.attempt.is_none() && self.hopeless().is_none() => {
                self.request(None, false, now, &mut actions)
            }
            Event::Due => {}
            Event::Request { tool, stop } => self.request(tool, stop, now, &mut actions),
            Event::AskStatus(tool) => self.ask(tool, now, &mut actions),
            Event::ToolLost(tool) => {
                let attempt = self.attempt.as_mut().map(|a| &mut a.tools);
                let wanted = self.wanted.as_mut().map(|w| &mut w.tools);
                let question = self.question.as_mut().map(|q| &mut q.tools);
                for tools in attempt.into_iter().chain(wanted).chain(question) {
                    tools.remove(&tool);
                }
            }
            Event::Prepared(epoch, result) => self.prepared(epoch, result, now, &mut actions),
            Event::Committed(epoch, result) => self.finished(epoch, result, now, &mut actions),
            Event::Tick => {
                self.tick(now, &mut actions);
                self.progress(&mut actions);
            }
        }
        self.answer_question(now, &mut actions);
        actions
    }

    /// Asks the ranks what they do, for a tool that wants to know how things stand.
    fn ask(&mut self, tool: ToolId, now: Time, out: &mut Vec<Action>) {
        if let Some(question) = &mut self.question {
            question.tools.insert(tool);
            return;
        }
        self.questions += 1;
        self.question = Some(Question {
            since: now,
            tools: BTreeSet::from([tool]),
            told: BTreeMap::new(),
        });
        let question = self.questions;
        out.push(Action::Send(ToRank::Tell { question }));
    }

    /// Answers, if all ranks have told, or one that does not has had its time.
    fn answer_question(&mut self, now: Time, out: &mut Vec<Action>) {
        let Some(question) = &self.question else {
            return;
        };
        let here = |(seat, _): &(&Seat, u32)| matches!(seat, Seat::Here { .. });
        let mut seats = self.seats.iter().zip(0..).filter(here);
        let all = seats.all(|(_, rank)| question.told.contains_key(&rank));
        if !all && now.saturating_sub(question.since) < ANSWER_LIMIT {
            return;
        }
        if let Some(question) = self.question.take() {
            let status = ToTool::Status(self.status(question.told));
            answer(question.tools, &status, out);
        }
    }

    /// Whether a rank that introduces itself so may connect.
    pub fn admits(&self, rank: u32, size: u32) -> Result<(), String> {
        if size != self.config.size {
            return Err(format!(
                "the job has {} ranks, not {size}",
                self.config.size
            ));
        }
        match self.seats.get(rank as usize) {
            Some(Seat::Absent) => Ok(()),
            Some(_) => Err(words::came_before(rank)),
            None => Err(format!("there is no rank {rank} in a job of {size}")),
        }
    }

    fn connected(&mut self, rank: u32, host: String, pid: u32, now: Time, out: &mut Vec<Action>) {
        let Some(seat) = self.seats.get_mut(rank as usize) else {
            return;
        };
        debug_assert_eq!(*seat, Seat::Absent);
        *seat = Seat::Here { host, pid };
        self.absent -= 1;
        self.begin(now, out);
    }

    /// Why no checkpoint can ever be taken again, if so.
    fn hopeless(&self) -> Option<String> {
        if self.ending {
            return Some("the job is ending".into());
        }
        let mut seats = self.seats.iter().zip(0..);
        seats.find_map(|(seat, rank)| seat.gone(rank))
    }

    fn request(&mut self, tool: Option<ToolId>, stop: bool, now: Time, out: &mut Vec<Action>) {
        if let Some(reason) = self.hopeless() {
            let reason = format!("no checkpoint can be taken: {reason}");
            match tool {
                Some(tool) => out.push(Action::Reply(tool, ToTool::Failed(reason))),
                // Whoever is the second to ask for the end has what he wants.
                None if self.ending => {}
                None => out.push(Action::Over(Err(reason))),
            }
            return;
        }
        let mut note = None;
        match &mut self.attempt {
            Some(attempt) if attempt.went_on.is_none() => {
                attempt.stop |= stop;
                attempt.tools.extend(tool);
                attempt.progress = None;
                note = Some("a checkpoint is being taken already; joined it".to_string());
            }
            // What that one holds is past already.
            attempt => {
                let wanted = self.wanted.get_or_insert_with(|| Wanted {
                    since: now,
                    stop: false,
                    tools: BTreeSet::new(),
                    told: false,
                });
                wanted.stop |= stop;
                wanted.tools.extend(tool);
                if attempt.is_some() {
                    note = Some(
                        "the checkpoint before is still being written; this one begins after it"
                            .to_string(),
                    );
                } else if self.absent > 0 {
                    note = Some(format!(
                        "waiting for the ranks to call MPI_Init ({} of {} have not yet)",
                        self.absent, self.config.size
                    ));
                }
            }
        }
        let told = tool.zip(note);
        out.extend(told.map(|(tool, note)| Action::Reply(tool, ToTool::Note(note))));
        self.begin(now, out);
    }

    /// Begins the checkpoint that is wanted, if one is and it can be.
    fn begin(&mut self, now: Time, out: &mut Vec<Action>) {
        if self.attempt.is_some() || self.absent > 0 {
            return;
        }
        let Some(wanted) = self.wanted.take() else {
            return;
        };
        self.epoch += 1;
        self.attempt = Some(Attempt {
            epoch: self.epoch,
            begun: wanted.since,
            since: now,
            asked: now,
            stopped: now,
            went_on: None,
            stop: wanted.stop,
            tools: wanted.tools,
            note: None,
            progress: None,
            partial: None,
            targets: BTreeMap::new(),
            stage: Stage::Preparing,
        });
        // First the directory: a full or foreign disk should not cost the job a pause.
        out.push(Action::Prepare(self.epoch));
    }

    fn prepared(
        &mut self,
        epoch: u64,
        result: Result<PartialSet, String>,
        now: Time,
        out: &mut Vec<Action>,
    ) {
        let current = self.attempt.as_mut().filter(|a| a.epoch == epoch);
        match (current, result) {
            (Some(attempt), Ok(partial)) => {
                attempt.partial = Some(partial);
                attempt.since = now;
                attempt.asked = now;
                attempt.stage = Stage::Asking {
                    heard: BTreeSet::new(),
                };
                out.push(Action::Send(ToRank::Intent { epoch }));
            }
            (Some(_), Err(reason)) => self.abandon(reason, now, out),
            (None, Ok(partial)) => out.push(Action::Discard(partial)),
            (None, Err(_)) => {}
        }
    }

    fn message(&mut self, rank: u32, message: FromRank, now: Time, out: &mut Vec<Action>) {
        let epoch = match &message {
            FromRank::Clocks { epoch, .. }
            | FromRank::Drained { epoch, .. }
            | FromRank::Copied { epoch }
            | FromRank::Saved { epoch, .. }
            | FromRank::Refused { epoch, .. } => *epoch,
            FromRank::State(state) => state.epoch,
            FromRank::Doing { question, doing } => {
                let current = *question == self.questions;
                if let Some(question) = self.question.as_mut().filter(|_| current) {
                    question.told.insert(rank, doing.clone());
                }
                return;
            }
            FromRank::Asks { stop } => return self.request(None, *stop, now, out),
            FromRank::Finished => return self.rank_finished(rank, now, out),
        };
        let size = self.config.size as usize;
        let Some(attempt) = self.attempt.as_mut().filter(|a| a.epoch == epoch) else {
            return;
        };
        match (message, &mut attempt.stage) {
            (FromRank::Clocks { clocks, .. }, Stage::Asking { heard }) => {
                for (id, seq) in clocks {
                    let target = attempt.targets.entry(id).or_insert(0);
                    *target = seq.max(*target);
                }
                heard.insert(rank);
                if heard.len() == size {
                    let targets = attempt.targets.iter().map(|(i, t)| (*i, *t)).collect();
                    attempt.stage = Stage::Approaching {
                        version: 1,
                        states: BTreeMap::new(),
                        told: 0,
                        reached: 0,
                        news: 0,
                        ticks: 0,
                        turn: 0,
                    };
                    out.push(Action::Send(ToRank::Targets {
                        epoch,
                        version: 1,
                        targets,
                    }));
                }
            }
            (
                FromRank::State(state),
                Stage::Approaching {
                    version,
                    states,
                    told,
                    reached,
                    news,
                    ticks,
                    ..
                },
            ) => {
                let stands =
                    |s: &State| (s.version == *version, s.version == *version && s.reached);
                let now_stands = stands(&state);
                let stood = states
                    .insert(rank, state)
                    .map_or((false, false), |s| stands(&s));
                *told = *told + u32::from(now_stands.0) - u32::from(stood.0);
                *reached = *reached + u32::from(now_stands.1) - u32::from(stood.1);
                *news += 1;
                // What a rank does changes all the time where ranks exchange messages.
                if now_stands != stood {
                    *ticks = 0;
                }
                self.judge(now, out);
            }
            (FromRank::Drained { shared, .. }, Stage::Draining { drained }) => {
                drained.insert(rank, shared);
                if drained.len() == size {
                    let drained = std::mem::take(drained);
                    attempt.since = now;
                    attempt.stage = Stage::Saving {
                        copied: BTreeSet::new(),
                        saved: BTreeMap::new(),
                    };
                    let stop = attempt.stop;
                    if let Some(partial) = attempt.partial.clone() {
                        self.order_images(epoch, &partial, stop, drained, out);
                    }
                }
            }
            (FromRank::Copied { .. }, Stage::Saving { copied, .. }) => {
                copied.insert(rank);
                self.let_go(now, out);
            }
            (FromRank::Saved { summary, .. }, Stage::Saving { copied, saved }) => {
                copied.remove(&rank);
                saved.insert(rank, summary);
                if saved.len() < size {
                    return self.let_go(now, out);
                }
                let saved = std::mem::take(saved);
                let summaries = saved.values().cloned().collect();
                attempt.stage = Stage::Committing { saved };
                if let Some(partial) = attempt.partial.clone() {
                    out.push(Action::Commit(epoch, partial, summaries));
                }
            }
            (FromRank::Refused { reason, .. }, _) => {
                self.abandon(format!("rank {rank}: {reason}"), now, out);
            }
            _ => {}
        }
    }

    /// The ranks can go on when none of them reads its memory any more; unless the job is to end.
    fn let_go(&mut self, now: Time, out: &mut Vec<Action>) {
        let Some(attempt) = &mut self.attempt else {
            return;
        };
        let Stage::Saving { copied, saved } = &attempt.stage else {
            return;
        };
        let all = copied.len() + saved.len() == self.config.size as usize;
        if all && !attempt.stop && attempt.went_on.is_none() {
            attempt.went_on = Some(now);
            let epoch = attempt.epoch;
            out.push(Action::Send(ToRank::GoOn { epoch }));
        }
    }

    /// Everyone is drained: each is to write its image, and of what they share each its part.
    fn order_images(
        &self,
        epoch: u64,
        partial: &PartialSet,
        stop: bool,
        drained: BTreeMap<u32, Vec<Part>>,
        out: &mut Vec<Action>,
    ) {
        let pid = |rank: u32| match self.seats.get(rank as usize) {
            Some(Seat::Here { pid, .. }) => *pid,
            _ => 0,
        };
        let ranks = drained
            .into_iter()
            .map(|(rank, parts)| (rank, (pid(rank), parts)))
            .collect();
        let mut shares = share_out(&ranks);
        for rank in ranks.into_keys() {
            let PartialSet {
                set,
                id,
                directory,
                parent,
            } = partial.clone();
            let order = ToRank::Save {
                epoch,
                set,
                id,
                directory,
                parent: parent.map(|parent| parent.id),
                shared: shares.remove(&rank).unwrap_or_default(),
                stop,
            };
            out.push(Action::Tell(rank, order));
        }
    }

    /// All ranks have told how they stand with the newest targets: stop, release, or wait on.
    fn judge(&mut self, now: Time, out: &mut Vec<Action>) {
        let size = self.config.size;
        let Some(attempt) = &mut self.attempt else {
            return;
        };
        let epoch = attempt.epoch;
        let Stage::Approaching {
            version,
            states,
            told,
            reached,
            news,
            ticks,
            turn,
        } = &mut attempt.stage
        else {
            return;
        };
        if *told < size {
            return;
        }
        if *reached == size {
            attempt.since = now;
            attempt.stopped = now;
            attempt.stage = Stage::Draining {
                drained: BTreeMap::new(),
            };
            return out.push(Action::Send(ToRank::Stop { epoch }));
        }
        let quiet = if *ticks >= STALLED_TICKS {
            Quiet::Stalled
        } else {
            Quiet::No
        };
        // To look at all ranks for each news of one would take for ever with many: a tick does it.
        if *news > 0 && *news < size / NEWS_PER_RANK {
            return;
        }
        *news = 0;
        let mut seen: BTreeMap<u32, &State> = states.iter().map(|(r, s)| (*r, s)).collect();
        if self.config.parking == Parking::Final {
            seen.retain(|_, s| !s.reached);
        }
        let mut raised = raises(&seen, quiet, turn);
        raised.retain(|id, seq| attempt.targets.get(id).is_none_or(|t| t < seq));
        if raised.is_empty() {
            return;
        }
        (*ticks, *told, *reached) = (0, 0, 0);
        *version += 1;
        let version = *version;
        attempt.targets.extend(&raised);
        let targets = raised.into_iter().collect();
        out.push(Action::Send(ToRank::Targets {
            epoch,
            version,
            targets,
        }));
    }

    fn finished(
        &mut self,
        epoch: u64,
        result: Result<(), String>,
        now: Time,
        out: &mut Vec<Action>,
    ) {
        if self.attempt.as_ref().is_none_or(|a| a.epoch != epoch) {
            return;
        }
        if let Err(reason) = result {
            return self.abandon(reason, now, out);
        }
        let Some(attempt) = self.attempt.take() else {
            return;
        };
        let (set, parent) = attempt
            .partial
            .map(|partial| (partial.set, partial.parent))
            .unwrap_or_default();
        let stop = attempt.stop;
        let outcome = match stop {
            true => Outcome::Exit { set: set.clone() },
            false => Outcome::Committed { set: set.clone() },
        };
        let Stage::Committing { saved } = attempt.stage else {
            return;
        };
        let slowest = |f: fn(&Times) -> u64| saved.values().map(|s| f(&s.times)).max().unwrap_or(0);
        let stood = |(rank, summary): (&u32, &Summary)| {
            let why = summary.stood.as_ref()?;
            Some(format!("rank {rank}: {why}"))
        };
        let went_on = attempt.went_on.unwrap_or(now);
        let inherits = saved.values().any(|summary| summary.inherits);
        let local = saved.values().filter(|summary| summary.local.is_some());
        let report = Report {
            set,
            increment_of: parent.filter(|_| inherits).map(|parent| parent.set),
            bytes: saved.values().map(|s| s.bytes).sum(),
            memory: saved.values().map(|s| s.memory).sum(),
            total: now.saturating_sub(attempt.begun),
            approach: attempt.stopped.saturating_sub(attempt.asked),
            pause: went_on.saturating_sub(attempt.stopped),
            slowest: Times {
                drain: slowest(|t| t.drain),
                copy: slowest(|t| t.copy),
                save: slowest(|t| t.save),
            },
            stood: saved.iter().find_map(stood),
            level: Level::of(local.map(|summary| summary.copy.is_some())),
            stop,
        };
        self.committed += 1;
        self.last = Some(report.clone());
        // The tools first: with `Exit` this process ends too.
        for (rank, summary) in &saved {
            for note in &summary.notes {
                let note = ToTool::Note(format!("rank {rank}: {note}"));
                let tools = attempt.tools.iter();
                out.extend(tools.map(|t| Action::Reply(*t, note.clone())));
            }
        }
        answer(attempt.tools, &ToTool::Committed(report.clone()), out);
        out.push(Action::Over(Ok(report)));
        out.push(Action::Send(ToRank::Resume { epoch, outcome }));
        self.ending |= stop;
        self.next(now, out);
    }

    fn abandon(&mut self, reason: String, now: Time, out: &mut Vec<Action>) {
        let Some(attempt) = self.attempt.take() else {
            return;
        };
        if attempt.stage != Stage::Preparing {
            let outcome = Outcome::Abandoned {
                reason: reason.clone(),
            };
            out.push(Action::Send(ToRank::Resume {
                epoch: attempt.epoch,
                outcome,
            }));
        }
        out.extend(attempt.partial.map(Action::Discard));
        self.failure = Some(reason.clone());
        answer(attempt.tools, &ToTool::Failed(reason.clone()), out);
        out.push(Action::Over(Err(reason)));
        self.next(now, out);
    }

    /// None is being taken: begins the next, or says why there will be none.
    fn next(&mut self, now: Time, out: &mut Vec<Action>) {
        let Some(reason) = self.hopeless() else {
            return self.begin(now, out);
        };
        if let Some(wanted) = self.wanted.take() {
            let message = ToTool::Failed(format!("no checkpoint can be taken: {reason}"));
            answer(wanted.tools, &message, out);
        }
    }

    fn rank_finished(&mut self, rank: u32, now: Time, out: &mut Vec<Action>) {
        let Some(seat) = self.seats.get_mut(rank as usize) else {
            return;
        };
        if let Seat::Here { host, pid } = seat {
            *seat = Seat::Finished {
                host: std::mem::take(host),
                pid: *pid,
            };
        }
        self.without(
            format!("rank {rank} ended before the checkpoint was whole"),
            now,
            out,
        );
    }

    fn lost(&mut self, rank: u32, now: Time, out: &mut Vec<Action>) {
        let Some(seat) = self.seats.get_mut(rank as usize) else {
            return;
        };
        let Seat::Here { host, pid } = seat else {
            return;
        };
        *seat = Seat::Lost {
            host: std::mem::take(host),
            pid: *pid,
        };
        if let Some(reason) = seat.gone(rank) {
            self.without(reason, now, out);
        }
    }

    /// A rank is no more.
    fn without(&mut self, reason: String, now: Time, out: &mut Vec<Action>) {
        match &self.attempt {
            // Every image is on disk: the set is whole without the rank.
            Some(Attempt {
                stage: Stage::Committing { .. },
                ..
            }) => {}
            Some(_) => self.abandon(reason, now, out),
            None => self.next(now, out),
        }
    }

    fn tick(&mut self, now: Time, out: &mut Vec<Action>) {
        let Some(attempt) = &mut self.attempt else {
            return self.note_absent(now, out);
        };
        let waited = now.saturating_sub(attempt.since);
        let over = |limit: Time| limit != 0 && waited > limit;
        let seconds = waited / 1_000_000;
        let missing = |stage: &Stage| words::ranks(stage.missing(self.config.size));
        let reason = match &mut attempt.stage {
            stage @ Stage::Asking { .. } if over(self.config.drain_limit) => {
                format!("no answer from {} for {seconds} s", missing(stage))
            }
            Stage::Approaching { ticks, news, .. } if !over(self.config.approach_limit) => {
                *ticks = (*ticks + 1).min(STALLED_TICKS);
                if *ticks >= STALLED_TICKS || *news > 0 {
                    *news = 0;
                    self.judge(now, out);
                }
                return self.note(now, out);
            }
            stage @ Stage::Approaching { .. } => format!(
                "after {seconds} s {} had not come to where the checkpoint can be taken (in a \
                 collective, or before one that others have begun)",
                missing(stage)
            ),
            stage @ Stage::Draining { .. } if over(self.config.drain_limit) => format!(
                "{} had not stopped and taken in all messages after {seconds} s",
                missing(stage)
            ),
            stage @ Stage::Saving { .. } if over(self.config.save_limit) => format!(
                "{} had not written the image after {seconds} s",
                missing(stage)
            ),
            _ => return self.note(now, out),
        };
        self.abandon(reason, now, out);
    }

    /// Tells the tools that what they wait for may not come, once they have waited a while for MPI_Init.
    fn note_absent(&mut self, now: Time, out: &mut Vec<Action>) {
        let (absent, size, waits) = (self.absent, self.config.size, self.waits_for_init());
        let Some(wanted) = self.wanted.as_mut().filter(|_| waits) else {
            return;
        };
        if wanted.told || now.saturating_sub(wanted.since) < NOTE_AFTER {
            return;
        }
        wanted.told = true;
        let text = format!(
            "{absent} of {size} ranks have still not called MPI_Init, and no checkpoint can be taken before. If this \
             program never calls it, there will be none (--patience ends the waiting)"
        );
        let note = |tool: &ToolId| Action::Reply(*tool, ToTool::Note(text.clone()));
        out.extend(wanted.tools.iter().map(note));
    }

    /// Tells the tools what a checkpoint that takes long waits for.
    fn note(&mut self, now: Time, out: &mut Vec<Action>) {
        let Some(attempt) = &self.attempt else {
            return;
        };
        let begun = attempt.note.as_ref().map_or(0, |(when, _)| *when);
        if now.saturating_sub(attempt.since.max(begun)) < NOTE_AFTER {
            return;
        }
        let Some(text) = self.waits_for() else {
            return;
        };
        let Some(attempt) = &mut self.attempt else {
            return;
        };
        if attempt.note.as_ref().is_some_and(|(_, told)| *told == text) {
            return;
        }
        attempt.note = Some((now, text.clone()));
        let tools = attempt.tools.iter();
        out.extend(tools.map(|tool| Action::Reply(*tool, ToTool::Note(text.clone()))));
    }

    /// Tells the tools how far the checkpoint has come, if it has come further. By ticks, so that many
    /// ranks make no more messages than few.
    fn progress(&mut self, out: &mut Vec<Action>) {
        let stage = self.stage();
        let ranks = self.config.size;
        let Some(attempt) = self.attempt.as_mut().filter(|a| !a.tools.is_empty()) else {
            return;
        };
        let bytes = match &attempt.stage {
            Stage::Preparing => return,
            Stage::Asking { .. } | Stage::Approaching { .. } | Stage::Draining { .. } => 0,
            Stage::Saving { saved, .. } | Stage::Committing { saved } => {
                saved.values().map(|summary| summary.bytes).sum()
            }
        };
        let missing: Vec<u32> = attempt.stage.missing(ranks).collect();
        let progress = Progress {
            stage: stage.into(),
            done: ranks - missing.len() as u32,
            ranks,
            missing: words::ranks(missing.into_iter()),
            bytes,
        };
        if attempt.progress.as_ref() != Some(&progress) {
            let tools = attempt.tools.iter();
            let told = |tool: &ToolId| Action::Reply(*tool, ToTool::Progress(progress.clone()));
            out.extend(tools.map(told));
            attempt.progress = Some(progress);
        }
    }

    /// What the checkpoint that is being taken waits for, if it is for ranks.
    fn waits_for(&self) -> Option<String> {
        let attempt = self.attempt.as_ref()?;
        let missing = || words::ranks(attempt.stage.missing(self.config.size));
        Some(match &attempt.stage {
            Stage::Preparing | Stage::Committing { .. } => return None,
            Stage::Asking { .. } => format!("no answer yet from {}", missing()),
            Stage::Approaching { states, ticks, .. } => {
                words::approach(states, *ticks >= STALLED_TICKS)
            }
            Stage::Draining { .. } => {
                format!("{} must still stop or take in what is under way", missing())
            }
            Stage::Saving { .. } => {
                let meanwhile = attempt.went_on.map_or("", |_| "; the job runs on");
                format!("{} must still write the image{meanwhile}", missing())
            }
        })
    }

    fn status(&self, mut told: BTreeMap<u32, Doing>) -> Status {
        let ranks = self
            .seats
            .iter()
            .zip(0..)
            .map(|(seat, rank)| self.rank_status(rank, seat, told.remove(&rank)));
        Status {
            size: self.config.size,
            stage: self.stage().into(),
            waiting: self.waits_for(),
            committed: self.committed,
            last: self.last.clone(),
            failure: self.failure.clone(),
            next: None,
            ranks: ranks.collect(),
        }
    }

    /// What is being done, in words.
    fn stage(&self) -> &'static str {
        let went_on = self.attempt.as_ref().and_then(|a| a.went_on);
        match self.attempt.as_ref().map(|a| &a.stage) {
            None if self.ending => ENDING,
            None if self.wanted.is_some() => "waiting for MPI_Init",
            None => "idle",
            Some(Stage::Preparing) => "making the directory",
            Some(Stage::Asking { .. }) => "asking the ranks",
            Some(Stage::Approaching { .. }) => "approaching a safe state",
            Some(Stage::Draining { .. }) => "stopping and draining",
            Some(Stage::Saving { .. }) if went_on.is_some() => "writing images while the job runs",
            Some(Stage::Saving { .. }) => "writing images",
            Some(Stage::Committing { .. }) => "committing",
        }
    }

    fn rank_status(&self, rank: u32, seat: &Seat, doing: Option<Doing>) -> RankStatus {
        let (host, pid, state) = match seat {
            Seat::Absent => ("", 0, "absent"),
            Seat::Here { host, pid } => (host.as_str(), *pid, self.doing(rank)),
            Seat::Finished { host, pid } => (host.as_str(), *pid, "finished"),
            Seat::Lost { host, pid } => (host.as_str(), *pid, "lost"),
        };
        RankStatus {
            rank,
            host: host.into(),
            pid,
            state: state.into(),
            doing,
        }
    }

    fn doing(&self, rank: u32) -> &'static str {
        use crate::protocol::Activity::*;
        match self.attempt.as_ref().map(|a| &a.stage) {
            Some(Stage::Approaching { states, .. }) => match states.get(&rank) {
                Some(s) if s.reached => "reached",
                Some(s) => match s.activity {
                    Running => "computing",
                    Collective { .. } => "in a collective",
                    Waiting { .. } => "waiting for a message",
                    Parked { .. } => "parked",
                },
                None => "running",
            },
            Some(Stage::Draining { drained }) if drained.contains_key(&rank) => "drained",
            Some(Stage::Saving { saved, .. }) if saved.contains_key(&rank) => "saved",
            Some(Stage::Saving { copied, .. }) if copied.contains(&rank) => "copied",
            Some(Stage::Saving { .. }) => "saving",
            _ => "running",
        }
    }
}

/// Tells everyone who has waited.
fn answer(tools: BTreeSet<ToolId>, message: &ToTool, out: &mut Vec<Action>) {
    let replies = tools.into_iter();
    out.extend(replies.map(|tool| Action::Reply(tool, message.clone())));
}

#[cfg(test)]
mod tests;
