//! A rank of a standby world: it initialises MPI as the restart of a running job needs it, and sleeps. When that job has
//! failed, `stasis run` lets it go, and it restarts from the newest checkpoint.
//!
//! Asleep it makes no MPI call, so that nothing spins: one thread reads from the keeper's connection, and the first
//! thread waits for it.

use std::convert::Infallible;

use anyhow::{Context, Result};
use job_spec::RestartSpec;
use loader::HeldNumbers;

use super::{go_on, set_named, Initialised};
use crate::agent;
use crate::mpi::world;
use crate::start::keeper::Sleeper;
use crate::start::library_env;

/// Runs the rank; returns only after a failure. `options` names the newest checkpoint at present.
pub fn standby(mut options: RestartSpec) -> Result<Infallible> {
    library_env::ensure()?;
    loader::check_address_space()?;
    loader::start_own_fd_table().context(agent::NO_TABLE)?;
    let sleeper = Sleeper::connect(&options.checkpoints)?;
    let set = set_named(&options, launcher::size().unwrap_or(1))?;
    let level = set.manifest().thread_level.with_context(|| {
        format!(
            "{} was taken before MPI_Init, and a standby world has called it",
            set.name()
        )
    })?;
    let held = HeldNumbers::take()?;
    let world = world::initialise(level)?;
    if !sleeper.sleep(world.size)? {
        world::finalize();
        std::process::exit(0);
    }
    // A newer checkpoint may have been taken meanwhile.
    options.set = None;
    let initialised = Initialised {
        world,
        level,
        held: Some(held),
    };
    go_on(&options, Some(initialised))
}
