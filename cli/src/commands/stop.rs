//! `stasis stop`: ends a running job at once, without a checkpoint.
//!
//! The ranks on this machine are killed by SIGKILL, which no handler and no `--signal` of the job takes for a request.
//! Their launcher ends the ranks on other machines, as after a crash. A `stasis run` is told first, since it would take
//! their deaths for failures.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{anyhow, ensure, Context, Result};
use ckpt_image::{list_sets, SetState};
use coordinator::client::Client;
use coordinator::job_file::JobFile;
use coordinator::net::addresses;
use coordinator::process_liveness;
use coordinator::protocol::RankState;
use history::event::Event;
use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use serde_json::json;
use supervisor::run::END;
use supervisor::run_file::RunFile;

use crate::args::Job;
use crate::commands::checkpoint;
use crate::running::rank_process::RankProcess;
use crate::ui::exit::{self, Code, WithCode};
use crate::ui::{json, text};

/// Time for processes to end that were killed, and for `stasis run` and its launcher after them.
const LIMIT: Duration = Duration::from_secs(30);
/// Interval at which it is looked whether a signal was received.
const LOOK: Duration = Duration::from_millis(1);

/// Runs the command.
pub fn run(options: &Job) -> exit::Result<()> {
    let directory = options.directory()?;
    let client = Client::connect(&directory);
    let first = RankProcess::of_job(&directory);
    let keeper = keeper(&directory).code(Code::CannotServe)?;
    let asked = client.map(|client| {
        let job = client.job.clone();
        // Those that are here are counted when they are killed.
        let all_here = first.len() >= job.ranks as usize;
        let others = (!all_here).then(|| elsewhere_of(client)).flatten();
        (job, others.unwrap_or_default())
    });
    let (job, others) = match asked {
        Ok((job, others)) => (Some(job), others),
        // No command reaches ranks before MPI_Init. Between two incarnations `stasis run` is all there is.
        Err(_) if !first.is_empty() || keeper.is_some() => (None, Vec::new()),
        Err(why) => return Err(checkpoint::failure(why)),
    };
    if first.is_empty() && (job.is_some() || keeper.is_none()) {
        return Err(elsewhere(job.as_ref(), &directory)).code(Code::CannotServe);
    }
    if let Some(keeper) = &keeper {
        tell(keeper).code(Code::CannotServe)?;
    }
    // The next incarnation may have begun before `stasis run` was told.
    let first = match first.is_empty() {
        true => RankProcess::of_job(&directory),
        false => first,
    };
    let killed = kill_ranks(&directory, first).code(Code::CannotServe)?;
    if let Some(keeper) = &keeper {
        let ended = wait(&[keeper.pid], Instant::now() + LIMIT);
        let ended = ended.context("`stasis run` waits for its launcher");
        ended.code(Code::CannotServe)?;
    }
    if let Some(job) = &job {
        // Later commands would take the file for that of a killed job, and say so.
        let _ = job.end_stopped(&directory);
        // A history that cannot be written harms nothing but the report.
        let _ = history::last_seen::note(&directory, Event::Stopped);
    }
    let others = others.iter().filter(|rank| !killed.contains(&Some(**rank)));
    let others = u32::try_from(others.count()).unwrap_or(u32::MAX);
    let ended = Ended {
        directory: &directory,
        job: job.as_ref(),
        supervised: keeper.is_some(),
        killed: &killed,
        others,
    };
    report(options, &ended);
    Ok(())
}

/// The ranks of a job on other machines, if it says which live. One that is stopped is not waited for long.
fn elsewhere_of(client: Client) -> Option<Vec<u32>> {
    let status = client.patient(Some(Duration::ZERO)).status().ok()?;
    let here = addresses::host();
    let elsewhere = status.ranks.iter().filter(|rank| {
        let lives = !matches!(rank.state, RankState::Finished | RankState::Lost);
        lives && !rank.host.is_empty() && rank.host != here
    });
    Some(elsewhere.map(|rank| rank.rank).collect())
}

/// The error for a job without a rank on this machine.
fn elsewhere(job: Option<&JobFile>, directory: &Path) -> anyhow::Error {
    let host = job.map_or("another machine", |job| &*job.host);
    anyhow!(
        "no rank of the job in {} runs on this machine: give this command on {host}, where rank 0 runs, or end the \
         launcher",
        directory.display()
    )
}

