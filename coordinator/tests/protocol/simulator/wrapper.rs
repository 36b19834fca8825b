//! The behaviour of the upper half's wrappers, as `rank.rs` prescribes it.

use stasis_coordinator::protocol::{Activity, Counts, WaitTarget};

use super::process::{At, Clock, Process};
use super::program::{Op, Program};
use super::retractable::Then;
use super::{Frees, Message, Phase, World};

impl World {
    /// One step of a rank's program. Returns false, and changes nothing, if the program is blocked.
    pub(super) fn app(&mut self, program: &Program, r: u32) -> bool {
        let p = &self.processes[r as usize];
        if p.stopped || p.dead {
            return false;
        }
        let Some(op) = program.ops[r as usize].get(p.pc).copied() else {
            return false;
        };
        match op {
            Op::Compute => self.next(r),
            Op::Never => false,
            Op::Send {
                to,
                tag,
                rendezvous,
            } => {
                if p.at == At::Sending {
                    return match self.variant.synchronous {
                        true => self.wait(r, WaitTarget::Ranks(vec![to])),
                        false => false,
                    };
                }
                if rendezvous {
                    self.send(r, to, tag, Frees::Sender);
                    self.process(r).at = At::Sending;
                    return true;
                }
                self.send(r, to, tag, Frees::Nobody);
                self.next(r)
            }
            Op::Isend { to, tag, request } => {
                self.send(r, to, tag, Frees::Request(request));
                self.process(r).sending.insert(request);
                self.next(r)
            }
            Op::Recv { from, tag } => match self.take(r, from, tag) {
                Some((_, true)) => self.next(r),
                Some((source, false)) => {
                    self.process(r).received[source as usize] += 1;
                    self.next(r)
                }
                None => self.wait(r, self.on(from)),
            },
            Op::Irecv { from, tag, request } => {
                match self.take(r, from, tag) {
                    Some((_, true)) => {
                        self.process(r).complete.insert(request);
                    }
                    Some((source, false)) => {
                        self.process(r).matched.insert(request, source);
                    }
                    None => self.process(r).posted.push_back((from, tag, request)),
                }
                self.next(r)
            }
            Op::Wait { request } => {
                if let Some(from) = p.matched.get(&request).copied() {
                    let p = self.process(r);
                    p.matched.remove(&request);
                    p.received[from as usize] += 1;
                    p.complete.insert(request);
                    return self.next(r);
                }
                if p.complete.contains(&request) {
                    return self.next(r);
                }
                if let Some(key) = p.collectives.get(&request).copied() {
                    if self.full(program, key) {
                        self.process(r).complete.insert(request);
                        return self.next(r);
                    }
                }
                let receive = p.posted.iter().find(|(_, _, q)| *q == request);
                let receiver = program.ops[r as usize].iter().find_map(|op| match op {
                    Op::Isend { to, request: q, .. } if *q == request => Some(*to),
                    _ => None,
                });
                let on = match (receive, receiver) {
                    (Some((from, _, _)), _) => self.on(*from),
                    (None, Some(to)) if self.variant.synchronous => WaitTarget::Ranks(vec![to]),
                    (None, _) => WaitTarget::Ranks(vec![]),
                };
                self.wait(r, on)
            }
            Op::Collective { comm, early } if self.variant.retracts => {
                let goes_on = self.variant.several_calls && !early;
                match (goes_on, p.at) {
                    (true, At::Inside(_) | At::Made) => {
                        self.collective(program, r, comm, |world, number| {
                            world.full(program, (comm, number))
                        })
                    }
                    (true, _) => self.retractable(program, r, comm, early, Then::GoOn),
                    (false, _) => self.retractable(program, r, comm, early, Then::Leave),
                }
            }
            Op::Collective { comm, early } => self.collective(program, r, comm, |world, number| {
                early || world.full(program, (comm, number))
            }),
            Op::Initiate { comm, request } => {
                if !self.collective(program, r, comm, |_, _| true) {
                    return false;
                }
                let p = self.process(r);
                if p.at == At::Start {
                    let number = p.started[&comm];
                    p.collectives.insert(request, (comm, number));
                }
                true
            }
            Op::Create { parent, .. }
                if self.variant.retracts && !matches!(p.at, At::Inside(_) | At::Made) =>
            {
                self.retractable(program, r, parent, false, Then::Make)
            }
            Op::Create { parent, made } => self.create(program, r, parent, made),
            Op::CreateGroup { key, made } => {
                // Only the members know the communicator, so its clock is created on entry. They have met by messages.
                let id = self.clock_of(program, key);
                let p = self.process(r);
                if !p.clocks.contains_key(&id) {
                    return self.new_clock(r, id);
                }
                self.create(program, r, key, made)
            }
        }
    }

    fn send(&mut self, r: u32, to: u32, tag: u32, frees: Frees) {
        let p = self.process(r);
        p.sent[to as usize] += 1;
        let message = Message {
            from: r,
            tag,
            number: p.sent[to as usize],
            frees,
        };
        self.flying.entry((r, to)).or_default().push_back(message);
    }

    /// The ranks that a receive waits for. As many are named as in production.
    fn on(&self, from: Option<u32>) -> WaitTarget {
        const NAMED: u32 = 4;
        let size = self.processes.len() as u32;
        match from {
            Some(from) => WaitTarget::Ranks(vec![from]),
            None if size <= NAMED => WaitTarget::Ranks((0..size).collect()),
            None => WaitTarget::Any,
        }
    }

