//! The machines of the job and of its standby world together, driven through all orders of events: ranks and launchers
//! of both die at any moment, also while the standby world takes over.

use std::collections::HashSet;

use stasis_supervisor::recovery::{
    Departure, GivenUp, LauncherEnd, Order, Policy, RecoverOn, Recovery,
};
use stasis_supervisor::standby::{self, Standby, Way};

const RANKS: usize = 2;
const FAULTS: u32 = 3;

/// The processes of an incarnation, or of a standby world.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Processes {
    /// For each rank whether it lives.
    ranks: [bool; RANKS],
    /// For each rank whether it is asleep. In an incarnation none is.
    asleep: [bool; RANKS],
    launcher: bool,
    killed: bool,
}

impl Processes {
    fn new() -> Processes {
        Processes {
            ranks: [true; RANKS],
            asleep: [false; RANKS],
            launcher: true,
            killed: false,
        }
    }

    fn dead(&self) -> bool {
        !self.launcher && self.ranks == [false; RANKS]
    }
}

/// A job around the machines, treated as `run` treats them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    recovery: Recovery,
    standby: Standby,
    job: Processes,
    /// Whether the program of the incarnation runs, so that it can tell of its checkpoint.
    runs: bool,
    sleepers: Option<Processes>,
    newest: Option<u64>,
    /// How the last incarnation began.
    way: Way,
    finished: Option<Option<GivenUp>>,
    terms: u32,
    faults: u32,
}

impl World {
    fn new() -> World {
        let policy = Policy {
            on: RecoverOn::Signals,
            most: 2,
        };
        World {
            recovery: Recovery::new(policy),
            standby: Standby::new(true),
            job: Processes::new(),
            runs: false,
            sleepers: None,
            newest: None,
            way: Way::Anew,
            finished: None,
            terms: 1,
            faults: FAULTS,
        }
    }

    fn obey(&mut self, order: Option<Order>) {
        match order {
            Some(Order::Kill) => {
                self.job.killed = true;
                let order = self.standby.job_fails();
                self.obey_standby(order);
            }
            Some(Order::Start { .. }) => {
                assert!(self.job.dead(), "two incarnations: {self:?}");
                self.way = self.standby.next_begins();
                match (self.way, self.sleepers.take()) {
                    (Way::TakeOver, Some(sleepers)) => {
                        assert_eq!(sleepers.asleep, [true; RANKS], "{self:?}");
                        self.job = sleepers;
                    }
                    (Way::Anew, None) => self.job = Processes::new(),
                    (way, sleepers) => panic!("{way:?} with {sleepers:?}"),
                }
                self.runs = false;
            }
            Some(Order::Finish(given_up)) => {
                assert!(self.finished.is_none(), "two ends: {self:?}");
                self.finished = Some(given_up);
                let order = self.standby.job_is_over();
                self.obey_standby(order);
            }
            Some(
                Order::Stop
                | Order::Terminate
                | Order::Await
                | Order::AwaitLauncher
                | Order::AwaitEnd,
            )
            | None => {}
        }
    }

    fn obey_standby(&mut self, order: Option<standby::Order>) {
        match order {
            Some(standby::Order::Start) => {
                assert!(self.sleepers.is_none(), "two standby worlds: {self:?}");
                assert!(self.finished.is_none() && self.newest.is_some());
                self.sleepers = Some(Processes::new());
            }
            Some(standby::Order::Kill) => {
                if let Some(sleepers) = &mut self.sleepers {
                    sleepers.killed = true;
                }
            }
            Some(standby::Order::Leave) | None => {}
        }
    }

    fn after(&self, step: impl FnOnce(&mut World) -> Option<Order>) -> World {
        let mut next = self.clone();
        let order = step(&mut next);
        next.obey(order);
        next.settle();
        next
    }

