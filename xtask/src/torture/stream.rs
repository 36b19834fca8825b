//! One program under a stream of cuts, from its launch to the end of its last restart.

use super::subject::Subject;
use crate::job::{self, Job};
use crate::mpi::Mpi;
use crate::random::Random;
use crate::test::programs::command_line;
use crate::{paths, stasis};
use anyhow::{bail, ensure, Context, Result};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

/// Nothing that is waited for takes this long, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
/// A program that is not cut any more must end within.
const REST: Duration = Duration::from_secs(300);
/// Longest run of the job between two checkpoints, in seconds.
const PAUSE: f64 = 0.06;
/// Latest moment of a kill after a checkpoint was committed, or asked for, in seconds.
const KILL: f64 = 0.03;
/// Latest moment of a kill after a restart was started, in seconds.
const KILL_RESTART: f64 = 0.6;

/// What was done so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Checkpoints committed.
    pub cuts: u64,
    /// Kills after a checkpoint was committed.
    pub kills: u64,
    /// Kills while one was being taken.
    pub kills_in_checkpoint: u64,
    /// Kills while a restart was under way.
    pub kills_in_restart: u64,
    /// Jobs ended with `stasis checkpoint --stop`.
    pub stops: u64,
    /// Restarts that came back.
    pub restarts: u64,
}

impl Tally {
    /// The sum.
    pub fn add(&mut self, other: &Tally) {
        self.cuts += other.cuts;
        self.kills += other.kills;
        self.kills_in_checkpoint += other.kills_in_checkpoint;
        self.kills_in_restart += other.kills_in_restart;
        self.stops += other.stops;
        self.restarts += other.restarts;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} checkpoints, {} kills ({} while checkpointing, {} while restarting), {} stops, {} restarts",
            self.cuts,
            self.kills + self.kills_in_checkpoint + self.kills_in_restart,
            self.kills_in_checkpoint,
            self.kills_in_restart,
            self.stops,
            self.restarts
        )
    }
}

/// What became of a job that was to be cut.
enum After {
    /// It runs on.
    Running,
    /// It is gone, and goes on from its newest checkpoint.
    Gone,
    /// It has come to its own end.
    Ended(ExitStatus),
}

/// One program while it is tortured.
pub struct Stream<'a> {
    /// What was done so far.
    pub tally: Tally,
    subject: &'a Subject,
    random: Random,
    cuts: u64,
    dir: &'a Path,
    /// Where the images go.
    ckpt: PathBuf,
    /// Number of the newest checkpoint that is known to be committed.
    newest: u64,
    /// Standard output of each start, in order.
    starts: Vec<PathBuf>,
}

impl<'a> Stream<'a> {
    /// About to cut `subject` so many times; what it leaves behind goes to `dir`.
    pub fn new(subject: &'a Subject, random: Random, cuts: u64, dir: &'a Path) -> Self {
        Stream {
            tally: Tally::default(),
            subject,
            random,
            cuts,
            dir,
            ckpt: paths::for_images(dir),
            newest: 0,
            starts: Vec::new(),
        }
    }

    /// From the launch to the comparison with what the native run left in its folder.
    pub fn run(&mut self, native: &Path) -> Result<()> {
        let _ = fs::remove_dir_all(&self.ckpt);
        let result = self.drive().and_then(|()| {
            let compare = &self.subject.example.compare;
            compare.runs(native, self.dir, &self.starts)
        });
        if result.is_err() && self.ckpt.starts_with("/dev/shm") {
            let kept = Command::new("cp")
                .arg("-r")
                .arg(&self.ckpt)
                .arg(self.dir.join("ck"))
                .status();
            let _ = kept;
        }
        let _ = fs::remove_dir_all(&self.ckpt);
        result.with_context(|| format!("in {}", self.dir.display()))
    }