    fn next(&mut self, r: u32) -> bool {
        let p = self.process(r);
        p.pc += 1;
        p.at = At::Start;
        let news = p.activity != Activity::Running;
        p.activity = Activity::Running;
        p.notified |= news && p.phase != Phase::Run;
        true
    }

    /// A matching message, and whether it was pulled (and counted) before.
    fn take(&mut self, r: u32, from: Option<u32>, tag: u32) -> Option<(u32, bool)> {
        let p = &self.processes[r as usize];
        let fits = |m: &Message| m.tag == tag && from.is_none_or(|f| f == m.from);
        let (pulled, arrived) = (
            p.pulled.iter().position(fits),
            p.arrived.iter().position(fits),
        );
        let p = self.process(r);
        let message = match (pulled, arrived) {
            (Some(i), _) => p.pulled.remove(i),
            (None, Some(i)) => p.arrived.remove(i),
            (None, None) => None,
        }?;
        self.matched(r, &message);
        Some((message.from, pulled.is_some()))
    }

    /// A blocking call that cannot complete yet. During a checkpoint it pulls messages and reports.
    fn wait(&mut self, r: u32, on: WaitTarget) -> bool {
        if self.processes[r as usize].phase == Phase::Run {
            return false;
        }
        let pulled = self.pull(r);
        let p = &self.processes[r as usize];
        let (sent, received) = (counts(&p.sent), counts(&p.received));
        self.report(r, Activity::Waiting { on, sent, received }) || pulled
    }

    /// Reports an activity during a checkpoint; whether it is another one.
    pub(super) fn report(&mut self, r: u32, activity: Activity) -> bool {
        let changed = self.processes[r as usize].activity != activity;
        if changed {
            let p = self.process(r);
            p.activity = activity;
            p.notified = true;
        }
        changed
    }

    fn new_clock(&mut self, r: u32, id: u64) -> bool {
        let p = self.process(r);
        let target = match p.phase {
            Phase::Run => 0,
            _ => match p.machine.target(id) {
                Some(target) => target,
                None => return false,
            },
        };
        p.clocks.entry(id).or_insert(Clock {
            target,
            ..Clock::default()
        });
        true
    }

    fn create(&mut self, program: &Program, r: u32, on: usize, made: usize) -> bool {
        if self.processes[r as usize].at != At::Made {
            // The operation itself; its clock is left only when the new clock exists.
            return self.enter(program, r, on, |world, number| {
                world.full(program, (on, number))
            });
        }
        let id = self.clock_of(program, made);
        if !self.new_clock(r, id) {
            return false;
        }
        self.leave(program, r, on)
    }

    fn collective(
        &mut self,
        program: &Program,
        r: u32,
        comm: usize,
        over: impl Fn(&World, u64) -> bool,
    ) -> bool {
        let entered = self.enter(program, r, comm, over);
        match self.processes[r as usize].at {
            At::Made => self.leave(program, r, comm),
            _ => entered,
        }
    }

    pub(super) fn leave(&mut self, program: &Program, r: u32, comm: usize) -> bool {
        let id = self.clock_of(program, comm);
        let p = self.process(r);
        let clock = p.clock(id);
        clock.left = clock.seq;
        p.notified |= p.phase != Phase::Run;
        self.next(r)
    }

    fn enter(
        &mut self,
        program: &Program,
        r: u32,
        comm: usize,
        over: impl Fn(&World, u64) -> bool,
    ) -> bool {
        let id = self.clock_of(program, comm);
        let p = &self.processes[r as usize];
        if let At::Inside(number) = p.at {
            let over = over(self, number);
            if over {
                self.process(r).at = At::Made;
            }
            return over;
        }
        let clock = p.clocks[&id];
        match p.at {
            At::Start => {
                let p = self.process(r);
                p.clock(id).seq += 1;
                p.at = At::Counted;
            }
            At::Counted if p.phase == Phase::Run => self.inside(r, comm, id),
            At::Counted if p.machine.target(id).is_none() => return false,
            At::Counted if clock.seq <= clock.target => {
                self.process(r).notified = true;
                self.inside(r, comm, id);
            }
            At::Counted => {
                let p = self.process(r);
                p.clock(id).seq -= 1;
                p.activity = p.parked(id, clock.seq);
                p.notified = true;
                p.at = At::Parked;
            }
            At::Parked if p.phase == Phase::Run || clock.target > clock.seq => {
                let p = self.process(r);
                p.clock(id).seq += 1;
                p.at = At::Counted;
            }
            At::Parked => return self.pull(r),
            at => unreachable!("{at:?}"),
        }
        true
    }

    pub(super) fn inside(&mut self, r: u32, comm: usize, id: u64) {
        let p = self.process(r);
        p.activity = Activity::Collective { id };
        let number = p.started.entry(comm).or_insert(0);
        *number += 1;
        let number = *number;
        p.at = At::Inside(number);
        self.entered.entry((comm, number)).or_default().insert(r);
    }
}

impl Process {
    pub(super) fn clock(&mut self, id: u64) -> &mut Clock {
        let clock = self.clocks.get_mut(&id);
        clock.expect("a communicator that is used has a clock")
    }
}

pub(super) fn counts(all: &[u64]) -> Counts {
    (0..)
        .zip(all.iter().copied())
        .filter(|(_, n)| *n > 0)
        .collect()
}
