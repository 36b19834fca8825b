//! The log of each rank and its last events (`STASIS_LOG`, `stasis status --trace`), also of a job that was killed.

use crate::harness::job;
use crate::harness::mpi::Mpi;
use crate::harness::stasis;
use crate::test::support::held_job::{begin, bring_back, example, reach_cut, RANKS};
use crate::test::support::refusal::{refused, NO_JOB, USAGE};
use crate::test::Case;
use anyhow::{ensure, Result};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// The cases.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for mpi in Mpi::ALL {
        let name = format!("events/killed:{mpi}");
        cases.push(Case::new(name, move |_, dir| killed(dir, mpi).into()));
    }
    cases.push(Case::new("events/no-log", |_, dir| no_log(dir).into()));
    cases.push(Case::new("events/log-dir", |_, dir| log_dir(dir).into()));
    cases.push(Case::new("events/wrong-level", |_, dir| {
        wrong_level(dir).into()
    }));
    cases
}

fn status(ckpt: &Path) -> Command {
    let mut command = stasis::command(["status"]);
    command.arg(ckpt);
    command
}

fn trace(ckpt: &Path) -> Command {
    let mut command = stasis::command(["status", "--trace"]);
    command.arg(ckpt);
    command
}

/// Checks that each rank has the event once.
fn expect_in_each_rank(shown: &str, event: &str) -> Result<()> {
    ensure!(
        shown.matches(event).count() == RANKS,
        "{event} is not once among the events of each rank:\n{shown}"
    );
    Ok(())
}

/// A checkpoint is recorded, and can be read after the job was killed; so can its restart under the other library.
fn killed(dir: &Path, mpi: Mpi) -> Result<()> {
    let ckpt = dir.join("ck");
    let mut launch = stasis::launch(mpi, RANKS, &ckpt, dir);
    launch.env("STASIS_LOG", "debug");
    // The front's library is the one that the program was compiled for.
    let mut job = begin(launch, &example("p2p", "p2p/ring_loop")?, dir, mpi)?;
    reach_cut(&mut job, dir)?;
    job::run(stasis::checkpoint(&ckpt), dir, "checkpoint", LIMIT)?.expect_success("checkpoint")?;
    // Each rank answers after it has handled the end of the checkpoint, which it was sent before.
    job::run(status(&ckpt), dir, "status", LIMIT)?.expect_success("status")?;
    job.kill()?;
    let shown = job::run(trace(&ckpt), dir, "trace", LIMIT)?.expect_success("status --trace")?;
    for rank in 0..RANKS {
        let begin = format!("rank {rank} (process ");
        let events = shown.stdout.split(&begin).nth(1).unwrap_or_default();
        let events = events.split("\nrank ").next().unwrap_or_default();
        let in_order = [
            "phase phase=approach",
            "phase phase=stop",
            "drain-began",
            "drain-ended error=0",
            "copied",
            "saved bytes=",
            "over committed=1",
        ];
        let mut rest = events;
        for event in in_order {
            let found = rest.find(event);
            ensure!(
                found.is_some(),
                "rank {rank} has no {event} in its place among its events:\n{}",
                shown.stdout
            );
            rest = &rest[found.unwrap_or(0)..];
        }
        let log = job::read_text(&ckpt.join(format!("log/rank-{rank}.log")));
        ensure!(
            log.contains("image written"),
            "rank {rank} has logged no image: {log:?}"
        );
    }
    let log = job::read_text(&ckpt.join("log/rank-0.log"));
    ensure!(
        log.contains("checkpoint committed"),
        "the coordinator has logged no checkpoint: {log:?}"
    );
    let mut restart = stasis::restart(mpi.other(), RANKS, &ckpt, dir);
    restart.env("STASIS_LOG", "info");
    bring_back(&mut job, restart, &ckpt, dir)?;
    // The objects are there again before a checkpoint can be taken.
    job::run(stasis::checkpoint(&ckpt), dir, "again", LIMIT)?.expect_success("checkpoint")?;
    let shown = job::run(trace(&ckpt), dir, "trace-again", LIMIT)?.expect_success("trace")?;
    expect_in_each_rank(&shown.stdout, "restored done=1")?;
    job.kill()
}

/// Without a log nothing is written, and the job itself tells its events. Once it is killed, `--trace` says how to keep
/// them.
fn no_log(dir: &Path) -> Result<()> {
    let ckpt = dir.join("ck");
    let launch = stasis::launch(Mpi::Mpich, RANKS, &ckpt, dir);
    let mut job = begin(launch, &example("p2p", "p2p/ring_loop")?, dir, Mpi::Mpich)?;
    reach_cut(&mut job, dir)?;
    job::run(stasis::checkpoint(&ckpt), dir, "checkpoint", LIMIT)?.expect_success("checkpoint")?;
    let shown = job::run(trace(&ckpt), dir, "told", LIMIT)?.expect_success("status --trace")?;
    expect_in_each_rank(&shown.stdout, "over committed=1")?;
    ensure!(!ckpt.join("log").exists(), "there is a log");
    job.kill()?;
    refused(
        &job::run(trace(&ckpt), dir, "trace", LIMIT)?,
        NO_JOB,
        &[&["no job runs there", "STASIS_LOG=info"]],
    )
}

/// Log and events lie in the directory that is named, and are found there after the job was killed.
fn log_dir(dir: &Path) -> Result<()> {
    let (ckpt, logs) = (dir.join("ck"), dir.join("logs"));
    let mut launch = stasis::launch(Mpi::OpenMpi, RANKS, &ckpt, dir);
    launch
        .env("STASIS_LOG", "info")
        .arg("--log-dir")
        .arg("logs");
    let program = example("p2p", "p2p/ring_loop")?;
    let mut job = begin(launch, &program, dir, Mpi::OpenMpi)?;
    reach_cut(&mut job, dir)?;
    job::run(stasis::checkpoint(&ckpt), dir, "checkpoint", LIMIT)?.expect_success("checkpoint")?;
    // Each rank answers after it has handled the end of the checkpoint, which it was sent before.
    job::run(status(&ckpt), dir, "status", LIMIT)?.expect_success("status")?;
    job.kill()?;
    ensure!(
        !ckpt.join("log").exists(),
        "the log is in the checkpoint directory"
    );
    let log = job::read_text(&logs.join("rank-0.log"));
    ensure!(
        log.contains("checkpoint committed"),
        "no checkpoint in {log:?}"
    );
    let mut shown = trace(&ckpt);
    shown.arg("--log-dir").arg(&logs);
    let shown = job::run(shown, dir, "trace", LIMIT)?.expect_success("status --trace")?;
    expect_in_each_rank(&shown.stdout, "over committed=1")?;
    job.kill()
}

/// A level that does not exist is refused at the start, by name.
fn wrong_level(dir: &Path) -> Result<()> {
    let mut launch = stasis::launch(Mpi::Mpich, 1, &dir.join("ck"), dir);
    launch
        .env("STASIS_LOG", "stasis_dump=loud")
        .arg("/bin/true");
    refused(
        &job::run(launch, dir, "launch", LIMIT)?,
        USAGE,
        &[&["STASIS_LOG=stasis_dump=loud"], &["debug"]],
    )
}
