//! `stasis stacks`: the functions in which the threads of a job are, before and after a restart.

use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::stasis;
use crate::test::support::held_job::bring_back;
use crate::test::support::helper_programs::compile;
use crate::test::Case;
use anyhow::{ensure, Context, Result};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
const RANKS: usize = 2;

/// Stacks of the job: a rank, and functions in which one of its threads is, outermost first.
const PLACES: [(u64, &[&str]); 3] = [
    (0, &["main (places)", "the_receiver (places)", "MPI_Recv"]),
    (1, &["main (places)", "the_computation (places)"]),
    (1, &["the_second_thread (places)", "read (libc.so.6)"]),
];

/// The program's functions.
const FUNCTIONS: [&str; 4] = [
    "main",
    "the_receiver",
    "the_computation",
    "the_second_thread",
];

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    let case = |mpi: Mpi| {
        Case::new(format!("stacks/places:{mpi}"), move |_, dir| {
            places(dir, mpi).into()
        })
    };
    Mpi::ALL.into_iter().map(case).collect()
}

/// The stacks are the same after a restart under each library, where no file of the program need be mapped.
fn places(dir: &Path, mpi: Mpi) -> Result<()> {
    let ckpt = dir.join("ck");
    let program = compile(dir, &mpi.compiler("c"), "places.c", &["-pthread", "-g"])?;
    let mut launch = stasis::launch(mpi, RANKS, &ckpt, dir);
    launch.arg(program);
    launch.env("STASIS_TEST_READY", dir.join("ready"));
    launch.env("STASIS_TEST_GO", dir.join("go"));
    let mut job = Job::start(launch, dir, "launch")?;
    let ready = |rank: usize| dir.join(format!("ready.{rank}")).exists();
    let reached = job.until("all ranks announced their cut", deadline(), || {
        (0..RANKS).all(ready)
    });
    job.explain(reached, dir)?;
    look(&mut job, &ckpt, dir)?;
    job::run(stasis::checkpoint(&ckpt), dir, "checkpoint", LIMIT)?
        .expect_success("stasis checkpoint")?;
    for library in Mpi::ALL {
        let mut restart = stasis::restart(library, RANKS, &ckpt, dir);
        restart.env("STASIS_TEST_GO", dir.join("go"));
        bring_back(&mut job, restart, &ckpt, dir)?;
        look(&mut job, &ckpt, dir)?;
    }
    fs::write(dir.join("go"), "")?;
    job.succeed(deadline(), dir)
}

fn deadline() -> Instant {
    Instant::now() + LIMIT
}

/// Waits until every thread is in its place: a rank announces its cut before it is there.
fn look(job: &mut Job, ckpt: &Path, dir: &Path) -> Result<()> {
    let mut told = None;
    let there = job.until("all threads are in their places", deadline(), || {
        told = Some(stacks(ckpt, dir, &[]));
        matches!(&told, Some(Ok(tree)) if PLACES.iter().all(|(rank, names)| holds(tree, *rank, names)))
    });
    let told = told.context("the job was not asked")?;
    let there = there.with_context(|| format!("stasis stacks told {told:?}"));
    job.explain(there, dir)?;
    let mut told = None;
    let there = job.until("the lines of all functions are told", deadline(), || {
        told = Some(stacks(ckpt, dir, &["--lines"]));
        matches!(&told, Some(Ok(tree)) if FUNCTIONS.iter().all(|function| has_line(tree, function)))
    });
    let told = told.context("the job was not asked")?;
    let there = there.with_context(|| format!("stasis stacks --lines told {told:?}"));
    job.explain(there, dir)
}

/// Whether the line of a function is told. Where the rank computes is known, but not at which of its lines.
fn has_line(tree: &Value, function: &str) -> bool {
    let begins = format!("{function} (places) at places.c:");
    tree.to_string().contains(&begins)
}

fn stacks(ckpt: &Path, dir: &Path, options: &[&str]) -> Result<Value> {
    let mut command = stasis::command(["stacks"]);
    command.args(options).arg(ckpt);
    let told = stasis::json(command, dir, "stacks", LIMIT)?;
    ensure!(told["no_answer"] == Value::Array(vec![]), "{told}");
    Ok(told["stacks"].clone())
}

/// Whether a thread of the rank has these frames, one directly inside the other.
fn holds(tree: &Value, rank: u64, names: &[&str]) -> bool {
    let inner = tree["inner"].as_array().into_iter().flatten();
    let mut of_rank = inner.filter(|calls| {
        let ranks = calls["ranks"].as_array();
        ranks.is_some_and(|ranks| ranks.contains(&rank.into()))
    });
    of_rank.any(|calls| match names {
        [name] if calls["frame"] == *name => true,
        [name, rest @ ..] if calls["frame"] == *name => holds(calls, rank, rest),
        _ => holds(calls, rank, names),
    })
}
