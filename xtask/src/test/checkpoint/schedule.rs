//! Checkpoints without a command: at an interval, before the end of the allocation, on a signal, and from inside the
//! program.

use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::{signal, stasis};
use crate::test::programs::mpi::reference;
use crate::test::support::directives::Example;
use crate::test::support::held_job::{begin, example, reach_cut};
use crate::test::support::refusal::{refused, UNFINISHED, USAGE};
use crate::test::Case;
use anyhow::{ensure, Context, Result};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const LIMIT: Duration = Duration::from_secs(60);
const RANKS: usize = 2;

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    let case = |name: &str, run: fn(&Path) -> Result<()>| {
        Case::new(format!("schedule/{name}"), move |_, dir| run(dir).into())
    };
    vec![
        case("interval-auto", interval_auto),
        case("before-end", |dir| {
            before_end(dir, Mpi::OpenMpi, &["--time-limit", "61s"], None)
        }),
        case("before-end-of-allocation", |dir| {
            before_end(dir, Mpi::Mpich, &[], Some(61))
        }),
        case("before-end-unknown", before_end_unknown),
        case("signal", signal_to_launcher),
        case("signal-that-ends", signal_that_ends),
        case("signal-left-alone", signal_left_alone),
        case("asked-in-c", |dir| asked(dir, "schedule/asks", Mpi::Mpich)),
        case("asked-in-fortran", |dir| {
            asked(dir, "schedule/asks_in_fortran", Mpi::OpenMpi)
        }),
        case("asked-in-python", |dir| {
            asked(dir, "schedule/asks_in_python", Mpi::OpenMpi)
        }),
        case("no-wait", no_wait),
    ]
}

/// A job of an example, and the output for the comparison.
struct Run<'a> {
    example: Example,
    mpi: Mpi,
    dir: &'a Path,
    ckpt: PathBuf,
    job: Job,
}

impl Run<'_> {
    /// Starts an example with these flags and variables.
    fn begin<'a>(
        dir: &'a Path,
        name: &str,
        mpi: Mpi,
        flags: &[&str],
        variables: &[(&str, String)],
    ) -> Result<Run<'a>> {
        let folder = name.split('/').next().unwrap_or_default();
        let example = example(folder, name)?;
        let ckpt = dir.join("ck");
        let mut command = stasis::launch(mpi, RANKS, &ckpt, dir);
        command.args(flags).envs(variables.iter().cloned());
        let job = begin(command, &example, dir, mpi)?;
        Ok(Run {
            example,
            mpi,
            dir,
            ckpt,
            job,
        })
    }

    /// Starts an example with these flags and waits until it may be cut.
    fn start<'a>(dir: &'a Path, name: &str, mpi: Mpi, flags: &[&str]) -> Result<Run<'a>> {
        let mut run = Run::begin(dir, name, mpi, flags, &[])?;
        reach_cut(&mut run.job, dir)?;
        Ok(run)
    }

    /// Waits until `number` checkpoints have been committed.
    fn until_committed(&mut self, number: u64) -> Result<()> {
        let manifest = self.ckpt.join(format!("ckpt-{number}/manifest.json"));
        let what = format!("checkpoint {number} was there");
        let come = self
            .job
            .until(&what, Instant::now() + LIMIT, || manifest.exists());
        self.job.explain(come, self.dir)
    }

    /// Waits until the job has ended after a checkpoint, with success.
    fn until_ended(&mut self) -> Result<()> {
        self.job.succeed(Instant::now() + LIMIT, self.dir)?;
        let mut status = stasis::command(["status"]);
        status.arg(&self.ckpt);
        let status = job::run(status, self.dir, "status", LIMIT)?;
        ensure!(
            status.status.code() == Some(UNFINISHED) && status.stderr.contains("stasis restart"),
            "status says ({}): {}",
            status.status,
            status.stderr
        );
        Ok(())
    }

    /// Restarts the job under the other library, lets it run to its end, and compares the output of both with a native
    /// run.
    fn continue_to_the_end(mut self) -> Result<()> {
        self.job.kill()?;
        fs::write(self.dir.join("go"), "")?;
        let mut command = stasis::restart(self.mpi.other(), RANKS, &self.ckpt, self.dir);
        command.env("STASIS_TEST_GO", self.dir.join("go"));
        let mut job = Job::start(command, self.dir, "restart")?;
        job.succeed(Instant::now() + LIMIT, self.dir)?;
        let native = reference(&self.example, self.mpi)?;
        let printed = [self.job.stdout.clone(), job.stdout.clone()];
        self.example.compare.runs(&native, self.dir, &printed)
    }

    /// Lets the job run to its end. Returns its output.
    fn finish(mut self) -> Result<String> {
        fs::write(self.dir.join("go"), "")?;
        self.job.succeed(Instant::now() + LIMIT, self.dir)?;
        Ok(job::read_text(&self.job.stdout))
    }

    /// Processes of the ranks.
    fn ranks(&self) -> Result<Vec<i32>> {
        let status = self.status()?;
        let ranks = status["ranks"].as_array().into_iter().flatten();
        let pids = ranks.map(|rank| rank["pid"].as_i64().map(|pid| pid as i32));
        pids.collect::<Option<_>>()
            .context("status tells no processes")
    }

    /// Takes a checkpoint by command. All earlier requests have been received by then, and have made one checkpoint.
    fn was_asked_once(&self) -> Result<()> {
        job::run(
            stasis::checkpoint(&self.ckpt),
            self.dir,
            "checkpoint",
            LIMIT,
        )?
        .expect_success("checkpoint")?;
        let committed = self.committed()?;
        ensure!(committed == 2, "it was taken {} times", committed - 1);
        Ok(())
    }

    fn status(&self) -> Result<Value> {
        stasis::status(&self.ckpt, self.dir, LIMIT)
    }

    fn committed(&self) -> Result<u64> {
        let committed = self.status()?["committed"].as_u64();
        committed.context("status does not tell how many were committed")
    }
}

