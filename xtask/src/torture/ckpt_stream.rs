//! One program under a stream of checkpoints, from its launch to the end of its last restart.

use super::{note_commit, program::Program};
use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::random::Random;
use crate::harness::{paths, stasis};
use crate::test::support::compile::command_line;
use anyhow::{bail, ensure, Context, Result};
use std::fmt;
use std::fs;
use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

/// Time limit of each wait, sufficient on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
/// Time limit of a program after its last cut.
const REST: Duration = Duration::from_secs(300);
/// Longest run of the job between two checkpoints, in seconds.
const PAUSE: f64 = 0.06;
/// Latest moment of a kill after a checkpoint was committed or requested, in seconds.
const KILL: f64 = 0.03;
/// Latest moment of a kill after a restart was started, in seconds.
const KILL_RESTART: f64 = 0.6;

/// Counts of events so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Checkpoints committed.
    pub cuts: u64,
    /// Kills after a checkpoint was committed.
    pub kills: u64,
    /// Kills during a checkpoint.
    pub kills_in_checkpoint: u64,
    /// Kills during a restart.
    pub kills_in_restart: u64,
    /// Jobs ended with `stasis checkpoint --stop`.
    pub stops: u64,
    /// Successful restarts.
    pub restarts: u64,
}

impl AddAssign<&Tally> for Tally {
    fn add_assign(&mut self, other: &Tally) {
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

/// State of a job after a cut.
enum After {
    /// The job runs on.
    Running,
    /// The job is killed, and continues from its newest checkpoint.
    Gone,
    /// The job has ended by itself.
    Ended(ExitStatus),
}

/// One program during the torture.
pub struct CkptStream<'a> {
    /// Counts so far.
    pub tally: Tally,
    program: &'a Program,
    random: Random,
    cuts: u64,
    dir: &'a Path,
    /// Directory of the images.
    ckpt: PathBuf,
    /// Number of the newest committed checkpoint.
    newest: u64,
    /// Standard output of each start, in order.
    starts: Vec<PathBuf>,
}

impl<'a> CkptStream<'a> {
    /// Prepares to cut `program` `cuts` times, with its files in `dir`.
    pub fn new(program: &'a Program, random: Random, cuts: u64, dir: &'a Path) -> Self {
        CkptStream {
            tally: Tally::default(),
            program,
            random,
            cuts,
            dir,
            ckpt: paths::for_images(dir),
            newest: 0,
            starts: Vec::new(),
        }
    }

    /// Runs from the launch to the comparison with the folder of the native run.
    pub fn run(&mut self, native: &Path) -> Result<()> {
        let _ = fs::remove_dir_all(&self.ckpt);
        let result = self.drive().and_then(|()| {
            let compare = &self.program.example.compare;
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
            // Usually the other library: the same one twice is a case as well.
            if self.random.below(4) > 0 {
                lower = lower.other();
            }
            job = self.restart(lower)?;
        }
    }

    fn launch(&mut self, lower: Mpi) -> Result<Job> {
        let example = &self.program.example;
        let mut launch = stasis::launch(lower, example.ranks, &self.ckpt, self.dir);
        launch
            .args(command_line(example, Some(self.program.front))?)
            .current_dir(self.dir.join("work"));
        let mut job = self.start(launch, &format!("0-{lower}"))?;
        let result = self.reach_start(&mut job);
        job.explain(result, self.dir)?;
        Ok(job)
    }

    /// Waits until the program works: examples announce it; for other programs the job file shows it.
    fn reach_start(&self, job: &mut Job) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        if self.program.example.command.is_some() {
            return stasis::until_reached(job, &self.ckpt, "", deadline).map(drop);
        }
        let ranks = self.program.example.ranks;
        job.until("all ranks were at work", deadline, || {
            (0..ranks).all(|rank| self.dir.join(format!("ready.{rank}")).exists())
        })
    }

    fn start(&mut self, mut command: Command, name: &str) -> Result<Job> {
        command
            .env("STASIS_TEST_READY", self.dir.join("ready"))
            .env("STASIS_TEST_GO", self.dir.join("go"))
            .env("STASIS_TEST_COMMITS", self.dir.join("commits"));
        let job = Job::start(command, self.dir, name)?;
        self.starts.push(job.stdout.clone());
        Ok(job)
    }

    /// Restarts the job, possibly after killing one or two restarts.
    fn restart(&mut self, lower: Mpi) -> Result<Job> {
        loop {
            let name = format!("{}-{lower}", self.starts.len());
            let ranks = self.program.example.ranks;
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

    /// Waits until the restarted job has written its job file, or has ended.
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

    /// Takes checkpoints until the job is killed, stopped or ended.
    fn cut_until_gone(&mut self, job: &mut Job) -> Result<After> {
        // The first checkpoint must be committed before a kill.
        let mut left = 1 + self.random.below(8);
        loop {
            if self.tally.cuts >= self.cuts {
                return self.finish(job);
            }
            // In one case of four, immediately after the last one.
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

    /// Requests a checkpoint. A job that ends meanwhile need not take it.
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

    /// Kills the job during a checkpoint, or shortly before or after.
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

    /// Whether an answered request has made a checkpoint.
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
        note_commit(self.dir)?;
        Ok(true)
    }

    /// Checks a failed request, which is correct only if the job ends.
    fn must_end(&self, job: &mut Job, request: &Job) -> Result<After> {
        match job.wait(Instant::now() + PATIENCE / 3)? {
            Some(status) => Ok(After::Ended(status)),
            None => bail!(
                "no checkpoint was taken, and the job runs on:\n{}",
                job::tail(&job::read_text(&request.stderr), 10)
            ),
        }
    }

    /// `kill -9` of the whole job; false if it had ended by itself before.
    fn kill(&self, job: &mut Job) -> Result<bool> {
        if let Some(status) = job.poll()? {
            ensure!(status.success(), "the job failed: {status}");
            return Ok(false);
        }
        job.kill()?;
        Ok(true)
    }
}

/// Number of a set.
fn set_number(name: &str) -> Option<u64> {
    name.strip_prefix("ckpt-")?.parse().ok()
}
