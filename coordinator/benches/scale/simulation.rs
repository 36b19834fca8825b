//! A checkpoint of a whole job in simulated time. The coordinator's machine, the shape of the tree, the
//! aggregates and their frames are those of production. Sockets, ranks and their programs are simulated.
//!
//! Every process of the control plane does one thing at a time. Each send and each receive of a message
//! costs it a fixed time and a time per byte, whatever the content. The message arrives a latency after it
//! was sent. Besides MPI_COMM_WORLD, every rank has used some communicators of its own node. It reaches its
//! targets at a random moment within the skew. No rank waits for messages. Releases are not simulated:
//! there may be several rounds of them, and each costs as much as the targets.

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use history::event::Cause;
use stasis_coordinator::net::aggregate::{frames, per_rank, Aggregate, Orders};
use stasis_coordinator::net::frame::{self, MAX_FRAME};
use stasis_coordinator::net::relay::patience;
use stasis_coordinator::net::tree::Position;
use stasis_coordinator::protocol::coordinator::{Action, Config, Coordinator, Event, PartialSet};
use stasis_coordinator::protocol::rank_set::RankSet;
use stasis_coordinator::protocol::{
    Activity, FromRank, State, Summary, To, ToChild, ToParent, ToRank,
};

/// A time in nanoseconds.
type Nanos = u64;

const RANKS_OF_A_NODE: u32 = 100;
/// Interval of the coordinator's ticks.
const TICK: Nanos = 50_000_000;
/// One rank in this number is late, if ranks are late.
const ONE_LATE_IN: u32 = 1_000;
/// Longest time to the next turn of a rank inside a collective operation, in microseconds.
const TURN: u64 = 1_000;
/// Time that a rank keeps a state of unreached targets unreported.
const DEBOUNCE: Nanos = 2_000_000;

/// Costs of messages.
pub struct Costs {
    latency: Nanos,
    message: Nanos,
    /// Cost of a byte in picoseconds.
    byte: u64,
}

impl Costs {
    /// Costs of a TCP connection in a cluster, and of threads that wake up for a message.
    pub const USUAL: Costs = Costs {
        latency: 20_000,
        message: 10_000,
        byte: 1_000,
    };

    fn of(&self, bytes: usize) -> Nanos {
        self.message + bytes as u64 * self.byte / 1000
    }
}

impl fmt::Display for Costs {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "latency {} us, {} us a message at either end, {} ns a byte",
            self.latency / 1000,
            self.message / 1000,
            self.byte as f64 / 1000.0
        )
    }
}

/// A simulated job.
#[derive(Clone, Copy)]
pub struct Job {
    /// Number of ranks.
    pub ranks: u32,
    /// Number of communicators of each rank.
    pub clocks: u64,
    /// Microseconds from the first rank at its targets to the last.
    pub skew: u64,
    /// Width of the tree; none: all ranks are connected to the coordinator.
    pub fan_out: Option<u32>,
    /// Ranks that are late for a collective operation of all ranks.
    pub late: Option<Late>,
}

/// Late ranks. All others are inside a blocking collective operation of MPI_COMM_WORLD from before the request on.
#[derive(Clone, Copy)]
pub struct Late {
    /// Microseconds from the request to the moment at which the last of them begins the operation.
    pub imbalance: u64,
    /// Whether the operation is retractable; if not, the cut comes after it.
    pub retracts: bool,
}

impl Late {
    fn is(rank: u32) -> bool {
        rank % ONE_LATE_IN == ONE_LATE_IN / 2
    }

    /// The number of operations that a rank has begun on MPI_COMM_WORLD.
    fn begun(self, rank: u32) -> u64 {
        match self.retracts || Late::is(rank) {
            true => 50,
            false => 51,
        }
    }

    /// The reports of a rank on its way to the targets: their times in microseconds from the request, whether it has
    /// reached the targets, and its activity.
    fn reports(self, rank: u32) -> Vec<(u64, bool, Activity)> {
        let parked = Activity::Parked {
            id: 1,
            seq: 51,
            sent: vec![],
            last: false,
        };
        match (self.retracts, Late::is(rank)) {
            (true, true) => vec![(0, true, Activity::Running)],
            (true, false) => vec![(spread(rank, TURN), true, parked)],
            (false, late) => {
                let before = match late {
                    true => Activity::Running,
                    false => Activity::Collective { id: 1 },
                };
                let end = self.imbalance + spread(rank, TURN);
                vec![(0, false, before), (end, true, Activity::Running)]
            }
        }
    }
}

