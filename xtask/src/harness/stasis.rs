//! The product's commands as the harness uses them.

use crate::docs;
use crate::harness::job::{self, Finished, Job};
use crate::harness::mpi::Mpi;
use crate::harness::paths;
use anyhow::{Context, Result};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::iter;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// `mpirun -n RANKS stasis launch --ckpt-dir DIR`, to which the application is to be appended.
pub fn launch(lower: Mpi, ranks: usize, ckpt: &Path, scratch: &Path) -> Command {
    let mut command = lower.mpirun(ranks, scratch);
    command.arg(paths::stasis()).args(["launch", "--ckpt-dir"]);
    command.arg(ckpt);
    command
}

/// `stasis run FLAGS -- COMMAND`, in the environment of the command.
pub fn run(flags: &[&str], job: &Command) -> Command {
    around("run", flags, job)
}

/// `stasis bisect FLAGS -- COMMAND`, in the environment of the command.
pub fn bisect(flags: &[&str], job: &Command) -> Command {
    around("bisect", flags, job)
}

/// `stasis hunt FLAGS -- COMMAND`, in the environment of the command.
pub fn hunt(flags: &[&str], job: &Command) -> Command {
    around("hunt", flags, job)
}

fn around(name: &str, flags: &[&str], job: &Command) -> Command {
    let mut command = command([name]);
    command.args(flags).arg("--");
    before(command, job)
}

/// A command line with another one behind it, in the environment and the directory of that one.
pub fn before(mut command: Command, job: &Command) -> Command {
    command.arg(job.get_program()).args(job.get_args());
    instead_of(command, job)
}

/// A command in the environment and the directory of another one.
pub fn instead_of(mut command: Command, job: &Command) -> Command {
    for (name, value) in job.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    if let Some(dir) = job.get_current_dir() {
        command.current_dir(dir);
    }
    command
}

/// `mpirun -n RANKS stasis restart DIR`.
pub fn restart(lower: Mpi, ranks: usize, ckpt: &Path, scratch: &Path) -> Command {
    let mut command = lower.mpirun(ranks, scratch);
    command.arg(paths::stasis()).arg("restart").arg(ckpt);
    command
}

/// Any command that runs outside of MPI.
pub fn command<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(paths::stasis());
    command.args(arguments);
    command
}

/// A script of a user's shell, with `stasis` in its PATH.
pub fn shell(script: &str, dir: &Path) -> Command {
    let mut shell = Command::new("bash");
    shell.args(["-c", script]).current_dir(dir);
    Mpi::OpenMpi.set_environment(&mut shell);
    let bin = paths::stasis();
    let bin = bin.parent().unwrap_or(Path::new("")).display();
    let path = std::env::var("PATH").unwrap_or_default();
    shell.env("PATH", format!("{bin}:{path}"));
    shell
}

/// `stasis checkpoint DIR`: returns when the set is committed.
pub fn checkpoint(ckpt: &Path) -> Command {
    let mut command = command(["checkpoint"]);
    command.arg(ckpt);
    command
}

/// Takes a checkpoint. The command's output goes to files of that name in `dir`.
pub fn take_checkpoint(ckpt: &Path, dir: &Path, name: &str, limit: Duration) -> Result<()> {
    let taken = job::run(checkpoint(ckpt), dir, name, limit)?;
    taken.expect_success("stasis checkpoint").map(drop)
}

/// `stasis verify DIR`.
pub fn verify(ckpt: &Path, dir: &Path, limit: Duration) -> Result<Finished> {
    let mut command = command(["verify"]);
    command.arg(ckpt);
    job::run(command, dir, "verify", limit)
}

/// JSON output of a command that must succeed, with no member that `docs/json.md` does not have. Its output goes to
/// files of that name in `dir`.
pub fn json(mut command: Command, dir: &Path, name: &str, limit: Duration) -> Result<Value> {
    command.arg("--json");
    let words = iter::once(command.get_program()).chain(command.get_args());
    let is_stasis = |word: &&OsStr| Path::new(word).file_name() == Some(OsStr::new("stasis"));
    let word = words.skip_while(|word| !is_stasis(word)).nth(1);
    let word = word.unwrap_or_default().to_string_lossy().into_owned();
    let answer = job::run(command, dir, name, limit)?.expect_success(name)?;
    let printed = serde_json::from_str(&answer.stdout)
        .with_context(|| format!("reading what {name} printed"))?;
    docs::check_printed(&word, &printed)?;
    Ok(printed)
}

