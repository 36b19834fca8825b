//! A rank of a standby world: it initialises MPI as the restart of a running job needs it, and sleeps. When that job
//! has failed, `stasis run` lets it go, and it restarts from the newest checkpoint.
//!
//! Asleep it makes no MPI call, so that nothing spins: one thread reads from the keeper's connection, and the first
//! thread waits for it. With `--standby hot` it maps the image of each new checkpoint meanwhile.

use std::convert::Infallible;
use std::sync::Arc;

use ::restart::Opened;
use anyhow::{ensure, Context, Result};
use ckpt_image::set_name;
use dump::MemoryBudget;
use job_spec::RestartSpec;
use loader::HeldNumbers;

use super::{go_on, set_named, Initialised};
use crate::mpi::world;
use crate::start::keeper::Sleeper;
use crate::start::library_env;
use crate::{agent, options};

/// Runs the rank; returns only after a failure. `options` names the newest checkpoint at present.
pub fn standby(mut options: RestartSpec) -> Result<Infallible> {
    library_env::load(options.checkpoints.mpi_library.as_deref())?;
    loader::check_address_space()?;
    loader::start_own_fd_table().context(agent::NO_TABLE)?;
    let sleeper = Sleeper::connect(&options.checkpoints)?;
    let (rank, size) = (launcher::rank().unwrap_or(0), launcher::size().unwrap_or(1));
    let set = set_named(&options, size)?;
    let level = set.manifest().thread_level.with_context(|| {
        format!(
            "{} was taken before MPI_Init, and a standby world has called it",
            set.name()
        )
    })?;
    let held = HeldNumbers::take()?;
    let world = world::initialise(level)?;
    let mut early = None;
    let map = |number| {
        // There may be no room for both.
        drop(early.take());
        early = map_early(&mut options, number, rank, size).ok();
        early.is_some()
    };
    if !sleeper.sleep(world.size, map)? {
        world::finalize();
        std::process::exit(0);
    }
    // A newer checkpoint may have been taken meanwhile.
    options.set = None;
    let initialised = Initialised {
        world,
        level,
        held: Some(held),
        early,
    };
    go_on(&options, Some(initialised))
}

/// Verifies this rank's image of a checkpoint, and maps what depends on it alone. After a failure the rank reads the
/// image when it is let go, and reports what it finds then.
fn map_early(options: &mut RestartSpec, number: u64, rank: u32, size: u32) -> Result<Opened> {
    options.set = Some(set_name(number));
    let set = set_named(options, size)?;
    ensure!(set.reaches(rank), "the image is on another machine");
    // `stasis run` looks at the memory of its own machine only.
    let images = set.manifest().ranks.iter();
    let mut own = images.filter(|entry| entry.rank == rank);
    let needed = own.next().map_or(0, |entry| entry.image.memory_bytes);
    let there = MemoryBudget::for_each_of(1).bytes;
    ensure!(needed <= there, "there is no memory for the image");
    let key = options::key(&options.checkpoints)?;
    let directory = &options.checkpoints.dir;
    let counter = Arc::default();
    let mut opened = ::restart::open_in(directory, set, key.as_ref(), rank, size, &counter)?;
    opened.map_early()?;
    Ok(opened)
}