/// The columns that [`simulate`] prints.
pub const HEAD: &str = "     ranks  clocks     skew  tree  deep  safe state   resumed  messages  most in one  \
     ... in one  largest\n                                                            of a rank  process      \
     step        frame";

/// The columns that [`simulate_late`] prints.
pub const HEAD_OF_LATE: &str =
    "     ranks   imbalance   before: safe state, messages of a rank   after: safe state, messages of a rank";

/// Prints the time to the safe state of a job with late ranks, if the cut comes after the operation, and before it.
pub fn simulate_late(job: &Job, imbalance: u64, costs: &Costs) {
    let columns = [false, true].map(|retracts| {
        let late = Some(Late {
            imbalance,
            retracts,
        });
        let job = Job { late, ..*job };
        let mut simulation = Simulation::new(&job, costs);
        simulation.run();
        let seen = simulation.seen;
        let messages = seen.messages as f64 / f64::from(job.ranks);
        format!("{:>14.1} ms {messages:>18.2}", seen.safe as f64 / 1e6)
    });
    let seconds = imbalance / 1_000_000;
    println!("{:>10} {seconds:>9} s {}", job.ranks, columns.join(" "));
}

/// Prints the cost of a checkpoint of this job.
pub fn simulate(job: &Job, costs: &Costs) {
    let mut simulation = Simulation::new(job, costs);
    simulation.run();
    let Simulation { seen, .. } = &simulation;
    let most = simulation.processes();
    let most = |count: fn(&Process) -> u64| most.clone().map(count).max().unwrap_or(0);
    let tree = job.fan_out.map_or("star".into(), |n| n.to_string());
    println!(
        "{:>10} {:>7} {:>6} ms {tree:>5} {:>5} {:>8.1} ms {:>6.1} ms {:>9.2} {:>12} {:>11} {:>8}",
        job.ranks,
        job.clocks,
        job.skew / 1000,
        simulation.deepest(),
        seen.safe as f64 / 1e6,
        seen.resumed as f64 / 1e6,
        seen.messages as f64 / f64::from(job.ranks),
        most(|process| process.handled),
        most(|process| process.most),
        seen.largest,
    );
}

/// A participant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Node {
    Coordinator,
    Relay(u32),
    Rank(u32),
}

/// The node that a rank with this parent is connected to.
fn node(parent: Option<u32>) -> Node {
    match parent {
        None | Some(0) => Node::Coordinator,
        Some(parent) => Node::Relay(parent),
    }
}

/// A process of the control plane.
#[derive(Clone, Default)]
struct Process {
    /// Time at which its work so far is done.
    free: Nanos,
    /// Messages sent and received since its last input.
    step: u64,
    /// Largest number of messages in a step.
    most: u64,
    handled: u64,
}

/// A relay, or the coordinator's own node.
#[derive(Default)]
struct Hub {
    process: Process,
    children: Vec<Node>,
    aggregate: Aggregate,
    /// Number of the last aggregate.
    turn: u64,
    /// Time of its last input.
    told: Nanos,
}

enum Arrival {
    ToParent {
        to: Node,
        link: u64,
        words: Vec<ToParent>,
        bytes: usize,
    },
    ToChild {
        to: Node,
        orders: Rc<Vec<ToChild>>,
        bytes: usize,
    },
    /// An aggregate has reached its time limit.
    Flush {
        relay: u32,
        turn: u64,
    },
    /// A rank has a message to send.
    Say {
        rank: u32,
        message: FromRank,
    },
    Tick,
}

#[derive(Default)]
struct Seen {
    safe: Nanos,
    resumed: Nanos,
    messages: u64,
    largest: usize,
}

struct Simulation<'a> {
    job: &'a Job,
    costs: &'a Costs,
    machine: Coordinator,
    hubs: BTreeMap<Node, Hub>,
    ranks: Vec<Process>,
    /// Node to which each rank is connected.
    parents: Vec<Node>,
    queue: BTreeMap<(Nanos, u64), Arrival>,
    queued: u64,
    seen: Seen,
}

