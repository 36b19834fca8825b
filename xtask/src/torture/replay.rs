//! `cargo xtask torture --record`: a random program is recorded with digests of all that it receives, and replayed over
//! a library that is drawn: from its start or, in the share of runs that an option gives, from a checkpoint that was
//! taken at a random moment of the recorded run. A replay reports every outcome and every digest that differs.

use super::program::Program;
use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::random::Random;
use crate::harness::{paths, stasis};
use crate::test::programs::mpi::without_reports;
use crate::test::support::compile::{command_line, set_environment};
use crate::test::support::held_job::reach_cut_of;
use anyhow::{ensure, Context, Result};
use std::fmt;
use std::fs;
use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Time for a step of the job.
const PATIENCE: Duration = Duration::from_secs(120);
/// Longest time from the beginning of the program to its checkpoint, in seconds.
const PAUSE: f64 = 0.3;
/// How often a program that ends before its checkpoint is recorded again, each time with half of that time.
const MORE_TRIES: u32 = 4;
/// Percentage of runs that are replayed from a checkpoint, without an option.
pub const FROM_CHECKPOINTS: u64 = 50;

/// Numbers of what was done.
#[derive(Default)]
pub struct Tally {
    /// Runs that were recorded and replayed.
    pub replays: u64,
    /// Those of them that were replayed from a checkpoint.
    pub from_checkpoints: u64,
    /// Those of them that were replayed over another library than the recorded one's.
    pub over_other: u64,
}

impl AddAssign<&Tally> for Tally {
    fn add_assign(&mut self, other: &Tally) {
        self.replays += other.replays;
        self.from_checkpoints += other.from_checkpoints;
        self.over_other += other.over_other;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} replays, {} of them from the start, {} from a checkpoint, {} over the other library",
            self.replays,
            self.replays - self.from_checkpoints,
            self.from_checkpoints,
            self.over_other
        )
    }
}

/// One run.
pub struct RecordedRun<'a> {
    pub tally: Tally,
    program: &'a Program,
    random: Random,
    dir: &'a Path,
    ckpt: PathBuf,
    from_checkpoints: u64,
}

impl<'a> RecordedRun<'a> {
    /// A run. `from_checkpoints` is the probability in per cent that it is replayed from a checkpoint.
    pub fn new(program: &'a Program, random: Random, dir: &'a Path, from_checkpoints: u64) -> Self {
        RecordedRun {
            tally: Tally::default(),
            program,
            random,
            dir,
            ckpt: paths::for_images(dir),
            from_checkpoints,
        }
    }

    /// Records and replays the program, and compares both runs with the folder of the native one.
    pub fn run(&mut self, native: &Path) -> Result<()> {
        let _ = fs::remove_dir_all(&self.ckpt);
        let result = self.drive(native);
        let _ = fs::remove_dir_all(&self.ckpt);
        result.with_context(|| format!("in {}", self.dir.display()))
    }

    fn drive(&mut self, native: &Path) -> Result<()> {
        let ranks = self.program.example.ranks;
        let recorded = Mpi::ALL[self.random.below(2) as usize];
        let replayed = Mpi::ALL[self.random.below(2) as usize];
        let record = self.dir.join("record");
        let sends = self.random.below(2) == 0;
        let wanted = self.random.below(100) < self.from_checkpoints;
        let mut cut = self.record(native, recorded, sends, wanted.then_some(PAUSE))?;
        for halved in 1..=MORE_TRIES {
            if cut == wanted {
                break;
            }
            let pause = PAUSE / f64::from(1 << halved);
            cut = self.record(native, recorded, sends, Some(pause))?;
        }

        let replay = match cut {
            true => {
                let mut restart = stasis::restart(replayed, ranks, &self.ckpt, self.dir);
                restart.arg("--replay").arg(&record);
                restart.current_dir(self.dir.join("work"));
                restart
            }
            false => {
                let mut launch = self.launch(replayed, &self.ckpt.join("again"))?;
                launch.arg("--replay").arg(&record);
                self.program_of(launch)?
            }
        };
        let mut job = Job::start(replay, self.dir, "replayed")?;
        self.ends_as(native, &mut job, cut)?;
        self.tally.replays += 1;
        self.tally.from_checkpoints += u64::from(cut);
        self.tally.over_other += u64::from(recorded != replayed);
        Ok(())
    }

