//! Other checkpointers, on one process without a launcher: `criu`, and those that `--peer` names.

use super::criu::{last_line, Criu};
use super::images::Workload;
use super::LIMIT;
use crate::harness::job::{self, Job};
use anyhow::{bail, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A checkpointer.
pub enum Peer {
    /// [`Criu`].
    Criu,
    /// Command of `--peer`.
    Other(PathBuf),
}

/// All measured checkpointers.
pub fn all(named: &[PathBuf]) -> impl Iterator<Item = Peer> + '_ {
    let others = named.iter().cloned().map(Peer::Other);
    std::iter::once(Peer::Criu).chain(others)
}

impl Peer {
    /// Readable name.
    pub fn name(&self) -> String {
        match self {
            Peer::Criu => "criu".to_owned(),
            Peer::Other(command) => command.display().to_string(),
        }
    }

    /// Size, time of a dump after which the process runs on, and time until it is restored and has executed a step.
    pub fn measure(&self, workload: &Workload, images: &Path) -> Result<String> {
        fs::create_dir_all(images)?;
        let measured = self.dump_and_restore(workload, images);
        fs::remove_dir_all(images)?;
        measured
    }

    fn dump_and_restore(&self, workload: &Workload, images: &Path) -> Result<String> {
        let dir = &workload.dir;
        let mut job = Job::start(workload.alone(), dir, "alone")?;
        let deadline = Instant::now() + LIMIT;
        let filled = job.until("memory was filled", deadline, || workload.has_done(0, 1));
        job.explain(filled, dir)?;
        let [pid, ..] = job.pids()[..] else {
            bail!("the process is gone");
        };
        let dumped = self.run("dump", Some(pid), images, dir)?;
        let mut bytes = 0;
        for entry in fs::read_dir(images)? {
            bytes += entry?.metadata()?.len();
        }
        job.kill()?;
        let start = Instant::now();
        self.run("restore", None, images, dir)?;
        workload.allow(1)?;
        until("did the step", || workload.has_done(1, 1))?;
        let restored = start.elapsed().as_secs_f64();
        workload.finish()?;
        let right = || job::read_text(&job.stdout).contains("OK footprint");
        until("came to its right end", right)?;
        Ok(format!(
            "{:.1} | {dumped:.2} | {restored:.2}",
            bytes as f64 / (1 << 20) as f64
        ))
    }

    /// Runs a verb. Returns its time in seconds.
    fn run(&self, verb: &str, pid: Option<i32>, images: &Path, dir: &Path) -> Result<f64> {
        let pid = pid.map(|pid| pid.to_string());
        let mut command = match self {
            Peer::Criu => {
                let mut command = Criu::find(dir)?.command();
                command.args([verb, "--shell-job", "-D"]).arg(images);
                match &pid {
                    // MPI libraries map deleted files (memfd).
                    Some(pid) => {
                        command.args(["--leave-running", "--ghost-limit", "1G", "-t", pid])
                    }
                    None => command.arg("--restore-detached"),
                };
                command
            }
            Peer::Other(name) => {
                let mut command = Command::new(name);
                command.arg(verb).args(&pid).arg(images);
                command
            }
        };
        command.current_dir(dir);
        let finished = job::run(command, dir, verb, LIMIT)?;
        match finished.status.success() {
            true => Ok(finished.took.as_secs_f64()),
            false => bail!("{verb}: {}", last_line(&finished.stderr)),
        }
    }
}

/// Waits for the end of a process that is not a child of this one.
fn until(what: &str, mut event: impl FnMut() -> bool) -> Result<()> {
    let start = Instant::now();
    while !event() {
        if start.elapsed() > LIMIT {
            bail!("what was restored never {what}");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
