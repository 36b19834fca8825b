//! `stasis run --standby warm`: the standby world takes the job over, and its deaths do no harm.
//!
//! The moments are taken from the log of `stasis run` (`STASIS_LOG`).

use super::recovery::{deadline, said, RunCase, GOES_ON};
use crate::harness::job::{self, is_rank, Job};
use crate::harness::mpi::Mpi;
use crate::harness::{signal, stasis};
use crate::test::support::helper_programs::compile;
use crate::test::Case;
use anyhow::{ensure, Context, Result};
use nix::sys::signal::Signal;
use std::fs;
use std::path::Path;
use std::process::Command;

const FLAGS: [&str; 2] = ["--standby", "warm"];
/// Events in the log of `stasis run`.
pub(super) const ASLEEP: &str = "the standby world is asleep";
pub(super) const MAPPED: &str = "the standby world has mapped the checkpoint";
pub(super) const LET_GO: &str = "the standby world is let go";
/// Words of the message that `stasis run` prints when it recovers a job without a standby world.
pub(super) const ANEW: &str = "no standby world was ready";
/// Run files of the job and of its standby world.
pub(super) const RUN: &str = "run.json";
pub(super) const STANDBY: &str = "standby.json";

/// All cases of this file.
pub fn cases(full: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    for &mpi in Mpi::of(full) {
        let mut add = |name: &str, body: fn(&RunCase) -> Result<()>| {
            cases.push(RunCase::case(mpi, &format!("standby.{name}"), body));
        };
        add("ranks", |case| ranks(case, "warm"));
        add("hot", |case| ranks(case, "hot"));
        add("sleeper", |case| {
            replaced(case, |_, sleepers, _| sleepers[0])
        });
        add("launcher", |case| replaced(case, |_, _, launcher| launcher));
        add("taking-over", taking_over);
        add("given-up", given_up);
        add("controller", controller);
        add("input", input);
        add("sigterm", sigterm);
        add("before-the-first-checkpoint", before_the_first);
        let scarce = RunCase::case(mpi, "standby.scarce", scarce);
        cases.push(scarce.for_root("needs root to mount"));
    }
    cases
}

pub(super) fn logged(mut command: Command) -> Command {
    command.env("STASIS_LOG", "stasis_supervisor=info,stasis_restart=info");
    command
}

fn start(case: &RunCase) -> Result<Job> {
    start_kind(case, "warm")
}

fn start_kind(case: &RunCase, kind: &str) -> Result<Job> {
    let command = case.command(&["--standby", kind], "runs");
    case.start_command(logged(command), "run")
}

pub(super) fn incarnation(case: &RunCase, file: &str) -> Result<u64> {
    stasis::incarnation(&case.ckpt, file)
}

/// Ranks of the incarnation that a run file names.
fn ranks_of(case: &RunCase, job: &Job, file: &str) -> Result<Vec<i32>> {
    let ranks = stasis::of_incarnation(job.ranks(), incarnation(case, file)?);
    ensure!(ranks.len() == 2, "{file} has the ranks {ranks:?}");
    Ok(ranks)
}

/// Waits until the log has had an event so often.
pub(super) fn until(job: &mut Job, event: &str, times: usize, case: &RunCase) -> Result<()> {
    let what = format!("'{event}' was said {times} times");
    let happened = |job: &Job| said(job).matches(event).count() >= times;
    let reached = job.until_seen(&what, deadline(), happened);
    job.explain(reached, case.dir)
}

pub(super) fn kill_rank(case: &RunCase, job: &Job, rank: usize) -> Result<()> {
    let ranks = ranks_of(case, job, RUN)?;
    let its = ranks.into_iter().filter(|pid| is_rank(*pid, rank));
    its.for_each(signal::kill_now);
    Ok(())
}

/// Kills a rank, and waits until the job runs again.
pub(super) fn recovered(case: &RunCase, job: &mut Job, rank: usize) -> Result<()> {
    let mut killed = Ok(());
    case.recovered(job, |job| killed = kill_rank(case, job, rank))?;
    killed
}

/// Lets the job end, which must leave no process.
pub(super) fn finish(case: &RunCase, job: Job) -> Result<()> {
    let pids = job.pids();
    case.finish(job)?;
    none_lives(&pids)?;
    ensure!(!case.ckpt.join(STANDBY).exists(), "{STANDBY} was left");
    Ok(())
}

fn none_lives(pids: &[i32]) -> Result<()> {
    let lives = |pid: &&i32| fs::read_link(format!("/proc/{pid}/exe")).is_ok();
    let left: Vec<_> = pids.iter().filter(lives).collect();
    ensure!(left.is_empty(), "processes {left:?} are left");
    Ok(())
}

