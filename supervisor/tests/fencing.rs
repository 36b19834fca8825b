//! All orders of events of a small job with ranks on other machines, around the two machines that decide: `Leases` and
//! `Recovery`. Time goes in ticks. A lease has two of them, and a rank's clock may lose one to that of `stasis run`.
//!
//! Faults: a rank is killed, stopped by a signal, or a machine ends; a network is cut, and heals with all that was sent
//! meanwhile; a connection is reset on its way, which the rank does not notice. A rank may execute another program. It
//! is announced first, and may die before it runs.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::iter;
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
    machines: Vec<bool>,
    network: Vec<bool>,
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
        let machines = places.iter().max().map_or(0, |last| last + 1);
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
            machines: vec![true; machines],
            network: vec![true; machines],
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
        next.does(step);
        next
    }

    fn does(&mut self, step: impl FnOnce(&mut World)) {
        step(self);
        if self.killing && !self.started && self.leases.is_over() {
            let order = self.recovery.all_dead(None);
            self.obey(order);
        }
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

    /// A tick. The ranks of the `slow` machine lose it if they can.
    fn tick(&mut self, slow: Option<usize>) {
        self.now += 1;
        for at in 0..self.ranks.len() {
            let rank = &mut self.ranks[at];
            if slow == Some(self.places[at]) && rank.slow && rank.asked.is_none_or(|(_, slow)| slow)
            {
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

    fn is_connected(&self, at: usize) -> bool {
        let machine = self.places[at];
        self.network[machine] && self.machines[machine]
    }

    /// The rank executes another program.
    fn execute(&mut self, at: usize) {
        self.executions -= 1;
        let rank = &mut self.ranks[at];
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
    }

    /// A device on the way resets the connection.
    fn reset(&mut self, at: usize) {
        let id = self.ranks[at].id;
        self.ranks[at].up.push_front((id, Up::Reset));
    }

    /// The machine ends, with its ranks and all that they have under way.
    fn end_machine(&mut self, machine: usize) {
        self.machines[machine] = false;
        let ranks = self.ranks.iter_mut().zip(self.places);
        for (rank, _) in ranks.filter(|(_, its)| **its == machine) {
            rank.life = Life::Dead;
            rank.up.clear();
            rank.down.clear();
        }
    }

    /// All that can happen next.
    fn steps(&self) -> Vec<World> {
        let mut next = Vec::new();
        if self.started || self.now >= self.end {
            return next;
        }
        for slow in iter::once(None).chain((0..self.machines.len()).map(Some)) {
            next.push(self.after(|world| world.tick(slow)));
        }
        for at in 0..self.ranks.len() {
            let rank = &self.ranks[at];
            let connected = self.is_connected(at);
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
                next.push(self.after(|world| world.execute(at)));
            }
        }
        if self.faults > 0 && !self.killing {
            next.extend(self.faults());
        }
        // A network that heals is no fault.
        for machine in (0..self.network.len()).filter(|machine| !self.network[*machine]) {
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
            fault(&|world| world.reset(at));
        }
        for machine in (0..self.machines.len()).filter(|machine| self.machines[*machine]) {
            fault(&|world| world.network[machine] = false);
            fault(&|world| world.end_machine(machine));
        }
        next
    }

    /// Whether all ranks run, but for those that the launcher has to miss.
    fn is_whole(&self) -> bool {
        let mut ranks = self.ranks.iter();
        !self.killing && ranks.all(|rank| rank.life == Life::Runs || !rank.known)
    }

    /// Without more faults, the job runs whole, or the next incarnation is started.
    fn check_end(mut self) {
        let before = self.clone();
        for ticks in 0..100 {
            let connected = self.network.iter().all(|connected| *connected);
            let faultless = connected && self.ranks.iter().all(|rank| !rank.stopped);
            if ticks > 8 && self.is_whole() && faultless {
                return;
            }
            for at in 0..self.ranks.len() {
                while self.is_connected(at) && !self.started {
                    if !self.ranks[at].up.is_empty() {
                        self.does(|world| world.deliver_up(at));
                    } else if self.hears(at) {
                        self.does(|world| world.deliver_down(at));
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
            self.does(|world| world.tick(None));
        }
        assert!(
            self.started || self.is_whole(),
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

/// Three machines with three ranks each. The orders of their events are too many. So they follow a *schedule*, in
/// rounds: all messages are delivered, all ranks send a heartbeat, that is answered, and a tick follows. At any moment
/// something else happens, as often as the budget allows: a fault; a rank or a machine that is late until the next
/// tick; a tick that comes early, also for a machine with a slow clock; a rank that executes another program.
const LARGE: &[usize] = &[0, 0, 0, 1, 1, 1, 2, 2, 2];
const ROUNDS: u64 = 4;

/// A set of ranks or of machines.
type Set = u16;

fn has(set: Set, at: usize) -> bool {
    set & (1 << at) != 0
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Scheduled {
    world: World,
    /// Events beside the schedule that may still come.
    budget: u32,
    /// Ranks that are late until the next tick.
    late: Set,
    /// Ranks that have sent their heartbeat since the last tick.
    sent: Set,
    /// Ranks and machines to which something has happened. The others do not differ, so that it is enough if the next
    /// event happens to one of them.
    touched: [Set; 2],
}

impl Scheduled {
    fn new(budget: u32) -> Scheduled {
        Scheduled {
            world: World::new((LARGE, 0, ROUNDS)),
            budget,
            late: 0,
            sent: 0,
            touched: [0; 2],
        }
    }

    fn in_time(&self, at: usize) -> bool {
        !has(self.late, at)
    }

    fn ready(&self, is: impl Fn(&World, usize) -> bool) -> Vec<usize> {
        let ranks = 0..self.world.ranks.len();
        ranks
            .filter(|at| self.in_time(*at) && is(&self.world, *at))
            .collect()
    }

    fn tick(&mut self, slow: Option<usize>) {
        self.world.does(|world| world.tick(slow));
        (self.late, self.sent) = (0, 0);
    }

    /// The next step of the schedule.
    fn go_on(&mut self) {
        let told =
            |world: &World, at: usize| world.is_connected(at) && !world.ranks[at].up.is_empty();
        let hears = |world: &World, at: usize| world.is_connected(at) && world.hears(at);
        let (up, down) = (self.ready(told), self.ready(hears));
        let mut send = self.ready(World::can_send);
        send.retain(|at| !has(self.sent, *at));
        match (&up[..], &down[..], &send[..]) {
            ([_, ..], _, _) => {
                for at in up {
                    self.world.does(|world| world.deliver_up(at));
                }
            }
            (_, [_, ..], _) => {
                for at in down {
                    self.world.does(|world| world.deliver_down(at));
                }
            }
            (_, _, [_, ..]) => {
                for at in send {
                    self.world.beat(at);
                    self.sent |= 1 << at;
                }
            }
            _ => self.tick(None),
        }
    }

    /// The ranks and the machines to which something may happen next, without those that do not differ from others.
    fn targets(&self) -> (Vec<usize>, Vec<usize>) {
        let world = &self.world;
        let [ranks, machines] = self.touched;
        let count = world.machines.len();
        let fresh = (0..count).find(|machine| !has(machines, *machine));
        let chosen = |machine: &usize| has(machines, *machine) || Some(*machine) == fresh;
        let chosen: Vec<usize> = (0..count).filter(chosen).collect();
        let of = |machine: usize| {
            let its = move |at: &usize| world.places[*at] == machine;
            let fresh = (0..world.ranks.len()).find(|at| its(at) && !has(ranks, *at));
            (0..world.ranks.len())
                .filter(move |at| its(at) && (has(ranks, *at) || Some(*at) == fresh))
        };
        let its: Vec<usize> = chosen.iter().flat_map(|machine| of(*machine)).collect();
        (its, chosen)
    }

    /// All that can happen next.
    fn steps(&self) -> Vec<Scheduled> {
        let mut next = Vec::new();
        if self.world.started || self.world.now >= self.world.end {
            return next;
        }
        let mut scheduled = self.clone();
        scheduled.go_on();
        next.push(scheduled);
        for machine in (0..self.world.network.len()).filter(|at| !self.world.network[*at]) {
            let mut healed = self.clone();
            healed.world.network[machine] = true;
            next.push(healed);
        }
        if self.budget == 0 {
            return next;
        }
        let mut happens =
            |rank: Option<usize>, machine: Option<usize>, event: &dyn Fn(&mut Scheduled)| {
                let mut other = self.clone();
                other.budget -= 1;
                other.touched[0] |= rank.map_or(0, |at| 1 << at);
                other.touched[1] |= machine.map_or(0, |at| 1 << at);
                event(&mut other);
                next.push(other);
            };
        happens(None, None, &|other| other.tick(None));
        let (ranks, machines) = self.targets();
        for at in ranks {
            let rank = &self.world.ranks[at];
            let mut to_it = |event: &dyn Fn(&mut Scheduled)| {
                happens(Some(at), Some(self.world.places[at]), event);
            };
            if self.in_time(at) {
                to_it(&|other| other.late |= 1 << at);
            }
            if rank.known && rank.life != Life::Dead {
                to_it(&|other| other.world.die(at));
            }
            if rank.life == Life::Runs {
                to_it(&|other| other.world.ranks[at].stopped = true);
                to_it(&|other| other.world.reset(at));
            }
            if self.world.executions > 0 && self.world.can_send(at) {
                to_it(&|other| other.world.execute(at));
            }
        }
        for machine in machines.into_iter().filter(|at| self.world.machines[*at]) {
            let mut to_it = |event: &dyn Fn(&mut Scheduled)| happens(None, Some(machine), event);
            to_it(&|other| other.tick(Some(machine)));
            to_it(&|other| other.world.end_machine(machine));
            if self.world.network[machine] {
                to_it(&|other| other.world.network[machine] = false);
                to_it(&|other| {
                    let its = (0..LARGE.len()).filter(|at| LARGE[*at] == machine);
                    other.late |= its.map(|at| 1 << at).sum::<Set>();
                });
            }
        }
        next
    }
}

/// The same for nine ranks on three machines, with this number of events beside the schedule.
fn explore_large(budget: u32) {
    let mut seen = HashSet::new();
    let mut open = vec![Scheduled::new(budget)];
    let (mut recovered, mut ended) = (0, 0);
    let hasher = RandomState::new();
    let two = RandomState::new();
    while let Some(state) = open.pop() {
        // Two digests of a state take less memory than the state.
        if !seen.insert((hasher.hash_one(&state), two.hash_one(&state))) {
            continue;
        }
        recovered += u32::from(state.world.started);
        let steps = state.steps();
        if steps.is_empty() {
            ended += 1;
            state.world.check_end();
        }
        open.extend(steps);
    }
    println!(
        "{budget} events: {} states, {ended} ends, {recovered} recoveries",
        seen.len()
    );
    assert!(recovered > 100);
}

#[test]
fn nine_ranks_on_three_machines_with_two_events_beside_the_schedule() {
    explore_large(2);
}

#[test]
#[ignore = "long: cargo xtask test --full"]
fn nine_ranks_on_three_machines_with_three_events_beside_the_schedule() {
    explore_large(3);
}
