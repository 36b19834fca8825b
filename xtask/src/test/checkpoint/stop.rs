//! `stasis stop`: the job ends at once, without a checkpoint, and goes on from an older one.

use crate::harness::job;
use crate::harness::mpi::Mpi;
use crate::harness::{signal, stasis};
use crate::test::support::held_job::{begin, bring_back, example, start_by};
use crate::test::support::refusal::{refused, NO_JOB};
use crate::test::Case;
use anyhow::{ensure, Context, Result};
use nix::sys::signal::Signal;
use serde_json::json;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

/// All cases of this file. That under `stasis run` is `recover/stopped`.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for mpi in Mpi::ALL {
        let name = format!("stop/job:{mpi}");
        cases.push(Case::new(name, move |_, dir| stop(dir, mpi).into()));
    }
    cases.push(Case::new("stop/suspended", |_, dir| suspended(dir).into()));
    cases
}

/// Neither SIGTERM nor SIGINT would end this job without a checkpoint.
fn stop(dir: &Path, mpi: Mpi) -> Result<()> {
    let ckpt = dir.join("ck");
    let ring = example("p2p", "p2p/ring_loop")?;
    let mut launch = stasis::launch(mpi, 2, &ckpt, dir);
    launch.args(["--signal", "TERM,INT"]);
    let mut job = start_by(launch, &ring, dir, mpi)?;
    job::run(stasis::checkpoint(&ckpt), dir, "checkpoint", LIMIT)?.expect_success("checkpoint")?;
    // Of no use for a restart, although newer.
    let damaged = ckpt.join("ckpt-2");
    fs::create_dir(&damaged)?;
    fs::write(damaged.join("manifest.json"), "{")?;
    let mut asked = stasis::command(["stop"]);
    asked.arg(&ckpt);
    let told = stasis::json(asked, dir, "stop", LIMIT)?;
    ensure!(
        told["killed"] == json!([0, 1])
            && told["elsewhere"] == 0
            && told["supervised"] == false
            && told["newest"] == "ckpt-1",
        "stop says {told:#}"
    );
    let history = job::read_text(&ckpt.join("events.jsonl"));
    let last = history.lines().last().unwrap_or_default();
    ensure!(
        last.contains("\"event\":\"stopped\""),
        "the history ends with {last}"
    );
    ensure!(job.ranks().is_empty(), "there are ranks after stop");
    let ended = job.wait(Instant::now() + LIMIT)?;
    let ended = ended.context("the launcher does not end")?;
    ensure!(!ended.success(), "the launcher says that the job succeeded");
    for words in [["status"], ["stop"]] {
        let mut again = stasis::command(words);
        again.arg(&ckpt);
        let again = job::run(again, dir, words[0], LIMIT)?;
        refused(&again, NO_JOB, &[&["was ended by `stasis stop`"]])?;
    }
    let listed = stasis::listed(&[dir], &ckpt, dir, LIMIT)?;
    ensure!(listed.is_none(), "the stopped job is listed: {listed:?}");
    fs::remove_dir_all(&damaged)?;
    let restart = stasis::restart(mpi, 2, &ckpt, dir);
    bring_back(&mut job, restart, &ckpt, dir)?;
    job.kill()
}

/// All ranks of the job are stopped. `stasis jobs` says so, and `stasis stop` ends the job and prints text.
fn suspended(dir: &Path) -> Result<()> {
    let ckpt = dir.join("ck");
    let ring = example("p2p", "p2p/ring_loop")?;
    let mut job = begin(
        stasis::launch(Mpi::Mpich, 2, &ckpt, dir),
        &ring,
        dir,
        Mpi::Mpich,
    )?;
    stasis::until_reached(&mut job, &ckpt, "", Instant::now() + LIMIT)?;
    for pid in job.ranks() {
        signal::send(pid, Signal::SIGSTOP);
    }
    let listed = stasis::listed(&[], &ckpt, dir, LIMIT)?;
    let listed = listed.context("the job is not listed")?;
    let why = listed["why"].as_str().unwrap_or_default();
    ensure!(why.contains("suspended"), "jobs says {listed:#}");
    let mut asked = stasis::command(["stop"]);
    asked.arg(&ckpt);
    let told = job::run(asked, dir, "stop", LIMIT)?.expect_success("stop")?;
    let words = [
        "2 ranks were killed on this machine",
        "It has no checkpoint",
    ];
    ensure!(
        words.iter().all(|word| told.stdout.contains(word)),
        "stop says {}",
        told.stdout
    );
    let ended = job.wait(Instant::now() + LIMIT)?;
    ended.context("the launcher does not end").map(drop)
}