    fn drive(&mut self) -> Result<()> {
        fs::create_dir(self.dir.join("work"))?;
        let mut lower = Mpi::ALL[self.random.below(2) as usize];
        let mut job = self.launch(lower)?;
        loop {
            let result = self.cut_until_gone(&mut job);
            match job.explain(result, self.dir)? {
                After::Ended(status) => {
                    let ended = if status.success() {
                        Ok(())
                    } else {
                        Err(anyhow::anyhow!("the job failed: {status}"))
                    };
                    return job.explain(ended, self.dir);
                }
                After::Running | After::Gone => drop(job),
            }
            // Mostly the other one: twice the same is a case as well.
            if self.random.below(4) > 0 {
                lower = lower.other();
            }
            job = self.restart(lower)?;
        }
    }

    fn launch(&mut self, lower: Mpi) -> Result<Job> {
        let example = &self.subject.example;
        let mut launch = stasis::launch(lower, example.ranks, &self.ckpt, self.dir);
        launch
            .args(command_line(example, Some(self.subject.front))?)
            .current_dir(self.dir.join("work"));
        let mut job = self.start(launch, &format!("0-{lower}"))?;
        let result = self.reach_start(&mut job);
        job.explain(result, self.dir)?;
        Ok(job)
    }

    /// A program of ours announces that it is at work; of others, Stasis tells that much.
    fn reach_start(&self, job: &mut Job) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        if self.subject.example.command.is_some() {
            return stasis::until_reached(job, &self.ckpt, "", deadline).map(drop);
        }
        let ranks = self.subject.example.ranks;
        job.until("all ranks were at work", deadline, || {
            (0..ranks).all(|rank| self.dir.join(format!("ready.{rank}")).exists())
        })
    }

    fn start(&mut self, mut command: Command, name: &str) -> Result<Job> {
        command
            .env("STASIS_TEST_READY", self.dir.join("ready"))
            .env("STASIS_TEST_GO", self.dir.join("go"));
        let job = Job::start(command, self.dir, name)?;
        self.starts.push(job.stdout.clone());
        Ok(job)
    }

    /// Restarts the job, perhaps after killing a restart or two on its way.
    fn restart(&mut self, lower: Mpi) -> Result<Job> {
        loop {
            let name = format!("{}-{lower}", self.starts.len());
            let ranks = self.subject.example.ranks;
            let mut command = stasis::restart(lower, ranks, &self.ckpt, self.dir);
            command.current_dir(self.dir);
            if self.random.below(4) == 0 {
                command.args(["--pause", "stop"]);
            }
            let before = stasis::job_file(&self.ckpt);
            let mut job = self.start(command, &name)?;
            if self.random.below(10) == 0 {
                std::thread::sleep(self.random.seconds(0.0, KILL_RESTART));
                if self.kill(&mut job)? {
                    self.tally.kills_in_restart += 1;
                    continue;
                }
            }
            let result = self.reach_restarted(&mut job, &before);
            job.explain(result, self.dir)?;
            self.tally.restarts += 1;
            return Ok(job);
        }
    }

    /// Until the restarted job has left its address, or has ended.
    fn reach_restarted(&self, job: &mut Job, before: &str) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        match stasis::until_reached(job, &self.ckpt, before, deadline) {
            Ok(_) => Ok(()),
            Err(error) => match job.poll()? {
                Some(status) if status.success() => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// Checkpoints, until the job is killed, is stopped or ends.
    fn cut_until_gone(&mut self, job: &mut Job) -> Result<After> {
        // The first must be committed before anything can be killed.
        let mut left = 1 + self.random.below(8);
        loop {
            if self.tally.cuts >= self.cuts {
                return self.finish(job);
            }
            // In one case of four, the moment when the last is over: they follow each other closely.
            if self.random.below(4) > 0 {
                std::thread::sleep(self.random.seconds(0.0, PAUSE));
            }
            if let Some(status) = job.poll()? {
                return Ok(After::Ended(status));
            }
            left -= 1;
            let after = match (left, self.random.below(8)) {
                (0, 0) => self.stop(job)?,
                (0, 1 | 2) if self.newest > 0 => self.kill_in_checkpoint(job)?,
                _ => self.checkpoint(job)?,
            };
            match after {
                After::Running if left == 0 => {
                    std::thread::sleep(self.random.seconds(0.0, KILL));
                    if !self.kill(job)? {
                        return self.finish(job);
                    }
                    self.tally.kills += 1;
                    return Ok(After::Gone);
                }
                After::Running => {}
                other => return Ok(other),
            }
        }
    }

    fn finish(&mut self, job: &mut Job) -> Result<After> {
        fs::write(self.dir.join("go"), "")?;
        let ended = job.wait(Instant::now() + REST)?;
        Ok(After::Ended(
            ended.context("timeout: the job does not end")?,
        ))
    }

    /// Asks for a checkpoint; a job that has come to its end meanwhile need not take it.
    fn checkpoint(&mut self, job: &mut Job) -> Result<After> {
        let mut request = self.request(false)?;
        let answer = request.wait(Instant::now() + PATIENCE)?;
        let status = answer.context("timeout while waiting for the checkpoint")?;
        if self.committed(status, &request)? {
            return Ok(After::Running);
        }
        self.must_end(job, &request)
    }

    /// `stasis checkpoint --stop`.
    fn stop(&mut self, job: &mut Job) -> Result<After> {
        let mut request = self.request(true)?;
        let answer = request.wait(Instant::now() + PATIENCE)?;
        let status =
            answer.context("timeout while waiting for the checkpoint that ends the job")?;
        if !self.committed(status, &request)? {
            return self.must_end(job, &request);
        }
        let ended = job.wait(Instant::now() + PATIENCE)?;
        let ended = ended.context("the job does not stop after checkpoint --stop")?;
        ensure!(ended.success(), "the job that was stopped failed: {ended}");
        self.tally.stops += 1;
        Ok(After::Gone)
    }

    /// Kills the job while it takes a checkpoint, or just before or after.
    fn kill_in_checkpoint(&mut self, job: &mut Job) -> Result<After> {
        let mut request = self.request(false)?;
        std::thread::sleep(self.random.seconds(0.0, KILL));
        if !self.kill(job)? {
            request.kill()?;
            return self.finish(job);
        }
        self.tally.kills_in_checkpoint += 1;
        let answer = request.wait(Instant::now() + PATIENCE)?;
        let status = answer.context("stasis checkpoint does not notice that the job is gone")?;
        self.committed(status, &request)?;
        ensure!(
            self.ckpt.join(format!("ckpt-{}", self.newest)).is_dir(),
            "ckpt-{} was committed and is gone",
            self.newest
        );
        Ok(After::Gone)
    }

    fn request(&self, stop: bool) -> Result<Job> {
        let mut command = stasis::checkpoint(&self.ckpt);
        command.arg("--json");
        if stop {
            command.arg("--stop");
        }
        Job::start(command, self.dir, "checkpoint")
    }

    /// Whether a request that was answered has made a checkpoint.
    fn committed(&mut self, status: ExitStatus, request: &Job) -> Result<bool> {
        if !status.success() {
            return Ok(false);
        }
        let answer = job::read_text(&request.stdout);
        let answer: serde_json::Value = serde_json::from_str(&answer)
            .with_context(|| format!("stasis checkpoint --json printed '{answer}'"))?;
        let number = answer["set"].as_str().and_then(set_number);
        let number = number.context("stasis checkpoint --json names no set")?;
        ensure!(
            number > self.newest,
            "ckpt-{number} follows ckpt-{}",
            self.newest
        );
        self.newest = number;
        self.tally.cuts += 1;
        Ok(true)
    }

    /// After a request that failed: only a job that ends may do that.
    fn must_end(&self, job: &mut Job, request: &Job) -> Result<After> {
        match job.wait(Instant::now() + PATIENCE / 3)? {
            Some(status) => Ok(After::Ended(status)),
            None => bail!(
                "no checkpoint was taken, and the job runs on:\n{}",
                job::tail(&job::read_text(&request.stderr), 10)
            ),
        }
    }

    /// `kill -9` of the whole job; false if it had come to its own end before.
    fn kill(&self, job: &mut Job) -> Result<bool> {
        if let Some(status) = job.poll()? {
            ensure!(status.success(), "the job failed: {status}");
            return Ok(false);
        }
        job.kill()?;
        Ok(true)
    }
}

/// The number of a set.
fn set_number(name: &str) -> Option<u64> {
    name.strip_prefix("ckpt-")?.parse().ok()
}
