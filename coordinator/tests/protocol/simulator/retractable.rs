//! Blocking collective operations that can be retracted, as `upper-half/src/quiesce/retractable.rs` makes them, and
//! constructors whose first call can be retracted.

use stasis_coordinator::protocol::Activity;

use super::process::{At, Process};
use super::program::Program;
use super::wrapper::counts;
use super::{Phase, World};

/// The step that follows a call that has returned and was counted.
#[derive(Clone, Copy)]
pub(super) enum Then {
    /// The operation is over.
    Leave,
    /// It makes another call, in which all members wait for each other.
    GoOn,
    /// It makes what it is for, alone.
    Make,
}

impl World {
    /// One step of a rank in such an operation. `early`: it leaves without waiting for the other ranks.
    pub(super) fn retractable(
        &mut self,
        program: &Program,
        r: u32,
        comm: usize,
        early: bool,
        then: Then,
    ) -> bool {
        let id = self.clock_of(program, comm);
        let p = &self.processes[r as usize];
        let clock = p.clocks[&id];
        let unknown = p.phase == Phase::Approach && p.machine.target(id).is_none();
        // Whether operation `seq` may pass.
        let may_pass = |p: &Process, seq: u64| match p.phase {
            Phase::Run => true,
            Phase::Approach => seq <= clock.target,
            Phase::Stop => false,
        };
        let released = |p: &Process, seq: u64| p.phase == Phase::Run || clock.target >= seq;
        match p.at {
            At::Start => {
                let p = self.process(r);
                p.activity = Activity::Collective { id };
                p.at = At::Begun;
            }
            At::Begun | At::Returned(_) if unknown => return false,
            At::Begun if may_pass(p, clock.seq + 1) => {
                self.process(r).notified |= p.phase != Phase::Run;
                self.begin(r, comm, id);
            }
            At::Begun => self.park(r, id, clock.seq + 1, At::Waiting),
            At::Waiting if released(p, clock.seq + 1) => self.process(r).at = At::Begun,
            At::Waiting | At::Held(_) if !released(p, clock.seq + 1) => return self.pull(r),
            At::Within(number) if early || self.full(program, (comm, number)) => {
                let p = self.process(r);
                p.clock(id).seq += 1;
                p.at = At::Returned(number);
            }
            At::Within(_) => return self.turn(r, id),
            At::Returned(_) if may_pass(p, clock.seq) => match then {
                Then::Leave => return self.leave(program, r, comm),
                Then::GoOn => {
                    self.process(r).notified |= self.processes[r as usize].phase != Phase::Run;
                    self.inside(r, comm, id);
                }
                Then::Make => self.process(r).at = At::Made,
            },
            At::Returned(number) => {
                self.process(r).clock(id).seq -= 1;
                self.park(r, id, clock.seq, At::Held(number));
            }
            At::Held(number) => {
                let p = self.process(r);
                p.clock(id).seq += 1;
                p.at = At::Returned(number);
            }
            at => unreachable!("{at:?}"),
        }
        true
    }

    fn begin(&mut self, r: u32, comm: usize, id: u64) {
        self.inside(r, comm, id);
        let p = self.process(r);
        if let At::Inside(number) = p.at {
            p.at = At::Within(number);
        }
    }

    fn park(&mut self, r: u32, id: u64, seq: u64, at: At) {
        let p = self.process(r);
        p.activity = p.parked(id, seq);
        p.notified = true;
        p.at = at;
    }

    /// The library calls the upper half while it makes progress.
    fn turn(&mut self, r: u32, id: u64) -> bool {
        if self.processes[r as usize].phase != Phase::Approach {
            return false;
        }
        let pulled = self.pull(r);
        let p = &self.processes[r as usize];
        let clock = p.clocks[&id];
        let activity = match clock.seq < clock.target {
            true => Activity::Collective { id },
            false => p.parked(id, clock.seq + 1),
        };
        self.report(r, activity) || pulled
    }
}

impl Process {
    pub(super) fn parked(&self, id: u64, seq: u64) -> Activity {
        Activity::Parked {
            id,
            seq,
            sent: counts(&self.sent),
            last: false,
        }
    }

    /// The retractable operation on the communicator that the process is in, if it is in one: the cut is before it.
    pub(super) fn retracts(&self) -> Option<u64> {
        match self.at {
            At::Within(number) | At::Returned(number) | At::Held(number) => Some(number),
            _ => None,
        }
    }
}
