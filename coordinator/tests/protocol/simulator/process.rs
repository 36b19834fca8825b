//! One process of a simulated job: its program's position, its messages, and its agent. It includes the
//! agent's background work when the rank is to stop, drain and save.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::program::Program;
use super::shared::Shared;
use super::{Message, Phase, World};
use stasis_coordinator::protocol::rank::{ClockView, Input, Rank, View};
use stasis_coordinator::protocol::{Activity, FromRank, Summary, ToRank};

/// Id of the clock of drain operations, as `contract` defines it for the internal communicator.
const DRAIN: u64 = 0;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Clock {
    pub seq: u64,
    pub left: u64,
    pub target: u64,
}

/// Position of a process in its present operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum At {
    Start,
    /// The clock is incremented; the phase is not read yet.
    Counted,
    Parked,
    /// In the lower half, in the collective with this number on the communicator.
    Inside(u64),
    /// A collective constructor has returned, and the new clock does not exist yet.
    Made,
    /// Blocked in a rendezvous.
    Sending,
    /// At a retractable operation: the phase is not read yet.
    Begun,
    /// Parked before a retractable operation.
    Waiting,
    /// In the lower half, in the retractable operation with this number on the communicator.
    Within(u64),
    /// The library has returned and the clock is incremented; the phase is not read yet.
    Returned(u64),
    /// Held back after the library has returned.
    Held(u64),
}

/// Work of an agent's background thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Job {
    /// Threads are being stopped.
    Stop,
    /// The counts are being exchanged in the internal operation with this number.
    Exchange(u64),
    /// Messages in flight are being received.
    Pull,
    /// Every rank waits for every other in the internal operation with this number.
    Barrier(u64),
    Save,
    /// Copied memory is being written.
    Write,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Process {
    pub pc: usize,
    pub at: At,
    pub phase: Phase,
    pub activity: Activity,
    pub clocks: BTreeMap<u64, Clock>,
    /// Number of collectives that the process has started on each communicator.
    pub started: BTreeMap<usize, u64>,
    pub sent: Vec<u64>,
    pub received: Vec<u64>,
    pub posted: VecDeque<(Option<u32>, u32, usize)>,
    /// Matched receives that the program has not completed yet, with their senders.
    pub matched: BTreeMap<usize, u32>,
    /// Sends without a matching receive.
    pub sending: BTreeSet<usize>,
    pub complete: BTreeSet<usize>,
    pub collectives: BTreeMap<usize, (usize, u64)>,
    pub arrived: VecDeque<Message>,
    pub pulled: VecDeque<Message>,
    /// Number of the last matched message, by sender and tag.
    pub last: BTreeMap<(u32, u32), u64>,
    pub notified: bool,
    pub stopped: bool,
    /// Number of drain operations that the process has begun.
    pub begun: u64,
    pub job: Option<Job>,
    pub machine: Rank,
    pub inbox: VecDeque<ToRank>,
    pub outbox: VecDeque<FromRank>,
    pub dead: bool,
    /// Whether the coordinator has noticed its death.
    pub mourned: bool,
    /// Whether it has noticed the coordinator's death.
    pub gone: bool,
}

impl Process {
    pub fn new(size: u32) -> Process {
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
            sending: BTreeSet::new(),
            complete: BTreeSet::new(),
            collectives: BTreeMap::new(),
            arrived: VecDeque::new(),
            pulled: VecDeque::new(),
            last: BTreeMap::new(),
            notified: false,
            stopped: false,
            begun: 0,
            job: None,
            machine: Rank::new(),
            inbox: VecDeque::new(),
            outbox: VecDeque::new(),
            dead: false,
            mourned: false,
            gone: false,
        }
    }

    pub fn view(&self) -> View {
        let view = |(id, c): (&u64, &Clock)| ClockView {
            id: *id,
            seq: c.seq,
            left: c.left,
        };
        let mut clocks: Vec<ClockView> = self.clocks.iter().map(view).collect();
        // The next drain begins the operations that have not begun.
        let target = self.machine.targets().get(&DRAIN);
        let begun = self.begun.max(target.copied().unwrap_or(0));
        clocks.push(ClockView {
            id: DRAIN,
            seq: begun,
            left: begun,
        });
        View {
            clocks,
            activity: self.activity.clone(),
            held: false,
        }
    }

    /// A drain consists of an exchange and a barrier.
    fn begun_by_next_drain(&self) -> u64 {
        let target = self.machine.targets().get(&DRAIN);
        let begun = self.begun.max(target.copied().unwrap_or(0));
        begun.next_multiple_of(2)
    }

    /// Whether no checkpoint holds the process.
    pub fn free(&self) -> bool {
        let told = self.outbox.is_empty() || self.gone;
        told && self.inbox.is_empty()
            && self.machine.idle()
            && self.phase == Phase::Run
            && !self.stopped
            && !matches!(self.at, At::Parked | At::Waiting | At::Held(_))
    }

    pub fn describe(&self) -> String {
        format!(
            "{:?}, {:?}, {:?}, job {:?}, clocks {:?}{}",
            self.at,
            self.phase,
            self.activity,
            self.job,
            self.clocks,
            if self.dead { ", dead" } else { "" }
        )
    }
}

