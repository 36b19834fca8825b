//! `--memory-interval`: checkpoints that stay in memory until a part of the job has died. The examples have the mode
//! `recover-memory` besides.

use super::recovery::{deadline, said, RunCase, GOES_ON};
use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::{signal, stasis};
use crate::test::support::refusal::{refused, USAGE};
use crate::test::Case;
use anyhow::{ensure, Context, Result};
use nix::sys::signal::Signal;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const INTERVAL: &str = "STASIS_MEMORY_INTERVAL";
const LIMIT: Duration = Duration::from_secs(60);
/// Words about a checkpoint that was in memory.
pub(super) const WRITTEN: &str = "was in memory, and is written now";

/// All cases of this file.
pub fn cases(full: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    for &mpi in Mpi::of(full) {
        let mut add = |name: &str, body: fn(&RunCase) -> Result<()>| {
            cases.push(RunCase::case(mpi, &format!("memory-{name}"), body));
        };
        add("ranks", ranks);
        add("standby", standby);
        add("copy-killed", copy_killed);
        add("copy-stopped", copy_stopped);
        add("newer-on-disk", newer_on_disk);
        add("increments", increments);
        add("controller", controller);
        add("scarce", scarce);
        add("refused", refused_alone);
    }
    cases
}

/// Starts the job with checkpoints in memory, and waits until it is at its cut.
fn start(case: &RunCase, flags: &[&str]) -> Result<Job> {
    let mut command = case.command(flags, "runs");
    command.env(INTERVAL, "1");
    case.start_command(command, "run")
}

/// Waits for a checkpoint in memory of the job as it is now.
fn held(case: &RunCase, job: &mut Job) -> Result<()> {
    let held = stasis::until_held(job, &case.ckpt, case.dir, deadline());
    job.explain(held, case.dir)
}

/// The copies that checkpoints in memory consist of.
pub(super) fn copies(job: &Job) -> Vec<i32> {
    job.named(&["stasis-twin"])
}

fn on_disk(case: &RunCase) -> Vec<u64> {
    numbers_on_disk(&case.ckpt)
}

/// Numbers of the checkpoints in a directory, in ascending order.
pub(super) fn numbers_on_disk(ckpt: &Path) -> Vec<u64> {
    let entries = fs::read_dir(ckpt).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut found: Vec<u64> = names
        .filter_map(|name| name.strip_prefix("ckpt-")?.parse().ok())
        .collect();
    found.sort_unstable();
    found
}

/// Kills these processes, and waits until the job goes on.
fn recovered(case: &RunCase, job: &mut Job, killed: &[i32]) -> Result<()> {
    let before = stasis::job_file(&case.ckpt);
    killed.iter().copied().for_each(signal::kill_now);
    let back = stasis::until_reached(job, &case.ckpt, &before, deadline());
    job.explain(back, case.dir).map(drop)
}

/// It says from which checkpoint it goes on.
fn goes_on_from(job: &Job, number: u64) -> Result<()> {
    let (words, said) = (format!("{GOES_ON} ckpt-{number} "), said(job));
    ensure!(said.contains(&words), "it does not say: {words}\n{said}");
    Ok(())
}

/// Lets the job end, which must leave no process.
fn finish(case: &RunCase, job: Job) -> Result<()> {
    let pids = job.pids();
    case.finish(job)?;
    gone(&pids)
}

