//! What is connected below the coordinator or a relay: ranks and relays, each over one connection, and
//! the ranks behind them.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::bundle::frames;
use crate::frame::{self, MAX_FRAME};
use crate::protocol::{Down, To, ToRank};
use crate::ranks::Ranks;
use crate::routes::{LinkId, Routes};
use crate::stream::Stream;

/// How many ranks other than that of this process are connected.
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

    /// Waits until there is none, for at most so long.
    pub fn wait_for_none(&self, limit: Duration) {
        let others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = self.changed.wait_timeout_while(others, limit, |n| *n > 0);
    }
}

/// What is at the other end of a connection.
pub enum Kind {
    /// The agent of a rank.
    Rank,
    /// A relay.
    Relay,
}

struct Link {
    stream: Arc<Stream>,
    kind: Kind,
}

impl Link {
    fn send(&mut self, orders: &[Down]) -> Result<(), frame::Error> {
        match self.kind {
            Kind::Rank => {
                for order in orders {
                    frame::send(&mut &*self.stream, &order.message)?;
                }
            }
            Kind::Relay => {
                for frame in frames(orders, MAX_FRAME)? {
                    (&*self.stream).write_all(&frame)?;
                }
            }
        }
        Ok(())
    }
}

/// All connections below.
pub struct Below {
    own: u32,
    links: BTreeMap<LinkId, Link>,
    routes: Routes,
    connected: Arc<Connected>,
}

impl Below {
    /// None yet, below rank `own`.
    pub fn new(own: u32) -> Below {
        Below {
            own,
            links: BTreeMap::new(),
            routes: Routes::default(),
            connected: Arc::default(),
        }
    }

    /// How many ranks there are, for other threads.
    pub fn connected(&self) -> Arc<Connected> {
        self.connected.clone()
    }

    /// A connection was taken.
    pub fn open(&mut self, link: LinkId, kind: Kind, stream: Arc<Stream>) {
        self.links.insert(link, Link { stream, kind });
    }

    /// All connections.
    pub fn links(&self) -> impl Iterator<Item = LinkId> + '_ {
        self.links.keys().copied()
    }

    /// A rank has come in over `link`. False if it is there already.
    pub fn join(&mut self, link: LinkId, rank: u32) -> bool {
        let joined = self.routes.join(rank, link);
        self.count();
        joined
    }

    /// Those of `ranks` that are behind `link`.
    pub fn behind(&self, link: LinkId, ranks: &Ranks) -> Ranks {
        self.routes.behind(link, ranks)
    }

    /// Forgets those of `ranks` that are behind `link`, and returns them.
    pub fn leave(&mut self, link: LinkId, ranks: &Ranks) -> Ranks {
        let left = self.routes.leave(link, ranks);
        self.count();
        left
    }

    /// Ends a connection, if there is still one, and returns the ranks that were behind it.
    pub fn close(&mut self, link: LinkId) -> Ranks {
        let Some(Link { stream, .. }) = self.links.remove(&link) else {
            return Ranks::default();
        };
        stream.end();
        let lost = self.routes.cut(link);
        self.count();
        lost
    }

    /// Tells a rank which has come over `link` that it is not let in.
    pub fn refuse(&mut self, link: LinkId, rank: u32, reason: String) {
        let order = Down {
            to: To::Ranks(Ranks::one(rank)),
            message: ToRank::Rejected { reason },
        };
        // If it cannot be told, who reads there finds out, too.
        let told = self.links.get_mut(&link);
        let _ = told.map(|link| link.send(&[order]));
        self.drop_rank(link, rank);
    }

    /// A rank was told that it is not let in.
    fn drop_rank(&mut self, link: LinkId, rank: u32) {
        match self.links.get(&link).map(|link| &link.kind) {
            Some(Kind::Rank) => drop(self.close(link)),
            Some(Kind::Relay) | None => drop(self.leave(link, &Ranks::one(rank))),
        }
    }

    /// Sends orders on their way, to this process last: it may end upon one. Returns the connections
    /// over which that could not be done.
    pub fn deliver(&mut self, orders: &[Down]) -> Vec<LinkId> {
        let mut due: BTreeMap<LinkId, Vec<Down>> = BTreeMap::new();
        for order in orders {
            match &order.to {
                To::All => {
                    for link in self.links.keys() {
                        due.entry(*link).or_default().push(order.clone());
                    }
                }
                To::Ranks(ranks) => {
                    for (link, ranks) in self.routes.split(ranks) {
                        due.entry(link).or_default().push(Down {
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

impl Drop for Below {
    fn drop(&mut self) {
        // Those who read there have their own ends.
        for link in self.links.values() {
            link.stream.end();
        }
    }
}