impl<'a> Simulation<'a> {
    fn new(job: &'a Job, costs: &'a Costs) -> Self {
        let size = job.ranks;
        let mut simulation = Simulation {
            job,
            costs,
            // Questions whether late ranks live go to 64 of them at most, and are not simulated.
            machine: Coordinator::new(Config {
                patience: 0,
                ..Config::new(size)
            }),
            hubs: BTreeMap::new(),
            ranks: vec![Process::default(); size as usize],
            parents: vec![],
            queue: BTreeMap::new(),
            queued: 0,
            seen: Seen::default(),
        };
        for rank in 0..size {
            let place = simulation.place(rank);
            let above = node(place.parent);
            let own = match place.relays() {
                true => Node::Relay(rank),
                false => above,
            };
            simulation.parents.push(own);
            simulation.hub(own).children.push(Node::Rank(rank));
            if place.relays() {
                simulation.hub(above).children.push(own);
            }
            let host = format!("node{}", rank / RANKS_OF_A_NODE);
            let pid = rank;
            simulation.event(0, Event::Connected { rank, host, pid });
        }
        simulation
    }

    fn hub(&mut self, node: Node) -> &mut Hub {
        self.hubs.entry(node).or_default()
    }

    fn processes(&self) -> impl Iterator<Item = &Process> + Clone {
        self.hubs.values().map(|hub| &hub.process)
    }

    /// Number of connections between the coordinator and the farthest rank.
    fn deepest(&self) -> u32 {
        let depth = |rank: u32| {
            let mut node = self.parents[rank as usize];
            let mut depth = 1;
            while node != Node::Coordinator {
                node = self.above(node);
                depth += 1;
            }
            depth
        };
        (0..self.job.ranks).map(depth).max().unwrap_or(0)
    }

    fn above(&self, from: Node) -> Node {
        match from {
            Node::Rank(rank) => self.parents[rank as usize],
            Node::Relay(rank) => node(self.place(rank).parent),
            Node::Coordinator => Node::Coordinator,
        }
    }

    fn place(&self, rank: u32) -> Position {
        match self.job.fan_out {
            Some(fan_out) => Position::of(rank, self.job.ranks, fan_out),
            None => Position {
                parent: Some(0),
                children: vec![],
            },
        }
    }

    fn run(&mut self) {
        let client = None;
        self.event(
            0,
            Event::Request {
                client,
                cause: Cause::Command,
                stop: false,
                patience: None,
            },
        );
        self.later(TICK, Arrival::Tick);
        while let Some(((now, _), arrival)) = self.queue.pop_first() {
            self.arrive(now, arrival);
        }
        assert!(
            !self.machine.busy() && self.seen.resumed > 0,
            "it was committed"
        );
    }

    fn later(&mut self, time: Nanos, arrival: Arrival) {
        self.queued += 1;
        self.queue.insert((time, self.queued), arrival);
    }

    /// A process sends or receives a message, after its earlier work. Returns the time at which that is
    /// done.
    fn handle(&mut self, node: Node, now: Nanos, bytes: usize) -> Nanos {
        let cost = self.costs.of(bytes);
        let process = match node {
            Node::Rank(rank) => &mut self.ranks[rank as usize],
            hub => &mut self.hub(hub).process,
        };
        process.free = now.max(process.free) + cost;
        process.handled += 1;
        process.step += 1;
        process.most = process.most.max(process.step);
        process.free
    }