/// The first checkpoint is early, and measures the cost of the next ones. With a failure every two seconds they follow
/// each other closely.
fn interval_auto(dir: &Path) -> Result<()> {
    let flags = ["-i", "auto", "--mtbf", "2s", "--keep", "all"];
    let mut run = Run::start(dir, "p2p/ring_loop", Mpi::OpenMpi, &flags)?;
    run.until_committed(3)?;
    // The time of the next checkpoint is unknown while one is being taken.
    let ckpt = run.ckpt.clone();
    let told = run.job.until(
        "status told of the next one",
        Instant::now() + LIMIT,
        || {
            stasis::status(&ckpt, dir, LIMIT).is_ok_and(|status| {
                let why = status["next"]["because"].as_str();
                why.is_some_and(|why| why.contains("one every"))
            })
        },
    );
    run.job.explain(told, dir)?;
    run.continue_to_the_end()
}

fn before_end(dir: &Path, mpi: Mpi, flags: &[&str], slurm: Option<u64>) -> Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let end = slurm.map(|seconds| ("SLURM_JOB_END_TIME", (now + seconds).to_string()));
    let flags = [&["--before-end", "1"], flags].concat();
    let variables: Vec<_> = end.into_iter().collect();
    let mut run = Run::begin(dir, "p2p/ring_loop", mpi, &flags, &variables)?;
    run.until_ended()?;
    run.continue_to_the_end()
}

/// The end of the allocation is unknown: the flag is refused before anything runs.
fn before_end_unknown(dir: &Path) -> Result<()> {
    let mut command = stasis::command(["launch", "--before-end", "10", "/bin/true"]);
    command.current_dir(dir).env_remove("SLURM_JOB_ID");
    let alone = job::run(command, dir, "alone", LIMIT)?;
    refused(&alone, USAGE, &[&["--time-limit"], &["slurm"]])?;
    let mut command = stasis::launch(Mpi::Mpich, RANKS, &dir.join("ck"), dir);
    command.args(["--before-end", "10", "/bin/sleep", "1000"]);
    let ranks = job::run(command, dir, "ranks", LIMIT)?;
    ensure!(
        !ranks.status.success() && ranks.stderr.contains("--time-limit"),
        "{}: {}",
        ranks.status,
        ranks.stderr
    );
    Ok(())
}

