//! Ranks that are stuck in a call, or do not answer: the checkpoint is given up after the patience, the rank is named
//! with its call and stack, and the job runs on. When the obstacle has gone, the next checkpoint is taken.

use crate::harness::job::{self, Finished, Job};
use crate::harness::mpi::Mpi;
use crate::harness::signal::{self, Signal};
use crate::harness::stasis;
use crate::test::support::held_job::reach_cut;
use crate::test::support::helper_programs::compile;
use crate::test::support::refusal::{refused, CHECKPOINT};
use crate::test::Case;
use anyhow::{ensure, Context, Result};
use nix::fcntl::{fcntl, FcntlArg};
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(90);
const RANKS: usize = 2;
/// Seconds of `--patience`.
const PATIENCE: &str = "2";
/// What `stasis status` tells of a rank in the two calls.
const OPEN: &str = "in MPI_File_open";
const WRITE: &str = "in MPI_File_write_at";

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for mpi in Mpi::ALL {
        let case = |what: &str, run: fn(&Path, Mpi) -> Result<()>| {
            Case::new(format!("stuck/{what}:{mpi}"), move |_, dir| {
                run(dir, mpi).into()
            })
        };
        cases.push(case("open", in_open));
        cases.push(case("scheduled", scheduled));
        cases.push(case("stopped", by_a_signal));
        // MPICH takes no lock for it.
        if mpi == Mpi::OpenMpi {
            cases.push(case("locked", by_a_lock));
        }
    }
    cases
}

/// A job whose rank 1 is, or is not, stuck.
struct StuckJob<'a> {
    dir: &'a Path,
    mpi: Mpi,
    ckpt: PathBuf,
    job: Job,
}

impl<'a> StuckJob<'a> {
    /// Starts the program and waits until rank 1 is in its call.
    fn begin(dir: &'a Path, mpi: Mpi, what: &str, flags: &[&str]) -> Result<StuckJob<'a>> {
        let program = compile(dir, &mpi.compiler("c"), "stuck.c", &[])?;
        let ckpt = dir.join("ck");
        let mut launch = stasis::launch(mpi, RANKS, &ckpt, dir);
        launch.args(["--patience", PATIENCE]).args(flags);
        launch.arg(program).arg(what);
        let mut job = Job::start(in_place(launch, dir), dir, "launch")?;
        reach_cut(&mut job, dir)?;
        if what != "free" {
            let call = if what == "open" { OPEN } else { WRITE };
            let there = || {
                let status = stasis::status(&ckpt, dir, LIMIT);
                status.is_ok_and(|status| status["ranks"][1]["doing"] == call)
            };
            job.until("rank 1 was in its call", Instant::now() + LIMIT, there)?;
        }
        Ok(StuckJob {
            dir,
            mpi,
            ckpt,
            job,
        })
    }

    fn checkpoint(&self, flags: &[&str]) -> Result<Finished> {
        let mut command = stasis::checkpoint(&self.ckpt);
        command.args(flags);
        job::run(command, self.dir, "checkpoint", LIMIT)
    }

    /// Rank 0 has not been disturbed: it takes further steps.
    fn goes_on(&mut self) -> Result<()> {
        let steps = self.dir.join("steps");
        let taken = || fs::metadata(&steps).map_or(0, |file| file.len());
        let before = taken();
        self.job
            .until("rank 0 went on", Instant::now() + LIMIT, || {
                taken() > before + 10
            })
    }

    /// The obstacle has gone: waits until rank 1 has made its call.
    fn comes_free(&mut self) -> Result<()> {
        let past = self.dir.join("past");
        let come = Instant::now() + LIMIT;
        self.job.until("rank 1 came free", come, || past.exists())
    }

    /// The next checkpoint is taken. The job is killed, is restarted from it, and comes to its right end.
    fn ends_well(mut self) -> Result<()> {
        self.checkpoint(&[])?
            .expect_success("the next checkpoint")?;
        self.job.kill()?;
        let restart = stasis::restart(self.mpi, RANKS, &self.ckpt, self.dir);
        let before = stasis::job_file(&self.ckpt);
        self.job = Job::start(in_place(restart, self.dir), self.dir, "restart")?;
        let back =
            stasis::until_reached(&mut self.job, &self.ckpt, &before, Instant::now() + LIMIT);
        self.job.explain(back, self.dir)?;
        self.goes_on()?;
        fs::write(self.dir.join("go"), "")?;
        let ended = self.job.wait(Instant::now() + LIMIT)?;
        let status = ended.context("it does not end")?;
        let said = job::read_text(&self.job.stdout);
        ensure!(
            status.success() && said.contains("OK stuck"),
            "it ended with {status}, and said {said}"
        );
        Ok(())
    }
}

fn in_place(mut command: Command, dir: &Path) -> Command {
    command
        .current_dir(dir)
        .env("STASIS_TEST_READY", dir.join("ready"))
        .env("STASIS_TEST_GO", dir.join("go"))
        // Locks what it writes. The default does so on some file systems only.
        .env("OMPI_MCA_fs_ufs_lock_algorithm", "3");
    command
}

/// What must be told of rank 1 in a call.
fn named<'a>(function: &'a str, call: &'a str) -> [Vec<&'a str>; 6] {
    [
        vec!["the job runs on"],
        vec!["rank 1 (process "],
        vec![function],
        vec![call],
        vec!["the_stuck_function+0x"],
        vec!["--patience"],
    ]
}