    fn arrive(&mut self, now: Nanos, arrival: Arrival) {
        match arrival {
            Arrival::ToParent {
                to: Node::Coordinator,
                words,
                bytes,
                ..
            } => {
                let done = self.handle(Node::Coordinator, now, bytes);
                for word in words {
                    if let ToParent::FromRanks { ranks, message } = word {
                        for (rank, message) in per_rank(&ranks, message) {
                            self.event(done, Event::Message(rank, message));
                        }
                    }
                }
            }
            Arrival::ToParent {
                to,
                link,
                words,
                bytes,
            } => {
                let done = self.handle(to, now, bytes);
                self.aggregate(to, link, words, done);
            }
            Arrival::ToChild { to, orders, bytes } => {
                let done = self.handle(to, now, bytes);
                match to {
                    Node::Rank(rank) => {
                        for order in orders.iter() {
                            self.obey(rank, &order.message, done);
                        }
                    }
                    hub => self.deliver(hub, &orders, done),
                }
            }
            Arrival::Flush { relay, turn } => {
                let relay = Node::Relay(relay);
                if self.hub(relay).turn == turn {
                    self.flush(relay, now);
                }
            }
            Arrival::Say { rank, message } => self.say(rank, message, now),
            Arrival::Tick => {
                self.event(now, Event::Tick);
                if self.machine.busy() {
                    self.later(now + TICK, Arrival::Tick);
                }
            }
        }
    }

    fn event(&mut self, now: Nanos, event: Event) {
        let mut orders = Orders::default();
        let mut next = None;
        for action in self.machine.on(now / 1000, event) {
            match action {
                Action::Send(message) => orders.all(message),
                Action::Tell(rank, message) => orders.one(rank, message),
                Action::Prepare(epoch) => {
                    let partial = PartialSet {
                        set: "ckpt-1".into(),
                        id: vec![0; 16],
                        directory: Some("/scratch/ckpt-1.partial".into()),
                        parent: None,
                    };
                    next = Some(Event::Prepared(epoch, Ok(partial)));
                }
                Action::Commit(epoch, ..) => next = Some(Event::Committed(epoch, Ok(()))),
                Action::Over(result) => assert!(result.is_ok(), "{result:?}"),
                Action::Reply(..) | Action::Discard(_) | Action::Again { .. } => {}
                Action::PrepareInMemory(_) | Action::NotHeld(_) => {
                    unreachable!("nothing asks for a checkpoint in memory")
                }
            }
        }
        let orders = orders.take();
        if let Some(ToChild { to, message }) = orders.first() {
            if let To::Ranks(ranks) = to {
                // The ranks share no memory, so all get the same order.
                assert_eq!(ranks.iter().count(), self.job.ranks as usize);
            }
            if matches!(message, ToRank::Save { .. }) {
                self.seen.safe = now;
            }
            self.deliver(Node::Coordinator, &Rc::new(orders), now);
        }
        // File operations take no time.
        if let Some(event) = next {
            self.event(now, event);
        }
    }

    /// Delivers orders to all nodes below a hub.
    fn deliver(&mut self, hub: Node, orders: &Rc<Vec<ToChild>>, now: Nanos) {
        let to_relay = frames(orders, MAX_FRAME).expect("orders fit");
        let to_rank: Vec<_> = orders.iter().map(|o| frame::encode(&o.message)).collect();
        self.hub(hub).process.step = 0;
        self.hub(hub).told = now;
        let children = std::mem::take(&mut self.hub(hub).children);
        for child in &children {
            let lengths: Vec<usize> = match child {
                Node::Rank(_) => to_rank.iter().flatten().map(Vec::len).collect(),
                _ => to_relay.iter().map(Vec::len).collect(),
            };
            for (i, bytes) in lengths.iter().enumerate() {
                let sent = self.send(hub, *bytes, now);
                // The last frame completes the message.
                let whole = i + 1 == lengths.len();
                let orders = if whole { orders.clone() } else { Rc::default() };
                let to = *child;
                let bytes = *bytes;
                self.later(sent, Arrival::ToChild { to, orders, bytes });
            }
        }
        self.hub(hub).children = children;
    }

    /// Sends a message and returns the time of its arrival.
    fn send(&mut self, from: Node, bytes: usize, now: Nanos) -> Nanos {
        self.seen.messages += 1;
        self.seen.largest = self.seen.largest.max(bytes);
        self.handle(from, now, bytes) + self.costs.latency
    }

    fn say(&mut self, rank: u32, message: FromRank, now: Nanos) {
        let bytes = frame::encode(&message).expect("a message fits").len();
        let ranks = RankSet::one(rank);
        let words = vec![ToParent::FromRanks { ranks, message }];
        let to = self.parents[rank as usize];
        let link = u64::from(rank) * 2;
        let sent = self.send(Node::Rank(rank), bytes, now);
        let arrival = Arrival::ToParent {
            to,
            link,
            words,
            bytes,
        };
        self.later(sent, arrival);
    }

