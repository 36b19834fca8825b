//! The coordinator's side of the protocol, as a pure state machine. [`Coordinator::on`] takes an event and
//! its time, and returns the actions to carry out, in order.

use std::collections::{BTreeMap, BTreeSet};

use history::event::Cause;

use crate::protocol::messages::{
    Details, Doing, FromRank, Level, Outcome, Progress, Report, State, Summary, Times, ToClient,
    ToRank, WantedStacks,
};
use crate::protocol::rank_set::RankSet;
use crate::protocol::region_assignment::{assign_writers, SharedRange};
use crate::protocol::unpark::{targets_to_raise, Quiet};
use crate::protocol::wording;
use stuck::Stuck;

/// A time in microseconds since an arbitrary start.
pub type Time = u64;

/// Id of a connected client.
pub type ClientId = u64;

/// Ticks after which an approach counts as stalled if no further rank reaches its targets. A change alone
/// does not reset it: ranks that have reached their targets may go on exchanging messages.
const STALLED_TICKS: u32 = 4;

/// All ranks are examined again when one rank in this number has reported, or at the next tick.
const RANKS_PER_EXAMINATION: u32 = 16;

/// Longest time for a rank's answer about its activity.
const ANSWER_LIMIT: Time = 1_000_000;

/// The same with stacks of its threads, for which it reads files, or with what it waits for, which it watches for a
/// while.
const STACKS_LIMIT: Time = 5_000_000;

/// End of every reason that is a time limit.
const EVENTS_HINT: &str =
    "`stasis status --trace` shows the last events of each rank, and `stasis explain` who waits for whom";

/// Number of ranks that print their last events after a time limit.
const LATE_PRINTED: usize = 4;

/// Time that a checkpoint stays in one stage before waiting clients get the reason. Also the interval
/// between two such notes.
const NOTE_AFTER: Time = 5_000_000;

/// Behaviour of a rank that has reached its targets and comes to a further collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Parking {
    /// The rank parks. It is released when a rank that has not reached its targets depends on it.
    Tentative,
    /// The rank parks for good, as in the published algorithm, which can hang. For comparison only.
    Final,
}

/// Settings of the coordinator. Times are in microseconds; 0 means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Number of ranks of the job.
    pub size: u32,
    /// Behaviour of ranks at their targets.
    pub parking: Parking,
    /// Longest time until all targets are reached; the checkpoint is abandoned after it.
    pub approach_limit: Time,
    /// Longest time until all ranks have stopped and drained.
    pub drain_limit: Time,
    /// Longest time until all images are written.
    pub save_limit: Time,
    /// Longest time for which a checkpoint waits for a rank that is stuck in a call or does not answer, unless its
    /// request says otherwise.
    pub patience: Time,
}

impl Config {
    /// The default settings for a job of `size` ranks.
    pub fn new(size: u32) -> Self {
        const MINUTE: Time = 60_000_000;
        Config {
            size,
            parking: Parking::Tentative,
            approach_limit: 30 * MINUTE,
            drain_limit: 5 * MINUTE,
            save_limit: 60 * MINUTE,
            patience: MINUTE,
        }
    }
}

/// A set that is being written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PartialSet {
    /// Name of the set after its commit.
    pub set: String,
    /// Id in the set's images.
    pub id: Vec<u8>,
    /// Directory of the images before the commit; none if the images stay in memory.
    pub directory: Option<String>,
    /// Parent of an increment; none for a full set.
    pub parent: Option<Parent>,
}

/// A committed set that the next set may be an increment of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Parent {
    /// Name of the set.
    pub set: String,
    /// Id of the set.
    pub id: Vec<u8>,
}

/// Times of a checkpoint at its commit, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cost {
    /// Time for which the job stood still.
    pub pause: Time,
    /// Time since the request.
    pub total: Time,
}

/// An event that the machine reacts to.
#[derive(Clone, Debug)]
pub enum Event {
    /// A rank has connected, with the right token, version and size.
    Connected {
        /// Rank in MPI_COMM_WORLD.
        rank: u32,
        /// Host name.
        host: String,
        /// Process id on the host.
        pid: u32,
    },
    /// A message from a rank.
    Message(u32, FromRank),
    /// The connection to a rank is closed.
    Lost(u32),
    /// A checkpoint is due by the schedule's interval.
    Due,
    /// A checkpoint in memory is due.
    DueInMemory,
    /// A request for a checkpoint.
    Request {
        /// Client that asks; `None` if the job itself does.
        client: Option<ClientId>,
        /// Origin of the request, for the job's history.
        cause: Cause,
        /// Whether the job ends after the checkpoint.
        stop: bool,
        /// See [`Config::patience`]; none for that setting.
        patience: Option<Time>,
    },
    /// A client asks for the status of the job.
    AskStatus {
        /// The client.
        client: ClientId,
        /// Details that it wants of each rank.
        details: Details,
    },
    /// The connection to a client is closed.
    ClientLost(ClientId),
    /// Result of [`Action::Prepare`].
    Prepared(u64, Result<PartialSet, String>),
    /// Result of [`Action::Commit`].
    Committed(u64, Result<(), String>),
    /// Time has passed. The server sends it regularly while [`Coordinator::busy`] holds.
    Tick,
}

