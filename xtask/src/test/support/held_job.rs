//! Jobs of two ranks that run an example and stop at its cut.

use super::compile::command_line;
use super::directives::{collect, Example};
use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::{paths, stasis};
use anyhow::{ensure, Context, Result};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

/// Ranks of each job.
pub const RANKS: usize = 2;

/// One example by its name.
pub fn example(folder: &str, name: &str) -> Result<Example> {
    let mut all = collect(&paths::examples(), &[folder])?.into_iter();
    all.find(|example| example.name == name)
        .with_context(|| format!("there is no example {name}"))
}

/// Starts an example and waits until all its ranks have announced their cut.
pub fn start(example: &Example, dir: &Path, ckpt: &Path, mpi: Mpi) -> Result<Job> {
    let launch = stasis::launch(mpi, RANKS, ckpt, dir);
    start_by(launch, example, dir, mpi)
}

/// Starts a job of two ranks and waits for their cut.
pub fn start_held(dir: &Path, ckpt: &Path, mpi: Mpi) -> Result<Job> {
    let held = example("probes", "probes/peers.p10_pending_irecv")?;
    start(&held, dir, ckpt, mpi)
}

/// The same by a command that launches it.
pub fn start_by(command: Command, example: &Example, dir: &Path, mpi: Mpi) -> Result<Job> {
    let mut job = begin(command, example, dir, mpi)?;
    reach_cut(&mut job, dir)?;
    Ok(job)
}

/// The same, without waiting for it.
pub fn begin(mut command: Command, example: &Example, dir: &Path, mpi: Mpi) -> Result<Job> {
    command
        .args(command_line(example, Some(mpi))?)
        .current_dir(dir)
        .env("STASIS_TEST_READY", dir.join("ready"))
        .env("STASIS_TEST_GO", dir.join("go"));
    Job::start(command, dir, "launch")
}

/// Restarts `p2p/ring_loop` by this command and waits for its end, which must be the right one.
pub fn ring_ends(restart: Command, dir: &Path) -> Result<()> {
    let mut job = Job::start(restart, dir, "restart")?;
    job.succeed(Instant::now() + LIMIT, dir)?;
    let printed = job::read_text(&job.stdout);
    ensure!(printed.contains("OK ring_loop"), "it prints {printed}");
    Ok(())
}

/// Kills a job, restarts it by this command, and waits until it accepts connections.
pub fn bring_back(job: &mut Job, command: Command, ckpt: &Path, dir: &Path) -> Result<()> {
    job.kill()?;
    let before = stasis::job_file(ckpt);
    *job = Job::start(command, dir, "restart")?;
    let back = stasis::until_reached(job, ckpt, &before, Instant::now() + LIMIT);
    job.explain(back, dir).map(drop)
}

/// Waits until all ranks of a job have announced their cut.
pub fn reach_cut(job: &mut Job, dir: &Path) -> Result<()> {
    reach_cut_of(RANKS, job, dir)
}

/// The same for a job with this number of ranks.
pub fn reach_cut_of(ranks: usize, job: &mut Job, dir: &Path) -> Result<()> {
    let ready = |rank: usize| dir.join(format!("ready.{rank}")).exists();
    job.until("all ranks reached the cut", Instant::now() + LIMIT, || {
        (0..ranks).all(ready)
    })
    .with_context(|| job::tail(&job::read_text(&job.stderr), 10))
}

/// Number of files in a folder whose names begin so.
pub fn files_named(dir: &Path, beginning: &str) -> usize {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name());
    names
        .filter(|name| name.to_string_lossy().starts_with(beginning))
        .count()
}

pub fn take_checkpoint(job: &mut Job, dir: &Path, ckpt: &Path) -> Result<()> {
    stasis::take_checkpoint(ckpt, dir, "checkpoint", LIMIT)?;
    job.kill()
}
