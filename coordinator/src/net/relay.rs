//! A relay: an inner node of the tree between the coordinator and the ranks of a large job. It runs in the
//! lower half of one rank ([`crate::net::tree`] selects it). To its children it acts as the coordinator; to
//! its parent it speaks for all ranks below it. Downward it forwards each message, in one frame per
//! connection. Upward it aggregates ([`crate::net::aggregate`]).
//!
//! **End of a relay.** No message from below is lost:
//!
//! - When a connection to a child breaks, the relay reports the lost ranks. When the relay itself dies, its
//!   parent finds the connection broken and reports all ranks below as lost. The checkpoint is abandoned,
//!   and no other can be taken, since the relay's own rank has died with it.
//! - When the parent is gone, the relay closes the connections to its children. To the ranks this is the
//!   end of the coordinator: each abandons its checkpoint and runs on.
//! - A rank that hosts a relay may end before the ranks below, as any rank may. While images are being
//!   written, its agent delays the end ([`crate::agent::Agent::finished`]) until the outcome is known. The
//!   outcome goes to the ranks below first, to the relay's own agent last. If no image is being written,
//!   the rank's end means that no checkpoint can be taken any more. Later messages of the ranks below
//!   therefore cannot matter to a checkpoint. All received messages, its own end last, go up before the
//!   process ends ([`Relay::close`]). The relay waits a short time for the ranks below to end too
//!   ([`Relay::wait_alone`]): they then count as ended, not as lost.
//! - When the job ends with a checkpoint, the order goes through the relays. So each relay ends after the
//!   ranks below it, and the coordinator ends last.
//!
//! All threads inherit the signal mask of the thread that calls [`Relay::start`].

