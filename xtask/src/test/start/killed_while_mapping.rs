//! `stasis run`: a rank of the new incarnation is killed while it fills its memory from its image, in a start from a
//! checkpoint and in a standby world.
//!
//! The program has a large array (`ends.c`, `filled`). While a rank restores it, the array is mapped and some of its
//! pages do not exist yet, as `/proc/PID/smaps` shows. A case stops the rank then, looks again, and kills it if pages
//! are still missing.

use super::recovery::{deadline, said, RunCase, GOES_ON};
use super::standby::{
    finish, incarnation, kill_rank, logged, mapped_in_advance, recovered, until, ANEW, ASLEEP,
    LET_GO, MAPPED, RUN, STANDBY,
};
use crate::harness::job::{self, is_rank, Job};
use crate::harness::mpi::Mpi;
use crate::harness::{signal, stasis};
use crate::test::Case;
use anyhow::{bail, ensure, Context, Result};
use nix::sys::signal::Signal;
use std::fs;
use std::time::Instant;

/// Size of the program's array in KiB.
const ARRAY: u64 = 128 << 10;
/// A rank may have filled its memory before the stop reaches it. So often it is tried.
const TRIES: usize = 5;

/// All cases of this file.
pub fn cases(full: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    for &mpi in Mpi::of(full) {
        let mut add = |name: &str, body: fn(&RunCase) -> Result<()>| {
            cases.push(RunCase::case(mpi, name, body));
        };
        add("while-it-maps", started);
        add("standby.while-it-maps", warm);
        add("standby.hot-while-it-maps", hot);
        add("standby.sleeper-while-it-maps", sleeper);
    }
    cases
}

/// Starts the program and takes a checkpoint.
fn start(case: &RunCase, standby: &str) -> Result<Job> {
    let command = case.command(&["--standby", standby], "filled");
    let job = case.start_command(logged(command), "run")?;
    case.checkpoint()?;
    Ok(job)
}

/// Whether a process has the array mapped, and pages of it do not exist yet.
fn fills(pid: i32) -> bool {
    let smaps = fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap_or_default();
    let values = |name: &'static str| {
        let lines = smaps
            .lines()
            .filter_map(move |line| line.strip_prefix(name));
        lines.filter_map(|value| value.split_whitespace().next()?.parse::<u64>().ok())
    };
    let mut mappings = values("Size:").zip(values("Rss:"));
    mappings.any(|(size, there)| size >= ARRAY && there < ARRAY)
}

/// Stops a process while it fills its memory. False if it has filled it before the stop reaches it; then it goes on.
fn stopped_inside(pid: i32) -> Result<bool> {
    let end = deadline();
    let until = |what: &str, holds: &dyn Fn() -> bool| {
        while !holds() {
            ensure!(job::lives(pid), "the rank has ended before it {what}");
            ensure!(Instant::now() < end, "timeout: the rank has not {what}");
            std::thread::yield_now();
        }
        Ok(())
    };
    until("filled its memory", &|| fills(pid))?;
    signal::send(pid, Signal::SIGSTOP);
    until("stopped", &|| job::is_stopped(pid))?;
    let inside = fills(pid);
    if !inside {
        signal::send(pid, Signal::SIGCONT);
    }
    Ok(inside)
}

/// Does something again until it has met the moment.
fn met(mut tried: impl FnMut() -> Result<bool>) -> Result<()> {
    for _ in 0..TRIES {
        if tried()? {
            return Ok(());
        }
    }
    bail!("no rank was stopped while it filled its memory, in {TRIES} tries")
}

/// The process of a rank of the incarnation that a run file names. Waits until that is a later one than `last`.
fn rank_after(
    last: u64,
    file: &str,
    rank: usize,
    case: &RunCase,
    job: &mut Job,
) -> Result<(u64, i32)> {
    let mut found = None;
    let what = format!("{file} named the next incarnation, and that had its rank {rank}");
    let seen = job.until_seen(&what, deadline(), |job| {
        let next = incarnation(case, file).ok().filter(|next| *next > last);
        found = next.and_then(|next| {
            let ranks = stasis::of_incarnation(job.ranks(), next);
            let its = ranks.into_iter().find(|pid| is_rank(*pid, rank));
            Some((next, its?))
        });
        found.is_some()
    });
    job.explain(seen, case.dir)?;
    found.context("it is seen")
}

