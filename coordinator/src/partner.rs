//! Copies of images on other machines (SCR's PARTNER): a rank gives its image, while that lies in a local
//! directory, to a rank on the next machine, its *partner*, whose *guest* it is.
//!
//! One connection is one image: an offer, the bytes, an answer. The guest keeps it open for as long as it
//! needs the copy, until its image is drained or the process ends. So the partner need not be told when to
//! look whether the copy has become needless, and at its own end it can wait for those who still need it:
//! a guest that was killed is gone from the connection, too, and its copy stays.

use std::collections::HashSet;
use std::io::{self, Read};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::door::{spawn, turn_away, Door, Entrance, Heard, Reach, WRITE_LIMIT};
use crate::frame::{self, MAX_FIRST};
use crate::job::Address;
use crate::protocol::{First, Offer, PROTOCOL};
use crate::stream::Stream;

/// Where the copy is, or why there is none, for people.
pub type Answer = Result<String, String>;

/// Why there is no copy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Reading the image, or the connection to the partner.
    #[error("it could not be passed on to rank {0}: {1}")]
    Partner(u32, frame::Error),
    /// The image.
    #[error("the image is shorter than it should be")]
    Short,
    /// What the partner says.
    #[error("rank {0} says: {1}")]
    Refused(u32, String),
}

/// The partner of a rank, where the ranks run on these machines: one on the next machine, in the order in
/// which machines come, and the guests of a machine are spread over its ranks. None where there is but one
/// machine.
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

/// Keeps copies.
pub trait Keeper: Send + Sync + 'static {
    /// Keeps a copy, durably, of so many bytes as are offered.
    fn keep(&self, offer: &Offer, bytes: &mut dyn Read) -> Answer;

    /// A guest needs its copy no more, or is gone.
    fn left(&self);
}

/// What keeps copies of guests' images, in a process that listens for them.
pub struct Host {
    address: Address,
    guests: Arc<Guests>,
    _door: Entrance,
}

/// How many there are.
#[derive(Default)]
struct Guests {
    count: Mutex<usize>,
    left: Condvar,
}

impl Guests {
    fn count(&self) -> MutexGuard<'_, usize> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Host {
    /// Listens for those who know the token; `local`: on this machine alone.
    pub fn start(local: bool, token: String, keeper: Arc<dyn Keeper>) -> io::Result<Host> {
        let reach = match local {
            true => Reach::Machine(None),
            false => Reach::Network,
        };
        let door = Door::open(&reach, token)?;
        let address = door.address.clone();
        let guests = Arc::<Guests>::default();
        let (said, hear) = mpsc::channel();
        let within = guests.clone();
        spawn("ckpt-host", move || admit(&hear, &keeper, &within))?;
        let door = door.serve(said, 1)?;
        Ok(Host {
            address,
            guests,
            _door: door,
        })
    }

