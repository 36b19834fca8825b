//! Copies of this rank's images on another machine (`--partner`), and of its guests' images here.
//!
//! One thread does this rank's part, which starts those that listen for guests: all [`loader::aside`], with none
//! of the application's files open, so that connections and images take no numbers of its descriptors.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, OnceLock};

use anyhow::{anyhow, Context, Result};
use ckpt_image::{Key, LocalDir, SetId};
use coordinator::agent::PATIENCE;
use coordinator::job::Address;
use coordinator::partner::{give, Answer, Host, Keeper, Kept};
use coordinator::protocol::{Copied, Offer};

use super::Setup;

/// What keeps this rank's copies, and others' here.
pub struct Partner {
    rank: u32,
    address: Address,
    mate: OnceLock<Mate>,
    orders: Sender<Order>,
}

/// The rank that keeps copies of this one's images.
#[derive(Clone)]
pub struct Mate {
    pub rank: u32,
    pub host: String,
    pub address: Address,
}

enum Order {
    /// Have the mate keep a copy of an image; where it is then.
    Copy(Image, Mate, Sender<Result<String>>),
    /// Copies of images that are here no more are needed no more.
    Release,
    /// No copy is needed any more: returns when no guest needs one, either.
    Finish(Sender<()>),
}

struct Image {
    set: String,
    id: SetId,
    path: PathBuf,
}

impl Partner {
    /// Listens for guests who know the token; `local`: on this machine alone. None where this rank has no local
    /// directory.
    pub fn start(
        setup: &'static Setup,
        rank: u32,
        local: bool,
        token: String,
    ) -> Result<Option<Partner>> {
        let Some(dir) = &setup.checkpoints.local_dir else {
            return Ok(None);
        };
        let keeper = Copies {
            local: LocalDir::new(&setup.disk, dir, &setup.checkpoints.dir, rank),
            key: setup.key.as_ref(),
        };
        let (orders, hear) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        loader::spawn_aside("ckpt-partner", move || {
            match Host::start(local, token, Arc::new(keeper)) {
                Ok(host) => {
                    let _ = tell.send(Ok(host.address().clone()));
                    serve(rank, &host, &hear);
                }
                Err(why) => drop(tell.send(Err(why))),
            }
        })?;
        let address = told.recv().context("its thread has ended")??;
        Ok(Some(Partner {
            rank,
            address,
            mate: OnceLock::new(),
            orders,
        }))
    }

    /// Where guests connect.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Who keeps this rank's copies from now on.
    pub fn pair(&self, mate: Mate) {
        self.mate.get_or_init(|| mate);
    }

    /// Has a copy kept of this rank's image of a set. None where nobody keeps copies for this rank.
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

    /// This rank's images may have been drained.
    pub fn release(&self) {
        let _ = self.orders.send(Order::Release);
    }

    /// This rank's images are drained, or never will be by this process. Returns when that is so of its guests,
    /// which is said if it takes long.
    pub fn finish(&self) {
        let (done, wait) = mpsc::channel();
        let _ = self.orders.send(Order::Finish(done));
        if let Err(mpsc::RecvTimeoutError::Timeout) = wait.recv_timeout(PATIENCE) {
            let said = "waits for ranks whose images it keeps copies of, until these are drained to the \
                        checkpoint directory; if it is killed instead, the copies stay, and a restart finds them";
            crate::say(self.rank, said);
            let _ = wait.recv();
        }
    }
}

fn serve(rank: u32, host: &Host, orders: &Receiver<Order>) {
    let mut held: Vec<(PathBuf, Kept)> = Vec::new();
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

fn copy(rank: u32, image: Image, mate: &Mate) -> Result<Kept> {
    let mut file = File::open(&image.path)?;
    let offer = Offer {
        rank,
        set: image.set,
        id: image.id.0.to_vec(),
        bytes: file.metadata()?.len(),
    };
    let kept = give(mate.rank, &mate.address, offer, &mut file);
    kept.map_err(|why| anyhow!("{why} (on {})", mate.host))
}

/// Guests' copies, in this rank's local directory.
struct Copies {
    local: LocalDir,
    key: Option<&'static Key>,
}

impl Keeper for Copies {
    fn keep(&self, offer: &Offer, bytes: &mut dyn Read) -> Answer {
        let id = offer.id.as_slice().try_into();
        let id = id.map_err(|_| "a set id of another length".to_owned())?;
        let Offer { rank, set, .. } = offer;
        let kept = self.local.keep(set, SetId(id), *rank, offer.bytes, bytes);
        let path = kept.map_err(|why| why.to_string())?.into_os_string();
        path.into_string()
            .map_err(|path| format!("{} is not UTF-8", path.display()))
    }

    fn left(&self) {
        self.local.tidy(self.key);
    }
}
