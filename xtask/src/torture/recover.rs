//! `cargo xtask torture --recover`: a program under `stasis run`, whose ranks and launchers are killed again and again
//! at random moments: while it computes, while it takes a checkpoint, and while it is being started again. `stasis run`
//! alone brings it back. Where it is killed itself, the same command goes on.

use super::{note_commit, program::Program};
use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::random::Random;
use crate::harness::{paths, signal, stasis};
use crate::test::programs::mpi::without_reports;
use crate::test::support::compile::{command_line, set_environment};
use anyhow::{Context, Result};
use std::fmt;
use std::fs;
use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Time for a step of the job.
const PATIENCE: Duration = Duration::from_secs(120);
/// Longest pause before a kill, in seconds.
const PAUSE: f64 = 0.4;

/// Numbers of what was done.
#[derive(Default)]
pub struct Tally {
    /// Killed ranks.
    pub ranks: u64,
    /// Killed launchers.
    pub launchers: u64,
    /// Killed ranks of standby worlds.
    pub sleepers: u64,
    /// Killed copies of checkpoints in memory.
    pub copies: u64,
    /// Killed `stasis run`.
    pub controllers: u64,
    /// Committed checkpoints.
    pub checkpoints: u64,
    /// Starts of the job after the first one.
    pub recoveries: u64,
    /// Those of them that were a standby world.
    pub taken_over: u64,
    /// Those of them that went on from a checkpoint in memory.
    pub from_memory: u64,
}

impl Tally {
    /// All kills.
    pub fn kills(&self) -> u64 {
        self.ranks + self.launchers + self.sleepers + self.copies + self.controllers
    }
}

impl AddAssign<&Tally> for Tally {
    fn add_assign(&mut self, other: &Tally) {
        self.ranks += other.ranks;
        self.launchers += other.launchers;
        self.sleepers += other.sleepers;
        self.copies += other.copies;
        self.controllers += other.controllers;
        self.checkpoints += other.checkpoints;
        self.recoveries += other.recoveries;
        self.taken_over += other.taken_over;
        self.from_memory += other.from_memory;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ranks, {} launchers, {} ranks of standby worlds, {} copies in memory and {} `stasis run` killed, {} \
             recoveries, {} of them by a standby world, {} from memory, {} checkpoints on disk",
            self.ranks,
            self.launchers,
            self.sleepers,
            self.copies,
            self.controllers,
            self.recoveries,
            self.taken_over,
            self.from_memory,
            self.checkpoints
        )
    }
}

/// One run.
pub struct RecoveredRun<'a> {
    pub tally: Tally,
    program: &'a Program,
    random: Random,
    dir: &'a Path,
    ckpt: PathBuf,
}

/// Keeps the end of the output, as long as that of the native run. What a job has printed since its checkpoint it
/// prints again: of a line that the native run prints once, the last counts.
fn keep_the_last(stdout: &Path, native: &Path) -> Result<()> {
    let (text, wanted) = (job::read_text(stdout), job::read_text(native));
    let printed = without_repetitions(&without_reports(&text), &wanted);
    let from = printed.len().saturating_sub(wanted.len());
    let last = printed.get(from..).unwrap_or(&printed);
    Ok(fs::write(stdout, last)?)
}

/// Output without lines that come again later, unless they are several in the native output.
fn without_repetitions(printed: &str, native: &str) -> String {
    let number = |text: &str, line: &str| text.split_inclusive('\n').filter(|l| *l == line).count();
    let mut rest = printed;
    let kept = printed.split_inclusive('\n').filter(|line| {
        rest = &rest[line.len()..];
        number(native, line) > 1 || number(rest, line) == 0
    });
    kept.collect()
}

impl<'a> RecoveredRun<'a> {
    pub fn new(program: &'a Program, random: Random, dir: &'a Path) -> Self {
        RecoveredRun {
            tally: Tally::default(),
            program,
            random,
            dir,
            ckpt: paths::for_images(dir),
        }
    }

