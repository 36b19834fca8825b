//! A simulator of a job: random MPI-like programs whose wrappers behave as `rank.rs` prescribes,
//! driven against the real machines of coordinator and ranks, one small step at a time in any
//! order. A [`World`] is a plain value, so that it can also be explored exhaustively.

pub mod explore;
pub mod program;
mod wrapper;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use program::{Op, Program};
use stasis_coordinator::coordinator::{Action, Config, Coordinator, Event, Parking, PartialSet};
use stasis_coordinator::protocol::{Activity, FromRank, Outcome, Summary, ToRank, ToTool};
use stasis_coordinator::rank::{ClockView, Effect, Input, Rank, View};

/// Which algorithm is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Variant {
    /// Communicators with the same members share a clock, as published.
    pub clock_per_group: bool,
    /// What happens to parked ranks.
    pub parking: Parking,
    /// Ranks may refuse, disks may fail.
    pub failures: bool,
}

impl Variant {
    pub const OURS: Variant = Variant {
        clock_per_group: false,
        parking: Parking::Tentative,
        failures: false,
    };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    Run,
    Approach,
    Stop,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Message {
    from: u32,
    tag: u32,
    rendezvous: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Clock {
    seq: u64,
    left: u64,
    target: u64,
}

/// Where in its present operation a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    Start,
    /// The clock is incremented, the phase not looked at yet.
    Counted,
    /// The target was asked for.
    Asking,
    Parked,
    /// In the lower half: collective number so-and-so of the communicator.
    Inside(u64),
    /// A collective constructor has returned; the new clock is to be made.
    Made,
    /// Blocked in a rendezvous.
    Sending,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Job {
    /// Threads are to stop.
    Stop,
    /// Stopped, draining.
    Drain,
    Save,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Process {
    pc: usize,
    at: At,
    phase: Phase,
    activity: Activity,
    clocks: BTreeMap<u64, Clock>,
    /// How many collectives it has really started on each communicator.
    started: BTreeMap<usize, u64>,
    sent: Vec<u64>,
    received: Vec<u64>,
    posted: VecDeque<(Option<u32>, u32, usize)>,
    /// Matched receives that the program has not completed yet, with their senders.
    matched: BTreeMap<usize, u32>,
    complete: BTreeSet<usize>,
    collectives: BTreeMap<usize, (usize, u64)>,
    arrived: VecDeque<Message>,
    pulled: VecDeque<Message>,
    notified: bool,
    stopped: bool,
    drains: u64,
    job: Option<Job>,
    machine: Rank,
    inbox: VecDeque<ToRank>,
    outbox: VecDeque<FromRank>,
}

/// A whole job at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    variant: Variant,
    processes: Vec<Process>,
    flying: BTreeMap<(u32, u32), VecDeque<Message>>,
    /// Who has entered the n-th collective of a communicator.
    entered: BTreeMap<(usize, u64), BTreeSet<u32>>,
    coordinator: Coordinator,
    store: VecDeque<Action>,
    requests_left: u32,
    pub committed: u32,
    pub failed: u32,
    /// Highest version of targets seen, that is, releases and raises in one checkpoint.
    pub versions: u64,
}

/// One small step of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    App(u32),
    Agent(u32),
    Look(u32),
    Settle(u32),
    Hear(u32),
    Fly(u32, u32),
    Job(u32),
    JobFails(u32),
    Store,
    StoreFails,
    Request,
    Tick,
}

impl World {
    pub fn new(program: &Program, variant: Variant, requests: u32) -> World {
        let size = program.ops.len() as u32;
        let config = Config {
            parking: variant.parking,
            approach_limit: 0,
            drain_limit: 0,
            save_limit: 0,
            ..Config::new(size)
        };
        let mut coordinator = Coordinator::new(config);
        for rank in 0..size {
            coordinator.on(
                0,
                Event::Connected {
                    rank,
                    host: String::new(),
                    pid: 0,
                },
            );
        }
        let mut world = World {
            variant,
            processes: (0..size).map(|_| Process::new(size)).collect(),
            flying: BTreeMap::new(),
            entered: BTreeMap::new(),
            coordinator,
            store: VecDeque::new(),
            requests_left: requests,
            committed: 0,
            failed: 0,
            versions: 0,
        };
        for comm in 0..program.comms.len() {
            for &rank in &program.comms[comm].members {
                if program.comms[comm].from_start {
                    let id = world.clock_of(program, comm);
                    world.processes[rank as usize]
                        .clocks
                        .insert(id, Clock::default());
                }
            }
        }
        world
    }