/// An action that the server carries out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Send to every connected rank.
    Send(ToRank),
    /// Send to one rank.
    Tell(u32, ToRank),
    /// Send to a client.
    Reply(ClientId, ToClient),
    /// Create the directory of a new set.
    Prepare(u64),
    /// Prepare a set whose images stay in memory.
    PrepareInMemory(u64),
    /// Commit the set: write its manifest and rename its directory. One in memory is only noted.
    Commit(u64, PartialSet, Vec<Summary>, Cost),
    /// Remove the files of an abandoned set.
    Discard(PartialSet),
    /// A checkpoint has ended with this result.
    Over(Result<Report, String>),
    /// A checkpoint in memory was given up, for this reason.
    NotHeld(String),
    /// The checkpoint that was given up is to be requested again after a while.
    Again {
        /// Whether the job ends after the checkpoint.
        stop: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum RankSlot {
    Absent,
    Here { host: String, pid: u32 },
    Finished { host: String, pid: u32 },
    Lost { host: String, pid: u32 },
}

impl RankSlot {
    /// Reason why the rank's end or loss makes checkpoints impossible, if it does.
    fn gone(&self, rank: u32) -> Option<String> {
        match self {
            RankSlot::Finished { host, pid } => Some(format!(
                "rank {rank} (process {pid} on {host}) has ended already"
            )),
            RankSlot::Lost { host, pid } => Some(format!(
                "the connection to rank {rank} (process {pid} on {host}) broke; it probably died"
            )),
            RankSlot::Absent | RankSlot::Here { .. } => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum StageState {
    /// The directory is being created.
    Preparing,
    /// Clocks are being gathered.
    Asking { heard: BTreeSet<u32> },
    /// Ranks are running to their targets.
    Approaching {
        version: u64,
        states: BTreeMap<u32, State>,
        /// Number of ranks that have reported against this version.
        told: u32,
        /// Number of these that have reached their targets.
        reached: u32,
        /// Number of reports since all ranks were last examined.
        unexamined: u32,
        /// Ticks without progress.
        ticks: u32,
        turn: u32,
    },
    /// Threads are being stopped and messages drained.
    Draining {
        drained: BTreeMap<u32, Vec<SharedRange>>,
    },
    /// Images are being written, by ranks that stand still or whose memory is copied.
    Saving {
        copied: BTreeSet<u32>,
        saved: BTreeMap<u32, Summary>,
    },
    /// The manifest is being written.
    Committing { saved: BTreeMap<u32, Summary> },
}

impl StageState {
    /// Whether a rank has done its part of the stage.
    fn has(&self, rank: u32) -> bool {
        match self {
            StageState::Preparing => false,
            StageState::Asking { heard } => heard.contains(&rank),
            StageState::Approaching {
                states, version, ..
            } => {
                let state = states.get(&rank);
                state.is_some_and(|state| state.version == *version && state.reached)
            }
            StageState::Draining { drained } => drained.contains_key(&rank),
            StageState::Saving { saved, .. } | StageState::Committing { saved } => {
                saved.contains_key(&rank)
            }
        }
    }

    /// Number of ranks that have done their part of the stage.
    fn done(&self) -> u32 {
        let done = match self {
            StageState::Preparing => 0,
            StageState::Asking { heard } => heard.len(),
            StageState::Approaching { reached, .. } => return *reached,
            StageState::Draining { drained } => drained.len(),
            StageState::Saving { saved, .. } | StageState::Committing { saved } => saved.len(),
        };
        done as u32
    }

    /// Ranks below `ranks` that have not done their part of the stage.
    fn missing(&self, ranks: u32) -> impl Iterator<Item = u32> + '_ {
        (0..ranks).filter(|rank| !self.has(*rank))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct InProgress {
    epoch: u64,
    begun: Time,
    /// Start of the present stage's time limit.
    since: Time,
    asked: Time,
    stopped: Time,
    /// Time at which the ranks were resumed while images were being written.
    went_on: Option<Time>,
    /// Whether the job ends after the checkpoint.
    stop: bool,
    /// Whether the images stay in memory. Nobody waits for such a checkpoint.
    in_memory: bool,
    /// Clients that wait for the checkpoint.
    clients: BTreeSet<ClientId>,
    /// Origins of its requests.
    asked_by: BTreeSet<Cause>,
    /// See [`Config::patience`].
    patience: Time,
    /// Ranks that hold it up.
    stuck: Stuck,
    /// Time and text of the last note to the clients.
    note: Option<(Time, String)>,
    /// Progress last reported to the clients.
    progress: Option<Progress>,
    partial: Option<PartialSet>,
    targets: BTreeMap<u64, u64>,
    stage: StageState,
}

impl InProgress {
    /// Cost of the checkpoint until `now`.
    fn cost(&self, now: Time) -> Cost {
        let went_on = self.went_on.unwrap_or(now);
        Cost {
            pause: went_on.saturating_sub(self.stopped),
            total: now.saturating_sub(self.begun),
        }
    }
}

/// A checkpoint that is requested and cannot begin yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Queued {
    since: Time,
    stop: bool,
    clients: BTreeSet<ClientId>,
    /// Origins of its requests.
    asked_by: BTreeSet<Cause>,
    /// The longest patience of the requests; none if no request says one.
    patience: Option<Time>,
    /// Whether clients have the note that MPI_Init may never be called.
    told: bool,
    /// Whether it was given up, and waits for the request to try it again.
    held_back: bool,
}

impl Queued {
    fn begin(since: Time) -> Queued {
        Queued {
            since,
            stop: false,
            clients: BTreeSet::new(),
            asked_by: BTreeSet::new(),
            patience: None,
            told: false,
            held_back: false,
        }
    }
}

/// Clients that wait for a status, and the answers of ranks since their requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct StatusQuery {
    since: Time,
    /// Number of the question that the ranks answer.
    question: u64,
    clients: BTreeSet<ClientId>,
    /// Details that each rank was asked for.
    details: Details,
    told: BTreeMap<u32, Doing>,
}

/// The coordinator's state machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Coordinator {
    config: Config,
    slots: Vec<RankSlot>,
    /// Number of ranks that have not connected.
    absent: u32,
    epoch: u64,
    current: Option<InProgress>,
    /// The next checkpoint. It begins when every rank is connected and the one before has ended.
    queued: Option<Queued>,
    committed: u64,
    last: Option<Report>,
    /// The last checkpoint in memory.
    in_memory: Option<Report>,
    failure: Option<String>,
    ending: bool,
    /// Number of queries about the activity of ranks.
    queries: u64,
    query: Option<StatusQuery>,
}

impl Coordinator {
    /// A coordinator without connected ranks.
    pub fn new(config: Config) -> Self {
        Coordinator {
            config,
            slots: vec![RankSlot::Absent; config.size as usize],
            absent: config.size,
            epoch: 0,
            current: None,
            queued: None,
            committed: 0,
            last: None,
            in_memory: None,
            failure: None,
            ending: false,
            queries: 0,
            query: None,
        }
    }

    /// Whether time matters: a checkpoint is in progress, or ranks are being queried.
    pub fn busy(&self) -> bool {
        self.current.is_some() || self.query.is_some() || self.waits_for_init()
    }

    /// Whether a client waits for a checkpoint that can begin only after all ranks have called MPI_Init.
    pub fn waits_for_init(&self) -> bool {
        let queued = self.queued.as_ref();
        self.absent > 0 && queued.is_some_and(|queued| !queued.clients.is_empty())
    }

    /// Number of ranks that have not connected. A rank connects in MPI_Init.
    pub fn absent(&self) -> u32 {
        self.absent
    }

    /// Whether the rank is connected, and does not end yet.
    pub fn needs(&self, rank: u32) -> bool {
        let slot = self.slots.get(rank as usize);
        !self.ending && matches!(slot, Some(RankSlot::Here { .. }))
    }

    /// Handles an event at time `now` and returns the actions to carry out, in order.
    pub fn on(&mut self, now: Time, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::Connected { rank, host, pid } => {
                self.connected(rank, host, pid, now, &mut actions)
            }
            Event::Message(rank, message) => self.message(rank, message, now, &mut actions),
            Event::Lost(rank) => self.lost(rank, now, &mut actions),
            // A checkpoint in progress serves for this one too.
            Event::Due if self.current.is_none() && self.cannot_checkpoint().is_none() => {
                self.request(None, Cause::Interval, false, None, now, &mut actions)
            }
            Event::Due => match &mut self.current {
                Some(current) if current.in_memory => {
                    self.request(None, Cause::Interval, false, None, now, &mut actions);
                }
                Some(current) => {
                    current.asked_by.insert(Cause::Interval);
                }
                None => {}
            },
            Event::DueInMemory => self.begin_in_memory(now, &mut actions),
            Event::Request {
                client,
                cause,
                stop,
                patience,
            } => self.request(client, cause, stop, patience, now, &mut actions),
            Event::AskStatus { client, details } => self.ask(client, details, now, &mut actions),
            Event::ClientLost(client) => {
                let current = self.current.as_mut().map(|a| &mut a.clients);
                let queued = self.queued.as_mut().map(|w| &mut w.clients);
                let question = self.query.as_mut().map(|q| &mut q.clients);
                for clients in current.into_iter().chain(queued).chain(question) {
                    clients.remove(&client);
                }
            }
            Event::Prepared(epoch, result) => self.prepared(epoch, result, now, &mut actions),
            Event::Committed(epoch, result) => self.finished(epoch, result, now, &mut actions),
            Event::Tick => {
                self.tick(now, &mut actions);
                self.progress(&mut actions);
            }
        }
        self.answer_query(now, &mut actions);
        actions
    }

    /// Queries the activity of all ranks, for a client that asks for the status.
    fn ask(&mut self, client: ClientId, details: Details, now: Time, out: &mut Vec<Action>) {
        let mut clients = BTreeSet::from([client]);
        let mut details = details;
        match self.query.take() {
            Some(mut question) if question.details.and(details) == question.details => {
                question.clients.insert(client);
                self.query = Some(question);
                return;
            }
            // Its clients get the answers to the new question.
            Some(question) => {
                details = details.and(question.details);
                clients.extend(question.clients);
            }
            None => {}
        }
        self.queries += 1;
        self.query = Some(StatusQuery {
            since: now,
            question: self.queries,
            clients,
            details,
            told: BTreeMap::new(),
        });
        let question = self.queries;
        out.push(Action::Send(ToRank::Tell { question, details }));
    }

    /// Replies to status requests, once all ranks have answered or the time limit is over.
    fn answer_query(&mut self, now: Time, out: &mut Vec<Action>) {
        let Some(question) = &self.query else {
            return;
        };
        let here = |(slot, _): &(&RankSlot, u32)| matches!(slot, RankSlot::Here { .. });
        let mut slots = self.slots.iter().zip(0..).filter(here);
        let all = slots.all(|(_, rank)| question.told.contains_key(&rank));
        let limit = match (question.details.stacks, question.details.waits) {
            (WantedStacks::None, false) => ANSWER_LIMIT,
            _ => STACKS_LIMIT,
        };
        if !all && now.saturating_sub(question.since) < limit {
            return;
        }
        if let Some(question) = self.query.take() {
            let status = ToClient::Status(self.status(question.told));
            answer(question.clients, &status, out);
        }
    }

    /// Checks whether a rank with this number and job size may connect.
    ///
    /// # Errors
    /// The reason, for the rank's message.
    pub fn admits(&self, rank: u32, size: u32) -> Result<(), String> {
        if size != self.config.size {
            return Err(format!(
                "the job has {} ranks, not {size}",
                self.config.size
            ));
        }
        match self.slots.get(rank as usize) {
            Some(RankSlot::Absent) => Ok(()),
            Some(_) => Err(wording::came_before(rank)),
            None => Err(format!("there is no rank {rank} in a job of {size}")),
        }
    }

    fn connected(&mut self, rank: u32, host: String, pid: u32, now: Time, out: &mut Vec<Action>) {
        let Some(slot) = self.slots.get_mut(rank as usize) else {
            return;
        };
        debug_assert_eq!(*slot, RankSlot::Absent);
        *slot = RankSlot::Here { host, pid };
        self.absent -= 1;
        self.begin(now, out);
    }

    /// Reason why no checkpoint can be taken any more, if there is one.
    fn cannot_checkpoint(&self) -> Option<String> {
        if self.ending {
            return Some("the job is ending".into());
        }
        let mut slots = self.slots.iter().zip(0..);
        slots.find_map(|(slot, rank)| slot.gone(rank))
    }

    fn request(
        &mut self,
        client: Option<ClientId>,
        cause: Cause,
        stop: bool,
        patience: Option<Time>,
        now: Time,
        out: &mut Vec<Action>,
    ) {
        if let Some(reason) = self.cannot_checkpoint() {
            let reason = format!("no checkpoint can be taken: {reason}");
            match client {
                Some(client) => out.push(Action::Reply(client, ToClient::Failed(reason))),
                // A second request to end the job is fulfilled already.
                None if self.ending => {}
                None => out.push(Action::Over(Err(reason))),
            }
            return;
        }
        let mut note = None;
        match &mut self.current {
            Some(current) if current.went_on.is_none() && !current.in_memory => {
                current.stop |= stop;
                current.clients.extend(client);
                current.asked_by.insert(cause);
                current.patience = patience.unwrap_or(0).max(current.patience);
                current.progress = None;
                note = Some("a checkpoint is being taken already; joined it".to_string());
            }
            // The checkpoint in progress has passed its cut, or is not written, so it does not serve a new request.
            current => {
                let queued = self.queued.get_or_insert_with(|| Queued::begin(now));
                queued.stop |= stop;
                queued.clients.extend(client);
                queued.asked_by.insert(cause);
                queued.patience = patience.max(queued.patience);
                queued.held_back = false;
                if let Some(current) = current {
                    let how = match current.in_memory {
                        true => "a checkpoint in memory is being taken",
                        false => "the previous checkpoint is still being written",
                    };
                    note = Some(format!("{how}; this one begins after it"));
                } else if self.absent > 0 {
                    note = Some(format!(
                        "waiting for the ranks to call MPI_Init ({} of {} have not yet)",
                        self.absent, self.config.size
                    ));
                }
            }
        }
        let told = client.zip(note);
        out.extend(told.map(|(client, note)| Action::Reply(client, ToClient::Note(note))));
        self.begin(now, out);
    }

    /// Begins the queued checkpoint, if there is one and it can begin.
    fn begin(&mut self, now: Time, out: &mut Vec<Action>) {
        if self.current.is_some() || self.absent > 0 {
            return;
        }
        let Some(queued) = self.queued.take_if(|queued| !queued.held_back) else {
            return;
        };
        self.enter_checkpoint(queued, false, now);
        // The directory comes first: a full or unwritable disk then costs the job no pause.
        out.push(Action::Prepare(self.epoch));
    }

    /// Begins a checkpoint in memory, unless another one is being taken or none can be taken.
    fn begin_in_memory(&mut self, now: Time, out: &mut Vec<Action>) {
        let is_idle = self.current.is_none() && self.absent == 0;
        if is_idle && self.cannot_checkpoint().is_none() {
            self.enter_checkpoint(Queued::begin(now), true, now);
            out.push(Action::PrepareInMemory(self.epoch));
        }
    }

    fn enter_checkpoint(&mut self, queued: Queued, in_memory: bool, now: Time) {
        self.epoch += 1;
        self.current = Some(InProgress {
            epoch: self.epoch,
            begun: queued.since,
            since: now,
            asked: now,
            stopped: now,
            went_on: None,
            stop: queued.stop,
            in_memory,
            clients: queued.clients,
            asked_by: queued.asked_by,
            patience: queued.patience.unwrap_or(self.config.patience),
            stuck: Stuck::default(),
            note: None,
            progress: None,
            partial: None,
            targets: BTreeMap::new(),
            stage: StageState::Preparing,
        });
    }

    fn prepared(
        &mut self,
        epoch: u64,
        result: Result<PartialSet, String>,
        now: Time,
        out: &mut Vec<Action>,
    ) {
        let current = self.current.as_mut().filter(|a| a.epoch == epoch);
        match (current, result) {
            (Some(current), Ok(partial)) => {
                current.partial = Some(partial);
                current.since = now;
                current.asked = now;
                let heard = BTreeSet::new();
                current.enter(StageState::Asking { heard }, now);
                out.push(Action::Send(ToRank::Intent { epoch }));
            }
            (Some(_), Err(reason)) => self.abandon(reason, now, out),
            (None, Ok(partial)) => out.push(Action::Discard(partial)),
            (None, Err(_)) => {}
        }
    }

    fn message(&mut self, rank: u32, message: FromRank, now: Time, out: &mut Vec<Action>) {
        if let Some(current) = &mut self.current {
            current.stuck.heard(rank);
        }
        let epoch = match &message {
            FromRank::Clocks { epoch, .. }
            | FromRank::Drained { epoch, .. }
            | FromRank::Copied { epoch }
            | FromRank::Saved { epoch, .. }
            | FromRank::Refused { epoch, .. } => *epoch,
            FromRank::State(state) => state.epoch,
            FromRank::Doing { question, doing } => {
                let query = self.query.as_mut();
                if let Some(query) = query.filter(|query| query.question == *question) {
                    query.told.insert(rank, doing.clone());
                }
                let current = self.current.as_mut();
                if current.is_some_and(|current| current.stuck.told(rank, *question, doing)) {
                    // The stack is read by a signal, which interrupts the call. The kernel restarts the call, and the
                    // next report may say that the rank is not held. So the check comes before that report.
                    self.check_stuck(now, out);
                }
                return;
            }
            FromRank::Asks { stop } => {
                return self.request(None, Cause::Rank, *stop, None, now, out)
            }
            FromRank::Finished => return self.rank_finished(rank, now, out),
        };
        let size = self.config.size as usize;
        let Some(current) = self.current.as_mut().filter(|a| a.epoch == epoch) else {
            return;
        };
        match (message, &mut current.stage) {
            (FromRank::Clocks { clocks, .. }, StageState::Asking { heard }) => {
                for (id, seq) in clocks {
                    let target = current.targets.entry(id).or_insert(0);
                    *target = seq.max(*target);
                }
                heard.insert(rank);
                if heard.len() == size {
                    let targets = current.targets.iter().map(|(i, t)| (*i, *t)).collect();
                    let stage = StageState::Approaching {
                        version: 1,
                        states: BTreeMap::new(),
                        told: 0,
                        reached: 0,
                        unexamined: 0,
                        ticks: 0,
                        turn: 0,
                    };
                    current.enter(stage, now);
                    out.push(Action::Send(ToRank::Targets {
                        epoch,
                        version: 1,
                        targets,
                    }));
                }
            }
            (
                FromRank::State(state),
                StageState::Approaching {
                    version,
                    states,
                    told,
                    reached,
                    unexamined,
                    ticks,
                    ..
                },
            ) => {
                let stands =
                    |s: &State| (s.version == *version, s.version == *version && s.reached);
                let now_stands = stands(&state);
                current.stuck.reported(rank, &state, now);
                let stood = states
                    .insert(rank, state)
                    .map_or((false, false), |s| stands(&s));
                *told = *told + u32::from(now_stands.0) - u32::from(stood.0);
                *reached = *reached + u32::from(now_stands.1) - u32::from(stood.1);
                *unexamined += 1;
                // The activity changes all the time while ranks exchange messages.
                if now_stands != stood {
                    *ticks = 0;
                }
                self.check_targets(now, out);
            }
            (FromRank::Drained { shared, .. }, StageState::Draining { drained }) => {
                drained.insert(rank, shared);
                if drained.len() == size {
                    let drained = std::mem::take(drained);
                    current.since = now;
                    current.stage = StageState::Saving {
                        copied: BTreeSet::new(),
                        saved: BTreeMap::new(),
                    };
                    let stop = current.stop;
                    if let Some(partial) = current.partial.clone() {
                        self.order_images(epoch, &partial, stop, drained, out);
                    }
                }
            }
            (FromRank::Copied { .. }, StageState::Saving { copied, .. }) => {
                copied.insert(rank);
                self.resume_while_saving(now, out);
            }
            (FromRank::Saved { summary, .. }, StageState::Saving { copied, saved }) => {
                copied.remove(&rank);
                saved.insert(rank, summary);
                if saved.len() < size {
                    return self.resume_while_saving(now, out);
                }
                let saved = std::mem::take(saved);
                let summaries = saved.values().cloned().collect();
                current.stage = StageState::Committing { saved };
                if let Some(partial) = current.partial.clone() {
                    out.push(Action::Commit(epoch, partial, summaries, current.cost(now)));
                }
            }
            (FromRank::Refused { reason, .. }, _) => {
                self.abandon(format!("rank {rank}: {reason}"), now, out);
            }
            _ => {}
        }
    }

    /// Resumes the ranks when none of them reads its memory any more, unless the job ends.
    fn resume_while_saving(&mut self, now: Time, out: &mut Vec<Action>) {
        let Some(current) = &mut self.current else {
            return;
        };
        let StageState::Saving { copied, saved } = &current.stage else {
            return;
        };
        let all = copied.len() + saved.len() == self.config.size as usize;
        if all && !current.stop && current.went_on.is_none() {
            current.went_on = Some(now);
            let epoch = current.epoch;
            out.push(Action::Send(ToRank::GoOn { epoch }));
        }
    }

    /// Orders each rank to write its image, and assigns each shared range to one rank. All ranks are
    /// drained.
    fn order_images(
        &self,
        epoch: u64,
        partial: &PartialSet,
        stop: bool,
        drained: BTreeMap<u32, Vec<SharedRange>>,
        out: &mut Vec<Action>,
    ) {
        let pid = |rank: u32| match self.slots.get(rank as usize) {
            Some(RankSlot::Here { pid, .. }) => *pid,
            _ => 0,
        };
        let ranks = drained
            .into_iter()
            .map(|(rank, parts)| (rank, (pid(rank), parts)))
            .collect();
        let mut shares = assign_writers(&ranks);
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

    /// Evaluates the reports against the newest targets: stop, release, or keep waiting.
    fn check_targets(&mut self, now: Time, out: &mut Vec<Action>) {
        let size = self.config.size;
        let Some(current) = &mut self.current else {
            return;
        };
        let epoch = current.epoch;
        let StageState::Approaching {
            version,
            states,
            told,
            reached,
            unexamined,
            ticks,
            turn,
        } = &mut current.stage
        else {
            return;
        };
        if *told < size {
            return;
        }
        if *reached == size {
            current.since = now;
            current.stopped = now;
            let drained = BTreeMap::new();
            current.enter(StageState::Draining { drained }, now);
            return out.push(Action::Send(ToRank::Stop { epoch }));
        }
        let quiet = if *ticks >= STALLED_TICKS {
            Quiet::Stalled
        } else {
            Quiet::No
        };
        // Examining all ranks for each report costs too much in large jobs; a tick does it.
        if *unexamined > 0 && *unexamined < size / RANKS_PER_EXAMINATION {
            return;
        }
        *unexamined = 0;
        let mut seen: BTreeMap<u32, &State> = states.iter().map(|(r, s)| (*r, s)).collect();
        if self.config.parking == Parking::Final {
            seen.retain(|_, s| !s.reached);
        }
        let last = *turn;
        let mut raised = targets_to_raise(&seen, quiet, turn);
        raised.retain(|id, seq| current.targets.get(id).is_none_or(|t| t < seq));
        if raised.is_empty() {
            if *turn != last {
                // The guess was in vain. The next tick makes the next one.
                *ticks = STALLED_TICKS - 1;
            }
            return;
        }
        (*ticks, *told, *reached) = (0, 0, 0);
        *version += 1;
        let version = *version;
        current.targets.extend(&raised);
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
        if self.current.as_ref().is_none_or(|a| a.epoch != epoch) {
            return;
        }
        if let Err(reason) = result {
            return self.abandon(reason, now, out);
        }
        let Some(current) = self.current.take() else {
            return;
        };
        let Cost { pause, total } = current.cost(now);
        let (set, parent) = current
            .partial
            .map(|partial| (partial.set, partial.parent))
            .unwrap_or_default();
        let stop = current.stop;
        let outcome = match stop {
            true => Outcome::Exit { set: set.clone() },
            false => Outcome::Committed { set: set.clone() },
        };
        let StageState::Committing { saved } = current.stage else {
            return;
        };
        let slowest = |f: fn(&Times) -> u64| saved.values().map(|s| f(&s.times)).max().unwrap_or(0);
        let stood = |(rank, summary): (&u32, &Summary)| {
            let why = summary.stood.as_ref()?;
            Some(format!("rank {rank}: {why}"))
        };
        let inherits = saved.values().any(|summary| summary.inherits);
        let local = saved.values().filter(|summary| summary.local.is_some());
        let report = Report {
            set,
            increment_of: parent.filter(|_| inherits).map(|parent| parent.set),
            bytes: saved.values().map(|s| s.bytes).sum(),
            memory: saved.values().map(|s| s.memory).sum(),
            total,
            approach: current.stopped.saturating_sub(current.asked),
            pause,
            slowest: Times {
                drain: slowest(|t| t.drain),
                copy: slowest(|t| t.copy),
                save: slowest(|t| t.save),
            },
            stood: saved.iter().find_map(stood),
            level: match current.in_memory {
                true => Level::Memory,
                false => Level::of(local.map(|summary| summary.copy.is_some())),
            },
            stop,
            asked_by: current.asked_by.into_iter().collect(),
            since_cut: now.saturating_sub(current.stopped),
        };
        if current.in_memory {
            self.in_memory = Some(report.clone());
        } else {
            self.committed += 1;
            self.last = Some(report.clone());
        }
        // Clients come first: `Exit` ends this process too.
        for (rank, summary) in &saved {
            for note in &summary.notes {
                let note = ToClient::Note(format!("rank {rank}: {note}"));
                let clients = current.clients.iter();
                out.extend(clients.map(|t| Action::Reply(*t, note.clone())));
            }
        }
        answer(current.clients, &ToClient::Committed(report.clone()), out);
        out.push(Action::Over(Ok(report)));
        out.push(Action::Send(ToRank::Resume { epoch, outcome }));
        self.ending |= stop;
        self.next(now, out);
    }

    fn abandon(&mut self, reason: String, now: Time, out: &mut Vec<Action>) {
        let failed = ToClient::Failed(reason.clone());
        self.abandon_with(reason, RankSet::default(), &failed, now, out);
    }

    /// As [`Self::abandon`], because ranks were waited for in vain. Those in `late` print their last events.
    fn abandon_late(&mut self, reason: String, late: RankSet, now: Time, out: &mut Vec<Action>) {
        let failed = ToClient::Late(reason.clone());
        self.abandon_with(reason, late, &failed, now, out);
    }

    /// Gives the checkpoint in progress up, and answers its clients.
    fn abandon_with(
        &mut self,
        reason: String,
        late: RankSet,
        failed: &ToClient,
        now: Time,
        out: &mut Vec<Action>,
    ) {
        let Some(current) = self.current.take() else {
            return;
        };
        if current.stage != StageState::Preparing {
            let outcome = Outcome::Abandoned {
                reason: reason.clone(),
                late,
            };
            out.push(Action::Send(ToRank::Resume {
                epoch: current.epoch,
                outcome,
            }));
        }
        out.extend(current.partial.map(Action::Discard));
        self.failure = Some(reason.clone());
        answer(current.clients, failed, out);
        out.push(match current.in_memory {
            true => Action::NotHeld(reason),
            false => Action::Over(Err(reason)),
        });
        self.next(now, out);
    }

    /// Begins the next checkpoint, or fails it if none can be taken any more.
    fn next(&mut self, now: Time, out: &mut Vec<Action>) {
        let Some(reason) = self.cannot_checkpoint() else {
            return self.begin(now, out);
        };
        if let Some(queued) = self.queued.take() {
            let message = ToClient::Failed(format!("no checkpoint can be taken: {reason}"));
            answer(queued.clients, &message, out);
        }
    }

    fn rank_finished(&mut self, rank: u32, now: Time, out: &mut Vec<Action>) {
        let Some(slot) = self.slots.get_mut(rank as usize) else {
            return;
        };
        if let RankSlot::Here { host, pid } = slot {
            *slot = RankSlot::Finished {
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
        let Some(slot) = self.slots.get_mut(rank as usize) else {
            return;
        };
        let RankSlot::Here { host, pid } = slot else {
            return;
        };
        *slot = RankSlot::Lost {
            host: std::mem::take(host),
            pid: *pid,
        };
        if let Some(reason) = slot.gone(rank) {
            self.without(reason, now, out);
        }
    }

    /// Handles the end of a rank: abandons the checkpoint in progress, unless every image is on disk.
    fn without(&mut self, reason: String, now: Time, out: &mut Vec<Action>) {
        match &self.current {
            // Every image is on disk: the set is complete without the rank.
            Some(InProgress {
                stage: StageState::Committing { .. },
                ..
            }) => {}
            Some(_) => self.abandon(reason, now, out),
            None => self.next(now, out),
        }
    }

    fn tick(&mut self, now: Time, out: &mut Vec<Action>) {
        if self.check_stuck(now, out) {
            return;
        }
        let Some(current) = &mut self.current else {
            return self.note_absent(now, out);
        };
        let waited = now.saturating_sub(current.since);
        let over = |limit: Time| limit != 0 && waited > limit;
        let seconds = waited / 1_000_000;
        let missing = |stage: &StageState| wording::ranks(stage.missing(self.config.size));
        let reason = match &mut current.stage {
            stage @ StageState::Asking { .. } if over(self.config.drain_limit) => {
                format!("no answer from {} for {seconds} s", missing(stage))
            }
            StageState::Approaching {
                ticks, unexamined, ..
            } if !over(self.config.approach_limit) => {
                let before = *ticks;
                *ticks = (before + 1).min(STALLED_TICKS);
                // Without a report since then, an examination would find what the last one has found.
                let stalls = before < *ticks && *ticks == STALLED_TICKS;
                if stalls || *unexamined > 0 {
                    *unexamined = 0;
                    self.check_targets(now, out);
                }
                return self.note(now, out);
            }
            stage @ StageState::Approaching { .. } => format!(
                "timed out after {seconds} s: {} did not reach a safe state (in a \
                 collective, or before one that others have begun)",
                missing(stage)
            ),
            stage @ StageState::Draining { .. } if over(self.config.drain_limit) => format!(
                "timed out after {seconds} s: {} had not stopped and drained all messages",
                missing(stage)
            ),
            stage @ StageState::Saving { .. } if over(self.config.save_limit) => format!(
                "timed out after {seconds} s: {} had not written the image",
                missing(stage)
            ),
            _ => return self.note(now, out),
        };
        let late = current.stage.missing(self.config.size);
        let late = late.take(LATE_PRINTED).collect();
        self.abandon_late(format!("{reason}; {EVENTS_HINT}"), late, now, out);
    }

    /// Tells clients that have waited for a while that MPI_Init may never be called.
    fn note_absent(&mut self, now: Time, out: &mut Vec<Action>) {
        let (absent, size, waits) = (self.absent, self.config.size, self.waits_for_init());
        let Some(queued) = self.queued.as_mut().filter(|_| waits) else {
            return;
        };
        if queued.told || now.saturating_sub(queued.since) < NOTE_AFTER {
            return;
        }
        queued.told = true;
        let text = format!(
            "{absent} of {size} ranks have still not called MPI_Init, and no checkpoint can be taken before. If this \
             program never calls it, there will be none (--patience ends the waiting)"
        );
        let note = |client: &ClientId| Action::Reply(*client, ToClient::Note(text.clone()));
        out.extend(queued.clients.iter().map(note));
    }

    /// Tells the clients what a slow checkpoint waits for.
    fn note(&mut self, now: Time, out: &mut Vec<Action>) {
        let waits = self
            .current
            .as_ref()
            .filter(|current| !current.clients.is_empty());
        let Some(current) = waits else {
            return;
        };
        let begun = current.note.as_ref().map_or(0, |(when, _)| *when);
        if now.saturating_sub(current.since.max(begun)) < NOTE_AFTER {
            return;
        }
        let Some(text) = self.waits_for() else {
            return;
        };
        let Some(current) = &mut self.current else {
            return;
        };
        let told = current.note.replace((now, text.clone()));
        if told.is_some_and(|(_, told)| told == text) {
            return;
        }
        let clients = current.clients.iter();
        out.extend(clients.map(|client| Action::Reply(*client, ToClient::Note(text.clone()))));
    }
}

/// Sends `message` to all clients that have waited.
fn answer(clients: BTreeSet<ClientId>, message: &ToClient, out: &mut Vec<Action>) {
    let replies = clients.into_iter();
    out.extend(replies.map(|client| Action::Reply(client, message.clone())));
}

mod status;
mod stuck;
#[cfg(test)]
mod stuck_tests;
#[cfg(test)]
mod tests;
