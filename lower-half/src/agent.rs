//! The checkpoint agent of this rank and, in rank 0, the job's coordinator: what the `coordinator`
//! crate does over sockets, on threads of the lower half, applied to this process.
//!
//! In order: [`setup`] once, [`serve`] in rank 0, [`relay`] in some others of a large job, [`connect`] in
//! every rank; then [`notify`] and [`clock_target`] for the upper half, and [`finished`] at the end. A process that is a job by itself
//! does all three at its start; others connect when the application has called MPI_Init.

pub mod cut;
mod doing;
mod fan_out;
pub mod faults;
mod levels;
mod partner;
mod process;
mod published;
mod store;

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{mpsc, Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use ckpt_image::{Disk, Key, Lineage};
use contract::gate;
use coordinator::agent::Agent;
use coordinator::coordinator::{Config, Parking};
use coordinator::job::{Address, Contact};
use coordinator::partner::partner_of;
use coordinator::relay::Relay;
use coordinator::server::{Options, Server};
use launcher::message;
use levels::Levels;
use loader::Listener;
use partner::{Mate, Partner};

use crate::options::Checkpoints;
pub use process::set_restored_abi;
use process::ThisProcess;
use published::Published;
use store::Sets;

/// A section of an image: kind, version, content.
pub type Section = (u32, u32, Vec<u8>);

/// What the agent must be told.
pub struct Setup {
    /// Where, when and how many.
    pub checkpoints: Checkpoints,
    /// What sets and images are written through.
    pub disk: Disk,
    /// Memory is too scarce for a copy, whatever there is of it.
    pub scarce: bool,
    /// What seals sets.
    pub key: Option<Key>,
    /// The program and its arguments, for people.
    pub command: Vec<String>,
    /// The run that this process belongs to.
    pub lineage: Lineage,
    /// Name and version of the MPI library below, for people.
    pub library: String,
    /// What the image is to hold beside memory and the loader's
    /// state of the process. Called while all threads stand still.
    pub sections: fn() -> Vec<Section>,
    /// MPI_Finalize, for a job that ends with a checkpoint: its launcher would call it a crash
    /// otherwise. Called while all threads stand still, on a thread of the lower half.
    pub finalize: fn(),
}

/// Where [`loader::start_aside`] fails.
pub const NO_TABLE: &str =
    "no thread with a table of descriptors of its own can be made, without which no checkpoint can be taken; does a \
     container's seccomp policy forbid close_range (Linux 5.9)?";

/// How long a process with a relay waits at its end for those below to end, too.
const LINGER: Duration = Duration::from_secs(1);

static SETUP: OnceLock<Setup> = OnceLock::new();
static SERVER: OnceLock<Server> = OnceLock::new();
static RELAY: OnceLock<Relay> = OnceLock::new();
static AGENT: OnceLock<Agent> = OnceLock::new();
/// None where images go straight to the checkpoint directory.
static LEVELS: OnceLock<Option<Levels>> = OnceLock::new();
/// None where no copies are kept on other machines, or not of this rank's images.
static PARTNER: OnceLock<Option<Partner>> = OnceLock::new();
/// Serving and connecting happen once, whoever asks first.
static STARTING: Mutex<()> = Mutex::new(());

fn starting() -> MutexGuard<'static, ()> {
    STARTING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells the agent what it must know, before any communicator is made. Only the first call counts.
pub fn setup(setup: Setup) -> Result<()> {
    let published = Published::from_environment()?.features();
    gate().lower.features.fetch_or(published, Ordering::Relaxed);
    SETUP.get_or_init(|| setup);
    Ok(())
}

fn known() -> Result<&'static Setup> {
    SETUP
        .get()
        .context("the checkpoint agent was not set up (a defect in Stasis)")
}

/// The checkpoint directory.
pub fn directory() -> Result<&'static Path> {
    Ok(&known()?.checkpoints.dir)
}

/// Starts the coordinator of a job of `size` ranks in this process, if it does not run here already.
/// Returns what the other ranks need for [`connect`]. Leaves the job file.
pub fn serve(size: u32) -> Result<Contact> {
    let _one = starting();
    let setup = known()?;
    let fan_out = fan_out::from_environment()?;
    if SERVER.get().is_none() {
        let parking = match Published::from_environment()?.final_parking {
            true => Parking::Final,
            false => Parking::Tentative,
        };
        let options = Options {
            config: Config {
                parking,
                ..Config::new(size)
            },
            directory: setup.checkpoints.dir.clone(),
            local: launcher::ranks_here().unwrap_or(1) >= size,
            plan: setup.checkpoints.schedule.plan(SystemTime::now()),
            program: setup.command.clone(),
            mpi: setup.library.clone(),
        };
        store::forget_older(&setup.checkpoints.dir);
        let sets = Sets::new(setup, size);
        let server = on_lower_thread(move || Server::start(options, sets))?;
        SERVER.get_or_init(|| server);
    }
    let server = SERVER.get().context("the coordinator does not run")?;
    let address = server.address().clone();
    Ok(Contact {
        address,
        fan_out,
        partners: setup.checkpoints.partner,
    })
}