    /// Runs the program with this number of kills, and compares it with the folder of the native run.
    pub fn run(&mut self, kills: u64, native: &Path) -> Result<()> {
        let _ = fs::remove_dir_all(&self.ckpt);
        let result = self.drive(kills).and_then(|stdout| {
            keep_the_last(&stdout, &native.join("run.out"))?;
            let compare = &self.program.example.compare;
            compare.runs(native, self.dir, &[stdout])
        });
        let _ = fs::remove_dir_all(&self.ckpt);
        result.with_context(|| format!("in {}", self.dir.display()))
    }

    fn drive(&mut self, kills: u64) -> Result<PathBuf> {
        fs::create_dir(self.dir.join("work"))?;
        let lower = Mpi::ALL[self.random.below(2) as usize];
        let in_memory = self.random.below(2) == 0;
        let standby = ["no", "warm", "hot"][self.random.below(3) as usize];
        let mut whole = String::new();
        loop {
            let starts = self.tally.controllers;
            let command = self.command(lower, in_memory, standby, starts > 0)?;
            let mut job = Job::start(command, self.dir, &format!("run-{starts}"))?;
            let done = self.kill_on(&mut job, kills);
            job.explain(done, self.dir)?;
            let is_killed = self.tally.controllers > starts;
            if !is_killed {
                fs::write(self.dir.join("go"), "")?;
                job.succeed(Instant::now() + PATIENCE, self.dir)?;
            }
            self.count(&job::read_text(&job.stderr), standby);
            whole += &job::read_text(&job.stdout);
            if !is_killed {
                break;
            }
        }
        let stdout = self.dir.join("run.out");
        fs::write(&stdout, whole)?;
        Ok(stdout)
    }

    /// The command that starts the job, or goes on with it after its `stasis run` was killed.
    fn command(&self, lower: Mpi, in_memory: bool, standby: &str, again: bool) -> Result<Command> {
        let example = &self.program.example;
        let mut launch = stasis::launch(lower, example.ranks, &self.ckpt, self.dir);
        launch.args(again.then_some("--resume"));
        launch.args(command_line(example, Some(self.program.front))?);
        launch.current_dir(self.dir.join("work"));
        set_environment(&mut launch, example, self.program.front)?;
        launch
            .env("STASIS_TEST_READY", self.dir.join("ready"))
            .env("STASIS_TEST_GO", self.dir.join("go"))
            .env("STASIS_TEST_COMMITS", self.dir.join("commits"));
        if in_memory {
            launch.env("STASIS_MEMORY_INTERVAL", "1");
        }
        let flags = ["--recover", "1000", "--standby", standby];
        Ok(stasis::run(&flags, &launch))
    }

    /// Counts the recoveries that a `stasis run` has told.
    fn count(&mut self, said: &str, standby: &str) {
        let recoveries = said.matches("the job goes on from").count() as u64;
        self.tally.recoveries += recoveries;
        self.tally.from_memory += said.matches("was in memory, and is written now").count() as u64;
        if standby != "no" {
            let anew = said.matches("no standby world was ready").count() as u64;
            self.tally.taken_over += recoveries.saturating_sub(anew);
        }
    }

    /// Takes checkpoints and kills, until there were enough kills, the program has ended, or `stasis run` was killed.
    fn kill_on(&mut self, job: &mut Job, kills: u64) -> Result<()> {
        // Without a new checkpoint the death of the same rank would soon count as the program's own error.
        let mut committed = true;
        while self.tally.kills() < kills {
            let Some(job_file) = self.reached(job)? else {
                return Ok(());
            };
            std::thread::sleep(self.random.seconds(0.0, PAUSE));
            let mut request = Job::start(stasis::checkpoint(&self.ckpt), self.dir, "checkpoint")?;
            if !committed || self.random.below(4) > 0 {
                let status = request.wait(Instant::now() + PATIENCE)?;
                let status = status.context("timeout while waiting for the checkpoint")?;
                if job.poll()?.is_some() {
                    return Ok(());
                }
                committed = status.success();
                if !committed {
                    continue;
                }
                self.tally.checkpoints += 1;
                note_commit(self.dir)?;
            } else {
                committed = false;
            }
            std::thread::sleep(self.random.seconds(0.0, PAUSE));
            if self.random.below(8) == 0 {
                return self.kill_controller(job);
            }
            let mut failed = self.kill(job);
            if self.random.below(4) == 0 {
                // While it is being started again.
                std::thread::sleep(self.random.seconds(0.0, 2.0 * PAUSE));
                failed |= self.kill(job);
            }
            if failed {
                self.gone(job, &job_file)?;
            }
        }
        Ok(())
    }