    /// What `run` does at the end of each turn.
    fn settle(&mut self) {
        let gone = self.sleepers.as_ref().is_some_and(Processes::dead);
        let ends = self.standby.is_ending() || self.standby.is_leaving();
        let spared = self.standby.is_ready() || self.sleepers.is_none();
        if self.finished.is_none() && self.job.killed && self.job.dead() && (spared || gone) {
            if gone {
                self.forget();
            }
            let order = self.recovery.all_dead(self.newest);
            self.obey(order);
        } else if gone && ends {
            self.forget();
        }
    }

    fn forget(&mut self) {
        self.sleepers = None;
        let order = self.standby.gone();
        self.obey_standby(order);
    }

    fn sleeper_ends(&self, end: impl FnOnce(&mut Processes), fault: u32) -> World {
        self.after(|world| {
            world.faults -= fault;
            if let Some(sleepers) = &mut world.sleepers {
                end(sleepers);
            }
            let order = world.standby.died();
            world.obey_standby(order);
            None
        })
    }

    /// All that can happen next in the standby world.
    fn standby_steps(&self, next: &mut Vec<World>) {
        let Some(sleepers) = &self.sleepers else {
            return;
        };
        let may_end = sleepers.killed || self.standby.is_leaving();
        for rank in (0..RANKS).filter(|rank| sleepers.ranks[*rank]) {
            if !sleepers.asleep[rank] {
                next.push(self.after(|world| {
                    if let Some(sleepers) = &mut world.sleepers {
                        sleepers.asleep[rank] = true;
                        if sleepers.asleep == [true; RANKS] && sleepers.ranks == [true; RANKS] {
                            world.standby.asleep();
                        }
                    }
                    None
                }));
            }
            let dies = |sleepers: &mut Processes| sleepers.ranks[rank] = false;
            match may_end || !sleepers.launcher {
                true => next.push(self.sleeper_ends(dies, 0)),
                false if self.faults > 0 => next.push(self.sleeper_ends(dies, 1)),
                false => {}
            }
        }
        if sleepers.launcher {
            let dies = |sleepers: &mut Processes| sleepers.launcher = false;
            match may_end || sleepers.ranks == [false; RANKS] {
                true => next.push(self.sleeper_ends(dies, 0)),
                false if self.faults > 0 => next.push(self.sleeper_ends(dies, 1)),
                false => {}
            }
        }
        if self.standby.is_leaving() {
            next.push(self.after(|world| {
                let order = world.standby.leaves_too_slowly();
                world.obey_standby(order);
                None
            }));
        }
    }

    /// All that can happen next in the job.
    fn job_steps(&self, next: &mut Vec<World>) {
        for rank in (0..RANKS).filter(|rank| self.job.ranks[*rank]) {
            let leaves = |how, fault| {
                self.after(|world| {
                    world.job.ranks[rank] = false;
                    world.faults -= fault;
                    world.recovery.rank_left(Some(rank as u32), how, false)
                })
            };
            if self.faults > 0 {
                next.push(leaves(Departure::Lost, 1));
            }
            match self.job.killed || !self.job.launcher {
                true => next.push(leaves(Departure::Lost, 0)),
                false => next.push(leaves(Departure::Exits(0), 0)),
            }
        }
        if self.job.launcher {
            let ends = |end, fault| {
                self.after(|world| {
                    world.job.launcher = false;
                    world.faults -= fault;
                    world.recovery.launcher_ended(end, false, false)
                })
            };
            if self.job.killed || self.job.ranks == [false; RANKS] {
                let code = i32::from(self.faults < FAULTS);
                next.push(ends(LauncherEnd::Exited(code), 0));
            }
            if self.faults > 0 {
                next.push(ends(LauncherEnd::Killed(9), 1));
            }
        }
        let alive = self.job.ranks == [true; RANKS] && !self.job.killed;
        if alive && !self.runs && self.newest.is_some() {
            next.push(self.covered(self.newest));
        }
        if alive && self.faults == FAULTS && self.newest < Some(2) {
            next.push(self.covered(self.newest.map(|newest| newest + 1).or(Some(1))));
        }
        if self.terms > 0 {
            next.push(self.after(|world| {
                world.terms -= 1;
                world.recovery.end_wanted();
                None
            }));
        }
    }