/// Does something to the job, which tells whether it has met its moment. The job is then started `if_met` times again,
/// or once. A checkpoint follows, since a rank that fails three times out of one ends the job.
fn goes_on(
    case: &RunCase,
    job: &mut Job,
    harm: impl FnOnce(&mut Job) -> Result<bool>,
) -> Result<bool> {
    let (before, times) = (
        stasis::job_file(&case.ckpt),
        said(job).matches(GOES_ON).count(),
    );
    let met = harm(job)?;
    until(job, GOES_ON, times + 1 + usize::from(met), case)?;
    let back = stasis::until_reached(job, &case.ckpt, &before, deadline());
    job.explain(back, case.dir)?;
    case.checkpoint()?;
    let more = said(job).matches(GOES_ON).count() - times;
    ensure!(
        more == 1 + usize::from(met),
        "it was started {more} times again"
    );
    Ok(met)
}

/// Each rank in turn is killed in the incarnation after a failure.
fn started(case: &RunCase) -> Result<()> {
    let mut job = start(case, "no")?;
    for rank in 0..case.ranks {
        met(|| {
            let last = incarnation(case, RUN)?;
            goes_on(case, &mut job, |job| {
                kill_rank(case, job, 1 - rank)?;
                let (_, next) = rank_after(last, RUN, rank, case, job)?;
                let inside = stopped_inside(next)?;
                if inside {
                    signal::kill_now(next);
                }
                Ok(inside)
            })
        })?;
    }
    case.finish(job)
}

/// The failure after which a standby world is let go. It gets the number of that world, the rank that fails, and the
/// process that is to map, which it stops. The result is whether that is inside.
type Fails = fn(&RunCase, &mut Job, usize, usize, i32) -> Result<bool>;

/// Each rank in turn is killed while it maps in a standby world of this kind.
fn let_go(case: &RunCase, kind: &str, fails: Fails) -> Result<()> {
    let mut job = start(case, kind)?;
    let mut worlds = 0;
    for rank in 0..case.ranks {
        met(|| {
            worlds += 1;
            let last = incarnation(case, RUN)?;
            let (_, next) = rank_after(last, STANDBY, rank, case, &mut job)?;
            goes_on(case, &mut job, |job| {
                let inside = fails(case, job, worlds, 1 - rank, next)?;
                until(job, LET_GO, worlds, case)?;
                if inside {
                    signal::kill_now(next);
                }
                Ok(inside)
            })
        })?;
    }
    finish(case, job)
}

/// The standby world sleeps until it is let go. Then its ranks map.
fn warm(case: &RunCase) -> Result<()> {
    let_go(case, "warm", |case, job, world, rank, maps| {
        until(job, ASLEEP, world, case)?;
        kill_rank(case, job, rank)?;
        stopped_inside(maps)
    })
}

/// A hot standby world is let go while a rank of it maps the newest image.
fn hot(case: &RunCase) -> Result<()> {
    let_go(case, "hot", |case, job, _, rank, maps| {
        let inside = stopped_inside(maps)?;
        kill_rank(case, job, rank)?;
        Ok(inside)
    })
}

/// A rank that sleeps is killed while it maps the newest image. The job does not notice. Another standby world takes
/// the place, maps that image, and takes the job over.
fn sleeper(case: &RunCase) -> Result<()> {
    let mut job = start(case, "hot")?;
    let running = incarnation(case, RUN)?;
    let mut last = running;
    for rank in 0..case.ranks {
        let (number, sleeps) = rank_after(last, STANDBY, rank, case, &mut job)?;
        last = number;
        met(|| {
            let inside = stopped_inside(sleeps)?;
            match inside {
                true => signal::kill_now(sleeps),
                // It maps another one.
                false => case.checkpoint()?,
            }
            Ok(inside)
        })?;
    }
    let mapped = said(&job).matches(MAPPED).count();
    until(&mut job, ASLEEP, case.ranks + 1, case)?;
    let now = incarnation(case, RUN)?;
    ensure!(now == running, "incarnation {now} runs, not {running}");
    ensure!(!said(&job).contains(GOES_ON), "that was a failure");
    until(&mut job, MAPPED, mapped + 1, case)?;
    recovered(case, &mut job, 0)?;
    until(&mut job, LET_GO, 1, case)?;
    ensure!(!said(&job).contains(ANEW), "it was started anew");
    mapped_in_advance(&case.ckpt, true)?;
    finish(case, job)
}