    /// Waits until the job answers; returns its job file, or nothing if the program has ended.
    fn reached(&self, job: &mut Job) -> Result<Option<String>> {
        let ranks = self.program.example.ranks;
        let mut file = String::new();
        let ready = job.until(
            "the job could be reached",
            Instant::now() + PATIENCE,
            || {
                file = stasis::job_file(&self.ckpt);
                !file.is_empty()
                    && (0..ranks).all(|rank| self.dir.join(format!("ready.{rank}")).exists())
            },
        );
        match (ready, job.poll()?) {
            (_, Some(status)) if status.success() => Ok(None),
            (ready, _) => ready.map(|()| Some(file)),
        }
    }

    /// Waits until another incarnation has replaced the job file, or the program has ended.
    fn gone(&self, job: &mut Job, before: &str) -> Result<()> {
        let again = stasis::until_reached(job, &self.ckpt, before, Instant::now() + PATIENCE);
        match job.poll()? {
            Some(status) if status.success() => Ok(()),
            _ => again.map(drop),
        }
    }

    /// Kills `stasis run`, unless it has ended. Its ranks end for that.
    fn kill_controller(&mut self, job: &mut Job) -> Result<()> {
        if job.poll()?.is_some() {
            return Ok(());
        }
        let ranks = job.ranks();
        signal::kill_now(job.pids()[0]);
        self.tally.controllers += 1;
        let deadline = Instant::now() + PATIENCE;
        job.wait(deadline)?;
        job::until_ended(&ranks, deadline).context("a rank outlives its keeper")
    }

    /// Kills something. Returns false if it was a part of the standby world or a copy in memory, which is no failure of
    /// the job.
    fn kill(&mut self, job: &Job) -> bool {
        let all = job.ranks();
        let launchers = job.launchers();
        let running = stasis::incarnation(&self.ckpt, "run.json").ok();
        let ranks = running.map_or_else(Vec::new, |number| {
            stasis::of_incarnation(all.clone(), number)
        });
        let copies = job.named(&["stasis-twin"]);
        match self.random.below(8) {
            0 if !launchers.is_empty() => {
                launchers.into_iter().for_each(signal::kill_now);
                self.tally.launchers += 1;
            }
            1 => {
                self.tally.ranks += all.len() as u64;
                all.into_iter().for_each(signal::kill_now);
            }
            2 if !copies.is_empty() => {
                signal::kill_now(copies[0]);
                self.tally.copies += 1;
                return false;
            }
            _ if all.is_empty() => {}
            3 if ranks.len() > 1 => {
                ranks[..2].iter().copied().for_each(signal::kill_now);
                self.tally.ranks += 2;
            }
            _ => {
                let one = all[self.random.below(all.len() as u64) as usize];
                signal::kill_now(one);
                if !ranks.contains(&one) {
                    self.tally.sleepers += 1;
                    return false;
                }
                self.tally.ranks += 1;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::without_repetitions;

    #[test]
    fn the_last_of_equal_lines_counts() {
        let native = "1\n=\n2\n3\n=\nOK\n";
        let printed = "1\n=\n2\n3\n2\n3\n=\nOK\n";
        assert_eq!(without_repetitions(printed, native), native);
        assert_eq!(without_repetitions("1\n2\n1", "1\n2\n"), "1\n2\n1");
    }
}
