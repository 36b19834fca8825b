//! The door of the coordinator and of each relay: it listens, hears who is there, and reads what those
//! say who were let in, one thread for each.

use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::addresses;
use crate::frame::{self, MAX_FIRST, MAX_FRAME};
use crate::job::Address;
use crate::partner;
use crate::protocol::{Down, First, FromRank, Hello, To, ToRank, ToTool, Up, PROTOCOL};
use crate::ranks::Ranks;
use crate::routes::LinkId;

/// A stranger must say who he is within this time.
const FIRST_LIMIT: Duration = Duration::from_secs(10);
/// A peer that does not take a message within this time is lost.
pub const WRITE_LIMIT: Duration = Duration::from_secs(20);
/// How long nobody is let in when a connection could not be taken.
const PAUSE: Duration = Duration::from_millis(50);
/// Connections beyond those expected that may be open before they have said who they are.
const STRANGERS: usize = 64;
/// Stack of each thread of the control plane.
const STACK: usize = 256 << 10;

/// What comes in through the door.
pub enum Heard {
    /// Somebody of this job wants in. The answer names the connection from then on.
    Knock(First, TcpStream, Sender<Option<LinkId>>),
    /// What was said over a connection.
    Said(LinkId, Vec<Up>),
    /// A connection is gone.
    Gone(LinkId),
}

/// An open port, at which nobody is heard yet.
pub struct Door {
    listener: TcpListener,
    /// Where it is, and the token that opens it.
    pub address: Address,
}

impl Door {
    /// Listens; `local`: to this machine alone.
    pub fn open(local: bool, token: String) -> io::Result<Door> {
        let bind = match local {
            true => Ipv4Addr::LOCALHOST,
            false => Ipv4Addr::UNSPECIFIED,
        };
        let listener = TcpListener::bind((bind, 0))?;
        let port = listener.local_addr()?.port();
        let mut addresses: Vec<IpAddr> = vec![];
        if !local {
            addresses = addresses::of_this_machine();
            addresses.retain(IpAddr::is_ipv4);
        }
        if addresses.is_empty() {
            addresses = vec![Ipv4Addr::LOCALHOST.into()];
        }
        let address = Address {
            addresses,
            port,
            token,
        };
        Ok(Door { listener, address })
    }

    /// From now on `said` hears who comes; `expected` are so many.
    pub fn serve<S>(self, said: Sender<S>, expected: usize) -> io::Result<()>
    where
        S: From<Heard> + Send + 'static,
    {
        let most = expected + STRANGERS;
        spawn("ckpt-accept", move || self.accept(&said, most))
    }

    fn accept<S>(&self, said: &Sender<S>, most: usize)
    where
        S: From<Heard> + Send + 'static,
    {
        let strangers = Arc::new(AtomicUsize::new(0));
        for stream in self.listener.incoming() {
            let Ok(stream) = stream else {
                // Out of file descriptors, most likely: give others time to close some.
                thread::sleep(PAUSE);
                continue;
            };
            if strangers.load(Ordering::Relaxed) >= most {
                continue;
            }
            strangers.fetch_add(1, Ordering::Relaxed);
            let (said, count) = (said.clone(), strangers.clone());
            let token = self.address.token.clone();
            let spawned = spawn("ckpt-peer", move || {
                let peer = knock(&stream, &token, &said);
                count.fetch_sub(1, Ordering::Relaxed);
                if let Some((link, speaker)) = peer {
                    read(stream, link, speaker, &said);
                }
            });
            if spawned.is_err() {
                strangers.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

/// Starts a thread of the control plane.
pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = thread::Builder::new().name(name.into()).stack_size(STACK);
    thread.spawn(body).map(drop)
}

/// Who was let in, and so what he says.
enum Speaker {
    Rank(u32),
    Relay,
    Tool,
}

/// Reads who is there and has him admitted.
fn knock<S: From<Heard>>(
    mut stream: &TcpStream,
    token: &str,
    said: &Sender<S>,
) -> Option<(LinkId, Speaker)> {
    stream.set_nodelay(true).ok()?;
    stream.set_read_timeout(Some(FIRST_LIMIT)).ok()?;
    stream.set_write_timeout(Some(WRITE_LIMIT)).ok()?;
    let first: First = frame::receive(&mut stream, MAX_FIRST).ok()?;
    stream.set_read_timeout(None).ok()?;
    let (protocol, shown) = first.credentials();
    if let Err(reason) = check(protocol, shown, token) {
        turn_away(&first, stream, reason);
        return None;
    }
    let speaker = match &first {
        First::Rank(Hello { member, .. }) => Speaker::Rank(member.rank),
        First::Relay { .. } => Speaker::Relay,
        First::Tool { .. } | First::Guest { .. } => Speaker::Tool,
    };
    let (answer, admitted) = mpsc::channel();
    let knock = Heard::Knock(first, stream.try_clone().ok()?, answer);
    said.send(knock.into()).ok()?;
    Some((admitted.recv().ok()??, speaker))
}

/// Tells somebody who is not let in why.
pub fn turn_away(first: &First, mut stream: &TcpStream, reason: String) {
    let rejected = |reason| ToRank::Rejected { reason };
    // He does not come in whether he hears that or not.
    let _ = match first {
        First::Rank(_) => frame::send(&mut stream, &rejected(reason)),
        First::Tool { .. } => frame::send(&mut stream, &ToTool::Rejected(reason)),
        First::Guest { .. } => frame::send(&mut stream, &partner::Answer::Err(reason)),
        First::Relay { .. } => frame::send(
            &mut stream,
            &[Down {
                to: To::All,
                message: rejected(reason),
            }]
            .as_slice(),
        ),
    };
}

fn read<S: From<Heard>>(mut stream: TcpStream, link: LinkId, speaker: Speaker, said: &Sender<S>) {
    let mut next = || match speaker {
        Speaker::Rank(rank) => {
            let message = frame::receive::<FromRank>(&mut stream, MAX_FRAME).ok()?;
            let ranks = Ranks::one(rank);
            Some(vec![Up::Said { ranks, message }])
        }
        Speaker::Relay => frame::receive(&mut stream, MAX_FRAME).ok(),
        // It has said all with its first frame: this returns when it is gone.
        Speaker::Tool => stream.read(&mut [0]).ok().and(None),
    };
    while let Some(words) = next() {
        if said.send(Heard::Said(link, words).into()).is_err() {
            return;
        }
    }
    let _ = said.send(Heard::Gone(link).into());
}

fn check(protocol: u32, token: &str, expected: &str) -> Result<(), String> {
    if protocol != PROTOCOL {
        return Err(format!(
            "it speaks version {protocol} of the protocol, the job speaks {PROTOCOL}: use the Stasis \
             that started the job"
        ));
    }
    // All characters are compared whatever the first difference is.
    let different = token.len() != expected.len()
        || token
            .bytes()
            .zip(expected.bytes())
            .fold(0, |d, (a, b)| d | (a ^ b))
            != 0;
    match different {
        true => Err("the token is wrong: it belongs to another job".into()),
        false => Ok(()),
    }
}
