//! Copies of images on other machines (SCR's PARTNER). While the image of a rank is in a local directory, a
//! rank on the next machine, its *partner*, keeps a copy.
//!
//! One connection carries one image: a header, the bytes, an answer. The sender keeps the connection open
//! while it needs the copy, that is until its image is drained or the process ends. The end of the
//! connection shows the partner that a copy is not needed any more. At its own end, the partner waits for the
//! senders that still need theirs. The connection of a killed sender closes too, and its copy stays.

use std::collections::HashSet;
use std::io::{self, Read};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::net::contact::Address;
use crate::net::frame::{self, MAX_HELLO};
use crate::net::listener::{reject, Listener, ListenerHandle, NetEvent, Reach};
use crate::net::stream::{Stream, WRITE_LIMIT};
use crate::protocol::messages::{CopyAnswer, CopyHeader, Hello, PROTOCOL};
use crate::threads::spawn;

/// Reason why no copy was made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Reading the image or sending it to the partner failed.
    #[error("it could not be sent to rank {0}: {1}")]
    Partner(u32, frame::Error),
    /// The image ended early.
    #[error("the image is shorter than it should be")]
    Short,
    /// The partner answered with a reason.
    #[error("rank {0} says: {1}")]
    Refused(u32, String),
}

/// The partner of `rank`, a rank on the next machine, where `hosts` has the machine of each rank. Machines
/// are in the order of their first rank. The senders of a machine are spread over the ranks of the next.
/// None if there is only one machine.
pub fn partner_of(rank: u32, hosts: &[String]) -> Option<u32> {
    let host = hosts.get(rank as usize)?;
    let mut seen = HashSet::new();
    let machines: Vec<&String> = hosts.iter().filter(|host| seen.insert(*host)).collect();
    let own = machines.iter().position(|machine| *machine == host)?;
    let next = machines[(own + 1) % machines.len()];
    let on = |machine: &String| -> Vec<u32> {
        let ranks = (0..).zip(hosts).filter(|(_, host)| *host == machine);
        ranks.map(|(rank, _)| rank).collect()
    };
    let (here, there) = (on(host), on(next));
    let place = here.iter().position(|other| *other == rank)?;
    (next != host).then(|| there[place % there.len()])
}

/// Storage for copies.
pub trait CopyStore: Send + Sync + 'static {
    /// Keeps a durable copy of the offered bytes, whose number is in the header.
    ///
    /// # Errors
    /// The reason, for the sender.
    fn keep(&self, header: &CopyHeader, bytes: &mut dyn Read) -> CopyAnswer;

    /// A sender no longer needs its copy, or is gone.
    fn released(&self);
}

/// Server that keeps copies of the images of other ranks.
pub struct CopyServer {
    address: Address,
    active: Arc<ActiveCopies>,
    _listener: ListenerHandle,
}

/// Number of copies that senders still need.
#[derive(Default)]
struct ActiveCopies {
    count: Mutex<usize>,
    left: Condvar,
}

impl ActiveCopies {
    fn count(&self) -> MutexGuard<'_, usize> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CopyServer {
    /// Listens for peers that have the token. `local`: on this machine alone.
    ///
    /// # Errors
    /// No listener or no thread can be made.
    pub fn start(local: bool, token: String, store: Arc<dyn CopyStore>) -> io::Result<CopyServer> {
        let reach = match local {
            true => Reach::Machine(None),
            false => Reach::Network,
        };
        let listener = Listener::open(&reach, token)?;
        let address = listener.address.clone();
        let active = Arc::<ActiveCopies>::default();
        let (events, incoming) = mpsc::channel();
        let within = active.clone();
        spawn("ckpt-host", move || accept(&incoming, &store, &within))?;
        let listener = listener.serve(events, 1)?;
        Ok(CopyServer {
            address,
            active,
            _listener: listener,
        })
    }

