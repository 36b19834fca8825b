//! A simulator of a job. It runs MPI-like programs, whose wrappers behave as `rank.rs` prescribes, against
//! the real machines of coordinator and ranks, one small step at a time in any order. A [`World`] is a
//! plain value, so that it can also be explored exhaustively.

mod cut;
mod digest;
pub mod enumerate;
pub mod explore;
pub mod path;
mod process;
pub mod program;
mod retractable;
mod shared;
mod wrapper;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use history::event::Cause;
use process::{Job, Process};
use program::Program;
use shared::Shared;
use stasis_coordinator::protocol::coordinator::{
    Action, Config, Coordinator, Event, Parking, PartialSet,
};
use stasis_coordinator::protocol::rank::{Effect, Input};
use stasis_coordinator::protocol::{Activity, Outcome, ToClient, ToRank};

/// The simulated algorithm, and the possible faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Variant {
    /// Communicators with the same members share a clock, as published.
    pub clock_per_group: bool,
    /// Behaviour of parked ranks.
    pub parking: Parking,
    /// Whether a drain first completes the operations that abandoned drains have left.
    pub drain_catches_up: bool,
    /// Whether a clock without a target loses the target of an abandoned checkpoint.
    pub targets_are_forgotten: bool,
    /// Largest number of faults. A rank dies or refuses, the disk fails, the coordinator dies, abandons by
    /// its limits, or wrongly takes the job for stalled.
    pub faults: u32,
    /// Whether memory is copied, and ranks go on while images are written.
    pub copies: bool,
    /// Whether blocking collective operations can be retracted.
    pub retracts: bool,
    /// Whether these make several calls below, as the constructor of a window does: only the first can be retracted.
    pub several_calls: bool,
    /// Whether all sends that wait for their receivers are synchronous: their messages are not pulled before all ranks
    /// have stopped, and they end when a receive has asked for the message.
    pub synchronous: bool,
    /// Whether reports of ranks may be late too, and ranks may report activities while they go on.
    /// Otherwise only messages to ranks are late.
    pub late_reports: bool,
}

impl Variant {
    pub const OURS: Variant = Variant {
        clock_per_group: false,
        parking: Parking::Tentative,
        drain_catches_up: true,
        targets_are_forgotten: true,
        faults: 0,
        copies: false,
        retracts: true,
        several_calls: false,
        synchronous: false,
        late_reports: false,
    };
    /// Published, and hangs: one clock for all communicators with the same members.
    pub const PER_GROUP: Variant = Variant {
        clock_per_group: true,
        retracts: false,
        ..Variant::OURS
    };
    /// Published, and hangs: parked ranks stay parked.
    pub const NO_RELEASE: Variant = Variant {
        parking: Parking::Final,
        retracts: false,
        ..Variant::OURS
    };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    Run,
    Approach,
    Stop,
}

/// The operation that a match completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Frees {
    Nobody,
    /// A sender that is blocked in a rendezvous.
    Sender,
    /// The sender's request.
    Request(usize),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Message {
    from: u32,
    tag: u32,
    /// Number of messages that the sender had sent to the receiver, with this one.
    number: u64,
    frees: Frees,
}

/// A whole job at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    variant: Variant,
    processes: Vec<Shared<Process>>,
    flying: BTreeMap<(u32, u32), VecDeque<Message>>,
    /// Ranks that have entered the n-th collective of a communicator.
    entered: BTreeMap<(usize, u64), BTreeSet<u32>>,
    coordinator: Shared<Coordinator>,
    coordinator_dead: bool,
    store: VecDeque<Action>,
    requests_left: u32,
    faults_left: u32,
    /// Whether the ranks were resumed while images are being written; the cut is their state at that time.
    went_on: bool,
    /// Whether a fault has happened that excuses an abandoned checkpoint.
    excused: bool,
    /// Description of a violated invariant.
    pub broken: Option<String>,
    pub committed: u32,
    pub failed: u32,
    /// Highest version of targets, that is, the number of releases and raises in one checkpoint.
    pub versions: u64,
}

