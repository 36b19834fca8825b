//! The rescue of a checkpoint in memory after a failure: a thread has the children write their images, while the rest
//! of the incarnation is killed. Then it is a checkpoint like any other, and the job goes on from it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread::{self, JoinHandle};

use ckpt_image::{FileSystem, ImageError, Manifest, RankEntry, SealKey, SetWriter};
use coordinator::net::addresses;
use dump::{HeldImage, WrittenImage};
use nix::unistd::Pid;

use crate::memory_sets::MemorySet;

/// Why a checkpoint in memory is lost.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its images cannot be written.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// Its manifest cannot be read.
    #[error("its manifest cannot be read (a defect in Stasis): {0}")]
    Manifest(#[from] serde_json::Error),
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
    /// Starts to write a set to the checkpoint directory.
    ///
    /// # Errors
    /// No socket or no thread can be made.
    pub fn start(directory: &Path, set: MemorySet) -> io::Result<Rescue> {
        let (over, other) = UnixStream::pair()?;
        let (number, children) = (set.number(), set.pids().collect());
        let directory = directory.to_owned();
        let thread = thread::Builder::new().name("stasis-rescue".into());
        let thread = thread.spawn(move || {
            let written = write(&directory, &set);
            drop((set, other));
            written
        })?;
        Ok(Rescue {
            number,
            children,
            over,
            thread,
        })
    }

    /// Number of the set.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The children that write it.
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

fn write(directory: &Path, set: &MemorySet) -> Result<Written, Error> {
    let disk = FileSystem::default();
    let writer = SetWriter::begin_as(&disk, directory, set.number(), set.id())?;
    let mut written = write_all(&disk, writer.path().to_owned(), &set.images())?;
    written.sort_by_key(|image| image.rank);
    let note = &written.first().ok_or(Error::Empty)?.note;
    let mut manifest: Manifest = serde_json::from_str(note)?;
    let host = addresses::host();
    let entry = |WrittenImage { rank, image, .. }| RankEntry {
        rank,
        host: host.clone(),
        image,
        local: None,
        copy: None,
    };
    manifest.ranks = written.into_iter().map(entry).collect();
    Ok(Written { writer, manifest })
}

/// Writes the images on all processors.
fn write_all(
    disk: &FileSystem,
    directory: PathBuf,
    images: &[&HeldImage],
) -> Result<Vec<WrittenImage>, ImageError> {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let (left, written) = (Mutex::new(images.iter()), Mutex::new(Vec::new()));
    let next = || left.lock().ok()?.next();
    let work = || {
        while let Some(image) = next() {
            let image = image.write(disk, &directory);
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