use std::io::{self, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::net::aggregate::{frames, Aggregate};
use crate::net::children::{ChildKind, Children, Connected};
use crate::net::contact::Address;
use crate::net::frame::{self, MAX_FRAME};
use crate::net::listener::{directory_of, reject, Listener, ListenerHandle, NetEvent, Reach};
use crate::net::routes::LinkId;
use crate::net::stream::{Stream, WRITE_LIMIT};
use crate::protocol::messages::{FromRank, Hello, ToChild, ToParent, PROTOCOL};
use crate::protocol::rank_set::RankSet;
use crate::protocol::wording;
use crate::threads::spawn;

/// Time that a message may wait for others to go up with it. `told` is the time since the last
/// message from the parent. Answers go up at once. Messages over a longer time make no more frames than the
/// logarithm of that time, and each is late by a small part of it.
pub fn patience(told: Duration) -> Duration {
    (told / 32).clamp(Duration::from_millis(2), Duration::from_millis(50))
}

/// Longest time at the end to send the remaining messages.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);

/// Failure to start a relay.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No address accepts a connection.
    #[error("the parent of this relay in the control plane cannot be reached: {0}")]
    Unreachable(frame::Error),
    /// A system call for sockets or threads failed.
    #[error("a relay of the control plane could not {0}: {1}")]
    System(&'static str, io::Error),
}

/// A running relay.
pub struct Relay {
    address: Address,
    events: Sender<RelayEvent>,
    connected: Arc<Connected>,
    _listener: ListenerHandle,
}

enum RelayEvent {
    Below(NetEvent),
    Above(Vec<ToChild>),
    Gone,
    /// The process is about to end.
    Close(Sender<()>),
}

impl From<NetEvent> for RelayEvent {
    fn from(event: NetEvent) -> RelayEvent {
        RelayEvent::Below(event)
    }
}

impl Relay {
    /// Connects to the listener at `above` and listens for ranks that have its token. `own` is the rank of
    /// this process, `others` the number of other ranks. The relay is reachable from as many machines as
    /// `above`.
    ///
    /// # Errors
    /// No listener, no connection, or no thread can be made.
    pub fn start(above: &Address, own: u32, others: usize) -> Result<Relay, Error> {
        let system = |what| move |e| Error::System(what, e);
        let directory = directory_of(above);
        let reach = match above.addresses.iter().all(|ip| ip.is_loopback()) {
            true => Reach::Machine(directory.as_deref()),
            false => Reach::Network,
        };
        let listener =
            Listener::open(&reach, above.token.clone()).map_err(system("listen for ranks"))?;
        let address = listener.address.clone();
        let reach = || -> Result<Arc<Stream>, frame::Error> {
            let stream = above.connect()?;
            stream.set_write_timeout(Some(WRITE_LIMIT))?;
            let hello = Hello::Relay {
                protocol: PROTOCOL,
                token: above.token.clone(),
            };
            frame::send(&mut &stream, &hello)?;
            Ok(Arc::new(stream))
        };
        let above = reach().map_err(Error::Unreachable)?;
        let to_read = above.clone();
        let (events, incoming) = mpsc::channel();
        let children = Children::new(own);
        let connected = children.connected();
        let main = RelayLoop {
            own,
            above,
            children,
            aggregate: Aggregate::default(),
            since: None,
            told: Instant::now(),
            finished: false,
            closing: None,
        };
        let thread = system("start a thread");
        spawn("ckpt-relay", move || main.run(&incoming)).map_err(thread)?;
        let back = events.clone();
        spawn("ckpt-above", move || read(to_read, &back)).map_err(thread)?;
        let listener = listener.serve(events.clone(), others + 1).map_err(thread)?;
        Ok(Relay {
            address,
            events,
            connected,
            _listener: listener,
        })
    }

    /// Address at which the children connect.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Waits until all ranks below are gone except that of this process, for at most `limit`.
    pub fn wait_alone(&self, limit: Duration) {
        self.connected.wait_for_none(limit);
    }

    /// Sends all messages from below to the parent, then closes the connections. The process is about to
    /// end, and its agent has reported so.
    pub fn close(&self) {
        let (answer, closed) = mpsc::channel();
        let _ = self.events.send(RelayEvent::Close(answer));
        // The thread may have ended; the time limit then ends the wait.
        let _ = closed.recv_timeout(CLOSE_LIMIT);
    }
}

fn read(stream: Arc<Stream>, events: &Sender<RelayEvent>) {
    while let Ok(orders) = frame::receive(&mut &*stream, MAX_FRAME) {
        if events.send(RelayEvent::Above(orders)).is_err() {
            return;
        }
    }
    let _ = events.send(RelayEvent::Gone);
}

/// The parent is gone, or has received all messages.
struct Closed;

struct RelayLoop {
    own: u32,
    above: Arc<Stream>,
    children: Children,
    aggregate: Aggregate,
    /// Time of the first message in the aggregate.
    since: Option<Instant>,
    /// Time of the last message from the parent.
    told: Instant,
    /// Whether this process's agent has reported its end.
    finished: bool,
    closing: Option<Sender<()>>,
}

impl RelayLoop {
    fn run(mut self, incoming: &Receiver<RelayEvent>) {
        while self.step(incoming).is_ok() {}
        // The children find their connections closed when this is dropped.
        self.above.end();
    }

    fn step(&mut self, incoming: &Receiver<RelayEvent>) -> Result<(), Closed> {
        let event = match self.since {
            Some(since) => {
                let patience = patience(since.saturating_duration_since(self.told));
                incoming.recv_timeout(patience.saturating_sub(since.elapsed()))
            }
            None => incoming.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match event {
            Ok(RelayEvent::Below(event)) => self.handle(event),
            Ok(RelayEvent::Above(orders)) => {
                self.told = Instant::now();
                for link in self.children.deliver(&orders) {
                    self.lose(link);
                }
            }
            Ok(RelayEvent::Close(answer)) => self.closing = Some(answer),
            Err(RecvTimeoutError::Timeout) => self.flush()?,
            Ok(RelayEvent::Gone) | Err(RecvTimeoutError::Disconnected) => return Err(Closed),
        }
        let ends = self.closing.is_some() && self.finished;
        let last = ends && !self.aggregate.is_empty();
        if last || self.aggregate.is_full(self.children.links()) {
            self.flush()?;
        }
        if let Some(answer) = self.closing.take_if(|_| ends) {
            let _ = answer.send(());
            return Err(Closed);
        }
        Ok(())
    }

    fn handle(&mut self, event: NetEvent) {
        match event {
            NetEvent::Connect(link, hello, stream) => self.admit(link, hello, stream),
            NetEvent::Message(link, messages) => {
                for message in messages {
                    self.pass_on(link, message);
                }
            }
            NetEvent::Disconnect(link) => self.lose(link),
        }
    }

    fn admit(&mut self, link: LinkId, hello: Hello, stream: Arc<Stream>) {
        match hello {
            Hello::Rank(rank) => {
                self.children.open(link, ChildKind::Rank, stream);
                self.pass_on(link, ToParent::Joined(rank.member));
            }
            Hello::Relay { .. } => self.children.open(link, ChildKind::Relay, stream),
            Hello::Client { .. } | Hello::CopySender { .. } => {
                let reason = "this is not the job's coordinator, but a relay";
                reject(&hello, &stream, reason.into());
            }
        }
    }

    fn pass_on(&mut self, link: LinkId, message: ToParent) {
        let message = match message {
            ToParent::Joined(member) if self.children.join(link, member.rank) => {
                ToParent::Joined(member)
            }
            ToParent::Joined(member) => {
                let reason = wording::came_before(member.rank);
                return self.children.refuse(link, member.rank, reason);
            }
            ToParent::FromRanks { ranks, message } => ToParent::FromRanks {
                ranks: self.children.reachable_via(link, &ranks),
                message,
            },
            ToParent::Lost { ranks } => ToParent::Lost {
                ranks: self.children.leave(link, &ranks),
            },
        };
        match &message {
            ToParent::FromRanks { ranks, .. } | ToParent::Lost { ranks } if ranks.is_empty() => {
                return
            }
            ToParent::FromRanks { ranks, message } if *message == FromRank::Finished => {
                self.finished |= *ranks == RankSet::one(self.own);
            }
            _ => {}
        }
        self.aggregate.add(link, message);
        self.since.get_or_insert_with(Instant::now);
    }

    fn lose(&mut self, link: LinkId) {
        let ranks = self.children.close(link);
        if !ranks.is_empty() {
            self.aggregate.add(link, ToParent::Lost { ranks });
            self.since.get_or_insert_with(Instant::now);
        }
    }

    fn flush(&mut self) -> Result<(), Closed> {
        self.since = None;
        let messages = self.aggregate.take();
        for frame in frames(&messages, MAX_FRAME).map_err(|_| Closed)? {
            (&*self.above).write_all(&frame).map_err(|_| Closed)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::patience;
    use std::time::Duration;

    #[test]
    fn answers_go_up_at_once_and_later_messages_wait_a_part_of_the_time() {
        let waits = |millis| patience(Duration::from_millis(millis)).as_millis();
        assert_eq!([0, 64, 320, 3_600_000].map(waits), [2, 2, 10, 50]);
    }
}
