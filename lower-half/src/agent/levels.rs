//! Images on a local directory (`--local-dir`), and the thread that drains them to the checkpoint directory
//! while the job runs on.

use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};

use anyhow::{Context, Result};
use ckpt_image::{Key, LocalDir, SetId};
use coordinator::agent::PATIENCE;

use super::{known_partner, Setup};

/// This rank's local directory.
pub struct Levels {
    rank: u32,
    local: LocalDir,
    key: Option<&'static Key>,
    /// Each asks for everything to be drained that belongs to a whole set, and to be told whether that could be.
    orders: Sender<Sender<bool>>,
}

impl Levels {
    /// Starts the thread, which begins with what a run before has left; none where images go straight to the
    /// checkpoint directory.
    pub fn start(setup: &'static Setup, rank: u32) -> Result<Option<Levels>> {
        let Some(dir) = &setup.checkpoints.local_dir else {
            return Ok(None);
        };
        let local = LocalDir::new(&setup.disk, dir, &setup.checkpoints.dir, rank);
        let key = setup.key.as_ref();
        let (orders, hear) = mpsc::channel();
        let drainer = local.clone();
        // So the application's own descriptors have the numbers that they would have.
        loader::spawn_aside("ckpt-drain", move || serve(&drainer, key, rank, &hear))
            .context("a thread cannot be started: images would stay in the local directory")?;
        let levels = Levels {
            rank,
            local,
            key,
            orders,
        };
        levels.drain();
        Ok(Some(levels))
    }

    /// Where the image of a set goes that is being made.
    pub fn begin(&self, set: &str, id: SetId) -> Result<PathBuf> {
        let dir = self.local.begin(set, id, self.key)?;
        release_copies();
        Ok(dir)
    }

    /// The directory in which images lie.
    pub fn local(&self) -> &LocalDir {
        &self.local
    }

    /// Has everything drained that belongs to a whole set.
    pub fn drain(&self) {
        drop(self.order());
    }

    /// The same, and waits for it, which is said if it takes long. Returns whether nothing is left.
    pub fn finish(&self) -> bool {
        let done = self.order();
        let drained = done.recv_timeout(PATIENCE).or_else(|why| {
            if why == RecvTimeoutError::Timeout {
                let local = self.local.dir().display();
                let said = format_args!(
                    "waits until its images in {local} are drained to the checkpoint directory; if it is \
                     killed instead, they stay there, and a restart finds them"
                );
                crate::say(self.rank, said);
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

fn serve(local: &LocalDir, key: Option<&Key>, rank: u32, orders: &Receiver<Sender<bool>>) {
    for order in orders {
        let failed = local.drain(key);
        local.tidy(key);
        for (set, why) in &failed {
            let said = format_args!(
                "the image of {set} stays in the local directory, and will be drained after the next \
                 checkpoint: {why}. The job runs on"
            );
            crate::say(rank, said);
        }
        release_copies();
        // Most do not wait for it.
        let _ = order.send(failed.is_empty());
    }
}

/// Images may have gone, so copies of them may.
fn release_copies() {
    if let Some(partner) = known_partner() {
        partner.release();
    }
}