/// Waits until none of these processes lives.
pub(super) fn gone(pids: &[i32]) -> Result<()> {
    let limit = Instant::now() + LIMIT;
    let lives = |pid: &i32| fs::read_link(format!("/proc/{pid}/exe")).is_ok();
    while pids.iter().any(lives) {
        ensure!(Instant::now() < limit, "processes are left: {pids:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Nothing is on disk before the first failure. Then each failure goes on from the newest checkpoint in memory.
fn ranks(case: &RunCase) -> Result<()> {
    let mut job = start(case, &[])?;
    let mut newest = 0;
    for numbers in [vec![1], vec![0], vec![0, 1]] {
        held(case, &mut job)?;
        let there = on_disk(case).last().copied().unwrap_or(0);
        ensure!(there == newest, "ckpt-{there} was written before a failure");
        let number = copies(&job).len();
        ensure!((2..=4).contains(&number), "there are {number} copies");
        let killed: Vec<i32> = numbers
            .iter()
            .flat_map(|number| job.processes_of(*number))
            .collect();
        recovered(case, &mut job, &killed)?;
        newest = *on_disk(case).last().context("nothing was written")?;
        ensure!(newest > there, "ckpt-{there} is still the newest");
        goes_on_from(&job, newest)?;
    }
    stasis::verify(&case.ckpt, case.dir, LIMIT)?.expect_success("stasis verify")?;
    finish(case, job)
}

/// A standby world takes over from a checkpoint in memory.
fn standby(case: &RunCase) -> Result<()> {
    let mut job = start(case, &["--standby", "warm"])?;
    case.checkpoint()?;
    held(case, &mut job)?;
    let asleep = |job: &Job| job.ranks().len() == 4;
    job.until_seen("there was a standby world", deadline(), asleep)?;
    held(case, &mut job)?;
    let number = stasis::incarnation(&case.ckpt, "run.json")?;
    let running = stasis::of_incarnation(job.processes_of(1), number);
    recovered(case, &mut job, &running)?;
    ensure!(said(&job).contains(WRITTEN), "it goes on from an older one");
    finish(case, job)
}

/// The copies were stopped with their ranks: they write the checkpoint all the same.
fn copy_stopped(case: &RunCase) -> Result<()> {
    let mut job = start(case, &[])?;
    held(case, &mut job)?;
    for copy in copies(&job) {
        signal::send(copy, Signal::SIGSTOP);
    }
    let killed = job.processes_of(1);
    recovered(case, &mut job, &killed)?;
    ensure!(said(&job).contains(WRITTEN), "the checkpoint is lost");
    finish(case, job)
}

/// One of the copies is killed with the rank: the job goes on from the checkpoint on disk.
fn copy_killed(case: &RunCase) -> Result<()> {
    let mut job = start(case, &[])?;
    case.checkpoint()?;
    let disk = *on_disk(case).last().context("no checkpoint is there")?;
    held(case, &mut job)?;
    let mut killed = copies(&job);
    killed.extend(job.processes_of(1));
    recovered(case, &mut job, &killed)?;
    goes_on_from(&job, disk)?;
    // And without a failure it is given up.
    held(case, &mut job)?;
    copies(&job).into_iter().for_each(signal::kill_now);
    let given_up = job.until_said("the checkpoint in memory is given up", deadline());
    job.explain(given_up, case.dir)?;
    held(case, &mut job)?;
    finish(case, job)
}

/// A checkpoint on disk that is newer takes the place of the one in memory.
fn newer_on_disk(case: &RunCase) -> Result<()> {
    let mut command = case.command(&[], "runs");
    command.env(INTERVAL, "4");
    let mut job = case.start_command(command, "run")?;
    let there = |job: &Job| !copies(job).is_empty();
    job.until_seen("there was a copy", deadline(), there)?;
    let held = job.until("it was complete", deadline(), || {
        let status = stasis::status(&case.ckpt, case.dir, LIMIT);
        status.is_ok_and(|status| !status["in_memory"].is_null())
    });
    job.explain(held, case.dir)?;
    case.checkpoint()?;
    let given_up = |job: &Job| copies(job).is_empty();
    job.until_seen("the copies were given up", deadline(), given_up)?;
    let disk = *on_disk(case).last().context("no checkpoint is there")?;
    let killed = job.processes_of(0);
    recovered(case, &mut job, &killed)?;
    ensure!(!said(&job).contains(WRITTEN), "the older one was written");
    goes_on_from(&job, disk)?;
    finish(case, job)
}

/// Increments on disk do not depend on what is in memory between them. All are sealed.
fn increments(case: &RunCase) -> Result<()> {
    let key = case.dir.join("key");
    fs::write(&key, [7; 32])?;
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600))?;
    let keyed = |mut command: Command| {
        command.env("STASIS_KEY_FILE", &key);
        command
    };
    let mut command = keyed(case.command(&[], "large"));
    command.env(INTERVAL, "1").env("STASIS_FULL_EVERY", "9");
    let mut job = case.start_command(command, "run")?;
    case.checkpoint()?;
    held(case, &mut job)?;
    case.checkpoint()?;
    let increment = *on_disk(case).last().context("no checkpoint is there")?;
    let manifest = case.ckpt.join(format!("ckpt-{increment}/manifest.json"));
    let is_one = job::read_text(&manifest).contains("\"increment_of\"");
    ensure!(is_one, "ckpt-{increment} is no increment");
    held(case, &mut job)?;
    let killed = job.processes_of(0);
    recovered(case, &mut job, &killed)?;
    ensure!(said(&job).contains(WRITTEN), "it goes on from an older one");
    let mut verify = keyed(stasis::command(["verify"]));
    verify.arg(&case.ckpt);
    job::run(verify, case.dir, "verify", LIMIT)?.expect_success("stasis verify")?;
    finish(case, job)
}

/// `stasis run` is killed: the copies end with it.
fn controller(case: &RunCase) -> Result<()> {
    let mut job = start(case, &[])?;
    held(case, &mut job)?;
    let pids = job.pids();
    ensure!(!copies(&job).is_empty(), "there is no copy");
    signal::kill_now(pids[0]);
    ensure!(job.wait(deadline())?.is_some(), "it survives SIGKILL");
    gone(&pids)
}

/// Without memory for copies there is a message, and the job goes on.
fn scarce(case: &RunCase) -> Result<()> {
    let mut command = case.command(&[], "runs");
    command.env(INTERVAL, "1").env("STASIS_FAULT", "scarce@1");
    let mut job = case.start_command(command, "run")?;
    let told = job.until_said("memory is too scarce", deadline());
    job.explain(told, case.dir)?;
    case.checkpoint()?;
    finish(case, job)
}

/// Without `stasis run` nobody could go on from one.
fn refused_alone(case: &RunCase) -> Result<()> {
    let mut launch = stasis::launch(case.mpi, 2, &case.ckpt, case.dir);
    launch.args(["--memory-interval", "30"]).arg("/bin/true");
    let launched = job::run(launch, case.dir, "refused", LIMIT)?;
    refused(
        &launched,
        USAGE,
        &[&["--memory-interval"], &["stasis run --"]],
    )?;
    ensure!(on_disk(case).is_empty(), "a checkpoint was taken");
    Ok(())
}
