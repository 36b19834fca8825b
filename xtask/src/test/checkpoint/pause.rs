//! The pause of a job for a checkpoint: only until its memory is copied, unless an option or a lack of memory makes it
//! wait for the images. And an image that is written while the job ends, is killed, or gets the next request.

use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::stasis;
use crate::test::storage::write_faults::STRUCK;
use crate::test::support::held_job::{bring_back, example, start, start_by};
use crate::test::support::helper_programs::under_yama;
use crate::test::Case;
use anyhow::{ensure, Context, Result};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(120);
const RANKS: usize = 2;
/// MiB per rank: enough for the writing to be observed, and too few for it.
const MUCH: &str = "192";
const LITTLE: &str = "8";
/// Stage in the output of `stasis status`.
const WRITING: &str = "writing images while the job runs";

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    let case = |name: &str, run: fn(&Path) -> Result<()>| {
        Case::new(format!("pause/{name}"), move |_, dir| run(dir).into())
    };
    vec![
        case("copied", copied),
        case("told-to-stop", told_to_stop),
        case("memory-too-scarce", scarce),
        case("unreadable-copy", unreadable),
        case("next-checkpoint-waits", next_waits),
        case("job-ends-while-written", ends),
        case("job-ends-while-its-disk-hangs", ends_hung),
        case("job-killed-while-written", killed),
        case("rank-killed-while-written", rank_killed),
    ]
}

/// Starts a job with `mib` MiB per rank and waits for its cut.
fn heavy(dir: &Path, ckpt: &Path, mpi: Mpi, mib: &str) -> Result<Job> {
    let mut heavy = example("tools", "tools/heavy")?;
    heavy.variant = Some(mib.to_owned());
    start(&heavy, dir, ckpt, mpi)
}

/// JSON output of `stasis checkpoint`.
fn checkpoint(ckpt: &Path, dir: &Path, name: &str, words: &[&str]) -> Result<Value> {
    let mut command = stasis::checkpoint(ckpt);
    command.args(words);
    stasis::json(command, dir, name, LIMIT)
}

/// Checks the reason of the pause, or that there was none.
fn because(report: &Value, words: Option<&str>) -> Result<()> {
    let (pause, why) = (report["pause"].as_str(), report["pause_because"].as_str());
    let right = match words {
        None => (pause, why) == (Some("copy"), None),
        Some(words) => pause == Some("stop") && why.is_some_and(|why| why.contains(words)),
    };
    ensure!(right, "not {words:?}: {report:#}");
    Ok(())
}

/// Lets the job run to its end.
fn finish(mut job: Job, dir: &Path) -> Result<()> {
    fs::write(dir.join("go"), "")?;
    let ended = job.wait(Instant::now() + LIMIT)?;
    let right = match ended {
        Some(status) if status.success() => Ok(()),
        other => Err(anyhow::anyhow!("the job ended with {other:?}")),
    };
    job.explain(right, dir)
}

fn restart(mpi: Mpi, ckpt: &Path, dir: &Path, words: &[&str]) -> Command {
    let mut command = stasis::restart(mpi, RANKS, ckpt, dir);
    command.args(words).env("STASIS_TEST_GO", dir.join("go"));
    command
}

/// As `ready`, after an older job file.
fn back(command: Command, ckpt: &Path, dir: &Path, name: &str, before: &str) -> Result<Job> {
    let mut job = Job::start(command, dir, name)?;
    let reached = stasis::until_reached(&mut job, ckpt, before, Instant::now() + LIMIT);
    job.explain(reached, dir)?;
    Ok(job)
}

/// Requests a checkpoint and waits until the job runs again while the images are written.
fn until_written_behind(job: &mut Job, ckpt: &Path, dir: &Path) -> Result<Job> {
    let mut command = stasis::checkpoint(ckpt);
    command.arg("--json");
    let mut request = Job::start(command, dir, "checkpoint")?;
    loop {
        if stasis::stage(ckpt, dir, LIMIT)? == WRITING {
            return Ok(request);
        }
        let over = request.poll()?;
        let missed = match over {
            None => Ok(()),
            Some(status) => Err(anyhow::anyhow!("it was over before it was seen: {status}")),
        };
        job.explain(missed, dir)?;
    }
}

fn answer(request: &mut Job, job: &Job, dir: &Path) -> Result<Value> {
    let status = request.wait(Instant::now() + LIMIT)?;
    let answer = match status {
        Some(status) if status.success() => serde_json::from_str(&job::read_text(&request.stdout))
            .context("reading what stasis checkpoint printed"),
        other => Err(anyhow::anyhow!(
            "stasis checkpoint: {other:?}\n{}",
            job::read_text(&request.stderr)
        )),
    };
    job.explain(answer, dir)
}

/// Twins: processes of the job that only hold a copy of a rank's memory.
fn twins(job: &Job) -> Vec<i32> {
    let is_twin =
        |pid: &i32| job::read_text(format!("/proc/{pid}/comm").as_ref()) == "stasis-twin\n";
    job.pids().into_iter().filter(is_twin).collect()
}