/// The launcher forwards the signal to all ranks: one checkpoint, and the job continues. The program's own handler is
/// not called.
fn signal_to_launcher(dir: &Path) -> Result<()> {
    let mut run = Run::start(
        dir,
        "schedule/own_signal",
        Mpi::OpenMpi,
        &["--signal", "USR1"],
    )?;
    signal::send(run.job.pids()[0], signal::Signal::SIGUSR1);
    run.until_committed(1)?;
    run.was_asked_once()?;
    run.continue_to_the_end()
}

/// A terminating signal to one rank of a job that is rarely inside MPI.
fn signal_that_ends(dir: &Path) -> Result<()> {
    let flags = ["--signal", "USR1,TERM"];
    let mut run = Run::start(dir, "p2p/ring_loop", Mpi::Mpich, &flags)?;
    signal::send(run.ranks()?[1], signal::Signal::SIGTERM);
    run.until_ended()?;
    run.continue_to_the_end()
}

/// Signals without `--signal` reach the program.
fn signal_left_alone(dir: &Path) -> Result<()> {
    let flags = ["--signal", "USR2"];
    let run = Run::start(dir, "schedule/own_signal", Mpi::Mpich, &flags)?;
    for pid in run.ranks()? {
        signal::send(pid, signal::Signal::SIGUSR1);
    }
    let printed = run.finish()?;
    ensure!(printed.contains("saw 2"), "it printed: {printed}");
    Ok(())
}

/// All ranks request a checkpoint, and one is taken. Natively the call returns that there is none.
fn asked(dir: &Path, name: &str, mpi: Mpi) -> Result<()> {
    let mut run = Run::start(dir, name, mpi, &[])?;
    run.until_committed(1)?;
    let native = reference(&run.example, mpi)?;
    let said = |path: &Path| -> Vec<bool> {
        let text = job::read_text(path);
        // Launchers mix what ranks write, even within a line.
        let answers = text.split("asked: ").skip(1);
        answers.map(|rest| rest.starts_with(['1', 'T'])).collect()
    };
    ensure!(
        said(&run.job.stderr) == [true; RANKS] && said(&native.join("run.err")) == [false; RANKS],
        "under Stasis it was told {:?}, natively {:?}",
        said(&run.job.stderr),
        said(&native.join("run.err"))
    );
    run.was_asked_once()?;
    run.continue_to_the_end()
}

/// `--no-wait` does not wait for the checkpoint, unless `--wait` is given.
fn no_wait(dir: &Path) -> Result<()> {
    let ckpt = dir.join("ck");
    let mut command = stasis::launch(Mpi::Mpich, 1, &ckpt, dir);
    command.args(["/bin/sleep", "1000"]);
    let mut job = Job::start(command, dir, "launch")?;
    stasis::until_reached(&mut job, &ckpt, "", Instant::now() + LIMIT)?;
    let mut ask = stasis::checkpoint(&ckpt);
    ask.arg("--no-wait");
    let asked = job::run(ask, dir, "no-wait", LIMIT)?.expect_success("--no-wait")?;
    ensure!(
        asked.stdout.contains("will be taken"),
        "it says: {}",
        asked.stdout
    );
    let manifest = ckpt.join("ckpt-1/manifest.json");
    let limit = Instant::now() + LIMIT;
    job.until("the checkpoint was there", limit, || manifest.exists())?;
    let mut waiting = stasis::checkpoint(&ckpt);
    waiting.args(["--no-wait", "--wait"]);
    let report = stasis::json(waiting, dir, "wait", LIMIT)?;
    ensure!(report["set"] == "ckpt-2", "it says: {report}");
    job.kill()
}