    /// Records the program, with a checkpoint within a number of seconds if there is one. Returns whether it was taken.
    fn record(
        &mut self,
        native: &Path,
        library: Mpi,
        sends: bool,
        pause: Option<f64>,
    ) -> Result<bool> {
        let (record, work) = (self.dir.join("record"), self.dir.join("work"));
        for old in [&record, &work, &self.ckpt] {
            let _ = fs::remove_dir_all(old);
        }
        for rank in 0..self.program.example.ranks {
            let _ = fs::remove_file(self.dir.join(format!("ready.{rank}")));
        }
        fs::create_dir(&work)?;
        let mut launch = self.launch(library, &self.ckpt)?;
        launch.arg("--record").arg(&record);
        launch.args(["--digests", "all"]);
        if sends {
            launch.arg("--sends");
        }
        let mut job = Job::start(self.program_of(launch)?, self.dir, "recorded")?;
        let cut = match pause {
            Some(pause) => self.cut(&mut job, pause),
            None => Ok(false),
        };
        let cut = job.explain(cut, self.dir)?;
        self.ends_as(native, &mut job, false)?;
        Ok(cut)
    }

    fn launch(&self, lower: Mpi, ckpt: &Path) -> Result<Command> {
        let example = &self.program.example;
        let mut launch = stasis::launch(lower, example.ranks, ckpt, self.dir);
        launch.current_dir(self.dir.join("work"));
        set_environment(&mut launch, example, self.program.front)?;
        launch.env("STASIS_TEST_READY", self.dir.join("ready"));
        Ok(launch)
    }

    fn program_of(&self, mut launch: Command) -> Result<Command> {
        launch.args(command_line(
            &self.program.example,
            Some(self.program.front),
        )?);
        Ok(launch)
    }

    /// Takes a checkpoint at a random moment within a number of seconds. Returns false if the program was faster.
    fn cut(&mut self, job: &mut Job, pause: f64) -> Result<bool> {
        let begun = reach_cut_of(self.program.example.ranks, job, self.dir);
        if job.poll()?.is_some_and(|status| status.success()) {
            return Ok(false);
        }
        begun?;
        std::thread::sleep(self.random.seconds(0.0, pause));
        let taken = stasis::take_checkpoint(&self.ckpt, self.dir, "checkpoint", PATIENCE);
        let Err(why) = taken else {
            return Ok(true);
        };
        // It ends if it was faster than the request.
        match job.wait(Instant::now() + PATIENCE)? {
            Some(status) if status.success() => Ok(false),
            _ => Err(why),
        }
    }

    /// The job ends with the native result, and no rank has left its record. Standard output is compared, from some
    /// place on if the job began with a checkpoint.
    fn ends_as(&self, native: &Path, job: &mut Job, from_a_checkpoint: bool) -> Result<()> {
        job.succeed(Instant::now() + PATIENCE, self.dir)?;
        let said = job::read_text(&job.stderr);
        let left = ["record ends", "diverge", "differ"];
        let left = left.iter().find(|words| said.contains(**words));
        ensure!(left.is_none(), "{}", job::tail(&said, 10));
        let wanted = job::read_text(&native.join("run.out"));
        let text = job::read_text(&job.stdout);
        let printed = without_reports(&text);
        let same = match from_a_checkpoint {
            // Nothing, if the checkpoint was behind the last line.
            true => wanted.ends_with(&*printed),
            false => *printed == wanted,
        };
        ensure!(same, "printed {printed}\nnatively {wanted}");
        Ok(())
    }
}