    /// Everything that could move, whether or not it now can.
    pub fn moves(&self) -> Vec<Move> {
        let mut moves = vec![Move::Store, Move::Request];
        if self.variant.failures {
            moves.push(Move::StoreFails);
        }
        for r in 0..self.processes.len() as u32 {
            moves.extend([Move::App(r), Move::Agent(r), Move::Look(r), Move::Settle(r)]);
            moves.extend([Move::Hear(r), Move::Job(r)]);
            if self.variant.failures {
                moves.push(Move::JobFails(r));
            }
        }
        moves.extend(self.flying.keys().map(|&(s, d)| Move::Fly(s, d)));
        moves
    }

    /// Makes a move. Returns false, and has changed nothing, if it is not possible now.
    pub fn make(&mut self, program: &Program, m: Move) -> bool {
        match m {
            Move::App(r) => self.app(program, r),
            Move::Agent(r) => match self.processes[r as usize].inbox.pop_front() {
                Some(message) => {
                    if let ToRank::Targets { version, .. } = &message {
                        self.versions = self.versions.max(*version);
                    }
                    self.rank(r, Input::Message(message));
                    true
                }
                None => false,
            },
            Move::Look(r) => {
                let p = &mut self.processes[r as usize];
                let can = p.notified && p.machine.watching();
                if can {
                    p.notified = false;
                    let view = p.view();
                    self.rank(r, Input::Look(view));
                }
                can
            }
            Move::Settle(r) => {
                let can = self.processes[r as usize].machine.unsettled();
                if can {
                    self.rank(r, Input::Settled);
                }
                can
            }
            Move::Hear(r) => match self.processes[r as usize].outbox.pop_front() {
                Some(message) => {
                    self.event(program, Event::Message(r, message));
                    true
                }
                None => false,
            },
            Move::Fly(s, d) => self.fly(s, d),
            Move::Job(r) => self.job(program, r, false),
            Move::JobFails(r) => self.job(program, r, true),
            Move::Store | Move::StoreFails => {
                let fails = m == Move::StoreFails;
                let result = |ok| {
                    if fails {
                        Err("disk full".to_string())
                    } else {
                        Ok(ok)
                    }
                };
                match self.store.pop_front() {
                    Some(Action::Prepare(epoch)) => {
                        let partial = PartialSet {
                            set: "s".into(),
                            directory: "d".into(),
                            id: vec![],
                        };
                        let event = Event::Prepared(epoch, result(partial));
                        self.event(program, event);
                    }
                    Some(Action::Commit(epoch, ..)) => {
                        self.check_cut(program);
                        let event = Event::Committed(
                            epoch,
                            result(PartialSet {
                                set: String::new(),
                                directory: String::new(),
                                id: vec![],
                            })
                            .map(|_| ()),
                        );
                        self.event(program, event);
                    }
                    _ => return false,
                }
                true
            }
            Move::Request => {
                let can = self.requests_left > 0 && !self.coordinator.busy();
                if can {
                    self.requests_left -= 1;
                    self.event(
                        program,
                        Event::Request {
                            tool: Some(1),
                            stop: false,
                        },
                    );
                }
                can
            }
            Move::Tick => {
                let before = self.coordinator.clone();
                self.event(program, Event::Tick);
                before != self.coordinator
            }
        }
    }

    /// The world after a move that may as well be made at once, if there is one: messages to the
    /// coordinator and the disk are not delayed (those from it are), and when nothing is pending any
    /// more, any order will do.
    pub fn urgent(&self, program: &Program) -> Option<World> {
        let ranks = 0..self.processes.len() as u32;
        let mut moves = vec![Move::Store];
        moves.extend(ranks.clone().map(Move::Hear));
        let saving = |p: &Process| matches!(p.job, Some(Job::Drain | Job::Save));
        moves.extend(
            ranks
                .filter(|r| saving(&self.processes[*r as usize]))
                .map(Move::Job),
        );
        if self.requests_left == 0 && !self.coordinator.busy() {
            moves = self.moves();
        }
        let mut next = self.clone();
        moves
            .into_iter()
            .any(|m| next.make(program, m))
            .then_some(next)
    }