/// Each of three failures is answered by the standby world. A hot one has mapped a newer checkpoint each time.
fn ranks(case: &RunCase, kind: &str) -> Result<()> {
    let mut job = start_kind(case, kind)?;
    case.checkpoint()?;
    for (rank, times) in [(1, 1), (0, 2), (1, 3)] {
        until(&mut job, ASLEEP, times, case)?;
        let maps = |job: &mut Job, so_often| match kind {
            "hot" => until(job, MAPPED, so_often, case),
            _ => Ok(()),
        };
        // The images that were mapped first are replaced. And the same rank does not fail out of one checkpoint.
        maps(&mut job, 2 * times - 1)?;
        case.checkpoint()?;
        maps(&mut job, 2 * times)?;
        let standby = incarnation(case, STANDBY)?;
        recovered(case, &mut job, rank)?;
        until(&mut job, LET_GO, times, case)?;
        let now = incarnation(case, RUN)?;
        ensure!(now == standby, "incarnation {now} runs, not {standby}");
        mapped_in_advance(&case.ckpt, kind == "hot")?;
    }
    until(&mut job, ASLEEP, 4, case)?;
    let said = said(&job);
    ensure!(
        said.matches(GOES_ON).count() == 3,
        "other recoveries:\n{said}"
    );
    ensure!(!said.contains(ANEW), "it was started anew:\n{said}");
    finish(case, job)
}

/// Checks what the last restart of each rank has logged.
pub(super) fn mapped_in_advance(ckpt: &Path, wanted: bool) -> Result<()> {
    for rank in 0..2 {
        let log = job::read_text(&ckpt.join(format!("log/rank-{rank}.log")));
        let last = log.lines().rfind(|line| line.contains("memory mapped"));
        let last = last.with_context(|| format!("rank {rank} has mapped no memory"))?;
        let words = format!("in_advance={wanted}");
        ensure!(last.contains(&words), "rank {rank} logs {last:?}");
    }
    Ok(())
}

/// A part of the standby world is killed: the job does not notice, and another standby world takes its place.
fn replaced(case: &RunCase, part: fn(&Job, &[i32], i32) -> i32) -> Result<()> {
    let mut job = start(case)?;
    case.checkpoint()?;
    until(&mut job, ASLEEP, 1, case)?;
    let ranks = ranks_of(case, &job, RUN)?;
    let number = incarnation(case, STANDBY)?;
    let launchers = stasis::of_incarnation(job.launchers(), number);
    let launcher = *launchers.first().context("it has no launcher")?;
    let sleepers = ranks_of(case, &job, STANDBY)?;
    signal::kill_now(part(&job, &sleepers, launcher));
    until(&mut job, ASLEEP, 2, case)?;
    none_lives(&sleepers)?;
    ensure!(
        ranks == ranks_of(case, &job, RUN)?,
        "the job has other ranks"
    );
    ensure!(
        !said(&job).contains(GOES_ON),
        "that was taken for a failure"
    );
    recovered(case, &mut job, 0)?;
    until(&mut job, LET_GO, 1, case)?;
    ensure!(!said(&job).contains(ANEW), "it was started anew");
    finish(case, job)
}

/// Lets the standby world go while one of its ranks is stopped, and kills that rank: the job is started anew. Takes a
/// checkpoint before, since a rank that fails three times out of one ends the job.
fn fail_taking_over(case: &RunCase, job: &mut Job, times: usize) -> Result<()> {
    case.checkpoint()?;
    let sleepers = ranks_of(case, job, STANDBY)?;
    signal::send(sleepers[1], Signal::SIGSTOP);
    kill_rank(case, job, 0)?;
    until(job, LET_GO, times, case)?;
    case.recovered(job, |_| signal::kill_now(sleepers[1]))?;
    until(job, ANEW, 1, case)
}

fn taking_over(case: &RunCase) -> Result<()> {
    let mut job = start(case)?;
    case.checkpoint()?;
    until(&mut job, ASLEEP, 1, case)?;
    fail_taking_over(case, &mut job, 1)?;
    until(&mut job, ASLEEP, 2, case)?;
    case.checkpoint()?;
    recovered(case, &mut job, 1)?;
    until(&mut job, LET_GO, 2, case)?;
    finish(case, job)
}

/// After the third death there is no standby world until the next checkpoint.
fn given_up(case: &RunCase) -> Result<()> {
    let mut job = start(case)?;
    case.checkpoint()?;
    for times in 1..=3 {
        until(&mut job, ASLEEP, times, case)?;
        signal::kill_now(ranks_of(case, &job, STANDBY)?[0]);
    }
    let words = "there is no standby world until the next checkpoint";
    until(&mut job, words, 1, case)?;
    recovered(case, &mut job, 1)?;
    until(&mut job, ANEW, 1, case)?;
    case.checkpoint()?;
    until(&mut job, ASLEEP, 4, case)?;
    finish(case, job)
}