fn is_named(finished: &Finished, function: &str, call: &str) -> Result<()> {
    let words = named(function, call);
    let words: Vec<&[&str]> = words.iter().map(Vec::as_slice).collect();
    refused(finished, CHECKPOINT, &words)
}

/// The rank opens a pipe that nothing writes.
fn in_open(dir: &Path, mpi: Mpi) -> Result<()> {
    make_pipe(dir)?;
    let mut stuck = StuckJob::begin(dir, mpi, "open", &[])?;
    let asked = stuck.checkpoint(&[])?;
    is_named(&asked, OPEN, "system call openat")?;
    stuck.goes_on()?;
    let status = stasis::status(&stuck.ckpt, dir, LIMIT)?;
    let failure = status["failure"].as_str().unwrap_or_default();
    ensure!(
        failure.contains("the_stuck_function+0x"),
        "status: {failure}"
    );
    let log = job::read_text(&stuck.job.stderr);
    ensure!(
        log.contains("the_stuck_function+0x"),
        "the job's own output does not name the function:\n{log}"
    );
    // The request's own patience counts.
    let asked = stuck.checkpoint(&["--patience", "4"])?;
    refused(&asked, CHECKPOINT, &[&["stuck in MPI_File_open for 4 s"]])?;
    remove_pipe(dir)?;
    stuck.comes_free()?;
    stuck.ends_well()
}

/// A checkpoint of the schedule is tried again, and one that ends the job as well.
fn scheduled(dir: &Path, mpi: Mpi) -> Result<()> {
    make_pipe(dir)?;
    let mut stuck = StuckJob::begin(dir, mpi, "open", &["--interval", "3600"])?;
    let mut request = stasis::checkpoint(&stuck.ckpt);
    request.arg("--stop");
    let mut request = Job::start(request, dir, "checkpoint")?;
    let told = request.stderr.clone();
    let given_up = || job::read_text(&told).contains("is tried again soon");
    request.until("it was given up", Instant::now() + LIMIT, given_up)?;
    stuck.goes_on()?;
    remove_pipe(dir)?;
    stuck.comes_free()?;
    let answered = request.wait(Instant::now() + LIMIT)?;
    let answered = answered.context("it is not tried again")?;
    ensure!(answered.success(), "{}", job::read_text(&request.stderr));
    let ended = stuck.job.wait(Instant::now() + LIMIT)?;
    ensure!(
        ended.context("the job does not end")?.success(),
        "the job failed"
    );
    Ok(())
}

/// Another process holds a lock of the file that the rank writes.
fn by_a_lock(dir: &Path, mpi: Mpi) -> Result<()> {
    let file = File::create(dir.join("locked"))?;
    lock(&file, nix::libc::F_WRLCK)?;
    let mut stuck = StuckJob::begin(dir, mpi, "locked", &[])?;
    let asked = stuck.checkpoint(&[])?;
    is_named(&asked, WRITE, "system call fcntl")?;
    stuck.goes_on()?;
    lock(&file, nix::libc::F_UNLCK)?;
    stuck.comes_free()?;
    stuck.ends_well()
}

/// The process of a rank is stopped: first that of rank 0, which answers all commands, then the other one.
fn by_a_signal(dir: &Path, mpi: Mpi) -> Result<()> {
    let mut stuck = StuckJob::begin(dir, mpi, "free", &[])?;
    let status = stasis::status(&stuck.ckpt, dir, LIMIT)?;
    let pid_of = |rank: usize| {
        let pid = status["ranks"][rank]["pid"].as_i64();
        pid.context("no process id")
    };
    let first = pid_of(0)?;
    signal::send(first as i32, Signal::SIGSTOP);
    for command in ["status", "explain"] {
        let mut asked = stasis::command([command]);
        asked.arg(&stuck.ckpt);
        let asked = job::run(asked, dir, command, LIMIT)?;
        let words: &[&[&str]] = &[
            &[&format!("rank 0 (process {first} on ")],
            &["is stopped (by SIGSTOP or a debugger)"],
            &[&format!("kill -CONT {first}")],
            &["stasis stop "],
        ];
        refused(&asked, CHECKPOINT, words)?;
    }
    signal::send(first as i32, Signal::SIGCONT);
    let pid = pid_of(1)?;
    signal::send(pid as i32, Signal::SIGSTOP);
    let asked = stuck.checkpoint(&[])?;
    let words: &[&[&str]] = &[
        &["the job runs on"],
        &["rank 1 (process "],
        &["has not answered for"],
        &["SIGSTOP"],
    ];
    refused(&asked, CHECKPOINT, words)?;
    stuck.goes_on()?;
    signal::send(pid as i32, Signal::SIGCONT);
    stuck.ends_well()
}

fn make_pipe(dir: &Path) -> Result<()> {
    nix::unistd::mkfifo(&dir.join("pipe"), nix::sys::stat::Mode::S_IRWXU)?;
    Ok(())
}

/// Lets the rank open the pipe.
fn remove_pipe(dir: &Path) -> Result<()> {
    drop(OpenOptions::new().write(true).open(dir.join("pipe"))?);
    Ok(())
}

fn lock(file: &File, kind: i32) -> Result<()> {
    let all = nix::libc::flock {
        l_type: kind as i16,
        l_whence: nix::libc::SEEK_SET as i16,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    fcntl(file, FcntlArg::F_SETLK(&all))?;
    Ok(())
}
