//! A workflow system starts a job again that was killed.

use crate::build::pypi;
use crate::harness::job::Job;
use crate::harness::mpi::Mpi;
use crate::harness::{job, paths, signal, stasis};
use crate::test::support::compile::command_line;
use crate::test::support::held_job::{example, reach_cut, RANKS};
use crate::test::{Case, Outcome};
use anyhow::{ensure, Result};
use nix::sys::signal::Signal;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(120);

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    let cases = Mpi::ALL.into_iter().map(|mpi| {
        Case::new(
            format!("schedulers/snakemake:{mpi}"),
            move |_, dir| match pypi::snakemake().exists() {
                true => snakemake(mpi, dir).into(),
                false => Outcome::Skipped("no Snakemake: `cargo xtask setup --full`".into()),
            },
        )
    });
    cases.collect()
}

/// A rank is killed after a checkpoint. Snakemake tries the rule again, which goes on from the checkpoint to its end.
fn snakemake(mpi: Mpi, dir: &Path) -> Result<()> {
    let held = example("probes", "probes/peers.p10_pending_irecv")?;
    let program = command_line(&held, Some(mpi))?.join(" ");
    let script = format!(
        "{} --cores 2 --retries 1 --snakefile {} --config program='{}' launch='mpirun.{mpi} -n {RANKS}'",
        pypi::snakemake().display(),
        paths::root().join("examples/schedulers/Snakefile").display(),
        program
    );
    let mut shell = stasis::shell(&script, dir);
    mpi.set_environment(&mut shell);
    shell.env("STASIS_TEST_READY", dir.join("ready"));
    shell.env("STASIS_TEST_GO", dir.join("go"));
    let mut workflow = Job::start(shell, dir, "snakemake")?;
    reach_cut(&mut workflow, dir)?;
    let ckpt = dir.join("ckpt");
    let taken = job::run(stasis::checkpoint(&ckpt), dir, "checkpoint", LIMIT)?;
    taken.expect_success("stasis checkpoint")?;
    fs::write(dir.join("go"), "")?;
    for rank in workflow.ranks() {
        signal::send(rank, Signal::SIGKILL);
    }
    workflow.succeed(Instant::now() + LIMIT, dir)?;
    let said = job::read_text(&workflow.stderr);
    ensure!(said.contains("from ckpt-1"), "it did not continue: {said}");
    ensure!(dir.join("finished").exists(), "the rule has no output");
    Ok(())
}
