//! The leases of the ranks on other machines, as `stasis run` sees them. It does no I/O and reads no clock; its test
//! drives it, together with [`recovery`](crate::recovery), through all orders of events of a small job.
//!
//! A rank on another machine may live although nothing is heard from it. So it has a *lease*: a timer at which the
//! kernel of its machine kills it. The rank sends *heartbeats*. An answered one prolongs the lease, and the lease
//! counts from the sending of the heartbeat, which is before its answer. So a rank is dead for certain when a lease and
//! a margin for the difference of two clocks are over since the last answer:
//!
//! ```text
//! rank         beat sent ●───────────── lease ─────────────▶ killed by its kernel
//! stasis run        answered ●───────────── lease ─────────────▶─ margin ─▶ dead for certain
//! ```
//!
//! A connection that the other side has closed (FIN) is a death, too: the kernel closes it when the process ends. One
//! that was reset proves nothing, since a device on the way, or the kernel of a machine that has started anew, may have
//! done it. Its rank is dead when its lease is over.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::recovery::Departure;

/// Time since some fixed moment.
pub type Moment = Duration;

/// Part of a lease that two clocks may differ by in its time.
const DRIFT: u32 = 10;

/// Leases after which a program that was to be executed, or a rank that was announced, is lost if it has not connected.
/// Until it is welcome it runs nothing, so this is no matter of safety, and a slow file system needs its time.
const TO_EXECUTE: u32 = 20;

/// Intervals that are set by the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Terms {
    /// Interval of heartbeats.
    pub heartbeat: Duration,
    /// Length of a lease.
    pub lease: Duration,
}

impl Terms {
    /// Time after the last answer when the rank is dead for certain.
    pub fn until_dead(&self) -> Duration {
        self.lease + self.lease / DRIFT
    }
}

/// Number of a connection.
pub type Id = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    /// It has no lease and runs nothing. The connection lasts until the rank has another one.
    Announced,
    /// Its heartbeats are answered.
    Open,
    /// It has closed its connection to execute another program, which connects anew.
    Executes,
    /// The same, after its lease: so it cannot run, but it is waited for.
    Awaited,
    /// Its connection was reset; how the rank will be lost.
    Broken(Departure),
    Dead,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Holder {
    /// Time of the last answer.
    answered: Moment,
    /// Whether it has said that it executes another program.
    executes: bool,
    state: State,
}

/// The leases of an incarnation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Leases {
    until_dead: Duration,
    holders: BTreeMap<Id, Holder>,
    /// Whether the incarnation is to end. No lease is given or prolonged any more.
    ending: bool,
}

impl Holder {
    /// How it is lost whose connection ends now. One that was stopped is killed at the end of its lease, which is
    /// sooner than it is dead for certain.
    fn departure(&self, now: Moment, until_dead: Duration) -> Departure {
        match now.saturating_sub(self.answered) < until_dead / 2 {
            true => Departure::Lost,
            false => Departure::Silent,
        }
    }

    /// Whether it may run something of the program. One that is awaited is refused when the incarnation ends.
    fn may_run(&self) -> bool {
        !matches!(self.state, State::Dead | State::Awaited | State::Announced)
    }

    /// The time at which its state changes if nothing is heard.
    fn end(&self, until_dead: Duration) -> Option<Moment> {
        match self.state {
            State::Open | State::Broken(_) | State::Executes => Some(self.answered + until_dead),
            State::Announced | State::Awaited => Some(self.answered + until_dead * TO_EXECUTE),
            State::Dead => None,
        }
    }
}

impl Leases {
    /// No lease yet.
    pub fn new(until_dead: Duration) -> Leases {
        Leases {
            until_dead,
            holders: BTreeMap::new(),
            ending: false,
        }
    }

    /// A rank wants to run. Returns whether it may; the answer gives it a lease.
    pub fn welcome(&mut self, id: Id, now: Moment) -> bool {
        self.begin(id, now, State::Open)
    }

    /// A process is to become a rank. Returns whether it may; the answer gives it no lease.
    pub fn announce(&mut self, id: Id, now: Moment) -> bool {
        self.begin(id, now, State::Announced)
    }

    fn begin(&mut self, id: Id, now: Moment, state: State) -> bool {
        if self.ending {
            return false;
        }
        let holder = Holder {
            answered: now,
            executes: false,
            state,
        };
        self.holders.insert(id, holder);
        true
    }

    /// A heartbeat has come. Returns whether it is answered.
    pub fn beat(&mut self, id: Id, now: Moment) -> bool {
        let (ending, until_dead) = (self.ending, self.until_dead);
        let Some(holder) = self.holders.get_mut(&id) else {
            return false;
        };
        let lives = holder.state == State::Open && now < holder.answered + until_dead;
        if lives && !ending {
            holder.answered = now;
        }
        lives && !ending
    }

