//! A relay: what stands between the coordinator and the ranks of a large job, in the lower half of one
//! of them ([`crate::tree`] says which). To those below it is what the coordinator is to the ranks of a
//! small job; to what is above it speaks for all of them. Downward it passes on what it is told, one
//! frame for each connection below; upward it bundles ([`crate::bundle`]).
//!
//! **How it ends.** No word from below is stranded:
//!
//! - When a connection below breaks, it says which ranks are lost. When it dies itself, what is above
//!   finds the connection broken and gives all ranks below up: the checkpoint is, and there will be no
//!   other, since the relay's own rank has died with it.
//! - When what is above is gone it breaks all connections below: to the ranks it is as if the
//!   coordinator were gone. Each gives its checkpoint up and runs on.
//! - A rank that hosts a relay may end before those below, as any rank may. As long as images are being
//!   written its agent holds it back ([`crate::agent::Agent::finished`]), until it is told how that has
//!   ended; that goes to those below first, to its own agent last. If none is being written its end is
//!   what there is to tell: no checkpoint can be taken from then on. So nothing that those below say
//!   later can matter to one. What has been said, its own end last, goes up before the process ends
//!   ([`Relay::close`]), for which it waits a little while those below end, too
//!   ([`Relay::wait_alone`]): then they are known to have ended, and not to have been lost.
//! - When the job ends with a checkpoint everyone is told through the relays, so each goes after those
//!   below, as the coordinator goes last.
//!
//! All threads inherit the signal mask of the thread that calls [`Relay::start`].

