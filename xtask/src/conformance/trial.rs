//! One entry of a testlist: run natively, under Stasis, and cut at certain MPI calls and restarted.

use super::testlist::{Entry, Success};
use super::Options;
use crate::harness::job::{self, Job};
use crate::harness::{paths, stasis};
use anyhow::{anyhow, bail, ensure, Context, Result};
use std::fs;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

/// Result of an entry.
#[derive(Debug)]
pub enum Verdict {
    /// No verdict, for this reason.
    Skipped(String),
    /// Failure natively, for this reason.
    FailsNatively(String),
    /// Success natively.
    Judged {
        /// The run without a checkpoint: passed, or what differs.
        stasis: std::result::Result<(), String>,
        /// By the number of the MPI call at which it was cut; none where that run differs.
        cuts: Vec<(u64, Cut)>,
    },
}

/// Result of a run with a cut.
#[derive(Debug, PartialEq)]
pub enum Cut {
    /// Success with fewer calls than the cut needs.
    NotReached,
    /// Success after a kill and a restart.
    Passed,
    /// Failure, with its description.
    Differs(String),
}

/// Runs an entry in all ways, in an empty folder.
pub fn run(entry: &Entry, options: &Options, dir: &Path) -> Result<Verdict> {
    if let Some(why) = unfit(entry, options) {
        return Ok(Verdict::Skipped(why));
    }
    let trial = Trial {
        entry,
        options,
        dir,
        limit: entry.limit.unwrap_or_default().max(options.limit()),
    };
    if let Err(why) = trial.native() {
        return Ok(Verdict::FailsNatively(line(&why)));
    }
    let stasis = trial.under_stasis().map_err(|why| line(&why));
    let mut cuts = Vec::new();
    // A failed run is not cut as well: one reason is enough.
    for call in options.cuts.iter().filter(|_| stasis.is_ok()) {
        let ckpt = paths::for_images(&dir.join(format!("cut-{call}")));
        let _ = fs::remove_dir_all(&ckpt);
        let cut = trial.cut(*call, &ckpt);
        let _ = fs::remove_dir_all(&ckpt);
        cuts.push((*call, cut.unwrap_or_else(|why| Cut::Differs(line(&why)))));
    }
    Ok(Verdict::Judged { stasis, cuts })
}

/// Reason why the entry cannot be run here, or has no verdict.
fn unfit(entry: &Entry, options: &Options) -> Option<String> {
    if let Success::Unknown(how) = &entry.success {
        return Some(format!("resultTest={how} is not known"));
    }
    if !entry.program.is_file() {
        return Some("it is not built".into());
    }
    (entry.memory > options.memory).then(|| format!("it wants {} GiB", entry.memory))
}

struct Trial<'a> {
    entry: &'a Entry,
    options: &'a Options,
    dir: &'a Path,
    limit: Duration,
}

