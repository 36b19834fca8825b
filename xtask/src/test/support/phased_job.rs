//! A job that goes from phase to phase, with checkpoints between.

use super::held_job::bring_back;
use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::stasis;
use anyhow::{ensure, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

/// A job of one rank whose program waits in each of its phases (`examples/tools/phases.h`).
pub struct PhasedJob<'a> {
    dir: &'a Path,
    pub ckpt: PathBuf,
    pub job: Job,
}

impl<'a> PhasedJob<'a> {
    /// Starts the job, whose checkpoints are in `ck`.
    pub fn start(mut launch: Command, dir: &'a Path) -> Result<Self> {
        launch.current_dir(dir);
        let job = Job::start(launch, dir, "launch")?;
        let ckpt = dir.join("ck");
        Ok(PhasedJob { dir, ckpt, job })
    }

    /// Waits until the program is at this phase.
    pub fn reach(&mut self, phase: u32) -> Result<()> {
        let at = self.dir.join(format!("at.{phase}"));
        let there = self
            .job
            .until("the phase", Instant::now() + LIMIT, || at.exists());
        self.job.explain(there, self.dir)
    }

    /// Takes a checkpoint.
    pub fn checkpoint(&self) -> Result<()> {
        stasis::take_checkpoint(&self.ckpt, self.dir, "checkpoint", LIMIT)
    }

    /// Lets the program go on from a phase.
    pub fn go(&self, phase: u32) -> Result<()> {
        Ok(fs::write(self.dir.join(format!("go.{phase}")), "")?)
    }

    /// Kills the job, and restarts it from a set, or the newest one.
    pub fn restart(&mut self, mpi: Mpi, set: &str) -> Result<()> {
        let mut restart = stasis::restart(mpi, 1, &self.ckpt.join(set), self.dir);
        restart.current_dir(self.dir);
        bring_back(&mut self.job, restart, &self.ckpt, self.dir)
    }

    /// Waits for the end of the job, whose output has these words.
    pub fn finish(&mut self, wanted: &str) -> Result<()> {
        self.job.succeed(Instant::now() + LIMIT, self.dir)?;
        let shown = job::read_text(&self.job.stdout);
        ensure!(shown.contains(wanted), "{shown} instead of {wanted}");
        Ok(())
    }
}
