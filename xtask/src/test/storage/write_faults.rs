//! One step of the writing of a checkpoint fails in one rank (`STASIS_FAULT`), in a real job: the job runs on and can
//! be checkpointed, or, if the rank was killed, continues from the newest complete set.
//!
//! `ckpt-image/tests/faults.rs` covers every step and every fault without a job.

use crate::harness::job::{self, Finished, Job};
use crate::harness::mpi::Mpi;
use crate::harness::stasis;
use crate::test::support::held_job::{example, start};
use crate::test::Case;
use anyhow::{ensure, Context, Result};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
const RANKS: usize = 2;
const FAULTS: [&str; 5] = ["crash", "short-write", "full", "quota", "broken"];
/// Message of an injected fault.
pub const STRUCK: &str = "STASIS_FAULT: ";

/// All cases of this file: the first step of the set and one of an image; or one after the other, until there are
/// no more.
pub fn cases(full: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    for (fault, mpi) in FAULTS.into_iter().zip(Mpi::ALL.into_iter().cycle()) {
        for (at, rank) in [(1, 0), (3, 1)] {
            let words = format!("{fault}:{at}@{rank}");
            cases.push(Case::new(format!("faults/{words}"), move |_, dir| {
                strike(&words, mpi, dir)
                    .and_then(|struck| {
                        ensure!(struck, "{words} has not struck");
                        Ok(())
                    })
                    .into()
            }));
        }
        for rank in (0..RANKS).filter(|_| full) {
            let name = format!("faults/sweep:{fault}@{rank}");
            cases.push(Case::new(name, move |_, dir| {
                sweep(fault, rank, mpi, dir).into()
            }));
        }
    }
    cases
}

/// Next step: every one at first, then about every eighth of the many writes.
fn sweep(fault: &str, rank: usize, mpi: Mpi, dir: &Path) -> Result<()> {
    let mut at = 1;
    loop {
        let words = format!("{fault}:{at}@{rank}");
        let dir = dir.join(at.to_string());
        fs::create_dir(&dir)?;
        if !strike(&words, mpi, &dir).with_context(|| words.clone())? {
            ensure!(at > 3, "{words} has not struck");
            return Ok(());
        }
        fs::remove_dir_all(&dir)?;
        at += 1 + at / 8;
    }
}

/// A job is checkpointed, killed and restarted. The fault is injected in its next checkpoint or the one after. Returns
/// whether that step was reached.
fn strike(words: &str, mpi: Mpi, dir: &Path) -> Result<bool> {
    let ckpt = dir.join("ck");
    let mut job = start(&example("p2p", "p2p/ring_loop")?, dir, &ckpt, mpi)?;
    job::run(stasis::checkpoint(&ckpt), dir, "first", LIMIT)?.expect_success("checkpoint")?;
    job.kill()?;
    let old = stasis::job_file(&ckpt);

    let mut job = restart(mpi, &ckpt, dir, Some(words), "faulty")?;
    let reached = stasis::until_reached(&mut job, &ckpt, &old, Instant::now() + LIMIT);
    job.explain(reached, dir)?;
    let ask = |name: &str| job::run(stasis::checkpoint(&ckpt), dir, name, LIMIT);
    let (second, third) = (ask("second")?, ask("third")?);
    if words.starts_with("crash") && !third.status.success() {
        let ended = job.wait(Instant::now() + LIMIT)?;
        let ended = ended.context("the job goes on without the rank that was killed");
        job.explain(ended, dir)?;
    } else {
        // The count of steps continues: a fault beyond the second checkpoint may occur in the third.
        let last = match second.status.success() && !third.status.success() {
            true => names_what_failed(words, &third).and_then(|()| ask("fourth")),
            false => names_what_failed(words, &second).map(|()| third),
        };
        let last = last.and_then(|it| it.expect_success("the checkpoint after the failed one"));
        job.explain(last, dir)?;
    }
    let said = job.stderr.clone();
    let struck = || job::read_text(&said).contains(STRUCK);
    if job.poll()?.is_none() {
        // Older sets are removed after the answer.
        let tidy = || struck() || sets(&ckpt) == 1;
        let tidied = job.until("older sets were gone", Instant::now() + LIMIT, tidy);
        if !struck() {
            job.explain(tidied, dir)?;
        }
    }
    let struck = struck();
    job.kill()?;

    fs::write(dir.join("go"), "")?;
    let mut job = restart(mpi, &ckpt, dir, None, "last")?;
    let ended = job.wait(Instant::now() + LIMIT)?;
    let right = match ended {
        Some(status) if status.success() => Ok(struck),
        other => Err(anyhow::anyhow!("the job ended with {other:?}")),
    };
    let right = job.explain(right, dir)?;
    stasis::verify(&ckpt, dir, LIMIT)?.expect_success("verify")?;
    Ok(right)
}

/// Checks that an abandoned checkpoint reports the failed write, and what to do against a quota.
fn names_what_failed(words: &str, checkpoint: &Finished) -> Result<()> {
    let told = match words.starts_with("quota") {
        true => ["Disk quota exceeded", "Free space there"],
        false => ["ckpt-"; 2],
    };
    ensure!(
        checkpoint.status.success() || told.iter().all(|text| checkpoint.stderr.contains(text)),
        "the refusal does not say what could not be written:\n{}",
        checkpoint.stderr
    );
    Ok(())
}

/// Directories of sets, complete or not.
fn sets(ckpt: &Path) -> usize {
    let entries = fs::read_dir(ckpt).into_iter().flatten().flatten();
    entries.filter(|entry| entry.path().is_dir()).count()
}

fn restart(mpi: Mpi, ckpt: &Path, dir: &Path, fault: Option<&str>, name: &str) -> Result<Job> {
    let mut command = stasis::restart(mpi, RANKS, ckpt, dir);
    command.args(["--keep", "1"]).current_dir(dir);
    command.env("STASIS_TEST_READY", dir.join("ready"));
    command.env("STASIS_TEST_GO", dir.join("go"));
    if let Some(words) = fault {
        command.env("STASIS_FAULT", words);
    }
    Job::start(command, dir, name)
}