/// One small step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// A step of a rank's program.
    App(u32),
    /// A rank's agent receives a message.
    Agent(u32),
    /// A rank's agent takes a snapshot.
    Look(u32),
    /// A rank's agent notices that nothing has changed for a short time.
    Debounce(u32),
    /// A rank's agent continues to stop, drain or save.
    Job(u32),
    /// A rank's agent finds the coordinator gone; messages that it has not received are lost.
    Gone(u32),
    /// The coordinator receives a message of a rank.
    Hear(u32),
    /// A message arrives.
    Fly(u32, u32),
    /// A step of the disk.
    Store,
    /// A request for a checkpoint.
    Request,
    /// A short time passes.
    Tick,
    /// Faults.
    JobFails(u32),
    StoreFails,
    Dies(u32),
    CoordinatorDies,
    /// A time limit expires.
    Limit,
    /// Enough time passes for the job to seem stalled.
    Stall,
}

/// All time limits of the coordinator; without a fault, time stands still at 0.
const LIMIT: u64 = 1;
/// Ticks after which the coordinator assumes a stall.
const STALL_TICKS: usize = 4;

impl World {
    pub fn new(program: &Program, variant: Variant, requests: u32) -> World {
        let size = program.ops.len() as u32;
        let config = Config {
            parking: variant.parking,
            approach_limit: LIMIT,
            drain_limit: LIMIT,
            save_limit: LIMIT,
            ..Config::new(size)
        };
        let mut coordinator = Coordinator::new(config);
        for rank in 0..size {
            let host = String::new();
            coordinator.on(0, Event::Connected { rank, host, pid: 0 });
        }
        let mut world = World {
            variant,
            processes: (0..size).map(|_| Shared::new(Process::new(size))).collect(),
            flying: BTreeMap::new(),
            entered: BTreeMap::new(),
            coordinator: Shared::new(coordinator),
            coordinator_dead: false,
            store: VecDeque::new(),
            requests_left: requests,
            faults_left: variant.faults,
            went_on: false,
            excused: false,
            broken: None,
            committed: 0,
            failed: 0,
            versions: 0,
        };
        for (comm, info) in program.comms.iter().enumerate() {
            let id = world.clock_of(program, comm);
            for &rank in info.members.iter().filter(|_| info.from_start) {
                world.process(rank).clocks.entry(id).or_default();
            }
        }
        world
    }

    /// All moves except faults, whether or not they are possible now.
    pub fn moves(&self) -> Vec<Move> {
        let mut moves = vec![Move::Store, Move::Request];
        for r in 0..self.processes.len() as u32 {
            moves.extend([
                Move::App(r),
                Move::Agent(r),
                Move::Look(r),
                Move::Debounce(r),
            ]);
            moves.extend([Move::Hear(r), Move::Job(r), Move::Gone(r)]);
        }
        moves.extend(self.flying.keys().map(|&(s, d)| Move::Fly(s, d)));
        moves
    }

    /// All faults, whether or not they are possible now.
    pub fn faults(&self) -> Vec<Move> {
        if self.faults_left == 0 {
            return vec![];
        }
        let mut moves = vec![
            Move::StoreFails,
            Move::CoordinatorDies,
            Move::Limit,
            Move::Stall,
        ];
        for r in 0..self.processes.len() as u32 {
            moves.extend([Move::JobFails(r), Move::Dies(r)]);
        }
        moves
    }