/// JSON output of `stasis status` for the job in `ckpt`.
pub fn status(ckpt: &Path, dir: &Path, limit: Duration) -> Result<Value> {
    let mut command = command(["status"]);
    command.arg(ckpt);
    json(command, dir, "status", limit)
}

/// The entry of the job in `ckpt`, if `stasis jobs --json` lists it for these directories, or without any for this
/// machine.
pub fn listed(
    directories: &[&Path],
    ckpt: &Path,
    dir: &Path,
    limit: Duration,
) -> Result<Option<Value>> {
    let mut command = command(["jobs"]);
    command.args(directories);
    let told = json(command, dir, "jobs", limit)?;
    let jobs = told["jobs"].as_array().context("no list of jobs")?;
    let ours = |job: &&Value| job["directory"].as_str() == ckpt.to_str();
    Ok(jobs.iter().find(ours).cloned())
}

/// Waits until a checkpoint in memory has begun and is complete.
pub fn until_held(job: &mut Job, ckpt: &Path, dir: &Path, deadline: Instant) -> Result<()> {
    let held = || {
        let limit = deadline.saturating_duration_since(Instant::now());
        let status = status(ckpt, dir, limit).ok();
        status.and_then(|status| Some(status["in_memory"]["set"].as_str()?.to_owned()))
    };
    let mut last = held();
    // The first one may have begun before.
    for _ in 0..2 {
        job.until("there was a checkpoint in memory", deadline, || {
            let now = held();
            now.is_some() && std::mem::replace(&mut last, now.clone()) != now
        })?;
    }
    Ok(())
}

/// Stage of the coordinator of the job in `ckpt`, from `stasis status`.
pub fn stage(ckpt: &Path, dir: &Path, limit: Duration) -> Result<String> {
    let status = status(ckpt, dir, limit)?;
    let stage = status["stage"].as_str();
    Ok(stage.context("stasis status tells no stage")?.to_owned())
}

/// Incarnation that a run file in the checkpoint directory names: `run.json`, or `standby.json`.
pub fn incarnation(ckpt: &Path, file: &str) -> Result<u64> {
    let path = ckpt.join(file);
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let content: Value = serde_json::from_str(&text)?;
    let number = content["incarnation"].as_u64();
    number.with_context(|| format!("{file} names no incarnation"))
}

/// Those of the processes, ranks or launchers, whose command line names the incarnation.
pub fn of_incarnation(pids: Vec<i32>, number: u64) -> Vec<i32> {
    let words = [
        format!("\"incarnation\":{number}}}"),
        format!("\"incarnation\":{number},"),
        format!("--incarnation {number} "),
    ];
    let is_its = |pid: &i32| {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = line.replace('\0', " ");
        words.iter().any(|words| line.contains(words))
    };
    pids.into_iter().filter(is_its).collect()
}

/// Waits until the history has this number of events of this name. An event is noted after the command that has caused
/// it was answered.
pub fn until_noted(
    job: &mut Job,
    ckpt: &Path,
    event: &str,
    times: usize,
    deadline: Instant,
) -> Result<()> {
    let words = format!("\"event\":\"{event}\"");
    job.until("the event is noted", deadline, || {
        let history = job::read_text(&ckpt.join("events.jsonl"));
        history.matches(&words).count() >= times
    })
}

/// Content of the job file in a checkpoint directory; empty without one.
pub fn job_file(ckpt: &Path) -> String {
    job::read_text(&ckpt.join("job.json"))
}

/// Wait until a job accepts connections: until its job file differs from `before`, the one that the previous run left
/// (empty for the first run). Returns the content of the job file.
pub fn until_reached(
    job: &mut Job,
    ckpt: &Path,
    before: &str,
    deadline: Instant,
) -> Result<String> {
    let mut now = String::new();
    job.until("the job could be reached (job.json)", deadline, || {
        now = job_file(ckpt);
        !now.is_empty() && now != before
    })?;
    Ok(now)
}

/// Number of images in the folders of all jobs and sets in a local directory (`--local-dir`).
pub fn local_images(local: &Path) -> usize {
    let within = |dir: PathBuf| fs::read_dir(dir).into_iter().flatten().flatten();
    let folders = within(local.to_owned()).flat_map(|job| within(job.path()));
    folders.flat_map(|folder| within(folder.path())).count()
}