    /// Programs and checkpoints have all come to their end.
    pub fn done(&self, program: &Program) -> bool {
        let ended = |(p, ops): (&Process, &Vec<Op>)| p.pc == ops.len() && p.phase == Phase::Run;
        !self.coordinator.busy() && self.processes.iter().zip(&program.ops).all(ended)
    }

    /// For people: where everybody hangs.
    pub fn describe(&self, program: &Program) -> String {
        let mut text = String::new();
        for (r, p) in self.processes.iter().enumerate() {
            text += &format!(
                "rank {r}: {:?} at {:?}, {:?}, {:?}, job {:?}, clocks {:?}\n",
                program.ops[r].get(p.pc),
                p.at,
                p.phase,
                p.activity,
                p.job,
                p.clocks
            );
        }
        text + &format!("flying {:?}\n", self.flying)
    }

    fn clock_of(&self, program: &Program, comm: usize) -> u64 {
        let same = |c: &usize| program.comms[*c].members == program.comms[comm].members;
        match self.variant.clock_per_group {
            true => (0..).find(same).unwrap_or(comm) as u64 + 1,
            false => comm as u64 + 1,
        }
    }

    fn event(&mut self, _program: &Program, event: Event) {
        for action in self.coordinator.on(0, event) {
            match action {
                Action::Send(r, message) => self.processes[r as usize].inbox.push_back(message),
                Action::Prepare(_) | Action::Commit(..) => self.store.push_back(action),
                Action::Reply(_, ToTool::Committed(_)) => self.committed += 1,
                Action::Reply(_, ToTool::Failed(_)) => self.failed += 1,
                Action::Reply(..) | Action::Discard(_) | Action::Over(_) => {}
            }
        }
    }

