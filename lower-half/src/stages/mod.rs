//! MPI Stages in this rank (docs/internals/stages.md): the files with the state of MPI at the end of each epoch, and
//! the survival of this rank when another rank dies.

mod stand_in;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::OnceLock;

use anyhow::{Context, Result};
use contract::gate;
use job_spec::Checkpoints;
use nix::unistd::Pid;
use supervisor::epochs::{self, Epochs};
use supervisor::messages::NoSurvivor;

use crate::agent;

/// Number of a rank's files from which on those are removed that no rank needs any more.
const MANY: u64 = 8;

/// A job of MPI Stages, as this rank knows it.
struct Job {
    directory: PathBuf,
    /// Epoch from which this start of the job goes on.
    epoch: u64,
    incarnation: u32,
    /// This rank, as the launcher tells it.
    rank: u32,
    stand_in: Pid,
}

static JOB: OnceLock<Job> = OnceLock::new();

/// Begins this rank's part in a job of MPI Stages, if it is one. From here on the rank is a child of the process that
/// the launcher knows.
pub fn start(checkpoints: &Checkpoints) -> Result<()> {
    let (Some(epoch), Some(incarnation)) = (checkpoints.stages, checkpoints.incarnation) else {
        return Ok(());
    };
    let rank =
        launcher::rank().context("--stages: the launcher does not tell the rank's number")?;
    let stand_in = stand_in::leave_behind()?;
    JOB.get_or_init(|| Job {
        directory: epochs::directory(&checkpoints.dir),
        epoch,
        incarnation,
        rank,
        stand_in,
    });
    Ok(())
}

/// The process that stands in for this rank with the launcher.
pub fn stand_in() -> Option<Pid> {
    JOB.get().map(|job| job.stand_in)
}

/// `stasis run` knows this rank, and that process.
pub fn is_known() {
    stand_in::is_known();
}

/// The directory of this rank's memory, if it has survived the last incarnation.
pub fn survived() -> Option<PathBuf> {
    let job = JOB.get()?;
    let last = job.incarnation.checked_sub(1)?;
    let directory = epochs::survivor(&job.directory, last, job.rank);
    let whole = ckpt_image::any_finished(&directory).unwrap_or(false);
    (job.epoch > 0 && whole).then_some(directory)
}

/// Another rank has died: writes this rank's memory.
pub fn survive() -> Result<(), NoSurvivor> {
    let because = || NoSurvivor::Because("the job does not run under MPI Stages".to_owned());
    let job = JOB.get().ok_or_else(because)?;
    agent::survive(epochs::survivor(&job.directory, job.incarnation, job.rank))
}

/// See `Hooks::stages_begin`.
pub fn begin() -> Option<(u64, u32)> {
    JOB.get().map(|job| (job.epoch, job.incarnation))
}

fn own(epoch: u64) -> Result<(&'static Path, u32, PathBuf)> {
    let job = JOB.get().context("the job does not run under MPI Stages")?;
    let rank = gate().lower.rank.load(Ordering::Relaxed);
    let path = epochs::file(&job.directory, epoch, rank);
    Ok((&job.directory, rank, path))
}

fn size() -> u32 {
    gate().lower.size.load(Ordering::Relaxed)
}

/// See `Hooks::stages_write`.
pub fn write(epoch: u64, bytes: &[u8]) -> Result<()> {
    let (directory, rank, path) = own(epoch)?;
    let written = loader::on_own_fd_table(|| {
        if rank == 0 && epoch == 1 {
            replace(&epochs::size_file(directory), size().to_string().as_bytes())?;
        }
        replace(&path, bytes)?;
        if epoch.is_multiple_of(MANY) {
            forget(directory, rank)?;
        }
        Ok::<(), io::Error>(())
    });
    written
        .and_then(|written| written)
        .with_context(|| format!("cannot write the state of MPI to {}", path.display()))
}

/// See `Hooks::stages_read`.
pub fn read(epoch: u64) -> Result<Vec<u8>> {
    let (_, _, path) = own(epoch)?;
    let read = loader::on_own_fd_table(|| fs::read(&path));
    read.and_then(|read| read)
        .with_context(|| format!("cannot read the state of MPI from {}", path.display()))
}

/// Writes a file as a whole or not at all.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let written = fs::File::create(&new).and_then(|mut file| file.write_all(bytes));
    written
        .and_then(|()| fs::rename(&new, path))
        .inspect_err(|_| {
            let _ = fs::remove_file(&new);
        })
}

/// Removes this rank's files that are older than those to which a fault may lead back. One more is kept.
fn forget(directory: &Path, rank: u32) -> io::Result<()> {
    let epochs = Epochs::of(directory)?;
    let common = epochs.common();
    for epoch in epochs.of_rank(rank).filter(|epoch| epoch + 1 < common) {
        fs::remove_file(epochs::file(directory, epoch, rank))?;
    }
    Ok(())
}
