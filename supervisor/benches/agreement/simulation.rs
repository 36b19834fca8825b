//! Messages between `stasis run`, or a controller, and the nodes, in simulated time. A process does one thing at a
//! time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use coordinator::net::tree::{Position, FAN_OUT};
use stasis_supervisor::leases::{Id, Leases};

use crate::votes::{Vote, Votes};

/// Costs of a message.
pub struct Costs {
    /// From the sender to the receiver.
    pub latency: Duration,
    /// For the sender.
    pub send: Duration,
    /// For the receiver.
    pub receive: Duration,
}

/// Shape of the connections.
#[derive(Clone, Copy)]
pub enum Shape {
    /// All nodes with the controller.
    Star,
    /// The tree of the control plane, whose root is the controller.
    Tree,
}

/// A message on its way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Message {
    Failed,
    Answer(Vote),
    Commit(u64),
    Hello(u32),
    Welcome,
    Survive,
    Survives,
}

/// Nodes and the messages between them. Node 0 has the controller.
pub struct Network<'a> {
    costs: &'a Costs,
    nodes: u32,
    children: Vec<Vec<u32>>,
    parents: Vec<u32>,
    /// Time from which each node does nothing.
    free: Vec<Duration>,
    queue: BinaryHeap<Reverse<(Duration, u32, Message)>>,
}

impl Network<'_> {
    /// A network without messages.
    pub fn new(nodes: u32, shape: Shape, costs: &Costs) -> Network<'_> {
        let mut network = Network {
            costs,
            nodes,
            children: vec![Vec::new(); nodes as usize],
            parents: vec![0; nodes as usize],
            free: vec![Duration::ZERO; nodes as usize],
            queue: BinaryHeap::new(),
        };
        for node in 0..nodes {
            let (parent, children) = match (shape, node) {
                (Shape::Tree, _) => {
                    let place = Position::of(node, nodes, FAN_OUT);
                    (place.parent.unwrap_or(0), place.children)
                }
                (Shape::Star, 0) => (0, (1..nodes).collect()),
                (Shape::Star, _) => (0, Vec::new()),
            };
            network.parents[node as usize] = parent;
            network.children[node as usize] = children;
        }
        network
    }

    /// A node works for a time, not before `now`. Returns the end.
    fn work(&mut self, node: u32, now: Duration, time: Duration) -> Duration {
        let free = &mut self.free[node as usize];
        *free = now.max(*free) + time;
        *free
    }

    fn send(&mut self, from: u32, to: u32, message: Message, now: Duration) {
        let sent = self.work(from, now, self.costs.send);
        self.queue
            .push(Reverse((sent + self.costs.latency, to, message)));
    }

    fn send_down(&mut self, from: u32, message: Message, now: Duration) {
        for child in self.children[from as usize].clone() {
            self.send(from, child, message, now);
        }
    }

    /// The next message, and the time at which it has been received.
    fn receive(&mut self) -> Option<(Duration, u32, Message)> {
        let Reverse((now, node, message)) = self.queue.pop()?;
        let done = self.work(node, now, self.costs.receive);
        Some((done, node, message))
    }

    /// The agreement: the times at which the controller knows the epoch, and at which all nodes do.
    pub fn vote<N: Fn(u32) -> u64>(mut self, votes: &mut Votes<N>) -> (Duration, Duration) {
        let (mut agreed, mut committed) = (Duration::ZERO, Duration::ZERO);
        let others =
            |network: &Network<'_>, node: u32| network.children[node as usize].len() as u32;
        let own = votes.hears(0, others(&self, 0));
        assert!(own.is_none(), "there are other nodes");
        self.send_down(0, Message::Failed, Duration::ZERO);
        while let Some((now, node, message)) = self.receive() {
            let complete = match message {
                Message::Failed => {
                    self.send_down(node, Message::Failed, now);
                    votes.hears(node, others(&self, node))
                }
                Message::Answer(vote) => votes.answered(node, vote),
                Message::Commit(epoch) => {
                    votes.commit(node, epoch);
                    committed = committed.max(now);
                    self.send_down(node, Message::Commit(epoch), now);
                    None
                }
                _ => unreachable!("none is sent"),
            };
            match complete {
                Some(vote) if node == 0 => {
                    agreed = now;
                    let epoch = votes.decision(vote);
                    votes.commit(0, epoch);
                    self.send_down(0, Message::Commit(epoch), now);
                }
                Some(vote) => {
                    let parent = self.parents[node as usize];
                    self.send(node, parent, Message::Answer(vote), now);
                }
                None => {}
            }
        }
        (agreed, committed)
    }

    /// `stasis run` asks the ranks that live to survive: the time at which all have answered. They write nothing here.
    pub fn ask(mut self, failed: u32) -> Duration {
        for node in (1..self.nodes).filter(|node| *node != failed) {
            self.send(0, node, Message::Survive, Duration::ZERO);
        }
        let mut last = Duration::ZERO;
        while let Some((now, node, message)) = self.receive() {
            match message {
                Message::Survive => self.send(node, 0, Message::Survives, now),
                _ => last = now,
            }
        }
        last
    }

    /// All ranks of the next incarnation, whose words name the epoch, connect to `stasis run` at a time: the time at
    /// which the last one may run.
    pub fn welcome(mut self) -> Duration {
        let mut leases = Leases::new(Duration::from_secs(3));
        for node in 1..self.nodes {
            self.send(node, 0, Message::Hello(node), Duration::ZERO);
        }
        let (mut last, mut welcome) = (Duration::ZERO, 0);
        while let Some((now, _, message)) = self.receive() {
            match message {
                Message::Hello(node) => {
                    assert!(leases.welcome(Id::from(node), now), "none is refused");
                    welcome += 1;
                    self.send(0, node, Message::Welcome, now);
                }
                _ => last = last.max(now),
            }
        }
        assert_eq!(welcome + 1, self.nodes);
        last
    }

    /// The controller tells all nodes the epoch: the time at which the last one knows it.
    pub fn tell(mut self) -> Duration {
        self.send_down(0, Message::Commit(0), Duration::ZERO);
        let mut last = Duration::ZERO;
        while let Some((now, ..)) = self.receive() {
            last = last.max(now);
        }
        last
    }
}