/// There is too little memory for a standby world. A message says so, and a failure is recovered without one. When
/// there is more memory, the next checkpoint brings a standby world.
fn scarce(case: &RunCase) -> Result<()> {
    let there = fs::read_to_string("/proc/meminfo")?;
    let meminfo = case.dir.join("meminfo");
    let set = |mib: u64| {
        let lines = there
            .lines()
            .map(|line| match line.starts_with("MemAvailable:") {
                true => format!("MemAvailable: {} kB\n", mib << 10),
                false => format!("{line}\n"),
            });
        fs::write(&meminfo, lines.collect::<String>())
    };
    set(100)?;
    let script = r#"mount --bind "$0" /proc/meminfo && exec "$@""#;
    let mut seen = Command::new("unshare");
    seen.args(["--mount", "sh", "-c", script]).arg(&meminfo);
    let command = stasis::before(seen, &logged(case.command(&FLAGS, "runs")));
    let mut job = case.start_command(command, "run")?;
    case.checkpoint()?;
    let words = "2 ranks more need 128 MiB, and there are 100 MiB (MemAvailable in /proc/meminfo)";
    until(&mut job, words, 1, case)?;
    recovered(case, &mut job, 1)?;
    until(&mut job, ANEW, 1, case)?;
    let early = said(&job).contains(ASLEEP);
    ensure!(!early, "there is a standby world without memory");
    set(1 << 20)?;
    case.checkpoint()?;
    until(&mut job, ASLEEP, 1, case)?;
    recovered(case, &mut job, 0)?;
    until(&mut job, LET_GO, 1, case)?;
    finish(case, job)
}

/// `stasis run` is killed: none of its processes survives.
fn controller(case: &RunCase) -> Result<()> {
    let mut job = start(case)?;
    case.checkpoint()?;
    until(&mut job, ASLEEP, 1, case)?;
    let pids = job.pids();
    signal::kill_now(pids[0]);
    ensure!(job.wait(deadline())?.is_some(), "it survives SIGKILL");
    while let Err(why) = none_lives(&pids) {
        ensure!(std::time::Instant::now() < deadline(), "{why}");
        std::thread::yield_now();
    }
    let before = stasis::job_file(&case.ckpt);
    let mut job = case.start_again(logged(case.command(&FLAGS, "runs")), &before)?;
    until(&mut job, ASLEEP, 1, case)?;
    finish(case, job)
}

/// The input of the job is read by the running incarnation alone: the one that the user's line has started, one that
/// was a standby world, and one after that.
fn input(case: &RunCase) -> Result<()> {
    let program = compile(case.dir, &case.mpi.compiler("c"), "reads_input.c", &[])?;
    let mut launch = stasis::launch(case.mpi, 2, &case.ckpt, case.dir);
    launch.arg(program);
    let command = case.at_its_cut(stasis::run(&FLAGS, &launch));
    let mut job = case.start_command(logged(command), "run")?;
    case.checkpoint()?;
    until(&mut job, ASLEEP, 1, case)?;
    let read = |job: &mut Job, word: &str| {
        job.type_in(&format!("{word}\n"))?;
        let stdout = job.stdout.clone();
        let words = format!("read {word}\n");
        let came = job.until("it has read its input", deadline(), || {
            job::read_text(&stdout).contains(&words)
        });
        job.explain(came, case.dir)
    };
    read(&mut job, "first")?;
    recovered(case, &mut job, 1)?;
    until(&mut job, LET_GO, 1, case)?;
    read(&mut job, "second")?;
    until(&mut job, ASLEEP, 2, case)?;
    fail_taking_over(case, &mut job, 2)?;
    read(&mut job, "third")?;
    let pids = job.pids();
    job.type_in("end\n")?;
    job.succeed(deadline(), case.dir)?;
    none_lives(&pids)
}

/// A job that ends with a checkpoint takes its standby world along.
fn sigterm(case: &RunCase) -> Result<()> {
    let mut job = start(case)?;
    case.checkpoint()?;
    until(&mut job, ASLEEP, 1, case)?;
    let pids = job.pids();
    signal::send(pids[0], Signal::SIGTERM);
    let ended = job.wait(deadline())?.context("the job does not end");
    job.explain(ended, case.dir)?;
    none_lives(&pids)?;
    let said = said(&job);
    let words = "the job ends with the checkpoint ckpt-2";
    ensure!(said.contains(words), "it does not say: {words}\n{said}");
    ensure!(!said.contains("is killed"), "it had to be killed:\n{said}");
    ensure!(!said.contains(GOES_ON), "it was started again");
    Ok(())
}

/// There is none before the first checkpoint.
fn before_the_first(case: &RunCase) -> Result<()> {
    let mut job = start(case)?;
    kill_rank(case, &job, 0)?;
    let again = case.reach_cut(&mut job);
    job.explain(again, case.dir)?;
    until(&mut job, ANEW, 1, case)?;
    finish(case, job)
}
