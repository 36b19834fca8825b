//! Images on a local directory (`--local-dir`), and the thread that drains them to the checkpoint directory
//! while the job runs on.

use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::OnceLock;

use anyhow::{Context, Result};
use ckpt_image::{LocalDir, SealKey, SetId};
use coordinator::agent::PATIENCE;

use super::partner_copies;
use super::setup::Setup;
use crate::console;

/// This rank's local directory. `None` if images are written directly to the checkpoint directory.
static STORAGE: OnceLock<Option<LocalStorage>> = OnceLock::new();

/// This rank's local directory, if images are written to one first.
pub fn of_this_rank() -> Option<&'static LocalStorage> {
    STORAGE.get()?.as_ref()
}

/// Notes this rank's local directory. Only the first call counts.
pub fn set(storage: Option<LocalStorage>) {
    STORAGE.get_or_init(|| storage);
}

/// The local directory of a rank.
pub struct LocalStorage {
    rank: u32,
    local: LocalDir,
    key: Option<&'static SealKey>,
    /// Orders to drain all images of committed sets. The answer says whether all were drained.
    orders: Sender<Sender<bool>>,
}

impl LocalStorage {
    /// Starts the thread, which first drains the images that an earlier run has left. Returns `None` if images are
    /// written directly to the checkpoint directory.
    pub fn start(setup: &'static Setup, rank: u32) -> Result<Option<LocalStorage>> {
        let Some(dir) = &setup.checkpoints.local_dir else {
            return Ok(None);
        };
        let local = LocalDir::new(&setup.disk, dir, &setup.checkpoints.dir, rank);
        let key = setup.key.as_ref();
        let (orders, hear) = mpsc::channel();
        let drainer = local.clone();
        // That thread has a descriptor table of its own, so it takes no numbers of the application's descriptors.
        loader::spawn_on_own_fd_table("ckpt-drain", move || serve(&drainer, key, rank, &hear))
            .context("cannot start the thread that drains images from the local directory")?;
        let storage = LocalStorage {
            rank,
            local,
            key,
            orders,
        };
        storage.drain();
        Ok(Some(storage))
    }

    /// Prepares the directory for the image of a new set, and returns its path.
    pub fn begin(&self, set: &str, id: SetId) -> Result<PathBuf> {
        let dir = self.local.begin(set, id, self.key)?;
        release_copies();
        Ok(dir)
    }

    /// The directory with the images.
    pub fn local(&self) -> &LocalDir {
        &self.local
    }

    /// Orders the images of all committed sets to be drained.
    pub fn drain(&self) {
        drop(self.order());
    }

    /// Does the same and waits until it is done. Prints a message if that takes long. Returns whether all images were
    /// drained.
    pub fn finish(&self) -> bool {
        let done = self.order();
        let drained = done.recv_timeout(PATIENCE).or_else(|why| {
            if why == RecvTimeoutError::Timeout {
                let local = self.local.dir().display();
                let said = format_args!(
                    "waits until its images in {local} are drained to the checkpoint directory; if it is \
                     killed instead, they stay there, and a restart finds them"
                );
                console::say(self.rank, said);
            }
            done.recv()
        });
        drained.unwrap_or(false)
    }

    fn order(&self) -> Receiver<bool> {
        let (done, wait) = mpsc::channel();
        // The thread ends only with the process.
        let _ = self.orders.send(done);
        wait
    }
}

fn serve(local: &LocalDir, key: Option<&SealKey>, rank: u32, orders: &Receiver<Sender<bool>>) {
    for order in orders {
        let failed = local.drain(key);
        local.tidy(key);
        for (set, why) in &failed {
            let said = format_args!(
                "the image of {set} stays in the local directory, and will be drained after the next \
                 checkpoint: {why}. The job runs on"
            );
            console::say(rank, said);
        }
        release_copies();
        // Most callers have dropped the receiver.
        let _ = order.send(failed.is_empty());
    }
}

/// Releases partner copies of images that no longer exist.
fn release_copies() {
    if let Some(partner) = partner_copies::of_this_rank() {
        partner.release();
    }
}