    /// Makes a move. Returns false, and changes nothing, if it is not possible now.
    pub fn make(&mut self, program: &Program, m: Move) -> bool {
        match m {
            Move::App(r) => self.app(program, r),
            Move::Job(r) => self.job(program, r, false),
            Move::Fly(s, d) => self.fly(s, d),
            Move::Store => self.store(program, false),
            Move::Agent(r) => self.agent(r),
            Move::Look(r) => {
                let p = &self.processes[r as usize];
                let can = p.notified && p.machine.watching() && !p.dead;
                if can {
                    self.process(r).notified = false;
                    let view = self.processes[r as usize].view();
                    self.rank(r, Input::Look(view));
                }
                can
            }
            Move::Debounce(r) => {
                let p = &self.processes[r as usize];
                let quiet = self.variant.late_reports || !self.clone().app(program, r);
                let can = p.machine.has_unreported() && !p.dead && quiet;
                if can {
                    self.rank(r, Input::Debounced);
                }
                can
            }
            Move::Gone(r) => {
                let p = &self.processes[r as usize];
                let can = self.coordinator_dead && !p.gone && !p.dead;
                if can {
                    self.process(r).gone = true;
                    self.process(r).inbox.clear();
                    self.rank(r, Input::Gone);
                }
                can
            }
            Move::Hear(r) => {
                let before = self.went_on;
                let can = self.hear(r);
                if self.went_on && !before {
                    self.check_cut(program);
                }
                can
            }
            Move::Request => {
                let can = self.requests_left > 0 && self.idle();
                if can {
                    self.requests_left -= 1;
                    let client = Some(1);
                    self.event(Event::Request {
                        client,
                        cause: Cause::Command,
                        stop: false,
                        patience: None,
                    });
                }
                can
            }
            Move::Tick => {
                let before = self.coordinator.clone();
                self.event(Event::Tick);
                before != self.coordinator
            }
            _ => self.fault(program, m),
        }
    }

    fn fault(&mut self, program: &Program, m: Move) -> bool {
        let pending = !self.idle();
        let excused = std::mem::replace(&mut self.excused, true);
        let happens = self.faults_left > 0
            && match m {
                Move::StoreFails => self.store(program, true),
                Move::JobFails(r) => self.job(program, r, true),
                Move::Dies(r) => {
                    let can = pending && !self.processes[r as usize].dead;
                    if can {
                        self.process(r).dead = true;
                    }
                    can
                }
                Move::CoordinatorDies => {
                    self.coordinator_dead |= pending;
                    self.store.clear();
                    pending
                }
                Move::Limit => {
                    let failed = self.failed;
                    if pending {
                        let coordinator = self.coordinator.make_mut();
                        let actions = coordinator.on(2 * LIMIT, Event::Tick);
                        self.act(actions);
                    }
                    self.failed > failed
                }
                Move::Stall => {
                    let before = self.coordinator.clone();
                    for _ in 0..STALL_TICKS {
                        self.event(Event::Tick);
                    }
                    before != self.coordinator
                }
                _ => false,
            };
        if happens {
            self.faults_left -= 1;
        }
        // A stall is no excuse.
        self.excused = excused || (happens && m != Move::Stall);
        happens
    }

    /// Whether no checkpoint is being taken.
    fn idle(&self) -> bool {
        self.coordinator_dead || !self.coordinator.busy()
    }

    /// Whether programs and checkpoints have all ended. Every rank is resumed. If none has died, every
    /// program is over. Every checkpoint was taken, unless a fault has happened.
    pub fn done(&self, program: &Program) -> bool {
        let alive = || {
            self.processes
                .iter()
                .zip(&program.ops)
                .filter(|(p, _)| !p.dead)
        };
        let complete = alive().count() == self.processes.len();
        let over = |p: &Process, ops: &[_]| !complete || p.pc == ops.len() || program.is_endless();
        let free = alive().all(|(p, ops)| p.free() && over(p, ops));
        let heard = !self.coordinator_dead || alive().all(|(p, _)| p.gone);
        free && heard && self.idle() && (self.excused || self.failed == 0)
    }

    /// A description of a hang, for the user.
    pub fn describe(&self, program: &Program) -> String {
        let mut text = String::new();
        for (r, p) in self.processes.iter().enumerate() {
            text += &format!(
                "rank {r}: {:?}, {}\n",
                program.ops[r].get(p.pc),
                p.describe()
            );
        }
        let broken = self.broken.iter();
        text += &broken.map(|b| format!("{b}\n")).collect::<String>();
        text + &format!("flying {:?}\n", self.flying)
    }

