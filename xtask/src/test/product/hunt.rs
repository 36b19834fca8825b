//! `stasis hunt`: a planted race, which shows in one run of twenty, is found from the program's start and from a
//! checkpoint, and the record of the run that failed replays the failure.

use super::record::Races;
use crate::harness::job::{self, Finished};
use crate::harness::mpi::Mpi;
use crate::harness::stasis;
use crate::test::support::refusal::{refused, CANNOT_SERVE, DIRECTORY, USAGE};
use crate::test::Case;
use anyhow::{ensure, Result};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(240);
/// Most runs until the race has to be found.
const RUNS: &str = "20";
/// A run without a wrong round passes.
const CHECK: &str = "grep -q '^0 of'";

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    let mut cases = vec![Case::new("hunt/told", |_, dir| told(dir).into())];
    for mpi in Mpi::ALL {
        let case = |name: &str, body: fn(&Races) -> Result<()>| {
            Case::new(format!("hunt/{name}:{mpi}"), move |_, dir| {
                Races::new("bugs/race", dir, mpi, None)
                    .and_then(|races| body(&races))
                    .into()
            })
        };
        cases.push(case("start", from_the_start));
        cases.push(case("checkpoint", from_a_checkpoint));
        cases.push(case("restart", by_its_restart));
    }
    cases
}

fn hunt(races: &Races, flags: &[&str], launch: &Command) -> Result<Finished> {
    let all = [&["--limit", "60", "--record", "rec"], flags].concat();
    let mut hunt = stasis::hunt(&all, launch);
    hunt.current_dir(races.dir);
    job::run(hunt, races.dir, "hunt", LIMIT)
}

/// Hunts, and replays what was found by the line that is printed. The result is the output of the failed run.
fn found(races: &Races, flags: &[&str], job: &Command) -> Result<String> {
    let all = [&["-n", RUNS, "--check", CHECK], flags].concat();
    let found = hunt(races, &all, job)?.expect_success("stasis hunt")?;
    ensure!(
        found.stderr.contains("failed; its record is"),
        "{}",
        job::tail(&found.stderr, 10)
    );
    let mut replay = Command::new("/bin/sh");
    replay.args(["-c", found.stdout.trim()]);
    replay.envs(
        job.get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    replay.current_dir(races.dir);
    let replayed = races.run(replay, "replayed")?;
    ensure!(
        replayed.contains("rounds are wrong") && !replayed.starts_with("0 of"),
        "the failure is not replayed: {replayed}"
    );
    Ok(replayed)
}

fn from_the_start(races: &Races) -> Result<()> {
    let failed = found(races, &[], &races.launch(races.mpi, "ck", &[]))?;
    let other = races.launch(races.mpi.other(), "ck-other", &["--replay", "rec"]);
    let replayed = races.run(other, "migrated")?;
    ensure!(replayed == failed, "{replayed} instead of {failed}");
    Ok(())
}

/// Takes a checkpoint of a job that is perturbed and recorded, too, and kills it.
fn take_a_checkpoint(races: &Races) -> Result<()> {
    let mut job = races.to_the_cut(&["--record", "first", "--perturb", "99"])?;
    job.kill()?;
    Ok(fs::write(races.path("go"), "")?)
}

/// A failure that is found from a checkpoint is replayed from it under the other library.
fn replays_elsewhere(races: &Races, failed: &str) -> Result<()> {
    let other = races.restart(races.mpi.other(), &["--replay", "rec"]);
    let replayed = races.run(other, "migrated")?;
    ensure!(replayed == failed, "{replayed} instead of {failed}");
    Ok(())
}

fn from_a_checkpoint(races: &Races) -> Result<()> {
    take_a_checkpoint(races)?;
    let set = races.path("ck").join("ckpt-1");
    let launch = races.launch(races.mpi, "ck", &[]);
    let failed = found(races, &["--from", &set.to_string_lossy()], &launch)?;
    replays_elsewhere(races, &failed)
}

/// The line that is hunted is one of `stasis restart`.
fn by_its_restart(races: &Races) -> Result<()> {
    take_a_checkpoint(races)?;
    let failed = found(races, &[], &races.restart(races.mpi, &[]))?;
    replays_elsewhere(races, &failed)
}

fn told(dir: &Path) -> Result<()> {
    let races = Races::new("bugs/race", dir, Mpi::Mpich, None)?;
    let launch = races.launch(races.mpi, "ck", &[]);
    let passes = hunt(&races, &["-n", "2", "--check", "true"], &launch)?;
    refused(&passes, USAGE, &[&["all 2 runs have passed"], &["--from"]])?;
    ensure!(
        !races.path("rec").exists(),
        "a record of a run that has passed is left"
    );

    let mut nothing = Mpi::Mpich.mpirun(3, dir);
    nothing.arg("true");
    refused(&hunt(&races, &[], &nothing)?, USAGE, &[&["stasis launch"]])?;
    let from = hunt(
        &races,
        &["--from", "ck/ckpt-1"],
        &races.restart(races.mpi, &[]),
    )?;
    refused(&from, USAGE, &[&["stasis launch"]])?;

    let mut missing = stasis::launch(Mpi::Mpich, 3, &races.path("ck"), dir);
    missing.arg("./missing");
    refused(
        &hunt(&races, &[], &missing)?,
        CANNOT_SERVE,
        &[&["did not begin with seed 1"]],
    )?;

    races.run(
        races.launch(races.mpi, "ck", &["--anew", "--record", "rec"]),
        "recorded",
    )?;
    let taken = hunt(&races, &[], &launch)?;
    refused(&taken, DIRECTORY, &[&["record of another run"]])
}