    /// The rank says that it executes another program.
    pub fn executes(&mut self, id: Id) {
        if let Some(holder) = self.holders.get_mut(&id) {
            holder.executes = true;
        }
    }

    /// The program that the rank has executed, if it was about to or was announced, has connected.
    pub fn has_executed(&mut self, id: Id) {
        if let Some(holder) = self.holders.get_mut(&id) {
            let executes = holder.state == State::Open && holder.executes;
            let awaited = matches!(
                holder.state,
                State::Executes | State::Awaited | State::Announced
            );
            if executes || awaited {
                holder.state = State::Dead;
            }
        }
    }

    /// The connection was closed by the rank's side. Returns the cause if the rank is lost by that.
    pub fn closed(&mut self, id: Id, now: Moment) -> Option<Departure> {
        let holder = self.holders.get_mut(&id)?;
        if holder.state == State::Announced {
            holder.state = State::Dead;
            return Some(Departure::Unstarted);
        }
        if holder.state != State::Open {
            return None;
        }
        if holder.executes {
            holder.state = State::Executes;
            return None;
        }
        holder.state = State::Dead;
        Some(holder.departure(now, self.until_dead))
    }

    /// The connection was reset or broken off. The kernel of the rank does that, too, where a program is executed
    /// before the last answer is read.
    pub fn broken(&mut self, id: Id, now: Moment) {
        if let Some(holder) = self.holders.get_mut(&id) {
            if holder.state == State::Announced {
                // It may still come.
                holder.state = State::Awaited;
            } else if holder.state == State::Open {
                holder.state = match holder.executes {
                    true => State::Executes,
                    false => State::Broken(holder.departure(now, self.until_dead)),
                };
            }
        }
    }

    /// The ranks that are lost because their leases are over now, and how.
    pub fn expired(&mut self, now: Moment) -> Vec<(Id, Departure)> {
        let until_dead = self.until_dead;
        let holders = self.holders.iter_mut();
        let over = holders.filter(|(_, holder)| {
            let end = holder.end(until_dead);
            end.is_some_and(|end| end <= now)
        });
        let lost = over.filter_map(|(id, holder)| {
            let before = holder.state;
            holder.state = match before {
                State::Executes => State::Awaited,
                _ => State::Dead,
            };
            match before {
                State::Executes => None,
                State::Broken(how) => Some((*id, how)),
                _ => Some((*id, Departure::Silent)),
            }
        });
        lost.collect()
    }

    /// The time at which [`Leases::expired`] is to be asked.
    pub fn next_end(&self) -> Option<Moment> {
        let holders = self.holders.values();
        holders
            .filter_map(|holder| holder.end(self.until_dead))
            .min()
    }

    /// Whether the rank of a connection is known to be dead, or has another connection.
    pub fn is_dead(&self, id: Id) -> bool {
        let holder = self.holders.get(&id);
        holder.is_none_or(|holder| holder.state == State::Dead)
    }

    /// The incarnation is to end.
    pub fn end(&mut self) {
        self.ending = true;
    }

    /// Whether the incarnation is to end and no rank of it can live.
    pub fn is_over(&self) -> bool {
        self.ending && self.all_dead()
    }

    /// Whether no rank that has connected can run anything of the program at present.
    pub fn all_dead(&self) -> bool {
        self.holders.values().all(|holder| !holder.may_run())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNTIL_DEAD: Duration = Duration::from_secs(4);

    /// How a rank is lost whose connection is reset at `reset`, after an answer at 0.
    fn reset_at(reset: Moment) -> Departure {
        let mut leases = Leases::new(UNTIL_DEAD);
        assert!(leases.welcome(7, Duration::ZERO));
        leases.broken(7, reset);
        assert_eq!(leases.expired(Duration::from_secs(3)), []);
        let lost = leases.expired(UNTIL_DEAD);
        assert_eq!(lost.len(), 1);
        lost[0].1
    }

    #[test]
    fn a_connection_that_an_execution_resets_is_no_loss() {
        let mut leases = Leases::new(UNTIL_DEAD);
        let first = Duration::from_secs(1);
        assert!(leases.welcome(7, Duration::ZERO));
        leases.executes(7);
        leases.broken(7, first);
        assert!(leases.welcome(8, first));
        leases.has_executed(7);
        assert_eq!(leases.expired(UNTIL_DEAD), []);
    }

    #[test]
    fn a_machine_that_resets_a_connection_is_not_silent() {
        assert_eq!(reset_at(Duration::from_secs(1)), Departure::Lost);
        // It has not answered for a time before.
        assert_eq!(reset_at(Duration::from_secs(2)), Departure::Silent);
    }
}