    /// Address for senders.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Waits until no sender needs a copy.
    pub fn wait_alone(&self) {
        let mut count = self.active.count();
        while *count > 0 {
            let waited = self.active.left.wait(count);
            count = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn accept(incoming: &Receiver<NetEvent>, store: &Arc<dyn CopyStore>, active: &Arc<ActiveCopies>) {
    for event in incoming {
        let NetEvent::Connect(_, hello, stream) = event else {
            continue;
        };
        match hello {
            Hello::CopySender { header, .. } => {
                let (store, active) = (store.clone(), active.clone());
                *active.count() += 1;
                let counted = active.clone();
                let serving = spawn("ckpt-guest", move || {
                    serve(&stream, &header, &*store);
                    *active.count() -= 1;
                    active.left.notify_all();
                });
                if serving.is_err() {
                    // The sender finds its connection closed.
                    *counted.count() -= 1;
                }
            }
            _ => reject(
                &hello,
                &stream,
                "this is a partner, which keeps images".into(),
            ),
        }
    }
}

fn serve(mut stream: &Stream, header: &CopyHeader, store: &dyn CopyStore) {
    let mut bytes = stream.take(header.bytes);
    let kept = store.keep(header, &mut bytes);
    // A refused image is read to its end, because the sender reads the answer only after its last byte.
    let event = io::copy(&mut bytes, &mut io::sink());
    let answered = event.is_ok() && frame::send(&mut stream, &kept).is_ok();
    if answered {
        // Returns when the sender closes the connection; it sends nothing more.
        let _ = stream.read(&mut [0]);
    }
    store.released();
}

/// A copy at the partner. Dropping it releases the copy.
#[derive(Debug)]
pub struct RemoteCopy {
    stream: Stream,
    /// Path of the copy on the partner's machine.
    pub path: String,
}

impl Drop for RemoteCopy {
    fn drop(&mut self) {
        self.stream.end();
    }
}

/// Sends the bytes of `image` to rank `partner`, which listens at `address` and keeps a copy.
///
/// # Errors
/// The partner is not reached, refuses, or cannot keep the copy; or `image` cannot be read.
pub fn send_copy(
    partner: u32,
    address: &Address,
    header: CopyHeader,
    image: &mut impl Read,
) -> Result<RemoteCopy, Error> {
    let bytes = header.bytes;
    let begin = || -> Result<Stream, frame::Error> {
        let stream = address.connect()?;
        stream.set_write_timeout(Some(WRITE_LIMIT))?;
        let hello = Hello::CopySender {
            protocol: PROTOCOL,
            token: address.token.clone(),
            header,
        };
        frame::send(&mut &stream, &hello)?;
        Ok(stream)
    };
    let failed = |e| Error::Partner(partner, e);
    let stream = begin().map_err(failed)?;
    let given = io::copy(&mut image.take(bytes), &mut &stream);
    if given.map_err(|e| failed(e.into()))? < bytes {
        return Err(Error::Short);
    }
    let answer: CopyAnswer = frame::receive(&mut &stream, MAX_HELLO).map_err(failed)?;
    let path = answer.map_err(|why| Error::Refused(partner, why))?;
    Ok(RemoteCopy { stream, path })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::Sender;

    #[test]
    fn a_partner_is_on_the_next_machine() {
        let partners = |hosts: &[&str]| -> Vec<Option<u32>> {
            let hosts: Vec<String> = hosts.iter().map(|host| host.to_string()).collect();
            (0..hosts.len() as u32)
                .map(|rank| partner_of(rank, &hosts))
                .collect()
        };
        let some =
            |ranks: &[u32]| -> Vec<Option<u32>> { ranks.iter().copied().map(Some).collect() };
        assert_eq!(
            partners(&["a", "a", "b", "b", "c", "c"]),
            some(&[2, 3, 4, 5, 0, 1])
        );
        assert_eq!(partners(&["a", "b", "a", "b"]), some(&[1, 0, 3, 2]));
        assert_eq!(partners(&["a", "a", "a", "b"]), some(&[3, 3, 3, 0]));
        assert_eq!(partners(&["a", "a"]), [None, None]);
        assert_eq!(partners(&[]), []);
    }

    /// Keeps the image of rank 1, and sends on what it has received.
    struct Memory(Mutex<Sender<Option<Vec<u8>>>>);

    impl CopyStore for Memory {
        fn keep(&self, header: &CopyHeader, bytes: &mut dyn Read) -> CopyAnswer {
            if header.rank != 1 {
                return Err("no room".into());
            }
            let mut kept = Vec::new();
            bytes.read_to_end(&mut kept).map_err(|e| e.to_string())?;
            let _ = self.0.lock().unwrap().send(Some(kept));
            Ok(format!("/local/{}", header.set))
        }

        fn released(&self) {
            let _ = self.0.lock().unwrap().send(None);
        }
    }

    fn host() -> (CopyServer, Receiver<Option<Vec<u8>>>) {
        let (tell, told) = mpsc::channel();
        let store = Arc::new(Memory(Mutex::new(tell)));
        (CopyServer::start(true, "word".into(), store).unwrap(), told)
    }

    fn header(rank: u32, bytes: u64) -> CopyHeader {
        CopyHeader {
            rank,
            set: "ckpt-1".into(),
            id: vec![1; 16],
            bytes,
        }
    }

    #[test]
    fn a_copy_is_kept_until_its_sender_closes() {
        let (host, told) = host();
        let image = vec![7; 1 << 20];
        let kept = send_copy(0, host.address(), header(1, 1 << 20), &mut &image[..]).unwrap();
        assert_eq!(kept.path, "/local/ckpt-1");
        assert_eq!(told.recv().unwrap(), Some(image));
        assert!(told.try_recv().is_err(), "the guest has not left");
        drop(kept);
        assert_eq!(told.recv().unwrap(), None);
        host.wait_alone();
    }

    #[test]
    fn the_reason_for_a_missing_copy_is_returned() {
        let (host, told) = host();
        let image = vec![7; 1 << 20];
        let give = |address: &Address, header| {
            let refused = send_copy(0, address, header, &mut &image[..]).unwrap_err();
            refused.to_string()
        };
        let full = give(host.address(), header(2, 1 << 20));
        assert_eq!(full, "rank 0 says: no room");
        assert_eq!(told.recv().unwrap(), None);
        let short = give(host.address(), header(1, 2 << 20));
        assert!(short.contains("shorter"), "{short}");
        let other = Address {
            token: "another".into(),
            ..host.address().clone()
        };
        let stranger = give(&other, header(1, 0));
        assert!(stranger.contains("token is wrong"), "{stranger}");
        host.wait_alone();
    }
}