impl World {
    /// One step of the background work of a rank's agent.
    pub(super) fn job(&mut self, program: &Program, r: u32, fails: bool) -> bool {
        let p = &self.processes[r as usize];
        let (Some(job), false) = (p.job, p.dead) else {
            return false;
        };
        let hurried = p.phase == Phase::Run;
        match job {
            // A thread inside a call of the lower half leaves it first.
            Job::Stop if !hurried && self.is_in_library(p) => return false,
            Job::Stop | Job::Exchange(_) | Job::Pull | Job::Barrier(_) if hurried && fails => {
                return false;
            }
            Job::Stop | Job::Exchange(_) | Job::Pull | Job::Barrier(_) if hurried => {
                self.process(r).job = None;
                let stopped = Err("the drain was given up".to_string());
                self.rank(r, Input::Stopped(stopped));
            }
            Job::Stop if fails => return false,
            Job::Stop => {
                let catches_up = self.variant.drain_catches_up;
                let p = self.process(r);
                p.stopped = true;
                if catches_up {
                    p.begun = p.begun_by_next_drain();
                }
                p.begun += 1;
                p.job = Some(Job::Exchange(p.begun));
            }
            Job::Exchange(number) => {
                if fails {
                    return false;
                }
                if self.pull(r) {
                    return true;
                }
                if !self.begun_by_all(number) {
                    return false;
                }
                self.process(r).job = Some(Job::Pull);
            }
            Job::Pull => {
                if fails {
                    return false;
                }
                for (request, from) in std::mem::take(&mut self.process(r).matched) {
                    let p = self.process(r);
                    p.received[from as usize] += 1;
                    p.complete.insert(request);
                }
                if self.pull(r) {
                    return true;
                }
                if !self.drained(program, r) {
                    return false;
                }
                let p = self.process(r);
                p.begun += 1;
                p.job = Some(Job::Barrier(p.begun));
            }
            Job::Barrier(number) => {
                if !self.begun_by_all(number) {
                    return false;
                }
                self.process(r).job = None;
                self.rank(r, Input::Stopped(verdict(fails, vec![])));
            }
            Job::Save if self.variant.copies && !fails => {
                self.process(r).job = Some(Job::Write);
                self.rank(r, Input::Copied);
            }
            Job::Save | Job::Write => {
                self.process(r).job = None;
                self.rank(r, Input::Saved(verdict(fails, Summary::default())));
            }
        }
        true
    }

    /// Whether the process is in a call of the lower half. A synchronous send waits in the upper half.
    pub(super) fn is_in_library(&self, p: &Process) -> bool {
        match p.at {
            At::Inside(_) | At::Made => true,
            At::Sending => !self.variant.synchronous,
            _ => false,
        }
    }

    fn begun_by_all(&self, number: u64) -> bool {
        self.processes.iter().all(|q| q.begun >= number)
    }

    /// Whether the lower half holds nothing of a rank except receives without a match.
    fn drained(&self, program: &Program, r: u32) -> bool {
        let p = &self.processes[r as usize];
        let ended = |(request, key): (&usize, &(usize, u64))| {
            p.complete.contains(request) || self.full(program, *key)
        };
        let comes = |(s, q): (usize, &Shared<Process>)| q.sent[r as usize] == p.received[s];
        (p.sending.is_empty() || self.variant.synchronous)
            && self.processes.iter().enumerate().all(comes)
            && p.collectives.iter().all(ended)
    }
}

fn verdict<T>(fails: bool, value: T) -> Result<T, String> {
    match fails {
        true => Err("it failed".to_string()),
        false => Ok(value),
    }
}