/// The `stasis run` that keeps the job, if there is one.
fn keeper(directory: &Path) -> Result<Option<RunFile>> {
    let Some(file) = RunFile::of_living(directory)? else {
        return Ok(None);
    };
    ensure!(
        file.is_here(),
        "the job is kept by `stasis run` on {}, which would start it again: give this command there",
        file.host
    );
    Ok(Some(file))
}

/// Tells `stasis run` that the user ends the job, and returns when it has heard of that: it reads signals before it
/// looks at its ranks.
fn tell(keeper: &RunFile) -> Result<()> {
    let pid = keeper.pid.cast_signed();
    let sent = kill(Pid::from_raw(pid), END);
    sent.with_context(|| format!("`stasis run` (process {pid}) cannot be told"))?;
    let limit = Instant::now() + LIMIT;
    // No event tells a sender that its signal was received.
    while is_pending(pid, END) {
        ensure!(
            Instant::now() < limit,
            "`stasis run` (process {pid}) does not receive signals. Is it suspended? End it by `kill -9 {pid}`: its \
             ranks end with it"
        );
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Whether a process has not received a signal that was sent to it (proc_pid_status(5)).
fn is_pending(pid: i32, signal: Signal) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("ShdPnd:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 << (signal as i32 - 1) != 0)
}

/// Kills the job's processes on this machine until none is left: a standby world may have added some. Returns the
/// ranks.
fn kill_ranks(directory: &Path, first: Vec<RankProcess>) -> Result<BTreeSet<Option<u32>>> {
    let limit = Instant::now() + LIMIT;
    let (mut killed, mut next) = (BTreeSet::new(), first);
    while !next.is_empty() {
        let pids: Vec<u32> = next.iter().map(|rank| rank.pid.cast_unsigned()).collect();
        for rank in &next {
            match kill(Pid::from_raw(rank.pid), Signal::SIGKILL) {
                // The launcher may have been faster.
                Ok(()) | Err(Errno::ESRCH) => {}
                Err(why) => {
                    let failed = || format!("process {} cannot be killed", rank.pid);
                    return Err(why).with_context(failed);
                }
            }
            killed.insert(rank.rank);
        }
        wait(&pids, limit)?;
        next = RankProcess::of_job(directory);
    }
    Ok(killed)
}

/// Waits until these processes have ended.
fn wait(pids: &[u32], limit: Instant) -> Result<()> {
    for pid in pids {
        // One that cannot be opened has ended.
        let Ok(process) = process_liveness::open(*pid) else {
            continue;
        };
        let left = limit.saturating_duration_since(Instant::now());
        let mut end = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
        let ended = poll(&mut end, PollTimeout::try_from(left)?)?;
        ensure!(
            ended == 1,
            "process {pid} has not ended after {} s: is it stuck in a call of the kernel? `cat /proc/{pid}/stack` as \
             root tells in which",
            LIMIT.as_secs()
        );
    }
    Ok(())
}

/// A job that was ended.
struct Ended<'a> {
    directory: &'a Path,
    job: Option<&'a JobFile>,
    /// Whether `stasis run` kept it.
    supervised: bool,
    /// Its ranks on this machine.
    killed: &'a BTreeSet<Option<u32>>,
    /// Number of its ranks on other machines.
    others: u32,
}

fn report(options: &Job, ended: &Ended<'_>) {
    let Ended {
        directory,
        job,
        supervised,
        killed,
        others,
    } = *ended;
    let sets = list_sets(directory, None).unwrap_or_default();
    let mut whole = sets.iter().filter(|set| set.state == SetState::Whole);
    let newest = whole.next().map(|set| &set.name);
    if options.json {
        json::print(json!({
            "job": job.map(|job| &job.id),
            "program": job.map(|job| &job.program),
            "killed": killed.iter().flatten().collect::<Vec<_>>(),
            "elsewhere": others,
            "supervised": supervised,
            "newest": newest,
        }));
        return;
    }
    let mut text = format!(
        "the job in {}{} has ended without a checkpoint: {} killed on this machine",
        directory.display(),
        job.map_or(String::new(), |job| format!(" ({})", job.command())),
        match killed.len() {
            1 => "1 rank was".to_owned(),
            n => format!("{n} ranks were"),
        },
    );
    if others > 0 {
        text += &format!(
            "; the launcher ends {} on other machines",
            text::ranks(others)
        );
    }
    if supervised {
        text += "; `stasis run` does not start it again";
    }
    match newest {
        Some(newest) => say!("{text}. Its newest checkpoint is {newest}"),
        None => say!("{text}. It has no checkpoint"),
    }
}