/// Where a process may not read the memory of its child (Yama), the job stands still until the images are written, and
/// says so. No copy is left, and the set is as good as another.
fn unreadable(dir: &Path) -> Result<()> {
    let (mpi, ckpt) = (Mpi::Mpich, dir.join("ck"));
    let mut heavy = example("tools", "tools/heavy")?;
    heavy.variant = Some(LITTLE.to_owned());
    let launch = under_yama(&stasis::launch(mpi, RANKS, &ckpt, dir), dir)?;
    let mut job = start_by(launch, &heavy, dir, mpi)?;
    let report = checkpoint(&ckpt, dir, "first", &[])?;
    because(
        &report,
        Some("cannot be copied on write: Permission denied"),
    )?;
    ensure!(twins(&job).is_empty(), "a copy was left");
    bring_back(
        &mut job,
        under_yama(&restart(mpi.other(), &ckpt, dir, &[]), dir)?,
        &ckpt,
        dir,
    )?;
    because(
        &checkpoint(&ckpt, dir, "second", &[])?,
        Some("Permission denied"),
    )?;
    finish(job, dir)?;
    stasis::verify(&ckpt, dir, LIMIT)?.expect_success("verify")?;
    Ok(())
}

fn copied(dir: &Path) -> Result<()> {
    let ckpt = dir.join("ck");
    let mut job = heavy(dir, &ckpt, Mpi::OpenMpi, LITTLE)?;
    because(&checkpoint(&ckpt, dir, "copied", &[])?, None)?;
    let deadline = Instant::now() + LIMIT;
    let gone = job.until_seen("copies were gone", deadline, |job| twins(job).is_empty());
    job.explain(gone, dir)?;
    finish(job, dir)?;
    stasis::verify(&ckpt, dir, LIMIT)?.expect_success("verify")?;
    Ok(())
}

/// Pauses because of the job's options, and because the job is to end.
fn told_to_stop(dir: &Path) -> Result<()> {
    let ckpt = dir.join("ck");
    let mut job = heavy(dir, &ckpt, Mpi::Mpich, LITTLE)?;
    because(&checkpoint(&ckpt, dir, "first", &[])?, None)?;
    job.kill()?;
    let before = stasis::job_file(&ckpt);
    let command = restart(Mpi::OpenMpi, &ckpt, dir, &["--pause", "stop"]);
    let mut job = back(command, &ckpt, dir, "stopping", &before)?;
    because(&checkpoint(&ckpt, dir, "told", &[])?, Some("--pause stop"))?;
    job.kill()?;
    let before = stasis::job_file(&ckpt);
    let command = restart(Mpi::Mpich, &ckpt, dir, &[]);
    let mut job = back(command, &ckpt, dir, "ending", &before)?;
    let last = checkpoint(&ckpt, dir, "last", &["--stop"])?;
    because(&last, Some("the job ends with it"))?;
    let ended = job.wait(Instant::now() + LIMIT)?;
    job.explain(ended.context("the job did not stop"), dir)?;
    finish(
        Job::start(restart(Mpi::Mpich, &ckpt, dir, &[]), dir, "last-restart")?,
        dir,
    )
}

/// One rank has no memory for its copy: the job is paused and the checkpoint is still committed.
fn scarce(dir: &Path) -> Result<()> {
    let ckpt = dir.join("ck");
    let mut job = heavy(dir, &ckpt, Mpi::OpenMpi, LITTLE)?;
    checkpoint(&ckpt, dir, "first", &[])?;
    job.kill()?;
    let before = stasis::job_file(&ckpt);
    let mut command = restart(Mpi::OpenMpi, &ckpt, dir, &[]);
    command.env("STASIS_FAULT", "scarce@1");
    let mut job = back(command, &ckpt, dir, "scarce", &before)?;
    let taken = checkpoint(&ckpt, dir, "second", &[])?;
    because(&taken, Some("rank 1: memory is too scarce"))?;
    job.kill()?;
    finish(
        Job::start(restart(Mpi::Mpich, &ckpt, dir, &[]), dir, "last")?,
        dir,
    )
}

/// A checkpoint requested while images are written is taken after that.
fn next_waits(dir: &Path) -> Result<()> {
    let ckpt = dir.join("ck");
    let mut job = heavy(dir, &ckpt, Mpi::Mpich, MUCH)?;
    let mut first = until_written_behind(&mut job, &ckpt, dir)?;
    let second = checkpoint(&ckpt, dir, "second", &[])?;
    let first = answer(&mut first, &job, dir)?;
    let sets = (first["set"].as_str(), second["set"].as_str());
    ensure!(sets == (Some("ckpt-1"), Some("ckpt-2")), "{sets:?}");
    job.kill()?;
    stasis::verify(&ckpt, dir, LIMIT)?.expect_success("verify")?;
    finish(
        Job::start(restart(Mpi::Mpich, &ckpt, dir, &[]), dir, "last")?,
        dir,
    )
}

