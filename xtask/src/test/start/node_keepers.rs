//! `--memory-interval` with ranks on several nodes: the copies of each node but the first are held by its node keeper.

use super::lost_nodes::{deadline, said, NodesCase, LIMIT, LOST};
use super::memory_checkpoints::{copies, gone, numbers_on_disk, WRITTEN};
use crate::harness::job::{self, Job};
use crate::harness::{signal, stasis};
use crate::test::Case;
use anyhow::{ensure, Context, Result};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;

/// What `stasis run` says about the end of a node keeper.
const GIVEN_UP: &str =
    "the checkpoint in memory is given up, the job runs on: the process that held the copies on node2 has ended";
/// Words in the log of `stasis run`.
const HELD: &str = "a checkpoint is in memory";
const ASLEEP: &str = "the standby world is asleep";
const LET_GO: &str = "the standby world is let go";

/// All cases of this file.
pub fn cases(full: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    for mpi in NodesCase::libraries(full) {
        let mut add = |name: &str, body: fn(&NodesCase) -> Result<()>| {
            cases.push(NodesCase::case(mpi, &format!("memory-{name}"), body));
        };
        add("ranks", ranks);
        add("standby", standby);
        add("lost", |case| lost(case, true));
        add("cut-off", |case| lost(case, false));
        add("keeper-killed", |case| keeper_ends(case, Signal::SIGKILL));
        add("keeper-stopped", |case| keeper_ends(case, Signal::SIGSTOP));
        add("guard-killed", guard_killed);
        add("controller", controller);
    }
    cases
}

fn start(case: &NodesCase, flags: &[&str]) -> Result<Job> {
    let job = case.begin(flags, &["--memory-interval", "1"])?;
    let incarnation = stasis::incarnation(&case.ckpt, "run.json")?;
    ensure!(incarnation == 1, "the job did not start at once");
    Ok(job)
}

/// Waits for a checkpoint in memory of the job as it is now. The first one may have begun before.
fn held(case: &NodesCase, job: &mut Job) -> Result<()> {
    let before = job::read_text(&job.stderr).matches(HELD).count();
    case.until(job, HELD, before + 2)
}

/// The node keepers.
fn keepers(job: &Job) -> Vec<i32> {
    job.named(&["stasis-node"])
}

/// Their guards.
fn guards(job: &Job) -> Vec<i32> {
    job.named(&["stasis-guard"])
}

/// The one of these processes on the node that is lost in other cases.
fn on_its_node(case: &NodesCase, all: Vec<i32>) -> Result<i32> {
    let there = case.nodes.pids(LOST)?;
    let found = all.into_iter().find(|pid| there.contains(pid));
    found.context("the node has no node keeper, or no guard of one")
}

/// Kills the rank of that node: the job goes on.
fn kill_rank(case: &NodesCase, job: &mut Job) -> Result<()> {
    let rank = case.rank_elsewhere(job)?;
    case.recovered(job, || {
        signal::kill_now(rank);
        Ok(())
    })
}

/// The guards, the node keepers, and the copies that these hold.
fn in_memory(job: &Job) -> Vec<i32> {
    [guards(job), keepers(job), copies(job)].concat()
}

/// Lets the job end, and looks for its node keepers where it does: that of Debian's MPICH may not, natively too.
fn finish(case: &NodesCase, mut job: Job) -> Result<()> {
    let left = in_memory(&job);
    case.finish(&mut job)?;
    match case.mpi.is_open_mpi() {
        true => gone(&left),
        false => Ok(()),
    }
}

/// A rank of another node is killed, twice. Nothing is on disk before. The same node keepers hold the next checkpoint.
pub(super) fn ranks(case: &NodesCase) -> Result<()> {
    let mut job = start(case, &[])?;
    let first = keepers(&job);
    ensure!(
        first.len() == 1,
        "{} node keepers hold the copies of one node",
        first.len()
    );
    for times in 1..=2 {
        held(case, &mut job)?;
        let before = numbers_on_disk(&case.ckpt);
        ensure!(
            before.len() < times,
            "a checkpoint was written before a failure: {before:?}"
        );
        kill_rank(case, &mut job)?;
        let text = job::read_text(&job.stderr);
        ensure!(
            text.matches(WRITTEN).count() == times,
            "it goes on from an older one: {text}"
        );
        let newest = *numbers_on_disk(&case.ckpt)
            .last()
            .context("nothing was written")?;
        said(&job, &format!("the job goes on from ckpt-{newest} "))?;
        let manifest = case.ckpt.join(format!("ckpt-{newest}/manifest.json"));
        let manifest: Value = serde_json::from_str(&fs::read_to_string(manifest)?)?;
        let hosts = ["node1", "node1", "node2"];
        for (rank, host) in hosts.into_iter().enumerate() {
            let named = &manifest["ranks"][rank]["host"];
            ensure!(named == host, "the image of rank {rank} is of {named}");
        }
        ensure!(keepers(&job) == first, "there are other node keepers");
    }
    stasis::verify(&case.ckpt, case.dir, LIMIT)?.expect_success("stasis verify")?;
    finish(case, job)
}

