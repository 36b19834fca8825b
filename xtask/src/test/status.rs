//! What `stasis status` tells of a job that runs, and of one that a checkpoint waits for.

use super::bad_input::{begin, example, start};
use super::Case;
use crate::job::{self, Job};
use crate::mpi::Mpi;
use crate::stasis;
use anyhow::{ensure, Context, Result};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

/// The cases: in which call rank 0 of `p2p/blocked_in` is, by variant.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (variant, call) in [
        ("recv", "MPI_Recv"),
        ("probe", "MPI_Probe"),
        ("waitall", "MPI_Waitall"),
        ("barrier", "MPI_Barrier"),
        ("allreduce", "MPI_Allreduce"),
    ] {
        for mpi in Mpi::ALL {
            let name = format!("status/in-{variant}:{mpi}");
            cases.push(Case::new(name, move |_, dir| {
                in_call(dir, mpi, variant, call).into()
            }));
        }
    }
    for mpi in Mpi::ALL {
        let name = format!("status/through-relays:{mpi}");
        cases.push(Case::new(name, move |_, dir| relays(dir, mpi).into()));
    }
    cases.push(Case::new("status/who-holds-it-up", |_, dir| {
        who_holds_it_up(dir).into()
    }));
    cases
}

/// What a rank does, and for how long it has been seen to.
fn doing(status: &Value, rank: usize) -> Result<(&str, f64)> {
    let rank = &status["ranks"][rank];
    let doing = rank["doing"].as_str().zip(rank["doing_seconds"].as_f64());
    doing.with_context(|| format!("status says of a rank: {rank}"))
}

/// Rank 0 is blocked in a call, and rank 1 makes none.
fn in_call(dir: &Path, mpi: Mpi, variant: &str, call: &str) -> Result<()> {
    let ckpt = dir.join("ck");
    let blocked = example("p2p", &format!("p2p/blocked_in.{variant}"))?;
    let mut job = start(&blocked, dir, &ckpt, mpi)?;
    // Rank 0 has announced that it is about to make the call.
    let expected = format!("in {call}");
    let mut last = Value::Null;
    let come = job.until("status told of the call", Instant::now() + LIMIT, || {
        last = stasis::status(&ckpt, dir, LIMIT).unwrap_or_default();
        doing(&last, 0).is_ok_and(|(what, _)| what == expected)
    });
    job.explain(come, dir)
        .with_context(|| format!("status says: {last:#}"))?;
    let (before, then) = (last, stasis::status(&ckpt, dir, LIMIT)?);
    let since = |status: &Value| doing(status, 0).map(|(_, since)| since);
    ensure!(
        since(&then)? > since(&before)? && doing(&then, 1)?.0 == "computing",
        "status says: {before:#}, then: {then:#}"
    );
    job.kill()
}

/// Eight ranks by two: rank 0 is connected to itself and to two others, and every rank tells.
fn relays(dir: &Path, mpi: Mpi) -> Result<()> {
    const RANKS: usize = 8;
    let ckpt = dir.join("ck");
    let ring = example("p2p", "p2p/ring.relays")?;
    let mut launch = stasis::launch(mpi, RANKS, &ckpt, dir);
    launch.env("STASIS_FAN_OUT", "2");
    let mut job = begin(launch, &ring, dir, mpi)?;
    let mut last = Value::Null;
    let come = job.until("every rank told", Instant::now() + LIMIT, || {
        last = stasis::status(&ckpt, dir, LIMIT).unwrap_or_default();
        (0..RANKS).all(|rank| doing(&last, rank).is_ok())
    });
    job.explain(come, dir)
        .with_context(|| format!("status says: {last:#}"))?;
    let port: Value = serde_json::from_str(&stasis::job_file(&ckpt))?;
    let port = port["port"]
        .as_u64()
        .context("the job file names no port")?;
    let connected = connections(port)?;
    ensure!(connected == 3, "{connected} connections to the coordinator");
    job.kill()
}

/// How many connections there are to a port of this machine.
fn connections(port: u64) -> Result<usize> {
    const ESTABLISHED: &str = "01";
    let port = format!(":{port:04X}");
    let sockets = fs::read_to_string("/proc/net/tcp")?;
    let to_it = |line: &&str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        matches!(fields[..], [_, local, _, ESTABLISHED, ..] if local.ends_with(&port))
    };
    Ok(sockets.lines().filter(to_it).count())
}

/// A checkpoint that can only be taken when rank 1 has come to the barrier in which rank 0 waits.
fn who_holds_it_up(dir: &Path) -> Result<()> {
    let ckpt = dir.join("ck");
    let blocked = example("p2p", "p2p/blocked_in.barrier")?;
    let job = start(&blocked, dir, &ckpt, Mpi::OpenMpi)?;
    let mut request = Job::start(stasis::checkpoint(&ckpt), dir, "checkpoint")?;
    let mut last = Value::Null;
    let told = request.until("status told", Instant::now() + LIMIT, || {
        last = stasis::status(&ckpt, dir, LIMIT).unwrap_or_default();
        let waiting = last["waiting"].as_str().unwrap_or_default();
        waiting.contains("rank 0 is in a collective") || waiting.contains("rank 1 computes")
    });
    job.explain(told, dir)
        .with_context(|| format!("status says: {last:#}"))?;
    fs::write(dir.join("go"), "")?;
    let answer = request.wait(Instant::now() + LIMIT)?;
    ensure!(
        answer.is_some_and(|status| status.success()),
        "the checkpoint: {}",
        job::read_text(&request.stderr)
    );
    Ok(())
}