    fn covered(&self, newest: Option<u64>) -> World {
        self.after(|world| {
            (world.runs, world.newest) = (true, newest);
            let order = newest.and_then(|set| world.standby.covered(set));
            world.obey_standby(order);
            None
        })
    }

    fn steps(&self) -> Vec<World> {
        let mut next = Vec::new();
        self.standby_steps(&mut next);
        if self.finished.is_none() {
            self.job_steps(&mut next);
        }
        next
    }
}

/// Never two incarnations are let go, never two standby worlds are there, and every state that is not an end has a next
/// step. At the end no process of a standby world lives.
#[test]
fn every_order_of_events_with_a_standby_world_leads_to_one_end() {
    let mut seen = HashSet::new();
    let mut open = vec![World::new()];
    let (mut ends, mut taken_over, mut died_taking_over) = (0, 0, 0);
    while let Some(world) = open.pop() {
        if !seen.insert(world.clone()) {
            continue;
        }
        let steps = world.steps();
        let over = world.finished.is_some() && world.standby.is_none();
        match over {
            true => {
                ends += 1;
                assert!(world.sleepers.is_none(), "sleepers are left: {world:?}");
            }
            false => assert!(!steps.is_empty(), "no end: {world:?}"),
        }
        let took = world.way == Way::TakeOver && !world.runs;
        taken_over += u32::from(took && !world.job.killed);
        died_taking_over += u32::from(took && world.job.killed);
        open.extend(steps);
    }
    let counted = [ends, taken_over, died_taking_over];
    assert!(seen.len() > 10_000, "{}", seen.len());
    assert!(counted.iter().all(|count| *count > 100), "{counted:?}");
}

fn ready() -> Standby {
    let mut standby = Standby::new(true);
    assert_eq!(standby.covered(1), Some(standby::Order::Start));
    standby.asleep();
    assert!(standby.is_ready());
    standby
}

#[test]
fn a_standby_world_that_ends_is_replaced_and_three_times_without_a_new_checkpoint_at_most() {
    let mut standby = ready();
    for again in [true, true, false] {
        assert_eq!(standby.died(), Some(standby::Order::Kill));
        let order = standby.gone();
        assert_eq!(order, again.then_some(standby::Order::Start));
    }
    assert!(standby.is_given_up());
    assert_eq!(standby.covered(1), None);
    assert_eq!(standby.covered(2), Some(standby::Order::Start));
}

#[test]
fn a_failed_take_over_counts_as_an_end_of_a_standby_world() {
    let mut standby = ready();
    for given_up in [false, false, true] {
        assert_eq!(standby.job_fails(), None);
        assert_eq!(standby.next_begins(), Way::TakeOver);
        assert_eq!(standby.job_fails(), None, "there is none to kill");
        assert_eq!(standby.next_begins(), Way::Anew);
        assert_eq!(standby.is_given_up(), given_up);
        let order = standby.covered(1);
        assert_eq!(order.is_none(), given_up);
        standby.asleep();
    }
}

#[test]
fn one_that_is_not_ready_does_not_delay_the_next_incarnation() {
    let mut standby = Standby::new(true);
    standby.covered(1);
    assert_eq!(standby.job_fails(), Some(standby::Order::Kill));
    assert_eq!(
        standby.gone(),
        None,
        "it is started when the job runs again"
    );
    assert_eq!(standby.next_begins(), Way::Anew);
    assert_eq!(standby.covered(1), Some(standby::Order::Start));
    assert_eq!(standby.job_is_over(), Some(standby::Order::Leave));
    assert_eq!(standby.leaves_too_slowly(), Some(standby::Order::Kill));
    assert_eq!(standby.gone(), None);
}

#[test]
fn one_that_has_no_room_is_tried_again_after_the_next_checkpoint() {
    let mut standby = Standby::new(true);
    standby.covered(1);
    standby.refused();
    assert_eq!(standby.covered(1), None);
    assert_eq!(standby.covered(2), Some(standby::Order::Start));
    let mut unwanted = Standby::new(false);
    assert_eq!(unwanted.covered(1), None);
}
