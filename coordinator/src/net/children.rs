//! The children of the coordinator or of a relay. A child is a rank or a relay; it has one connection, and
//! ranks are reachable via it.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::net::aggregate::frames;
use crate::net::frame::{self, MAX_FRAME};
use crate::net::routes::{LinkId, Routes};
use crate::net::stream::Stream;
use crate::protocol::messages::{To, ToChild, ToRank};
use crate::protocol::rank_set::RankSet;

/// Number of connected ranks, without the rank of this process.
#[derive(Default)]
pub struct Connected {
    others: Mutex<usize>,
    changed: Condvar,
}

impl Connected {
    fn set(&self, others: usize) {
        *self.others.lock().unwrap_or_else(PoisonError::into_inner) = others;
        self.changed.notify_all();
    }

    /// Waits until no such rank is connected, for at most `limit`.
    pub fn wait_for_none(&self, limit: Duration) {
        let others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = self.changed.wait_timeout_while(others, limit, |n| *n > 0);
    }
}

/// Kind of a child.
pub enum ChildKind {
    /// The agent of a rank.
    Rank,
    /// A relay.
    Relay,
}

struct Link {
    stream: Arc<Stream>,
    kind: ChildKind,
}

impl Link {
    fn send(&mut self, orders: &[ToChild]) -> Result<(), frame::Error> {
        match self.kind {
            ChildKind::Rank => {
                for order in orders {
                    frame::send(&mut &*self.stream, &order.message)?;
                }
            }
            ChildKind::Relay => {
                for frame in frames(orders, MAX_FRAME)? {
                    (&*self.stream).write_all(&frame)?;
                }
            }
        }
        Ok(())
    }
}

/// All children of the coordinator or of a relay.
pub struct Children {
    own: u32,
    links: BTreeMap<LinkId, Link>,
    routes: Routes,
    connected: Arc<Connected>,
}

impl Children {
    /// No children yet; `own` is the rank of this process.
    pub fn new(own: u32) -> Children {
        Children {
            own,
            links: BTreeMap::new(),
            routes: Routes::default(),
            connected: Arc::default(),
        }
    }

    /// The counter of connected ranks, for other threads.
    pub fn connected(&self) -> Arc<Connected> {
        self.connected.clone()
    }

    /// Adds a new connection.
    pub fn open(&mut self, link: LinkId, kind: ChildKind, stream: Arc<Stream>) {
        self.links.insert(link, Link { stream, kind });
    }

    /// All connections.
    pub fn links(&self) -> impl Iterator<Item = LinkId> + '_ {
        self.links.keys().copied()
    }

    /// Adds a rank that connected over `link`. Returns false if the rank is connected already.
    pub fn join(&mut self, link: LinkId, rank: u32) -> bool {
        let joined = self.routes.join(rank, link);
        self.count();
        joined
    }

    /// The ranks of `ranks` that are reachable via `link`.
    pub fn reachable_via(&self, link: LinkId, ranks: &RankSet) -> RankSet {
        self.routes.reachable_via(link, ranks)
    }

    /// Removes the ranks of `ranks` that are reachable via `link`, and returns them.
    pub fn leave(&mut self, link: LinkId, ranks: &RankSet) -> RankSet {
        let left = self.routes.leave(link, ranks);
        self.count();
        left
    }

    /// Closes a connection, if it is open, and returns the ranks that were reachable via it.
    pub fn close(&mut self, link: LinkId) -> RankSet {
        let Some(Link { stream, .. }) = self.links.remove(&link) else {
            return RankSet::default();
        };
        stream.end();
        let lost = self.routes.cut(link);
        self.count();
        lost
    }

    /// Sends a rejection to a rank that has connected over `link`.
    pub fn refuse(&mut self, link: LinkId, rank: u32, reason: String) {
        let order = ToChild {
            to: To::Ranks(RankSet::one(rank)),
            message: ToRank::Rejected { reason },
        };
        // If the send fails, the thread that reads the connection notices its end too.
        let told = self.links.get_mut(&link);
        let _ = told.map(|link| link.send(&[order]));
        self.drop_rank(link, rank);
    }

    /// Closes the connection to a rejected rank.
    fn drop_rank(&mut self, link: LinkId, rank: u32) {
        match self.links.get(&link).map(|link| &link.kind) {
            Some(ChildKind::Rank) => drop(self.close(link)),
            Some(ChildKind::Relay) | None => drop(self.leave(link, &RankSet::one(rank))),
        }
    }

    /// Sends orders, to this process last, because an order may end it. Returns the connections whose sends
    /// failed.
    pub fn deliver(&mut self, orders: &[ToChild]) -> Vec<LinkId> {
        let mut due: BTreeMap<LinkId, Vec<ToChild>> = BTreeMap::new();
        for order in orders {
            match &order.to {
                To::All => {
                    for link in self.links.keys() {
                        due.entry(*link).or_default().push(order.clone());
                    }
                }
                To::Ranks(ranks) => {
                    for (link, ranks) in self.routes.split(ranks) {
                        due.entry(link).or_default().push(ToChild {
                            to: To::Ranks(ranks),
                            message: order.message.clone(),
                        });
                    }
                }
            }
        }
        let own = self.routes.link(self.own);
        let own = own.and_then(|link| due.remove_entry(&link));
        let mut broken = vec![];
        for (name, orders) in due.into_iter().chain(own) {
            let Some(link) = self.links.get_mut(&name) else {
                continue;
            };
            if link.send(&orders).is_err() {
                broken.push(name);
                continue;
            }
            for order in orders {
                if let (To::Ranks(ranks), ToRank::Rejected { .. }) = (order.to, order.message) {
                    ranks.iter().for_each(|rank| self.drop_rank(name, rank));
                }
            }
        }
        broken
    }

    fn count(&self) {
        self.connected.set(self.routes.others(self.own));
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        // Each reader thread closes its own connection.
        for link in self.links.values() {
            link.stream.end();
        }
    }
}