impl Trial<'_> {
    fn native(&self) -> Result<()> {
        let dir = self.folder("native")?;
        let command = self.options.mpi.mpirun(self.entry.ranks, &dir);
        self.judge(self.start(command, &dir)?, "")
    }

    fn under_stasis(&self) -> Result<()> {
        let dir = self.folder("stasis")?;
        let command = self.launch(&dir.join("ck"), &dir);
        self.judge(self.start(command, &dir)?, "")
    }

    /// Killed after the `call`-th MPI call of one of the ranks, and restarted.
    fn cut(&self, call: u64, ckpt: &Path) -> Result<Cut> {
        let dir = self.folder(&format!("cut-{call}"))?;
        let ranks = self.entry.ranks;
        let rank = call % ranks as u64;
        let mut command = self.launch(ckpt, &dir);
        command.env("STASIS_CUT", format!("{call}@{rank}"));
        let mut job = self.start(command, &dir)?;
        self.end(&mut job)?;
        let before = job::read_text(&job.stdout);
        if !ckpt.join("ckpt-1/manifest.json").is_file() {
            let said = job::read_text(&job.stderr);
            self.judge(job, "")?;
            let refusal = said.lines().find(|line| line.contains("STASIS_CUT"));
            // A job that ends meanwhile has refused no checkpoint.
            let refusal = refusal.filter(|line| !line.contains("ended"));
            return match refusal {
                Some(refusal) => bail!("{refusal}"),
                None => Ok(Cut::NotReached),
            };
        }
        job.kill()?;
        let under = self.options.under.unwrap_or(self.options.mpi);
        let mut command = stasis::restart(under, ranks, ckpt, &dir);
        command.args(&self.options.restart_flags);
        let job = Job::start(self.with_environment(command), &dir, "restart")?;
        self.judge(job, &before).context("restarted")?;
        Ok(Cut::Passed)
    }

    /// `stasis launch` with the words of the user.
    fn launch(&self, ckpt: &Path, dir: &Path) -> Command {
        let mut command = stasis::launch(self.options.mpi, self.entry.ranks, ckpt, dir);
        command.args(&self.options.launch_flags);
        command
    }

    fn folder(&self, name: &str) -> Result<std::path::PathBuf> {
        let dir = self.dir.join(name);
        fs::create_dir_all(dir.join("work"))?;
        Ok(dir)
    }

    fn with_environment(&self, mut command: Command) -> Command {
        let pairs = self.entry.environment.iter();
        command.envs(pairs.map(|(name, value)| (name, value)));
        command
    }

    /// Starts the program with `command` in front, in its own folder.
    fn start(&self, command: Command, dir: &Path) -> Result<Job> {
        let mut command = self.with_environment(command);
        command
            .arg(&self.entry.program)
            .args(&self.entry.arguments)
            .current_dir(dir.join("work"));
        Job::start(command, dir, "run")
    }

    fn end(&self, job: &mut Job) -> Result<ExitStatus> {
        let ended = job.wait(Instant::now() + self.limit)?;
        let ended = ended.with_context(|| format!("still running after {:?}", self.limit));
        let dir = job.stdout.parent().unwrap_or(self.dir).to_owned();
        job.explain(ended, &dir)
    }

    /// Whether the job, which had printed `before` when it was cut, ends as it should.
    fn judge(&self, mut job: Job, before: &str) -> Result<()> {
        let status = self.end(&mut job)?;
        let text = format!("{before}{}", job::read_text(&job.stdout));
        judge(&self.entry.success, status, &text).map_err(|why| {
            let said = job::read_text(&job.stderr);
            anyhow!(
                "{why}{}",
                said_of(&said).or(said_of(&text)).unwrap_or_default()
            )
        })
    }
}

fn judge(success: &Success, status: ExitStatus, stdout: &str) -> Result<()> {
    let (fails, says) = match success {
        Success::NoErrors => (false, true),
        Success::Failure => (true, false),
        Success::FailureNoErrors => (true, true),
        Success::Unknown(how) => bail!("resultTest={how} is not known"),
    };
    ensure!(status.success() != fails, "it ended with {status}");
    let no_errors = |line: &str| line.trim().eq_ignore_ascii_case("no errors");
    ensure!(
        !says || stdout.lines().any(no_errors),
        "it does not say 'No Errors'"
    );
    Ok(())
}

/// The first informative line: of Stasis if there is one, otherwise any.
fn said_of(text: &str) -> Option<String> {
    let mut lines = text.lines().map(str::trim).filter(|line| {
        let letters = line.chars().filter(|c| c.is_alphabetic()).count();
        letters > 6 && !line.starts_with("===")
    });
    let first = lines.clone().next();
    let told = lines.find(|line| line.starts_with("stasis:"));
    told.or(first).map(|line| format!(": {line}"))
}

/// An error as one line.
fn line(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    let first = text.lines().next().unwrap_or_default();
    first.chars().take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn a_run_is_judged_by_its_status_and_what_it_says() {
        let ended = |code: i32| ExitStatus::from_raw(code << 8);
        let judged = |success, code, text| judge(&success, ended(code), text).is_ok();
        assert!(judged(Success::NoErrors, 0, "x\n No Errors\n"));
        assert!(!judged(Success::NoErrors, 0, "Found 3 errors\n"));
        assert!(!judged(Success::NoErrors, 1, " No Errors\n"));
        assert!(judged(Success::Failure, 1, ""));
        assert!(!judged(Success::Failure, 0, ""));
        assert!(judged(Success::FailureNoErrors, 9, "No errors\n"));
        assert!(!judged(Success::FailureNoErrors, 9, ""));
    }

    #[test]
    fn what_stasis_says_comes_first() {
        let text = "=====\nAbort(1) on node 0\nstasis: rank 0: no such thing\n";
        assert_eq!(said_of(text).unwrap(), ": stasis: rank 0: no such thing");
        assert_eq!(
            said_of("==\n\nAbort(1) on node 0\n").unwrap(),
            ": Abort(1) on node 0"
        );
        assert_eq!(said_of("\n 1 2\n"), None);
    }
}
