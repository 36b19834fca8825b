//! Copies of this rank's images on another machine (`--partner`), and copies of other ranks' images here. A *guest*
//! of this rank is a rank that has this rank as its partner.
//!
//! One thread sends the copies and starts the threads that listen for guests. All of them run
//! [`loader::on_own_fd_table`], with their own descriptor table, so that connections and images take no numbers of the
//! application's descriptors.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, OnceLock};

use anyhow::{anyhow, Context, Result};
use ckpt_image::{LocalDir, SealKey, SetId};
use coordinator::agent::PATIENCE;
use coordinator::net::contact::Address;
use coordinator::partner::{send_copy, CopyServer, CopyStore, RemoteCopy};
use coordinator::protocol::{Copied, CopyAnswer, CopyHeader};

use super::setup::Setup;
use crate::console;

/// This rank's part in keeping copies. `None` if it neither keeps copies nor has any.
static PARTNER: OnceLock<Option<PartnerCopies>> = OnceLock::new();

/// This rank's part in keeping copies, if any are kept.
pub fn of_this_rank() -> Option<&'static PartnerCopies> {
    PARTNER.get()?.as_ref()
}

/// Notes this rank's part in keeping copies. Only the first call counts; returns the noted value.
pub fn set(partner: Option<PartnerCopies>) -> Option<&'static PartnerCopies> {
    PARTNER.get_or_init(|| partner).as_ref()
}

/// The copies of this rank's images on another machine, and the copies of its guests' images here.
pub struct PartnerCopies {
    rank: u32,
    address: Address,
    mate: OnceLock<PartnerRank>,
    orders: Sender<Order>,
}

/// The rank that keeps copies of this one's images.
#[derive(Clone)]
pub struct PartnerRank {
    pub rank: u32,
    pub host: String,
    pub address: Address,
}

enum Order {
    /// Send an image to the partner, and answer with the path of the copy there.
    Copy(Image, PartnerRank, Sender<Result<String>>),
    /// Release the copies of images that no longer exist here.
    Release,
    /// Release all copies, and answer when no guest needs its copies here.
    Finish(Sender<()>),
}

struct Image {
    set: String,
    id: SetId,
    path: PathBuf,
}

impl PartnerCopies {
    /// Listens for guests that send the token, with `local` only on this machine. Returns `None` if this rank has no
    /// local directory.
    pub fn start(
        setup: &'static Setup,
        rank: u32,
        local: bool,
        token: String,
    ) -> Result<Option<PartnerCopies>> {
        let Some(dir) = &setup.checkpoints.local_dir else {
            return Ok(None);
        };
        let keeper = Copies {
            local: LocalDir::new(&setup.disk, dir, &setup.checkpoints.dir, rank),
            key: setup.key.as_ref(),
        };
        let (orders, hear) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        loader::spawn_on_own_fd_table("ckpt-partner", move || {
            match CopyServer::start(local, token, Arc::new(keeper)) {
                Ok(host) => {
                    let _ = tell.send(Ok(host.address().clone()));
                    serve(rank, &host, &hear);
                }
                Err(why) => drop(tell.send(Err(why))),
            }
        })?;
        let address = told.recv().context("its thread has ended")??;
        Ok(Some(PartnerCopies {
            rank,
            address,
            mate: OnceLock::new(),
            orders,
        }))
    }

    /// The address to which guests connect.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Sets the partner that keeps this rank's copies. Only the first call counts.
    pub fn pair(&self, mate: PartnerRank) {
        self.mate.get_or_init(|| mate);
    }

    /// Sends a copy of this rank's image of a set to its partner. Returns `None` if this rank has no partner.
    pub fn copy(&self, set: &str, id: SetId, path: PathBuf) -> Result<Option<Copied>> {
        let Some(mate) = self.mate.get() else {
            return Ok(None);
        };
        let (answer, wait) = mpsc::channel();
        let image = Image {
            set: set.to_owned(),
            id,
            path,
        };
        let _ = self.orders.send(Order::Copy(image, mate.clone(), answer));
        let path = wait.recv().context("its thread has ended")??;
        let host = mate.host.clone();
        Ok(Some(Copied { host, path }))
    }

    /// Releases the copies of images that have been drained.
    pub fn release(&self) {
        let _ = self.orders.send(Order::Release);
    }

    /// Releases all copies of this rank's images, and waits until its guests have done the same. Prints a message if
    /// that takes long. Called when this process drains no more images.
    pub fn finish(&self) {
        let (done, wait) = mpsc::channel();
        let _ = self.orders.send(Order::Finish(done));
        if let Err(mpsc::RecvTimeoutError::Timeout) = wait.recv_timeout(PATIENCE) {
            let said = "waits until the images of other ranks, of which it keeps copies, are drained to the \
                        checkpoint directory; if it is killed instead, the copies stay, and a restart finds them";
            console::say(self.rank, said);
            let _ = wait.recv();
        }
    }
}

fn serve(rank: u32, host: &CopyServer, orders: &Receiver<Order>) {
    let mut held: Vec<(PathBuf, RemoteCopy)> = Vec::new();
    for order in orders {
        match order {
            Order::Copy(image, mate, answer) => {
                let path = image.path.clone();
                let kept = copy(rank, image, &mate).map(|kept| {
                    let place = kept.path.clone();
                    held.push((path, kept));
                    place
                });
                let _ = answer.send(kept);
            }
            Order::Release => held.retain(|(image, _)| image.exists()),
            Order::Finish(done) => {
                held.clear();
                host.wait_alone();
                let _ = done.send(());
            }
        }
    }
}

fn copy(rank: u32, image: Image, mate: &PartnerRank) -> Result<RemoteCopy> {
    let mut file = File::open(&image.path)?;
    let header = CopyHeader {
        rank,
        set: image.set,
        id: image.id.0.to_vec(),
        bytes: file.metadata()?.len(),
    };
    let kept = send_copy(mate.rank, &mate.address, header, &mut file);
    kept.map_err(|why| anyhow!("{why} (on {})", mate.host))
}

/// Guests' copies, in this rank's local directory.
struct Copies {
    local: LocalDir,
    key: Option<&'static SealKey>,
}

impl CopyStore for Copies {
    fn keep(&self, header: &CopyHeader, bytes: &mut dyn Read) -> CopyAnswer {
        let id = header.id.as_slice().try_into();
        let id = id.map_err(|_| "the set id has a wrong length".to_owned())?;
        let CopyHeader { rank, set, .. } = header;
        let kept = self.local.keep(set, SetId(id), *rank, header.bytes, bytes);
        let path = kept.map_err(|why| why.to_string())?.into_os_string();
        path.into_string()
            .map_err(|path| format!("{} is not UTF-8", path.display()))
    }

    fn released(&self) {
        self.local.tidy(self.key);
    }
}