    /// What the agent's threads do around the rank's machine.
    fn rank(&mut self, r: u32, input: Input) {
        let p = &mut self.processes[r as usize];
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
                        clock.target = targets.get(id).copied().unwrap_or(clock.target);
                    }
                    let view = p.view();
                    todo.extend(p.machine.on(Input::Look(view)));
                }
                Effect::Stop => {
                    p.phase = Phase::Stop;
                    p.job = Some(Job::Stop);
                }
                Effect::Save(_) => p.job = Some(Job::Save),
                Effect::Hurry => {}
                Effect::Resume(outcome) => {
                    assert!(p.job.is_none(), "resumed while work goes on");
                    assert!(self.variant.failures || matches!(outcome, Outcome::Committed { .. }));
                    p.phase = Phase::Run;
                    p.stopped = false;
                }
                Effect::Exit { .. } | Effect::Rejected(_) => panic!("not in this simulation"),
            }
        }
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
        let p = &mut self.processes[d as usize];
        let fits = |&(from, tag, _): &(Option<u32>, u32, usize)| {
            tag == message.tag && from.is_none_or(|f| f == s)
        };
        match p.posted.iter().position(fits) {
            Some(i) => {
                let (_, _, request) = p.posted.remove(i).unwrap();
                p.matched.insert(request, s);
                self.free(&message);
            }
            None => p.arrived.push_back(message),
        }
        true
    }

    /// A message has been matched or pulled: its sender goes on.
    fn free(&mut self, message: &Message) {
        if message.rendezvous {
            let sender = &mut self.processes[message.from as usize];
            assert_eq!(sender.at, At::Sending);
            sender.at = At::Start;
            sender.pc += 1;
            sender.notified = true;
        }
    }

    /// Takes all arrived messages into upper-half buffers.
    fn pull(&mut self, r: u32) -> bool {
        let mut any = false;
        while let Some(message) = self.processes[r as usize].arrived.pop_front() {
            any = true;
            self.free(&message);
            let p = &mut self.processes[r as usize];
            p.received[message.from as usize] += 1;
            p.pulled.push_back(message);
        }
        any
    }

    fn job(&mut self, program: &Program, r: u32, fails: bool) -> bool {
        let n = self.processes.len();
        let p = &mut self.processes[r as usize];
        let verdict = if fails {
            Err("it failed".to_string())
        } else {
            Ok(())
        };
        match p.job {
            None => false,
            // A thread inside a call of the lower half leaves it first.
            Some(Job::Stop) if matches!(p.at, At::Sending | At::Inside(_)) => false,
            Some(Job::Stop) if fails => false,
            Some(Job::Stop) => {
                p.stopped = true;
                p.drains += 1;
                p.job = Some(Job::Drain);
                true
            }
            Some(Job::Drain) => {
                for (request, from) in std::mem::take(&mut p.matched) {
                    p.received[from as usize] += 1;
                    p.complete.insert(request);
                }
                let drains = p.drains;
                if self.pull(r) {
                    return true;
                }
                let exchanged = self.processes.iter().all(|q| q.drains >= drains);
                let nothing_comes = (0..n as u32).all(|s| !self.flying.contains_key(&(s, r)));
                let p = &self.processes[r as usize];
                let finished = p
                    .collectives
                    .iter()
                    .all(|(request, key)| p.complete.contains(request) || self.full(program, *key));
                if !(exchanged && nothing_comes && finished) {
                    return false;
                }
                self.processes[r as usize].job = None;
                self.rank(r, Input::Stopped(verdict));
                true
            }
            Some(Job::Save) => {
                p.job = None;
                self.rank(r, Input::Saved(verdict.map(|()| Summary::default())));
                true
            }
        }
    }

    fn full(&self, program: &Program, (comm, number): (usize, u64)) -> bool {
        let members = &program.comms[comm].members;
        self.entered
            .get(&(comm, number))
            .is_some_and(|e| members.iter().all(|m| e.contains(m)))
    }

    /// What must hold whenever a set is committed: the design's safe state.
    fn check_cut(&self, program: &Program) {
        let here = || self.describe(program);
        for (r, p) in self.processes.iter().enumerate() {
            assert!(
                p.stopped,
                "rank {r} ran while the set was committed\n{}",
                here()
            );
            assert!(
                !matches!(p.at, At::Inside(_) | At::Sending),
                "cut inside a call\n{}",
                here()
            );
            assert!(
                p.arrived.is_empty() && p.matched.is_empty(),
                "undrained\n{}",
                here()
            );
            for (s, q) in self.processes.iter().enumerate() {
                assert_eq!(
                    q.sent[r],
                    p.received[s],
                    "message {s}->{r} lost at the cut\n{}",
                    here()
                );
            }
        }
        assert!(
            self.flying.is_empty(),
            "messages under way at the cut\n{}",
            here()
        );
        for (comm, info) in program.comms.iter().enumerate() {
            let counts = info.members.iter().map(|m| {
                self.processes[*m as usize]
                    .started
                    .get(&comm)
                    .copied()
                    .unwrap_or(0)
            });
            let counts: BTreeSet<u64> = counts.collect();
            assert!(
                counts.len() <= 1,
                "cut inside a collective of {comm}: {counts:?}\n{}",
                here()
            );
        }
        for key in self.entered.keys() {
            assert!(
                self.full(program, *key),
                "collective {key:?} half begun\n{}",
                here()
            );
        }
    }
}

impl Process {
    fn new(size: u32) -> Process {
        Process {
            pc: 0,
            at: At::Start,
            phase: Phase::Run,
            activity: Activity::Running,
            clocks: BTreeMap::new(),
            started: BTreeMap::new(),
            sent: vec![0; size as usize],
            received: vec![0; size as usize],
            posted: VecDeque::new(),
            matched: BTreeMap::new(),
            complete: BTreeSet::new(),
            collectives: BTreeMap::new(),
            arrived: VecDeque::new(),
            pulled: VecDeque::new(),
            notified: false,
            stopped: false,
            drains: 0,
            job: None,
            machine: Rank::new(),
            inbox: VecDeque::new(),
            outbox: VecDeque::new(),
        }
    }

    fn view(&self) -> View {
        let view = |(id, c): (&u64, &Clock)| ClockView {
            id: *id,
            seq: c.seq,
            left: c.left,
        };
        View {
            clocks: self.clocks.iter().map(view).collect(),
            activity: self.activity.clone(),
        }
    }
}
