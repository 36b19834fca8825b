//! The checkpoint agent of this rank and, in rank 0, the job's coordinator. The crate `coordinator` runs the protocol
//! over sockets, on threads of the lower half. This module applies it to this process.
//!
//! The functions are called in this order: [`setup`] once, [`serve`] in rank 0, [`relay`] in some ranks of a large job,
//! [`connect`] in every rank. Then the upper half calls [`notify`] and [`clock_target`]. [`finished`] is the last.
//! A process that is a job by itself connects at its start. Other processes connect when the application has called
//! MPI_Init.

mod current_call;
pub mod debug;
pub mod gpu;
mod instances;
mod local_process;
mod local_storage;
mod mpi_abi;
mod partner_copies;
mod set_store;
mod setup;
mod stuck_threads;
mod survivor;
mod thread_stacks;
mod waits;

use std::sync::atomic::Ordering;
use std::sync::{mpsc, Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use contract::{gate, RETRACTABLE, TARGETS_ARE_KNOWN};
use coordinator::agent::Agent;
use coordinator::chronicle;
use coordinator::net::contact::{Address, Contact};
use coordinator::net::relay::Relay;
use coordinator::partner::partner_of;
use coordinator::protocol::coordinator::{Config, Parking};
use coordinator::server::{Options, Server};
use launcher::message;
use loader::RequestListener;

use crate::console;
use crate::mpi;
use crate::options::schedule;
use debug::baseline_algorithms::BaselineAlgorithms;
use debug::fan_out;
use instances::{AGENT, RELAY, SERVER};
use local_process::LocalProcess;
use local_storage::LocalStorage;
pub use mpi_abi::set_restored as set_restored_abi;
use partner_copies::{PartnerCopies, PartnerRank};
use set_store::SetStore;
use setup::known;
pub use setup::{begins, directory, stages, tools, Setup};
pub use survivor::survive;

/// Message for a failure of [`loader::start_own_fd_table`].
pub const NO_TABLE: &str =
    "cannot create a thread with its own descriptor table, which every checkpoint needs. It needs Linux 5.9 \
     (close_range), which a container's seccomp policy may forbid";

/// Microseconds of a second.
const MICROS: u64 = 1_000_000;

/// How long a process with a relay waits at its end for the ranks below it to end.
const LINGER: Duration = Duration::from_secs(1);

/// Held by the thread that runs [`serve`] or [`connect`], because each may take effect only once.
static STARTING: Mutex<()> = Mutex::new(());

fn starting() -> MutexGuard<'static, ()> {
    STARTING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives the agent its settings, before any communicator is created. Only the first call counts.
pub fn setup(setup: Setup) -> Result<()> {
    let features = BaselineAlgorithms::from_environment()?.features();
    gate().lower.features.fetch_or(features, Ordering::Relaxed);
    setup::set(setup);
    Ok(())
}

/// Starts the coordinator of a job of `size` ranks in this process, if it does not run here already.
/// Writes the job file. Returns the data that the other ranks need for [`connect`].
pub fn serve(size: u32) -> Result<Contact> {
    let _one = starting();
    let setup = known()?;
    let fan_out = fan_out::from_environment()?;
    if SERVER.get().is_none() {
        let parking = match BaselineAlgorithms::from_environment()?.final_parking {
            true => Parking::Final,
            false => Parking::Tentative,
        };
        let options = Options {
            config: Config {
                parking,
                patience: u64::from(setup.checkpoints.patience) * MICROS,
                ..Config::new(size)
            },
            directory: setup.checkpoints.dir.clone(),
            local: launcher::ranks_here().unwrap_or(1) >= size,
            plan: schedule::plan(&setup.checkpoints.schedule, SystemTime::now()),
            program: setup.command.clone(),
            mpi: setup.library.clone(),
            history: chronicle::Options {
                begin: setup.begin(size),
                metrics: setup.checkpoints.metrics.clone(),
                quiet: setup.checkpoints.quiet,
            },
        };
        set_store::forget_older(&setup.checkpoints.dir);
        let sets = SetStore::new(setup, size);
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

/// Starts a relay between `others` ranks and `above`. Returns the data that these ranks need for [`connect`].
pub fn relay(above: &Contact, rank: u32, others: usize) -> Result<Contact> {
    let address = above.address.clone();
    let relay = on_lower_thread(move || Relay::start(&address, rank, others))?;
    let address = RELAY.get_or_init(|| relay).address().clone();
    Ok(Contact {
        address,
        ..above.clone()
    })
}

/// Listens for the ranks whose partner this one is. Returns the address, for [`pair`]. Returns `None` if this rank has
/// no local directory, or if it cannot listen, after a message.
pub fn host_partners(rank: u32, size: u32, token: String) -> Result<Option<Address>> {
    let setup = known()?;
    let local = launcher::ranks_here().unwrap_or(1) >= size;
    let started = PartnerCopies::start(setup, rank, local, token).unwrap_or_else(|why| {
        let said = format!(
            "cannot keep copies of other ranks' images: {}",
            message::reasons(why.as_ref())
        );
        console::say(rank, said);
        None
    });
    let address = partner_copies::set(started).map(PartnerCopies::address);
    Ok(address.cloned())
}

/// Pairs this rank with its partner. `hosts` and `addresses` hold the machine and the listening address of each rank.
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
    match (
        partner_copies::of_this_rank(),
        addresses.into_iter().nth(at).flatten(),
    ) {
        (Some(partner), Some(address)) => partner.pair(PartnerRank {
            rank: mate,
            host: hosts[at].clone(),
            address,
        }),
        (_, None) => {
            let said = format_args!(
                "no copies of its images are kept: its partner, rank {mate} on {}, has no --local-dir or has \
                 printed why it cannot listen",
                hosts[at]
            );
            console::say(rank, said);
        }
        (None, _) => {}
    }
}

/// Connects this rank to the coordinator or a relay, unless it is connected already.
pub fn connect(contact: Contact, rank: u32, size: u32) -> Result<()> {
    let _one = starting();
    if AGENT.get().is_some() {
        return Ok(());
    }
    let address = contact.address;
    let setup = known()?;
    local_storage::set(LocalStorage::start(setup, rank)?);
    let process = Arc::new(LocalProcess::new(setup, rank, size)?);
    // The published algorithms have no retractable operations.
    if mpi::serves_turns()
        && BaselineAlgorithms::from_environment()? == BaselineAlgorithms::default()
    {
        gate()
            .lower
            .features
            .fetch_or(RETRACTABLE, Ordering::Relaxed);
    }
    if setup.checkpoints.stages.is_some() {
        survivor::start(&process)
            .context("cannot start the thread that writes a survivor's memory")?;
    }
    let agent = on_lower_thread(move || Agent::connect(&address, rank, size, process))?;
    AGENT.get_or_init(|| agent);
    // The MPI library may have installed its own handlers while it was initialised.
    take_signals()?;
    loader::spawn_lower("ckpt-asked", pass_requests_on).context(
        "cannot start the thread of the checkpoint agent that forwards this rank's own requests",
    )?;
    Ok(())
}

/// Installs the handlers of the signals that request checkpoints. Without them these signals end the process.
pub fn take_signals() -> Result<()> {
    let signals = &known()?.checkpoints.schedule.signals;
    loader::take_signals(signals.iter().map(|request| request.signal));
    Ok(())
}

/// Forwards each request for a checkpoint of this process to the coordinator.
fn pass_requests_on() {
    let (Ok(setup), Some(agent)) = (known(), AGENT.get()) else {
        return;
    };
    let mut requests = RequestListener::new();
    loop {
        let asked = requests.wait();
        agent.ask(schedule::ends_with(&setup.checkpoints.schedule, asked));
    }
}

/// Makes the agent read the clocks and the activity again.
pub fn notify() {
    if let Some(agent) = AGENT.get() {
        agent.notify();
    }
}

/// See `contract::service::ClockTarget`.
pub fn clock_target(id: u64) -> u64 {
    AGENT.get().map_or(0, |agent| match id {
        TARGETS_ARE_KNOWN => u64::from(agent.targets_are_known()),
        id => agent.clock_target(id),
    })
}

/// Ends this rank's part in the control plane, before an orderly end of the process with this exit code, or before
/// another process is the rank. No checkpoint can be taken from now on.
pub fn finished(exit_code: Option<i32>) {
    if let Some(agent) = AGENT.get() {
        agent.finished();
    }
    if let Some(storage) = local_storage::of_this_rank() {
        storage.finish();
    }
    if let Some(partner) = partner_copies::of_this_rank() {
        partner.finish();
    }
    if let Some(relay) = RELAY.get() {
        relay.wait_alone(LINGER);
        relay.close();
    }
    if let Some(server) = SERVER.get() {
        server.close(exit_code);
    }
}

/// Runs `job` on a thread of the lower half and waits for it. Threads that `job` starts inherit a mask that blocks all
/// signals, because signals are for the application.
fn on_lower_thread<T, E>(job: impl FnOnce() -> Result<T, E> + Send + 'static) -> Result<T>
where
    T: Send + 'static,
    E: std::error::Error + Send + Sync + 'static,
{
    let (tell, told) = mpsc::channel();
    loader::spawn_lower("ckpt-start", move || {
        let _ = tell.send(job());
    })
    .context("cannot start a thread of the checkpoint agent; the job cannot be checkpointed")?;
    Ok(told
        .recv()
        .context("a thread of the checkpoint agent ended early")??)
}