    fn aggregate(&mut self, relay: Node, link: u64, words: Vec<ToParent>, now: Nanos) {
        let Node::Relay(rank) = relay else { return };
        let hub = self.hub(relay);
        let begun = hub.aggregate.is_empty();
        for word in words {
            hub.aggregate.add(link, word);
        }
        let links = hub.children.iter().map(|child| match child {
            Node::Rank(rank) => u64::from(*rank) * 2,
            Node::Relay(rank) => u64::from(*rank) * 2 + 1,
            Node::Coordinator => 0,
        });
        let turn = hub.turn;
        if hub.aggregate.is_full(links) {
            self.flush(relay, now);
        } else if begun {
            let told = Duration::from_nanos(now.saturating_sub(hub.told));
            let patience = patience(told).as_nanos() as Nanos;
            self.later(now + patience, Arrival::Flush { relay: rank, turn });
        }
    }

    fn flush(&mut self, relay: Node, now: Nanos) {
        let Node::Relay(rank) = relay else { return };
        let to = self.above(relay);
        let hub = self.hub(relay);
        hub.turn += 1;
        let words = hub.aggregate.take();
        let frames = frames(&words, MAX_FRAME).expect("words fit");
        let mut words = Some(words);
        for (i, frame) in frames.iter().enumerate() {
            let bytes = frame.len();
            let sent = self.send(relay, bytes, now);
            let whole = i + 1 == frames.len();
            let arrival = Arrival::ToParent {
                to,
                link: u64::from(rank) * 2 + 1,
                words: words.take_if(|_| whole).unwrap_or_default(),
                bytes,
            };
            self.later(sent, arrival);
        }
    }

    /// The reaction of a rank to an order.
    fn obey(&mut self, rank: u32, message: &ToRank, now: Nanos) {
        let epoch = 1;
        let node = u64::from(rank / RANKS_OF_A_NODE) + 1;
        match message {
            ToRank::Intent { .. } => {
                let own = (1..self.job.clocks).map(|i| ((node << 20) + i, 20 + i));
                let begun = self.job.late.map_or(50, |late| late.begun(rank));
                let clocks = std::iter::once((1, begun)).chain(own).collect();
                self.say(rank, FromRank::Clocks { epoch, clocks }, now);
            }
            ToRank::Targets { version, .. } if self.job.late.is_some() => {
                let reports = self.job.late.map(|late| late.reports(rank));
                for (moment, reached, activity) in reports.into_iter().flatten() {
                    let message = FromRank::State(State {
                        epoch,
                        version: *version,
                        reached,
                        held: false,
                        activity,
                    });
                    self.later((1000 * moment).max(now), Arrival::Say { rank, message });
                }
            }
            ToRank::Targets { version, .. } => {
                let state = |reached| {
                    FromRank::State(State {
                        epoch,
                        version: *version,
                        reached,
                        held: false,
                        activity: Activity::Running,
                    })
                };
                let moment = 1000 * spread(rank, self.job.skew);
                if moment > now + DEBOUNCE {
                    let message = state(false);
                    self.later(now + DEBOUNCE, Arrival::Say { rank, message });
                }
                let message = state(true);
                self.later(moment.max(now), Arrival::Say { rank, message });
            }
            ToRank::Stop { .. } => {
                let shared = vec![];
                self.say(rank, FromRank::Drained { epoch, shared }, now);
            }
            ToRank::Save { .. } => {
                let summary = Summary {
                    digest: format!("{rank:064x}"),
                    host: format!("node{node}"),
                    ..Summary::default()
                };
                self.say(rank, FromRank::Saved { epoch, summary }, now);
            }
            ToRank::Resume { .. } => self.seen.resumed = now.max(self.seen.resumed),
            ToRank::Rejected { .. } | ToRank::Tell { .. } | ToRank::GoOn { .. } => {}
        }
    }
}

/// A number from 0 to `largest`, spread without regard to the order of ranks.
fn spread(rank: u32, largest: u64) -> u64 {
    u64::from(rank).wrapping_mul(0x9e37_79b9_7f4a_7c15) % (largest + 1)
}