use std::io::{self, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::below::{Below, Connected, Kind};
use crate::bundle::{frames, Bundle};
use crate::door::{directory_of, spawn, turn_away, Door, Entrance, Heard, Reach, WRITE_LIMIT};
use crate::frame::{self, MAX_FRAME};
use crate::job::Address;
use crate::protocol::{Down, First, FromRank, Up, PROTOCOL};
use crate::ranks::Ranks;
use crate::routes::LinkId;
use crate::stream::Stream;
use crate::words;

/// How long a word may wait for others with which it can go up, so long after this relay was last told
/// something: answers go up at once, and what ranks have to say in the course of a long time makes no
/// more bundles than its logarithm, each late by a small part of that time.
pub fn patience(told: Duration) -> Duration {
    (told / 32).clamp(Duration::from_millis(2), Duration::from_millis(50))
}

/// How long it may take at the end to pass on what was said.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);

/// Why a relay could not be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody answers.
    #[error("what is above this relay in the control plane cannot be reached: {0}")]
    Unreachable(frame::Error),
    /// Sockets, threads.
    #[error("a relay of the control plane could not {0}: {1}")]
    System(&'static str, io::Error),
}

/// A running relay.
pub struct Relay {
    address: Address,
    said: Sender<Said>,
    connected: Arc<Connected>,
    _door: Entrance,
}

enum Said {
    Below(Heard),
    Above(Vec<Down>),
    Gone,
    /// The process is about to end.
    Close(Sender<()>),
}

impl From<Heard> for Said {
    fn from(heard: Heard) -> Said {
        Said::Below(heard)
    }
}

impl Relay {
    /// Connects to what listens at `above` and lets those come in who know its token: rank `own`, in
    /// whose process this is, and so many others. As far as `above` can be reached.
    pub fn start(above: &Address, own: u32, others: usize) -> Result<Relay, Error> {
        let system = |what| move |e| Error::System(what, e);
        let directory = directory_of(above);
        let reach = match above.addresses.iter().all(|ip| ip.is_loopback()) {
            true => Reach::Machine(directory.as_deref()),
            false => Reach::Network,
        };
        let door = Door::open(&reach, above.token.clone()).map_err(system("listen for ranks"))?;
        let address = door.address.clone();
        let reach = || -> Result<Arc<Stream>, frame::Error> {
            let stream = above.connect()?;
            stream.set_write_timeout(Some(WRITE_LIMIT))?;
            let first = First::Relay {
                protocol: PROTOCOL,
                token: above.token.clone(),
            };
            frame::send(&mut &stream, &first)?;
            Ok(Arc::new(stream))
        };
        let above = reach().map_err(Error::Unreachable)?;
        let to_read = above.clone();
        let (said, hear) = mpsc::channel();
        let below = Below::new(own);
        let connected = below.connected();
        let main = Main {
            own,
            above,
            below,
            bundle: Bundle::default(),
            since: None,
            told: Instant::now(),
            finished: false,
            closing: None,
        };
        let thread = system("start a thread");
        spawn("ckpt-relay", move || main.run(&hear)).map_err(thread)?;
        let back = said.clone();
        spawn("ckpt-above", move || read(to_read, &back)).map_err(thread)?;
        let door = door.serve(said.clone(), others + 1).map_err(thread)?;
        Ok(Relay {
            address,
            said,
            connected,
            _door: door,
        })
    }

    /// Where those below connect.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Waits until all ranks below but that of this process are gone, for at most so long.
    pub fn wait_alone(&self, limit: Duration) {
        self.connected.wait_for_none(limit);
    }

    /// The process is about to end, and its agent has said so: returns when all that was said below has
    /// gone up, and breaks the connections.
    pub fn close(&self) {
        let (answer, closed) = mpsc::channel();
        let _ = self.said.send(Said::Close(answer));
        // Also when there is no thread any more to answer.
        let _ = closed.recv_timeout(CLOSE_LIMIT);
    }
}

fn read(stream: Arc<Stream>, said: &Sender<Said>) {
    while let Ok(orders) = frame::receive(&mut &*stream, MAX_FRAME) {
        if said.send(Said::Above(orders)).is_err() {
            return;
        }
    }
    let _ = said.send(Said::Gone);
}

/// What is above is gone, or has heard all that there is to tell.
struct Over;

struct Main {
    own: u32,
    above: Arc<Stream>,
    below: Below,
    bundle: Bundle,
    /// Since when there is something in the bundle.
    since: Option<Instant>,
    /// When something came from above.
    told: Instant,
    /// This process's agent has said that it ends.
    finished: bool,
    closing: Option<Sender<()>>,
}

impl Main {
    fn run(mut self, hear: &Receiver<Said>) {
        while self.step(hear).is_ok() {}
        // Those below find theirs broken as this is dropped.
        self.above.end();
    }

    fn step(&mut self, hear: &Receiver<Said>) -> Result<(), Over> {
        let said = match self.since {
            Some(since) => {
                let patience = patience(since.saturating_duration_since(self.told));
                hear.recv_timeout(patience.saturating_sub(since.elapsed()))
            }
            None => hear.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match said {
            Ok(Said::Below(heard)) => self.hear(heard),
            Ok(Said::Above(orders)) => {
                self.told = Instant::now();
                for link in self.below.deliver(&orders) {
                    self.lose(link);
                }
            }
            Ok(Said::Close(answer)) => self.closing = Some(answer),
            Err(RecvTimeoutError::Timeout) => self.flush()?,
            Ok(Said::Gone) | Err(RecvTimeoutError::Disconnected) => return Err(Over),
        }
        let ends = self.closing.is_some() && self.finished;
        let last = ends && !self.bundle.is_empty();
        if last || self.bundle.is_full(self.below.links()) {
            self.flush()?;
        }
        if let Some(answer) = self.closing.take_if(|_| ends) {
            let _ = answer.send(());
            return Err(Over);
        }
        Ok(())
    }

    fn hear(&mut self, heard: Heard) {
        match heard {
            Heard::Knock(link, first, stream) => self.admit(link, first, stream),
            Heard::Said(link, words) => {
                for word in words {
                    self.pass_on(link, word);
                }
            }
            Heard::Gone(link) => self.lose(link),
        }
    }

    fn admit(&mut self, link: LinkId, first: First, stream: Arc<Stream>) {
        match first {
            First::Rank(hello) => {
                self.below.open(link, Kind::Rank, stream);
                self.pass_on(link, Up::Joined(hello.member));
            }
            First::Relay { .. } => self.below.open(link, Kind::Relay, stream),
            First::Tool { .. } | First::Guest { .. } => {
                let reason = "this is not the job's coordinator, but a relay";
                turn_away(&first, &stream, reason.into());
            }
        }
    }

    fn pass_on(&mut self, link: LinkId, word: Up) {
        let word = match word {
            Up::Joined(member) if self.below.join(link, member.rank) => Up::Joined(member),
            Up::Joined(member) => {
                let reason = words::came_before(member.rank);
                return self.below.refuse(link, member.rank, reason);
            }
            Up::Said { ranks, message } => Up::Said {
                ranks: self.below.behind(link, &ranks),
                message,
            },
            Up::Lost { ranks } => Up::Lost {
                ranks: self.below.leave(link, &ranks),
            },
        };
        match &word {
            Up::Said { ranks, .. } | Up::Lost { ranks } if ranks.is_empty() => return,
            Up::Said { ranks, message } if *message == FromRank::Finished => {
                self.finished |= *ranks == Ranks::one(self.own);
            }
            _ => {}
        }
        self.bundle.add(link, word);
        self.since.get_or_insert_with(Instant::now);
    }

    fn lose(&mut self, link: LinkId) {
        let ranks = self.below.close(link);
        if !ranks.is_empty() {
            self.bundle.add(link, Up::Lost { ranks });
            self.since.get_or_insert_with(Instant::now);
        }
    }

    fn flush(&mut self) -> Result<(), Over> {
        self.since = None;
        let words = self.bundle.take();
        for frame in frames(&words, MAX_FRAME).map_err(|_| Over)? {
            (&*self.above).write_all(&frame).map_err(|_| Over)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::patience;
    use std::time::Duration;

    #[test]
    fn answers_go_up_at_once_and_later_words_wait_for_a_part_of_the_time() {
        let waits = |millis| patience(Duration::from_millis(millis)).as_millis();
        assert_eq!([0, 64, 320, 3_600_000].map(waits), [2, 2, 10, 50]);
    }
}