/// Starts a relay for so many others between them and `above`. Returns what they need for [`connect`].
pub fn relay(above: &Contact, rank: u32, others: usize) -> Result<Contact> {
    let address = above.address.clone();
    let relay = on_lower_thread(move || Relay::start(&address, rank, others))?;
    let address = RELAY.get_or_init(|| relay).address().clone();
    Ok(Contact {
        address,
        ..above.clone()
    })
}

/// Listens for those ranks whose images this one is to keep copies of. Returns where, for [`pair`]; none where
/// this rank has no local directory, or cannot listen, which is said.
pub fn host_partners(rank: u32, size: u32, token: String) -> Result<Option<Address>> {
    let setup = known()?;
    let local = launcher::ranks_here().unwrap_or(1) >= size;
    let started = Partner::start(setup, rank, local, token).unwrap_or_else(|why| {
        let said = format!(
            "no copies of other ranks' images can be kept here: {}",
            message::reasons(why.as_ref())
        );
        crate::say(rank, said);
        None
    });
    let partner = PARTNER.get_or_init(|| started);
    let address = partner.as_ref().map(Partner::address);
    Ok(address.cloned())
}

/// Pairs this rank with the one that keeps copies of its images, where all ranks run on these machines and
/// listen there.
pub fn pair(rank: u32, hosts: &[String], addresses: Vec<Option<Address>>) {
    let Some(mate) = partner_of(rank, hosts) else {
        if rank == 0 {
            let host = hosts.first().map_or("one machine", String::as_str);
            message::say(format_args!(
                "--partner: no copies are kept, because all ranks run on {host}"
            ));
        }
        return;
    };
    let at = mate as usize;
    match (known_partner(), addresses.into_iter().nth(at).flatten()) {
        (Some(partner), Some(address)) => partner.pair(Mate {
            rank: mate,
            host: hosts[at].clone(),
            address,
        }),
        (_, None) => {
            let said = format_args!(
                "no copies of its images are kept: rank {mate} on {}, which should, has no --local-dir or has \
                 said why it cannot",
                hosts[at]
            );
            crate::say(rank, said);
        }
        (None, _) => {}
    }
}

/// Connects this rank to the coordinator or a relay, if it is not yet.
pub fn connect(contact: Contact, rank: u32, size: u32) -> Result<()> {
    let _one = starting();
    if AGENT.get().is_some() {
        return Ok(());
    }
    let address = contact.address;
    let setup = known()?;
    let levels = Levels::start(setup, rank)?;
    LEVELS.get_or_init(|| levels);
    let process = Arc::new(ThisProcess::new(setup, rank, size)?);
    let agent = on_lower_thread(move || Agent::connect(&address, rank, size, process))?;
    AGENT.get_or_init(|| agent);
    // The MPI library may have made a signal its own while it was initialised.
    take_signals()?;
    loader::spawn_lower("ckpt-asked", pass_requests_on)
        .context("a thread of the checkpoint agent cannot be started: nothing that this rank asks for is heard")?;
    Ok(())
}

/// Takes the signals that are to ask for checkpoints, which would end the process otherwise.
pub fn take_signals() -> Result<()> {
    let signals = &known()?.checkpoints.schedule.signals;
    loader::take_signals(signals.iter().map(|asking| asking.signal));
    Ok(())
}

/// Tells the coordinator whenever this process asks for a checkpoint.
fn pass_requests_on() {
    let (Ok(setup), Some(agent)) = (known(), AGENT.get()) else {
        return;
    };
    let mut requests = Listener::new();
    loop {
        let asked = requests.wait();
        agent.ask(setup.checkpoints.schedule.ends_with(asked));
    }
}

/// This rank's local directory, if images go to one first.
fn levels() -> Option<&'static Levels> {
    LEVELS.get()?.as_ref()
}

/// Who keeps copies, if any are kept.
fn known_partner() -> Option<&'static Partner> {
    PARTNER.get()?.as_ref()
}

/// Clocks or activity changed.
pub fn notify() {
    if let Some(agent) = AGENT.get() {
        agent.notify();
    }
}

/// As `contract::service::ClockTarget` says.
pub fn clock_target(id: u64) -> u64 {
    AGENT.get().map_or(0, |agent| agent.clock_target(id))
}

/// The process is about to end as it should: no checkpoint can be taken from now on.
pub fn finished() {
    if let Some(agent) = AGENT.get() {
        agent.finished();
    }
    if let Some(levels) = levels() {
        levels.finish();
    }
    if let Some(partner) = known_partner() {
        partner.finish();
    }
    if let Some(relay) = RELAY.get() {
        relay.wait_alone(LINGER);
        relay.close();
    }
    if let Some(server) = SERVER.get() {
        server.close();
    }
}

/// Runs `job` on a thread of the lower half and waits for it: threads that it starts inherit that
/// all signals are blocked, because signals are meant for the application.
fn on_lower_thread<T, E>(job: impl FnOnce() -> Result<T, E> + Send + 'static) -> Result<T>
where
    T: Send + 'static,
    E: std::error::Error + Send + Sync + 'static,
{
    let (tell, told) = mpsc::channel();
    loader::spawn_lower("ckpt-start", move || {
        let _ = tell.send(job());
    })
    .context(
        "a thread of the checkpoint agent cannot be started; the job cannot be checkpointed",
    )?;
    Ok(told
        .recv()
        .context("a thread of the checkpoint agent ended early")??)
}
