//! The measurements on this machine: the processor time of a message, and of the look at the records.

use std::fs;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use nix::time::{clock_gettime, ClockId};
use stasis_supervisor::epochs::{self, Epochs};
use stasis_supervisor::messages::{send, FromRank, ToRank};
use tempfile::TempDir;

/// Messages that are measured.
const MESSAGES: u32 = 20_000;
/// Size of a record in the literature, which says 544 bytes to 1.3 KB.
const RECORD: [u8; 1024] = [0; 1024];

/// Does something, and returns the processor time that it has taken. So other work on the machine does not count.
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let now = || clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("there is that clock");
    let begun = now();
    let done = work();
    (done, (now() - begun).into())
}

/// Processor time of a message.
pub struct Message {
    /// To send it.
    pub send: Duration,
    /// To receive and decode it.
    pub receive: Duration,
}

impl Message {
    /// Sends messages of `stasis run` over a connection, and reads them as that does.
    pub fn measure() -> Message {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it has an address");
        let to = TcpStream::connect(address).expect("it listens");
        to.set_nodelay(true).expect("it can be set");
        let (mut from, _) = listener.accept().expect("it connects");
        let (mut sending, mut receiving) = (Duration::ZERO, Duration::ZERO);
        let mut buffer = [0; 512];
        for _ in 0..MESSAGES {
            let (sent, took) = timed(|| send(&to, &ToRank::Survive));
            sent.expect("it is sent");
            sending += took;
            let n = from.read(&mut buffer).expect("it has come");
            assert!(n > 0);
            let answer = FromRank::Survives(Ok(()));
            send(&to, &answer).expect("it is sent");
            let (decoded, took) = timed(|| {
                let n = from.read(&mut buffer).expect("it has come");
                serde_json::from_slice::<FromRank>(&buffer[..n])
            });
            receiving += took;
            assert_eq!(decoded.expect("it is whole"), answer);
        }
        Message {
            send: sending / MESSAGES,
            receive: receiving / MESSAGES,
        }
    }
}

/// The records of a job.
pub struct Directory {
    checkpoints: TempDir,
    nodes: u32,
    newest: Vec<u64>,
}

/// An epoch, and the time in which it was found.
pub struct Found {
    /// The epoch.
    pub epoch: u64,
    /// The time.
    pub took: Duration,
}

impl Directory {
    /// Two records of each rank, and a third one where it is an epoch further.
    pub fn with(nodes: u32, newest: impl Fn(u32) -> u64) -> Directory {
        let checkpoints = tempfile::tempdir().expect("there is a temporary directory");
        let stages = epochs::directory(checkpoints.path());
        fs::create_dir(&stages).expect("it can be made");
        fs::write(epochs::size_file(&stages), nodes.to_string()).expect("it can be written");
        let newest: Vec<u64> = (0..nodes).map(newest).collect();
        for (rank, newest) in (0..nodes).zip(&newest) {
            // The last epochs that are not removed yet.
            for epoch in 6..=*newest {
                let file = epochs::file(&stages, epoch, rank);
                fs::write(file, RECORD).expect("it can be written");
            }
        }
        Directory {
            checkpoints,
            nodes,
            newest,
        }
    }

    fn path(&self) -> &Path {
        self.checkpoints.path()
    }

    /// The epoch as `stasis run` finds it.
    pub fn agree(&self) -> Found {
        let (epoch, took) = timed(|| {
            let all = Epochs::of(&epochs::directory(self.path()));
            all.expect("it can be read").common()
        });
        Found { epoch, took }
    }

    /// The time in which the next incarnation begins with an epoch.
    pub fn begin(&self, epoch: u64) -> Duration {
        let (begun, took) = timed(|| epochs::begin(self.path(), 1, epoch));
        begun.expect("later records can be removed");
        took
    }

    /// The serial way: the newest record of each rank is read in turn.
    pub fn read_each(&self) -> Found {
        let directory = epochs::directory(self.path());
        let (epoch, took) = timed(|| {
            let mut lowest = u64::MAX;
            for (rank, newest) in (0..self.nodes).zip(&self.newest) {
                let record = fs::read(epochs::file(&directory, *newest, rank));
                assert_eq!(record.expect("it can be read").len(), RECORD.len());
                lowest = lowest.min(*newest);
            }
            lowest
        });
        Found { epoch, took }
    }
}
