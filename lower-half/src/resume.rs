//! Bringing an upper half back from its image, as a fresh MPI program.
//!
//! # Safety
//! The one unsafe call is that of the upper half's own entry point, on a thread that has the upper
//! thread pointer, as `contract::UpperEntry` demands.
#![allow(unsafe_code)]

use std::convert::Infallible;
use std::sync::atomic::Ordering;

use ::restart::Opened;
use anyhow::{anyhow, bail, Context, Result};
use ckpt_image::kind;
use contract::gate;
use loader::ProcessState;

use crate::job::{self, JobState};
use crate::mpi::{self, world};
use crate::options::Restart;
use crate::{environment, launch, wire_up};

/// Brings the rank back; returns only if that cannot be done.
pub fn resume(options: Restart) -> Result<Infallible> {
    environment::settle()?;
    loader::check_address_space()?;
    let own = std::env::current_exe().context("cannot find the lower half's own path")?;
    let (rank, size) = (wire_up::launcher_rank(), wire_up::launcher_size());
    let dir = &options.ckpt_dir;
    let set = ::restart::choose(dir, options.set.as_deref(), size)?;
    let opened = ::restart::open(dir, Some(&set), rank, size)?;
    let process: ProcessState = section(&opened, kind::PROCESS)?;
    let job: JobState = section(&opened, kind::JOB)?;

    // The fresh MPI library must not take numbers that the application's files have.
    loader::reserve_fds(&process)?;
    let world = if job.mpi_state == 0 {
        None
    } else {
        Some(join(&job, rank, size, &set)?)
    };
    opened.map()?;
    let restored = loader::restore(process)?;
    fill_gate(world.as_ref());
    launch::redirect(&own);
    job::set_command(job.command);
    wire_up::start(dir, options.interval);
    if world.is_some() {
        wire_up::connected(rank, size);
    }
    if job.mpi_state == 2 {
        // The application has finalised MPI; it only was needed for the ranks to find each other.
        world::finalize();
    }
    restored.go(move || {
        if job.mpi_state == 1 {
            rebuild();
        }
    })
}

/// Initialises MPI and makes sure that it is what the image needs, on every rank.
fn join(job: &JobState, rank: u32, size: u32, set: &str) -> Result<world::World> {
    let world = world::initialise(job.thread_level)?;
    // The image was chosen by the launcher's word; MPI has the last.
    let agrees = (world.rank, world.size) == (rank, size);
    if world::minimum(i64::from(agrees))? == 0 {
        bail!(
            "MPI says rank {} of {}, the launcher's environment rank {rank} of {size}: {set} was \
             not touched; start the restart with the mpirun that belongs to this MPI library \
             (`stasis restart --mpi` names another)",
            world.rank,
            world.size
        );
    }
    Ok(world)
}

fn section<T: serde::de::DeserializeOwned>(opened: &Opened, kind: u32) -> Result<T> {
    let found = opened
        .section(kind)
        .ok_or_else(|| anyhow!("section {kind} is missing"));
    found
        .and_then(|section| Ok(postcard::from_bytes(&section.bytes)?))
        .with_context(|| {
            format!(
                "{}: the image of rank {} cannot be read; it was made by another version of Stasis",
                opened.set(),
                opened.header().rank
            )
        })
}

fn fill_gate(world: Option<&world::World>) {
    let gate = gate();
    mpi::fill(gate);
    gate.phase
        .store(contract::Phase::Run as u32, Ordering::Relaxed);
    gate.lower.epoch.fetch_add(1, Ordering::Relaxed);
    if let Some(world) = world {
        world.publish(gate);
    }
}

/// Has the upper half make its MPI objects anew. Runs with the upper thread pointer.
fn rebuild() {
    let entry = gate().upper.rebuild.load(Ordering::Acquire);
    if entry == 0 {
        return;
    }
    // SAFETY: see the head of this file; the type is the contract's.
    let failed = unsafe { std::mem::transmute::<usize, extern "C" fn() -> i32>(entry)() };
    if failed != 0 {
        // Without its objects the application cannot go on. The image is as good as before.
        world::abort(1);
    }
}
