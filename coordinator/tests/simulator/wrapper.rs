//! What the upper half's wrappers do, as `rank.rs` prescribes it.

use stasis_coordinator::protocol::{Activity, Counts, On};

use super::program::{Op, Program};
use super::{At, Clock, Message, Phase, World};

impl World {
    /// One step of a rank's program. Returns false, and has changed nothing, if it is blocked.
    pub(super) fn app(&mut self, program: &Program, r: u32) -> bool {
        let p = &mut self.processes[r as usize];
        if p.stopped {
            return false;
        }
        let Some(op) = program.ops[r as usize].get(p.pc).copied() else {
            return false;
        };
        match op {
            Op::Compute => self.next(r),
            Op::Send {
                to,
                tag,
                rendezvous,
            } => {
                if p.at == At::Sending {
                    return false;
                }
                p.sent[to as usize] += 1;
                if rendezvous {
                    p.at = At::Sending;
                }
                let message = Message {
                    from: r,
                    tag,
                    rendezvous,
                };
                self.flying.entry((r, to)).or_default().push_back(message);
                if rendezvous {
                    true
                } else {
                    self.next(r)
                }
            }
            Op::Recv { from, tag } => match self.take(r, from, tag) {
                Some((_, true)) => self.next(r),
                Some((source, false)) => {
                    self.processes[r as usize].received[source as usize] += 1;
                    self.next(r)
                }
                None => self.wait(r, from.map_or(On::Any, |f| On::Ranks(vec![f]))),
            },
            Op::Irecv { from, tag, request } => {
                match self.take(r, from, tag) {
                    Some((_, true)) => {
                        self.processes[r as usize].complete.insert(request);
                    }
                    Some((source, false)) => {
                        self.processes[r as usize].matched.insert(request, source);
                    }
                    None => self.processes[r as usize]
                        .posted
                        .push_back((from, tag, request)),
                }
                self.next(r)
            }
            Op::Wait { request } => {
                if let Some(from) = p.matched.remove(&request) {
                    p.received[from as usize] += 1;
                    p.complete.insert(request);
                }
                let over = p.complete.contains(&request);
                if let Some(key) = p.collectives.get(&request).copied() {
                    if self.full(program, key) {
                        self.processes[r as usize].complete.insert(request);
                        return self.next(r);
                    }
                    return self.wait(r, On::Ranks(vec![]));
                }
                if over {
                    return self.next(r);
                }
                let from = p
                    .posted
                    .iter()
                    .find(|(_, _, q)| *q == request)
                    .and_then(|q| q.0);
                self.wait(r, from.map_or(On::Any, |f| On::Ranks(vec![f])))
            }
            Op::Collective { comm, early } => self.collective(program, r, comm, |world, number| {
                early || world.full(program, (comm, number))
            }),
            Op::Initiate { comm, request } => {
                if !self.collective(program, r, comm, |_, _| true) {
                    return false;
                }
                let p = &mut self.processes[r as usize];
                if p.at == At::Start {
                    let number = p.started[&comm];
                    p.collectives.insert(request, (comm, number));
                }
                true
            }
            Op::Create { parent, made } => self.create(program, r, parent, made),
            Op::CreateGroup { key, made } => {
                // Only the members know of it: its clock is made on entry.
                let id = self.clock_of(program, key);
                let p = &mut self.processes[r as usize];
                if !p.clocks.contains_key(&id) {
                    return self.new_clock(r, id);
                }
                self.create(program, r, key, made)
            }
        }
    }

    fn next(&mut self, r: u32) -> bool {
        let p = &mut self.processes[r as usize];
        p.pc += 1;
        p.at = At::Start;
        p.activity = Activity::Running;
        p.notified |= p.phase != Phase::Run;
        true
    }

    /// A matching message, and whether it was pulled (and counted) before.
    fn take(&mut self, r: u32, from: Option<u32>, tag: u32) -> Option<(u32, bool)> {
        let p = &mut self.processes[r as usize];
        let fits = |m: &Message| m.tag == tag && from.is_none_or(|f| f == m.from);
        if let Some(i) = p.pulled.iter().position(fits) {
            return p.pulled.remove(i).map(|m| (m.from, true));
        }
        let i = p.arrived.iter().position(fits)?;
        let message = p.arrived.remove(i)?;
        self.free(&message);
        Some((message.from, false))
    }

    /// A blocking call that cannot complete yet: under a pending checkpoint it pulls and tells.
    fn wait(&mut self, r: u32, on: On) -> bool {
        if self.processes[r as usize].phase == Phase::Run {
            return false;
        }
        let pulled = self.pull(r);
        let p = &mut self.processes[r as usize];
        let (sent, received) = (counts(&p.sent), counts(&p.received));
        let activity = Activity::Waiting { on, sent, received };
        let news = p.activity != activity;
        p.activity = activity;
        p.notified |= news;
        pulled || news
    }

    fn new_clock(&mut self, r: u32, id: u64) -> bool {
        let p = &mut self.processes[r as usize];
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
        match self.processes[r as usize].at {
            At::Made => self.leave(program, r, comm),
            _ => self.enter(program, r, comm, over),
        }
    }

    fn leave(&mut self, program: &Program, r: u32, comm: usize) -> bool {
        let id = self.clock_of(program, comm);
        let clock = self.processes[r as usize].clocks.get_mut(&id).unwrap();
        clock.left = clock.seq;
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
        if let At::Inside(number) = self.processes[r as usize].at {
            let over = over(self, number);
            if over {
                self.processes[r as usize].at = At::Made;
            }
            return over;
        }
        let p = &mut self.processes[r as usize];
        let clock = p
            .clocks
            .get_mut(&id)
            .expect("a communicator that is used has a clock");
        match p.at {
            At::Start => {
                clock.seq += 1;
                p.at = At::Counted;
            }
            At::Counted if p.phase == Phase::Run => self.inside(r, comm),
            At::Counted => p.at = At::Asking,
            At::Asking if p.phase != Phase::Run && p.machine.target(id).is_none() => return false,
            At::Asking if p.phase == Phase::Run || clock.seq <= clock.target => {
                p.activity = Activity::Collective { id };
                p.notified = true;
                self.inside(r, comm);
            }
            At::Asking => {
                let seq = clock.seq;
                clock.seq -= 1;
                p.activity = Activity::Parked {
                    id,
                    seq,
                    sent: counts(&p.sent),
                };
                p.notified = true;
                p.at = At::Parked;
            }
            At::Parked if p.phase == Phase::Run || clock.target > clock.seq => {
                clock.seq += 1;
                p.at = At::Asking;
            }
            At::Parked => return self.pull(r),
            At::Inside(_) | At::Made | At::Sending => unreachable!(),
        }
        true
    }

    fn inside(&mut self, r: u32, comm: usize) {
        let p = &mut self.processes[r as usize];
        let number = p.started.entry(comm).or_insert(0);
        *number += 1;
        p.at = At::Inside(*number);
        self.entered.entry((comm, *number)).or_default().insert(r);
    }
}

fn counts(all: &[u64]) -> Counts {
    (0..)
        .zip(all.iter().copied())
        .filter(|(_, n)| *n > 0)
        .collect()
}