/// A job that ends meanwhile waits for its images.
fn ends(dir: &Path) -> Result<()> {
    let ckpt = dir.join("ck");
    let mut job = heavy(dir, &ckpt, Mpi::OpenMpi, MUCH)?;
    let mut request = until_written_behind(&mut job, &ckpt, dir)?;
    fs::write(dir.join("go"), "")?;
    answer(&mut request, &job, dir)?;
    finish(job, dir)?;
    stasis::verify(&ckpt, dir, LIMIT)?.expect_success("verify")?;
    let left = fs::read_dir(&ckpt)?
        .flatten()
        .map(|entry| entry.file_name());
    // The journal of later file changes is kept as long as the checkpoint, and the history for ever.
    let left: Vec<_> = left
        .filter(|name| name != "undo" && name != "events.jsonl")
        .collect();
    ensure!(left == ["ckpt-1"], "left: {left:?}");
    finish(
        Job::start(restart(Mpi::Mpich, &ckpt, dir, &[]), dir, "restart")?,
        dir,
    )
}

/// A running job while the disk of its last rank hangs, with the set before that one. Also returns the command that
/// requested the unfinished set.
fn hung(dir: &Path, ckpt: &Path) -> Result<(Job, Job)> {
    let mut job = heavy(dir, ckpt, Mpi::OpenMpi, LITTLE)?;
    checkpoint(ckpt, dir, "first", &[])?;
    job.kill()?;
    let before = stasis::job_file(ckpt);
    let mut command = restart(Mpi::OpenMpi, ckpt, dir, &[]);
    command.env("STASIS_FAULT", "hang:3@1");
    let mut job = back(command, ckpt, dir, "hung", &before)?;
    let request = until_written_behind(&mut job, ckpt, dir)?;
    let hangs = job.until_said(STRUCK, Instant::now() + LIMIT);
    job.explain(hangs, dir)?;
    Ok((job, request))
}

/// A rank that has ended and waits for its image reports that.
fn ends_hung(dir: &Path) -> Result<()> {
    let (mut job, _request) = hung(dir, &dir.join("ck"))?;
    fs::write(dir.join("go"), "")?;
    let words = "rank 1: has come to its end, and waits";
    let told = job.until_said(words, Instant::now() + LIMIT);
    job.explain(told, dir)?;
    job.kill()
}

/// If all processes are killed during the writing of a set, the set is not committed, and the one before is complete.
fn killed(dir: &Path) -> Result<()> {
    let ckpt = dir.join("ck");
    let (mut job, _request) = hung(dir, &ckpt)?;
    job.kill()?;
    ensure!(!ckpt.join("ckpt-2").exists(), "it was committed");
    finish(
        Job::start(restart(Mpi::Mpich, &ckpt, dir, &[]), dir, "restart")?,
        dir,
    )
}

/// A twin has only its control pipe and its image open, and ends when its rank is killed. There is no set then.
fn rank_killed(dir: &Path) -> Result<()> {
    let ckpt = dir.join("ck");
    let (mut job, mut request) = hung(dir, &ckpt)?;
    // The image of the other rank is complete soon.
    let deadline = Instant::now() + LIMIT;
    let alone = job.until_seen("one copy was left", deadline, |job| twins(job).len() == 1);
    job.explain(alone, dir)?;
    let twin = *twins(&job).first().context("nobody holds a copy")?;
    let files: Vec<_> = fs::read_dir(format!("/proc/{twin}/fd"))?
        .map(|file| fs::read_link(file?.path()))
        .collect::<std::io::Result<_>>()?;
    let own =
        |file: &PathBuf| file.starts_with(&ckpt) || file.to_string_lossy().starts_with("socket:");
    ensure!(
        files.iter().all(own) && files.len() <= 2,
        "process {twin} has these files open: {files:?}"
    );
    let status = job::read_text(format!("/proc/{twin}/status").as_ref());
    let rank = status.lines().find_map(|line| line.strip_prefix("PPid:"));
    let rank = rank.and_then(|pid| pid.trim().parse().ok());
    crate::harness::signal::kill_now(rank.context("it has no parent")?);
    // The launcher ends the others.
    let ended = job.wait(deadline)?;
    let ended = ended.context("the job goes on without the rank that was killed");
    job.explain(ended, dir)?;
    while !job.pids()[1..].is_empty() {
        ensure!(Instant::now() < deadline, "processes outlive the job");
    }
    let refused = request.wait(deadline)?;
    ensure!(
        refused.is_some_and(|status| !status.success()),
        "{refused:?}"
    );
    ensure!(!ckpt.join("ckpt-2").exists(), "it was committed");
    finish(
        Job::start(restart(Mpi::Mpich, &ckpt, dir, &[]), dir, "restart")?,
        dir,
    )
}
