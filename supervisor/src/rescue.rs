//! The rescue of a checkpoint in memory after a failure: a thread has the children write their images, while the rest
//! of the incarnation is killed. The children on other machines are told so by their node keepers. Then it is a
//! checkpoint like any other, and the job goes on from it.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Mutex;
use std::thread::{self, JoinHandle};

use ckpt_image::{FileSystem, ImageError, Manifest, RankEntry, SealKey, SetWriter};
use coordinator::net::addresses;
use dump::{HeldImage, WrittenImage};
use nix::unistd::Pid;

use crate::leases::Id;
use crate::memory_sets::MemorySet;
use crate::node_messages::ToNode;
use crate::remote::{Answer, Orders};

/// Why a checkpoint in memory is lost.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its images cannot be written.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// Its manifest cannot be read.
    #[error("its manifest cannot be read (a defect in Stasis): {0}")]
    Manifest(#[from] serde_json::Error),
    /// A node keeper could not write an image.
    #[error("on {host}: {why}")]
    Node {
        /// Its machine.
        host: String,
        /// The reason.
        why: String,
    },
    /// A node keeper has ended.
    #[error("the process that held the copies on {0} has ended, or its machine does not answer")]
    NodeLost(String),
    /// A rank has no image.
    #[error("it has no images (a defect in Stasis)")]
    Empty,
    /// No thread, or one that has ended.
    #[error("no thread can write it: {0}")]
    Thread(#[from] io::Error),
}

/// A checkpoint that is being written.
pub struct Rescue {
    number: u64,
    /// The children that write it.
    children: Vec<Pid>,
    /// Takes the answers of node keepers.
    answers: Sender<Answer>,
    /// Closed at the other end when the thread is through.
    over: UnixStream,
    thread: JoinHandle<Result<Written, Error>>,
}

/// A set whose images are written.
struct Written {
    writer: SetWriter,
    manifest: Manifest,
}

impl Rescue {
    /// Starts to write a set to the checkpoint directory. `orders` tells node keepers to.
    ///
    /// # Errors
    /// No socket or no thread can be made.
    pub fn start(directory: &Path, set: MemorySet, orders: Orders) -> io::Result<Rescue> {
        let (over, other) = UnixStream::pair()?;
        let (answers, answered) = channel();
        let (number, children) = (set.number(), set.pids().collect());
        let directory = directory.to_owned();
        let thread = thread::Builder::new().name("stasis-rescue".into());
        let thread = thread.spawn(move || {
            let written = write(&directory, &set, &orders, &answered);
            // One that has not been told to write them still has its images.
            for node in set.nodes().into_keys() {
                orders.tell(node, &ToNode::Drop(set.id()));
            }
            drop((set, other));
            written
        })?;
        Ok(Rescue {
            number,
            children,
            answers,
            over,
            thread,
        })
    }

    /// Number of the set.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// A node keeper has answered, or has ended.
    pub fn note(&self, answer: Answer) {
        // A thread that is through needs none.
        let _ = self.answers.send(answer);
    }

    /// The children on this machine that write it.
    pub fn children(&self) -> &[Pid] {
        &self.children
    }

    /// A descriptor that is ready to read when the set is written.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.over.as_fd()
    }

    /// Whether the set is written, or cannot be.
    pub fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// Commits the set. Called when every process of the incarnation is dead.
    ///
    /// # Errors
    /// An image or the manifest could not be written: the set is lost.
    pub fn commit(self, key: Option<&SealKey>) -> Result<(), Error> {
        let ended = |_| io::Error::other("the thread that wrote it has ended (a defect in Stasis)");
        let Written { writer, manifest } = self.thread.join().map_err(ended)??;
        writer.commit(&manifest, key)?;
        Ok(())
    }
}

fn write(
    directory: &Path,
    set: &MemorySet,
    orders: &Orders,
    answers: &Receiver<Answer>,
) -> Result<Written, Error> {
    let disk = FileSystem::default();
    let writer = SetWriter::begin_as(&disk, directory, set.number(), set.id())?;
    let name = writer.path().file_name().unwrap_or_default();
    let order = ToNode::Write {
        set: set.id(),
        // Another machine may have the checkpoint directory at another place.
        directory: name.to_string_lossy().into_owned(),
    };
    for node in set.nodes().into_keys() {
        orders.tell(node, &order);
    }
    let here = write_all(&disk, writer.path(), &set.images(), |_| ());
    // Also after an error: as long as a node keeper may write, no set may have this number.
    let elsewhere = collect(set, answers);
    let host = addresses::host();
    let here = here?.into_iter().map(|image| (host.clone(), image));
    let mut written: Vec<(String, WrittenImage)> = here.chain(elsewhere?).collect();
    written.sort_by_key(|(_, image)| image.rank);
    let (_, first) = written.first().ok_or(Error::Empty)?;
    let mut manifest: Manifest = serde_json::from_str(&first.note)?;
    let entry = |(host, WrittenImage { rank, image, .. })| RankEntry {
        rank,
        host,
        image,
        local: None,
        copy: None,
    };
    manifest.ranks = written.into_iter().map(entry).collect();
    Ok(Written { writer, manifest })
}

/// Waits until each node keeper has answered for all its images, or has ended. Returns the images with their machines.
fn collect(
    set: &MemorySet,
    answers: &Receiver<Answer>,
) -> Result<Vec<(String, WrittenImage)>, Error> {
    let mut missing: BTreeMap<Id, usize> = set.nodes();
    let (mut written, mut failed) = (Vec::new(), None);
    while missing.values().any(|images| *images > 0) {
        let Ok(Answer { node, host, image }) = answers.recv() else {
            return Err(io::Error::other("the job is over").into());
        };
        let Some(left) = missing.get_mut(&node).filter(|left| **left > 0) else {
            continue;
        };
        match image {
            Some((its, _)) if its != set.id() => {}
            Some((_, Ok(image))) => {
                *left -= 1;
                written.push((host, image));
            }
            Some((_, Err(why))) => {
                *left -= 1;
                failed.get_or_insert(Error::Node { host, why });
            }
            None => {
                *left = 0;
                failed.get_or_insert(Error::NodeLost(host));
            }
        }
    }
    failed.map_or(Ok(written), Err)
}

/// Writes the images on all processors. Each is given to `tell`, too.
pub(crate) fn write_all(
    disk: &FileSystem,
    directory: &Path,
    images: &[&HeldImage],
    tell: impl Fn(&Result<WrittenImage, ImageError>) + Sync,
) -> Result<Vec<WrittenImage>, ImageError> {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let (left, written) = (Mutex::new(images.iter()), Mutex::new(Vec::new()));
    let next = || left.lock().ok()?.next();
    let work = || {
        while let Some(image) = next() {
            let image = image.write(disk, directory);
            tell(&image);
            if let Ok(mut written) = written.lock() {
                written.push(image);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..processors.min(images.len()) {
            // Without a thread the others do its work.
            let _ = thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    let written = written.into_inner().unwrap_or_default();
    written.into_iter().collect()
}