    fn process(&mut self, r: u32) -> &mut Process {
        self.processes[r as usize].make_mut()
    }

    fn clock_of(&self, program: &Program, comm: usize) -> u64 {
        let same = |c: &usize| program.comms[*c].members == program.comms[comm].members;
        match self.variant.clock_per_group {
            true => (0..).find(same).unwrap_or(comm) as u64 + 1,
            false => comm as u64 + 1,
        }
    }

    fn breaks(&mut self, what: String) {
        self.broken.get_or_insert(what);
    }

    fn event(&mut self, event: Event) {
        if !self.coordinator_dead {
            let actions = self.coordinator.make_mut().on(0, event);
            self.act(actions);
        }
    }

    fn act(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Send(message) => {
                    self.went_on |= matches!(message, ToRank::GoOn { .. });
                    for r in 0..self.processes.len() as u32 {
                        if !self.processes[r as usize].mourned {
                            self.process(r).inbox.push_back(message.clone());
                        }
                    }
                }
                Action::Tell(r, message) => {
                    if !self.processes[r as usize].mourned {
                        self.process(r).inbox.push_back(message);
                    }
                }
                Action::Prepare(_) | Action::Commit(..) => self.store.push_back(action),
                Action::Reply(_, ToClient::Committed(_)) => self.committed += 1,
                Action::Reply(_, ToClient::Failed(_) | ToClient::Late(_)) => self.failed += 1,
                Action::Reply(..) | Action::Discard(_) | Action::Over(_) | Action::Again { .. } => {
                }
                Action::PrepareInMemory(_) | Action::NotHeld(_) => {
                    unreachable!("nothing asks for a checkpoint in memory")
                }
            }
        }
    }

    fn hear(&mut self, r: u32) -> bool {
        if self.coordinator_dead {
            return false;
        }
        let p = &self.processes[r as usize];
        if p.outbox.is_empty() {
            let news = p.dead && !p.mourned;
            if news {
                self.process(r).mourned = true;
                self.event(Event::Lost(r));
            }
            return news;
        }
        if let Some(message) = self.process(r).outbox.pop_front() {
            self.event(Event::Message(r, message));
        }
        true
    }

    fn store(&mut self, program: &Program, fails: bool) -> bool {
        let failure = || "disk full".to_string();
        let Some(action) = self.store.pop_front() else {
            return false;
        };
        match action {
            Action::Commit(epoch, ..) => {
                if !std::mem::take(&mut self.went_on) {
                    self.check_cut(program);
                }
                let result = if fails { Err(failure()) } else { Ok(()) };
                self.event(Event::Committed(epoch, result));
            }
            Action::Prepare(epoch) => {
                self.went_on = false;
                let partial = PartialSet {
                    set: String::new(),
                    directory: Some(String::new()),
                    id: vec![],
                    parent: None,
                };
                let result = if fails { Err(failure()) } else { Ok(partial) };
                self.event(Event::Prepared(epoch, result));
            }
            _ => unreachable!("only these wait for the disk"),
        }
        true
    }

    fn agent(&mut self, r: u32) -> bool {
        let p = &self.processes[r as usize];
        if p.inbox.is_empty() || p.dead {
            return false;
        }
        if let Some(message) = self.process(r).inbox.pop_front() {
            if let ToRank::Targets { version, .. } = &message {
                self.versions = self.versions.max(*version);
            }
            self.rank(r, Input::Message(message));
        }
        true
    }

    /// The actions of the agent's threads around the rank's machine.
    fn rank(&mut self, r: u32, input: Input) {
        let excused = self.excused;
        let forgotten = self.variant.targets_are_forgotten;
        let mut broken = None;
        let p = self.process(r);
        let mut todo: VecDeque<Effect> = p.machine.on(input).into();
        while let Some(effect) = todo.pop_front() {
            match effect {
                Effect::Send(message) => p.outbox.push_back(message),
                Effect::Approach => {
                    p.phase = Phase::Approach;
                    let view = p.view();
                    todo.extend(p.machine.on(Input::Look(view)));
                }
                Effect::Targets(targets) => {
                    for (id, clock) in &mut p.clocks {
                        let kept = if forgotten { 0 } else { clock.target };
                        clock.target = targets.get(id).copied().unwrap_or(kept);
                    }
                    let view = p.view();
                    todo.extend(p.machine.on(Input::Look(view)));
                }
                Effect::Stop => {
                    p.phase = Phase::Stop;
                    p.job = Some(Job::Stop);
                }
                Effect::Save(_) => p.job = Some(Job::Save),
                Effect::ResumeWhileSaving => {
                    p.phase = Phase::Run;
                    p.stopped = false;
                }
                Effect::CancelWork => p.phase = Phase::Run,
                Effect::Resume(outcome) => {
                    if p.job.is_some() {
                        broken = Some(format!("rank {r} resumed while work goes on"));
                    }
                    if !excused && !matches!(outcome, Outcome::Committed { .. }) {
                        broken = Some(format!("given up without a fault: {outcome:?}"));
                    }
                    p.phase = Phase::Run;
                    p.stopped = false;
                }
                Effect::Exit { .. } | Effect::Rejected(_) => {
                    broken = Some(format!("rank {r} was sent away"));
                }
            }
        }
        broken.into_iter().for_each(|b| self.breaks(b));
    }

    fn fly(&mut self, s: u32, d: u32) -> bool {
        let Some(queue) = self.flying.get_mut(&(s, d)) else {
            return false;
        };
        let Some(message) = queue.pop_front() else {
            return false;
        };
        if queue.is_empty() {
            self.flying.remove(&(s, d));
        }
        let p = self.process(d);
        let fits = |&(from, tag, _): &(Option<u32>, u32, usize)| {
            tag == message.tag && from.is_none_or(|f| f == s)
        };
        match p.posted.iter().position(fits) {
            Some(i) => {
                let (_, _, request) = p.posted.remove(i).expect("it was found there");
                p.matched.insert(request, s);
                self.matched(d, &message);
            }
            None => p.arrived.push_back(message),
        }
        true
    }

    /// Records that a message has matched its receive, and checks the order.
    fn matched(&mut self, d: u32, message: &Message) {
        let last = self.process(d).last.entry((message.from, message.tag));
        let last = last.or_insert(0);
        let before = std::mem::replace(last, message.number);
        if before >= message.number {
            self.breaks(format!("{message:?} overtaken or doubled at rank {d}"));
        }
        self.free(message);
    }

    /// Completes the send of a message.
    fn free(&mut self, message: &Message) {
        let sender = self.process(message.from);
        match message.frees {
            Frees::Nobody => {}
            Frees::Sender => {
                sender.at = process::At::Start;
                sender.pc += 1;
                sender.activity = Activity::Running;
                sender.notified = true;
            }
            Frees::Request(request) => {
                sender.sending.remove(&request);
                sender.complete.insert(request);
            }
        }
    }

    /// Receives all arrived messages into upper-half buffers.
    fn pull(&mut self, r: u32) -> bool {
        let synchronous = self.variant.synchronous;
        let p = &self.processes[r as usize];
        if p.arrived.is_empty() || (synchronous && p.job != Some(Job::Pull)) {
            return false;
        }
        while let Some(mut message) = self.process(r).arrived.pop_front() {
            if !synchronous {
                self.free(&message);
                message.frees = Frees::Nobody;
            }
            let p = self.process(r);
            p.received[message.from as usize] += 1;
            p.pulled.push_back(message);
        }
        true
    }

    fn full(&self, program: &Program, (comm, number): (usize, u64)) -> bool {
        let members = &program.comms[comm].members;
        self.entered
            .get(&(comm, number))
            .is_some_and(|e| members.iter().all(|m| e.contains(m)))
    }
}