    /// Where guests connect.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Waits until no guest needs its copy any more.
    pub fn wait_alone(&self) {
        let mut count = self.guests.count();
        while *count > 0 {
            let waited = self.guests.left.wait(count);
            count = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn admit(hear: &Receiver<Heard>, keeper: &Arc<dyn Keeper>, guests: &Arc<Guests>) {
    for heard in hear {
        let Heard::Knock(_, first, stream) = heard else {
            continue;
        };
        match first {
            First::Guest { offer, .. } => {
                let (keeper, guests) = (keeper.clone(), guests.clone());
                *guests.count() += 1;
                let counted = guests.clone();
                let serving = spawn("ckpt-guest", move || {
                    serve(&stream, &offer, &*keeper);
                    *guests.count() -= 1;
                    guests.left.notify_all();
                });
                if serving.is_err() {
                    // The guest finds the connection broken.
                    *counted.count() -= 1;
                }
            }
            _ => turn_away(
                &first,
                &stream,
                "this is a partner, which keeps images".into(),
            ),
        }
    }
}

fn serve(mut stream: &Stream, offer: &Offer, keeper: &dyn Keeper) {
    let mut bytes = stream.take(offer.bytes);
    let kept = keeper.keep(offer, &mut bytes);
    // What was refused is heard out: the guest reads the answer when it has said all.
    let heard = io::copy(&mut bytes, &mut io::sink());
    let answered = heard.is_ok() && frame::send(&mut stream, &kept).is_ok();
    if answered {
        // Returns when the guest is gone: it has nothing more to say.
        let _ = stream.read(&mut [0]);
    }
    keeper.left();
}

/// A copy that a partner keeps, for as long as this is not dropped.
#[derive(Debug)]
pub struct Kept {
    stream: Stream,
    /// Where it is there.
    pub path: String,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.stream.end();
    }
}

/// Has rank `partner`, which listens at `address`, keep a copy of what `image` gives.
pub fn give(
    partner: u32,
    address: &Address,
    offer: Offer,
    image: &mut impl Read,
) -> Result<Kept, Error> {
    let bytes = offer.bytes;
    let begin = || -> Result<Stream, frame::Error> {
        let stream = address.connect()?;
        stream.set_write_timeout(Some(WRITE_LIMIT))?;
        let first = First::Guest {
            protocol: PROTOCOL,
            token: address.token.clone(),
            offer,
        };
        frame::send(&mut &stream, &first)?;
        Ok(stream)
    };
    let failed = |e| Error::Partner(partner, e);
    let stream = begin().map_err(failed)?;
    let given = io::copy(&mut image.take(bytes), &mut &stream);
    if given.map_err(|e| failed(e.into()))? < bytes {
        return Err(Error::Short);
    }
    let answer: Answer = frame::receive(&mut &stream, MAX_FIRST).map_err(failed)?;
    let path = answer.map_err(|why| Error::Refused(partner, why))?;
    Ok(Kept { stream, path })
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

    /// Keeps what rank 1 offers, and tells what it has heard.
    struct Memory(Mutex<Sender<Option<Vec<u8>>>>);

    impl Keeper for Memory {
        fn keep(&self, offer: &Offer, bytes: &mut dyn Read) -> Answer {
            if offer.rank != 1 {
                return Err("no room".into());
            }
            let mut kept = Vec::new();
            bytes.read_to_end(&mut kept).map_err(|e| e.to_string())?;
            let _ = self.0.lock().unwrap().send(Some(kept));
            Ok(format!("/local/{}", offer.set))
        }

        fn left(&self) {
            let _ = self.0.lock().unwrap().send(None);
        }
    }

    fn host() -> (Host, Receiver<Option<Vec<u8>>>) {
        let (tell, told) = mpsc::channel();
        let keeper = Arc::new(Memory(Mutex::new(tell)));
        (Host::start(true, "word".into(), keeper).unwrap(), told)
    }

    fn offer(rank: u32, bytes: u64) -> Offer {
        Offer {
            rank,
            set: "ckpt-1".into(),
            id: vec![1; 16],
            bytes,
        }
    }

    #[test]
    fn a_copy_is_kept_until_its_guest_goes() {
        let (host, told) = host();
        let image = vec![7; 1 << 20];
        let kept = give(0, host.address(), offer(1, 1 << 20), &mut &image[..]).unwrap();
        assert_eq!(kept.path, "/local/ckpt-1");
        assert_eq!(told.recv().unwrap(), Some(image));
        assert!(told.try_recv().is_err(), "the guest has not left");
        drop(kept);
        assert_eq!(told.recv().unwrap(), None);
        host.wait_alone();
    }

    #[test]
    fn why_there_is_no_copy_is_told() {
        let (host, told) = host();
        let image = vec![7; 1 << 20];
        let give = |address: &Address, offer| {
            let refused = give(0, address, offer, &mut &image[..]).unwrap_err();
            refused.to_string()
        };
        let full = give(host.address(), offer(2, 1 << 20));
        assert_eq!(full, "rank 0 says: no room");
        assert_eq!(told.recv().unwrap(), None);
        let short = give(host.address(), offer(1, 2 << 20));
        assert!(short.contains("shorter"), "{short}");
        let other = Address {
            token: "another".into(),
            ..host.address().clone()
        };
        let stranger = give(&other, offer(1, 0));
        assert!(stranger.contains("token is wrong"), "{stranger}");
        host.wait_alone();
    }
}
