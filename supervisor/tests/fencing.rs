//! All orders of events of a small job with ranks on other machines, around the two machines that decide: `Leases` and
//! `Recovery`. Time goes in ticks. A lease has two of them, and a rank's clock may lose one to that of `stasis run`.
//!
//! Faults: a rank is killed, stopped by a signal, or a machine ends; a network is cut, and heals with all that was sent
//! meanwhile; a connection is reset on its way, which the rank does not notice. A rank may execute another program. It
//! is announced first, and may die before it runs.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use stasis_supervisor::leases::{Leases, Moment};
use stasis_supervisor::recovery::{Departure, Order, Policy, RecoverOn, Recovery};

/// Machine of each rank of the jobs, faults, and ticks that are explored. Each state is then driven to its end without
/// more faults.
const JOBS: [(&[usize], u32, u64); 3] = [(&[0], 2, 5), (&[0, 1], 1, 2), (&[0, 0, 1], 1, 1)];
const LEASE: u8 = 2;
const UNTIL_DEAD: Moment = Duration::from_secs(3);
/// Distance of the numbers of a rank's connections.
const EXECUTED: u64 = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Up {
    Announce,
    Hello,
    Beat,
    Executes,
    Fin,
    Reset,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Down {
    Welcome,
    Refused,
    Lives,
    Dies,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Life {
    /// It is announced.
    Announced,
    /// It runs nothing of the program yet.
    Connects,
    Runs,
    Dead,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Rank {
    life: Life,
    stopped: bool,
    /// Whether `stasis run` knows of it. Before, its loss is the launcher's matter.
    known: bool,
    /// Number of its connection.
    id: u64,
    /// Ticks until the kernel kills it.
    left: u8,
    /// Whether its clock may still lose a tick of this lease.
    slow: bool,
    /// The same of the lease that it has if the message under way is answered now.
    asked: Option<(u8, bool)>,
    /// Messages under way, with their connections.
    up: VecDeque<(u64, Up)>,
    down: VecDeque<Down>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    recovery: Recovery,
    leases: Leases,
    now: u64,
    /// Time at which the exploration ends.
    end: u64,
    /// Machine of each rank.
    places: &'static [usize],
    ranks: Vec<Rank>,
    /// Whether the machine runs, and its network.
    machines: [bool; 2],
    network: [bool; 2],
    killing: bool,
    /// A rank has ended before it ran.
    unstarted: bool,
    /// The next incarnation has been started.
    started: bool,
    faults: u32,
    executions: u32,
}

impl World {
    fn new((places, faults, end): (&'static [usize], u32, u64)) -> World {
        let rank = |id| Rank {
            life: Life::Announced,
            stopped: false,
            known: false,
            id,
            left: LEASE,
            slow: true,
            asked: None,
            up: [(id, Up::Announce)].into(),
            down: VecDeque::new(),
        };
        World {
            recovery: Recovery::new(Policy {
                on: RecoverOn::Signals,
                most: 20,
            }),
            leases: Leases::new(UNTIL_DEAD),
            now: 0,
            end,
            places,
            ranks: (0..places.len() as u64).map(rank).collect(),
            machines: [true; 2],
            network: [true; 2],
            killing: false,
            unstarted: false,
            started: false,
            faults,
            executions: 1,
        }
    }

    fn moment(&self) -> Moment {
        Duration::from_secs(self.now)
    }

    /// The kernel closes the connection of a process that dies.
    fn die(&mut self, rank: usize) {
        let rank = &mut self.ranks[rank];
        if rank.life != Life::Dead {
            if rank.life == Life::Connects && rank.id >= EXECUTED {
                rank.up.push_back((rank.id - EXECUTED, Up::Fin));
            }
            rank.life = Life::Dead;
            rank.up.push_back((rank.id, Up::Fin));
            rank.down.clear();
        }
    }

    fn left(&mut self, rank: usize, how: Departure) {
        let order = self.recovery.rank_left(Some(rank as u32), how, false);
        self.obey(order);
    }

    fn obey(&mut self, order: Option<Order>) {
        match order {
            Some(Order::Kill) => {
                self.killing = true;
                self.leases.end();
                for rank in &mut self.ranks {
                    rank.down.push_back(Down::Dies);
                }
            }
            Some(Order::Start { .. }) => {
                let runs = self.ranks.iter().any(|rank| rank.life == Life::Runs);
                assert!(!runs, "two incarnations: {self:#?}");
                self.started = true;
            }
            Some(Order::AwaitLauncher) => self.unstarted = true,
            Some(other) => panic!("{other:?}: {self:#?}"),
            None => {}
        }
    }

    fn after(&self, step: impl FnOnce(&mut World)) -> World {
        let mut next = self.clone();
        step(&mut next);
        if next.killing && next.leases.is_over() {
            let order = next.recovery.all_dead(None);
            next.obey(order);
        }
        next
    }

    /// `stasis run` reads a message.
    fn deliver_up(&mut self, rank: usize) {
        let Some((id, message)) = self.ranks[rank].up.pop_front() else {
            return;
        };
        let now = self.moment();
        let answer = match message {
            Up::Announce => {
                self.ranks[rank].known = true;
                Some(match self.leases.announce(id, now) {
                    true => Down::Welcome,
                    false => Down::Refused,
                })
            }
            Up::Hello => {
                if id >= EXECUTED {
                    self.leases.has_executed(id - EXECUTED);
                }
                self.ranks[rank].known = true;
                Some(match self.leases.welcome(id, now) {
                    true => Down::Welcome,
                    false => Down::Refused,
                })
            }
            Up::Beat => self.leases.beat(id, now).then_some(Down::Lives),
            Up::Executes => {
                self.leases.executes(id);
                None
            }
            Up::Fin => {
                if let Some(how) = self.leases.closed(id, now) {
                    self.left(rank, how);
                }
                None
            }
            Up::Reset => {
                self.leases.broken(id, now);
                None
            }
        };
        self.ranks[rank].down.extend(answer);
    }

    /// The rank reads a message.
    fn deliver_down(&mut self, at: usize) {
        let rank = &mut self.ranks[at];
        let Some(message) = rank.down.pop_front() else {
            return;
        };
        match (message, rank.asked) {
            (Down::Welcome, None) if rank.life == Life::Announced => {
                rank.id += EXECUTED;
                (rank.life, rank.asked) = (Life::Connects, Some((LEASE, true)));
                rank.up.push_back((rank.id, Up::Hello));
            }
            (Down::Welcome | Down::Lives, Some((left, slow))) => {
                (rank.left, rank.slow, rank.asked) = (left, slow, None);
                match left {
                    0 => self.die(at),
                    _ => self.ranks[at].life = Life::Runs,
                }
            }
            (Down::Welcome | Down::Lives, None) => panic!("not asked for: {self:#?}"),
            (Down::Refused | Down::Dies, _) => self.die(at),
        }
    }

    /// A tick. The ranks of `slow` machines lose it if they can.
    fn tick(&mut self, slow: [bool; 2]) {
        self.now += 1;
        for at in 0..self.ranks.len() {
            let rank = &mut self.ranks[at];
            if slow[self.places[at]] && rank.slow && rank.asked.is_none_or(|(_, slow)| slow) {
                rank.slow = false;
                rank.asked = rank.asked.map(|(left, _)| (left, false));
                continue;
            }
            rank.asked = rank
                .asked
                .map(|(left, slow)| (left.saturating_sub(1), slow));
            rank.left = rank.left.saturating_sub(1);
            if rank.life == Life::Runs && rank.left == 0 {
                self.die(at);
            }
        }
        if self.unstarted {
            let order = self.recovery.left_waiting();
            self.obey(order);
        }
        for (id, how) in self.leases.expired(self.moment()) {
            self.left((id % EXECUTED) as usize, how);
        }
    }

    fn can_send(&self, at: usize) -> bool {
        let rank = &self.ranks[at];
        rank.life == Life::Runs && !rank.stopped && rank.asked.is_none()
    }

    fn beat(&mut self, at: usize) {
        let rank = &mut self.ranks[at];
        rank.asked = Some((LEASE, true));
        rank.up.push_back((rank.id, Up::Beat));
    }

    fn hears(&self, at: usize) -> bool {
        let rank = &self.ranks[at];
        rank.life != Life::Dead && !rank.stopped && !rank.down.is_empty()
    }

    /// All that can happen next.
    fn steps(&self) -> Vec<World> {
        let mut next = Vec::new();
        if self.started || self.now >= self.end {
            return next;
        }
        for slow in [[false, false], [true, false], [false, true]] {
            next.push(self.after(|world| world.tick(slow)));
        }
        for at in 0..self.ranks.len() {
            let rank = &self.ranks[at];
            let connected = self.network[self.places[at]] && self.machines[self.places[at]];
            if connected && !rank.up.is_empty() {
                next.push(self.after(|world| world.deliver_up(at)));
            }
            if connected && self.hears(at) {
                next.push(self.after(|world| world.deliver_down(at)));
            }
            if self.can_send(at) {
                next.push(self.after(|world| world.beat(at)));
            }
            if self.executions > 0 && self.can_send(at) {
                next.push(self.after(|world| {
                    world.executions -= 1;
                    let rank = &mut world.ranks[at];
                    // The kernel resets a connection with something unread.
                    let end = match rank.down.is_empty() {
                        true => Up::Fin,
                        false => Up::Reset,
                    };
                    rank.up.extend([(rank.id, Up::Executes), (rank.id, end)]);
                    rank.id += EXECUTED;
                    (rank.life, rank.asked) = (Life::Connects, Some((LEASE, true)));
                    rank.up.push_back((rank.id, Up::Hello));
                    rank.down.clear();
                }));
            }
        }
        if self.faults > 0 && !self.killing {
            next.extend(self.faults());
        }
        // A network that heals is no fault.
        for machine in (0..2).filter(|machine| !self.network[*machine]) {
            next.push(self.after(|world| world.network[machine] = true));
        }
        next
    }

    fn faults(&self) -> Vec<World> {
        let mut next = Vec::new();
        let mut fault = |step: &dyn Fn(&mut World)| {
            next.push(self.after(|world| {
                world.faults -= 1;
                step(world);
            }));
        };
        let known = |at: &usize| self.ranks[*at].known && self.ranks[*at].life != Life::Dead;
        for at in (0..self.ranks.len()).filter(known) {
            fault(&|world| world.die(at));
        }
        for at in (0..self.ranks.len()).filter(|at| self.ranks[*at].life == Life::Runs) {
            fault(&|world| world.ranks[at].stopped = true);
            fault(&|world| {
                let id = world.ranks[at].id;
                world.ranks[at].up.push_front((id, Up::Reset));
            });
        }
        for machine in (0..2).filter(|machine| self.machines[*machine]) {
            fault(&|world| world.network[machine] = false);
            fault(&|world| {
                world.machines[machine] = false;
                let ranks = world.ranks.iter_mut().zip(world.places);
                for (rank, _) in ranks.filter(|(_, its)| **its == machine) {
                    rank.life = Life::Dead;
                    rank.up.clear();
                    rank.down.clear();
                }
            });
        }
        next
    }

    /// Without more faults, the job runs whole, or the next incarnation is started.
    fn check_end(mut self) {
        let before = self.clone();
        for ticks in 0..100 {
            let runs = self
                .ranks
                .iter()
                .all(|rank| rank.life == Life::Runs || !rank.known);
            let faultless =
                self.network == [true; 2] && self.ranks.iter().all(|rank| !rank.stopped);
            if ticks > 8 && runs && faultless && !self.killing {
                return;
            }
            for at in 0..self.ranks.len() {
                let machine = self.places[at];
                while self.network[machine] && self.machines[machine] && !self.started {
                    if !self.ranks[at].up.is_empty() {
                        self = self.after(|world| world.deliver_up(at));
                    } else if self.hears(at) {
                        self = self.after(|world| world.deliver_down(at));
                    } else {
                        break;
                    }
                }
                if self.can_send(at) {
                    self.beat(at);
                }
            }
            if self.started {
                return;
            }
            self = self.after(|world| world.tick([false; 2]));
        }
        let runs = self
            .ranks
            .iter()
            .all(|rank| rank.life == Life::Runs || !rank.known);
        assert!(
            self.started || runs && !self.killing,
            "{before:#?} leads to {self:#?}"
        );
    }
}

/// Never two incarnations, and always an end once the faults stop.
#[test]
fn no_rank_outlives_its_incarnation_and_every_loss_is_noticed() {
    for job in JOBS {
        let mut seen = HashSet::new();
        let mut open = vec![World::new(job)];
        let mut recovered = 0;
        while let Some(world) = open.pop() {
            if !seen.insert(world.clone()) {
                continue;
            }
            recovered += u32::from(world.started);
            open.extend(world.steps());
            world.check_end();
        }
        println!("{job:?}: {} states, {recovered} recoveries", seen.len());
        assert!(seen.len() > 1000 && recovered > 100);
    }
}