/// A standby world has node keepers of its own. They hold the copies after it has taken over.
pub(super) fn standby(case: &NodesCase) -> Result<()> {
    let mut job = start(case, &["--standby", "warm"])?;
    case.checkpoint()?;
    case.until(&mut job, ASLEEP, 1)?;
    for times in 1..=2 {
        held(case, &mut job)?;
        kill_rank(case, &mut job)?;
        let text = job::read_text(&job.stderr);
        ensure!(
            text.matches(WRITTEN).count() == times,
            "it goes on from an older one: {text}"
        );
        if times == 1 {
            case.until(&mut job, LET_GO, 1)?;
        }
    }
    finish(case, job)
}

/// A whole node is lost, with its copies: the job goes on from the checkpoint on disk. The machines that it has then
/// hold the next checkpoint in memory.
fn lost(case: &NodesCase, killed: bool) -> Result<()> {
    let mut job = start(case, &[])?;
    case.checkpoint()?;
    let disk = *numbers_on_disk(&case.ckpt)
        .last()
        .context("no checkpoint is there")?;
    held(case, &mut job)?;
    let there = case.nodes.pids(LOST)?;
    let mut held_there = in_memory(&job);
    held_there.retain(|pid| there.contains(pid));
    ensure!(held_there.len() > 2, "the node holds nothing");
    case.recovered(&mut job, || match killed {
        true => {
            // A lost machine does not tell of its processes' deaths, so its keeper is the first.
            let all = held_there.iter().chain(&there);
            all.copied().for_each(signal::kill_now);
            Ok(())
        }
        false => case.nodes.connect(LOST, false),
    })?;
    said(&job, &format!("the job goes on from ckpt-{disk} "))?;
    // The end of the node keeper may be noticed before that of its ranks.
    let text = job::read_text(&job.stderr);
    let why = "the process that held the copies on node2 has ended, or its machine does not answer";
    ensure!(text.contains(why), "it does not say: {why}\n{text}");
    ensure!(
        !text.contains(WRITTEN),
        "it goes on without the node's copies: {text}"
    );
    if !killed {
        // The end of the lease has ended the node keeper and its copies.
        gone(&held_there)?;
        case.nodes.connect(LOST, true)?;
    }
    held(case, &mut job)?;
    finish(case, job)
}

/// The node keeper is killed, or stopped until its lease ends: the checkpoint in memory is given up, which is said, and
/// another node keeper takes its place. The job runs on, and goes on from the next checkpoint in memory.
fn keeper_ends(case: &NodesCase, by: Signal) -> Result<()> {
    let mut job = start(case, &[])?;
    held(case, &mut job)?;
    let running = stasis::incarnation(&case.ckpt, "run.json")?;
    let first = on_its_node(case, keepers(&job))?;
    signal::send(first, by);
    let given_up = job.until_said(GIVEN_UP, deadline());
    job.explain(given_up, case.dir)?;
    gone(&[first])?;
    held(case, &mut job)?;
    let second = on_its_node(case, keepers(&job))?;
    ensure!(second != first, "the node keeper lives");
    ensure!(numbers_on_disk(&case.ckpt).is_empty(), "one is on disk");
    let now = stasis::incarnation(&case.ckpt, "run.json")?;
    ensure!(now == running, "the job was started again");
    kill_rank(case, &mut job)?;
    said(&job, WRITTEN)?;
    let third = on_its_node(case, keepers(&job))?;
    ensure!(third == second, "there is another node keeper");
    finish(case, job)
}

/// The node keeper is killed, and its guard before it: the checkpoint in memory is given up and there is no other,
/// which is said. The next incarnation has a node keeper again.
fn guard_killed(case: &NodesCase) -> Result<()> {
    let mut job = start(case, &[])?;
    case.checkpoint()?;
    let disk = *numbers_on_disk(&case.ckpt)
        .last()
        .context("no checkpoint is there")?;
    held(case, &mut job)?;
    for all in [guards(&job), keepers(&job)] {
        signal::kill_now(on_its_node(case, all)?);
    }
    for words in [
        GIVEN_UP,
        "a checkpoint in memory was given up, the job runs on",
    ] {
        let given_up = job.until_said(words, deadline());
        job.explain(given_up, case.dir)?;
    }
    said(&job, "no node keeper takes the copy of the memory on node2")?;
    kill_rank(case, &mut job)?;
    said(&job, &format!("the job goes on from ckpt-{disk} "))?;
    held(case, &mut job)?;
    on_its_node(case, keepers(&job))?;
    on_its_node(case, guards(&job))?;
    finish(case, job)
}

/// `stasis run` is killed: the node keepers end, and the copies with them.
fn controller(case: &NodesCase) -> Result<()> {
    let mut job = start(case, &[])?;
    held(case, &mut job)?;
    let left = in_memory(&job);
    ensure!(left.len() > 2, "there is nothing in memory");
    signal::kill_now(job.pids()[0]);
    ensure!(job.wait(deadline())?.is_some(), "it survives SIGKILL");
    gone(&left)
}
