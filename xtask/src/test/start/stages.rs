//! MPI Stages: programs that use `stasis_mpix.h`, natively, without faults, and after the death of a rank.

use crate::harness::job::{self, Finished, Job};
use crate::harness::mpi::Mpi;
use crate::harness::random::Random;
use crate::harness::{paths, signal, stasis};
use crate::test::support::helper_programs::compile;
use crate::test::support::refusal::{refused, USAGE};
use crate::test::Case;
use anyhow::{bail, ensure, Context, Result};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(120);
const RANKS: usize = 3;

/// Calls in which survivors wait for the rank that dies.
const CALLS: [&str; 17] = [
    "recv",
    "ssend",
    "send",
    "sendrecv",
    "probe",
    "wait",
    "waitall",
    "waitany",
    "test",
    "persistent",
    "barrier",
    "allreduce",
    "own-op",
    "ibarrier",
    "dup",
    "free",
    "compute",
];

/// All cases of this file.
pub fn cases(full: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    // Over Intel MPI ranks cannot leave collective operations (docs/not-supported.md).
    let libraries = Mpi::of(full).iter().filter(|mpi| **mpi != Mpi::Intel);
    for &mpi in libraries {
        let mut add = |name: &str, body: fn(&Stages) -> Result<()>| {
            let name = format!("stages/{name}");
            cases.push(Case::over(mpi, &name, move |session, dir| {
                let seed = session.seed;
                body(&Stages { dir, mpi, seed })
            }));
        };
        add("native", native);
        add("without-faults", without_faults);
        // Figure 6.1 of the thesis: rank 0 dies after it has begun the third ring.
        add("ring-first", |case| ring(case, 0, 2, 2));
        // Figure 2 of the poster: the last rank dies after its second checkpoint, which rank 0 does not have.
        add("ring-last", |case| ring(case, 2, 1, 1));
        add("library", library);
        add("random", random_kills);
        add("first-epoch", first_epoch);
        add("early", early);
        add("finalize", finalize);
        add("calls", calls);
        add("reload", reload);
        add("abort", abort);
        add("reinit", reinit);
        add("refused", refusals);
    }
    cases
}

struct Stages<'a> {
    dir: &'a Path,
    mpi: Mpi,
    seed: u64,
}

impl Stages<'_> {
    fn ckpt(&self) -> PathBuf {
        self.dir.join("ck")
    }

    fn program(&self, source: &str) -> Result<PathBuf> {
        let include = paths::root().join("upper-half/include");
        let include = format!("-I{}", include.display());
        compile(
            self.dir,
            &self.mpi.compiler("c"),
            source,
            &["-Wall", "-Werror", &include],
        )
    }

    /// A folder for the program's own checkpoints.
    fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.dir.join(name);
        fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    fn natively(&self, program: &Path, arguments: &[&str]) -> Result<Finished> {
        let mut native = self.mpi.mpirun(RANKS, self.dir);
        native
            .arg(program)
            .arg(self.folder("natively")?)
            .args(arguments);
        job::run(native, self.dir, "native", LIMIT)?.expect_success("the native run")
    }

    /// The job under `stasis run --stages`, whose program keeps its checkpoints in `folder`.
    fn staged(&self, program: &Path, folder: &Path, arguments: &[&str]) -> Command {
        let mut launch = stasis::launch(self.mpi, RANKS, &self.ckpt(), self.dir);
        launch.arg(program).arg(folder).args(arguments);
        stasis::run(&["--stages"], &launch)
    }

    fn run(&self, program: &Path, name: &str, arguments: &[&str]) -> Result<Finished> {
        let folder = self.folder(name)?;
        let finished = job::run(
            self.staged(program, &folder, arguments),
            self.dir,
            name,
            LIMIT,
        )?;
        ensure!(
            !self.ckpt().join("stages").exists(),
            "the epochs are still there"
        );
        Ok(finished)
    }
}

fn line_of<'a>(text: &'a str, start: &str) -> Option<&'a str> {
    text.lines().find(|line| line.starts_with(start))
}

/// The run must have printed the result of the native one.
fn same_result(native: &Finished, got: &Finished) -> Result<()> {
    let (wanted, got) = (line_of(&native.stdout, "OK "), line_of(&got.stdout, "OK "));
    ensure!(
        wanted.is_some() && got == wanted,
        "printed {got:?}, natively {wanted:?}"
    );
    Ok(())
}

/// Each rank must have entered its main loop once if it is the one that died, and twice if its memory has gone on.
fn went_on(finished: &Finished, killed: usize) -> Result<()> {
    for rank in 0..RANKS {
        let times = if rank == killed { 1 } else { 2 };
        let words = format!("rank {rank} has entered {times} times");
        ensure!(
            finished.stdout.contains(&words),
            "it does not say: {words}\n{}{}",
            finished.stdout,
            finished.stderr
        );
    }
    Ok(())
}

/// In C and in C++, without anything of Stasis.
fn native(case: &Stages) -> Result<()> {
    let program = case.program("stages_ring.c")?;
    let finished = case.natively(&program, &["5"])?;
    ensure!(
        finished.stdout.contains("OK 5"),
        "printed {}",
        finished.stdout
    );
    let include = format!("-I{}", paths::root().join("upper-half/include").display());
    let flags = ["-x", "c++", &include];
    let program = compile(case.dir, &case.mpi.compiler("cpp"), "stages_ring.c", &flags)?;
    let finished = case.natively(&program, &["6"])?;
    ensure!(
        finished.stdout.contains("OK 6"),
        "printed {}",
        finished.stdout
    );
    Ok(())
}

fn without_faults(case: &Stages) -> Result<()> {
    let program = case.program("stages_matrix.c")?;
    let native = case.natively(&program, &["12"])?;
    let mut launch = stasis::launch(case.mpi, RANKS, &case.ckpt(), case.dir);
    launch.arg(&program).arg(case.folder("launched")?).arg("12");
    let launched =
        job::run(launch, case.dir, "launched", LIMIT)?.expect_success("stasis launch")?;
    same_result(&native, &launched)?;
    let staged = case
        .run(&program, "staged", &["12"])?
        .expect_success("stasis run --stages")?;
    same_result(&native, &staged)
}

fn ring(case: &Stages, killed: usize, in_ring: usize, epoch: usize) -> Result<()> {
    let program = case.program("stages_ring.c")?;
    let native = case.natively(&program, &["7"])?;
    let (rank, ring) = (killed.to_string(), in_ring.to_string());
    let finished = case.run(&program, "staged", &["7", &rank, &ring])?;
    let finished = finished.expect_success("stasis run --stages")?;
    same_result(&native, &finished)?;
    went_on(&finished, killed)?;
    let words = format!("epoch {epoch}: goes on by sending {epoch}");
    ensure!(
        finished.stdout.contains(&words),
        "it does not say: {words}\n{}",
        finished.stdout
    );
    recovered(&finished, killed, epoch)
}

/// `stasis run` has said that a rank was killed, perhaps by which signal, and from where the job goes on.
fn recovered(finished: &Finished, killed: usize, epoch: usize) -> Result<()> {
    let [killed, from] = [
        format!("rank {killed} was killed"),
        format!("; the job goes on from epoch {epoch}"),
    ];
    let said = |line: &str| line.contains(&killed) && line.contains(&from);
    ensure!(
        finished.stderr.lines().any(said),
        "it does not say: {killed} …{from}\n{}",
        finished.stderr
    );
    Ok(())
}

fn library(case: &Stages) -> Result<()> {
    let program = case.program("stages_matrix.c")?;
    let native = case.natively(&program, &["12"])?;
    for killed in 0..RANKS {
        let rank = killed.to_string();
        let finished = case.run(&program, &format!("killed-{killed}"), &["12", &rank, "4"])?;
        let finished = finished.expect_success("stasis run --stages")?;
        same_result(&native, &finished)?;
        went_on(&finished, killed)?;
    }
    Ok(())
}

/// A random rank is killed in random epochs, from outside.
fn random_kills(case: &Stages) -> Result<()> {
    const KILLS: u64 = 3;
    /// Epochs in which a rank may be killed after each other one.
    const EPOCHS: u64 = 20;
    let program = case.program("stages_matrix.c")?;
    let native = case.natively(&program, &["60"])?;
    let folder = case.folder("staged")?;
    let mut random = Random::new(case.seed, "stages");
    let mut job = Job::start(case.staged(&program, &folder, &["60"]), case.dir, "staged")?;
    for kill in 0..KILLS {
        let epoch = EPOCHS * kill + 1 + random.below(EPOCHS / 2);
        let file = folder.join(format!("app.{epoch}.0"));
        job.until("the epoch has come", Instant::now() + LIMIT, || {
            file.exists()
        })?;
        let processes = job.processes_of(random.below(RANKS as u64) as usize);
        let Some(process) = processes.last() else {
            bail!("the job has no such rank in epoch {epoch}");
        };
        signal::kill_now(*process);
    }
    job.succeed(Instant::now() + LIMIT, case.dir)?;
    let wanted = line_of(&native.stdout, "OK ").context("the native run prints no result")?;
    let printed = job::read_text(&job.stdout);
    ensure!(
        line_of(&printed, "OK ") == Some(wanted),
        "printed {printed}, natively {wanted}"
    );
    let said = job::read_text(&job.stderr);
    let times = said.matches("the job goes on from epoch").count();
    ensure!(
        times as u64 >= KILLS,
        "it went on {times} times after {KILLS} deaths\n{said}"
    );
    Ok(())
}

/// Before all have an epoch, all start anew.
fn first_epoch(case: &Stages) -> Result<()> {
    let program = case.program("stages_ring.c")?;
    let native = case.natively(&program, &["5"])?;
    let finished = case.run(&program, "staged", &["5", "0", "0"])?;
    let finished = finished.expect_success("stasis run --stages")?;
    same_result(&native, &finished)?;
    for rank in 0..RANKS {
        let words = format!("rank {rank} has entered 1 times");
        ensure!(
            finished.stdout.contains(&words),
            "it does not say: {words}\n{}",
            finished.stdout
        );
    }
    let words = "the job goes on from its beginning";
    ensure!(finished.stderr.contains(words), "it does not say: {words}");
    Ok(())
}

/// A rank that dies while the others are in MPI_Finalize ends the job, with the reason.
fn finalize(case: &Stages) -> Result<()> {
    let program = case.program("stages_ring.c")?;
    let folder = case.folder("staged")?;
    let staged = case.staged(&program, &folder, &["5", "1", "5"]);
    let mut job = Job::start(staged, case.dir, "staged")?;
    let deadline = Instant::now() + LIMIT;
    let others = job.until("the others are in MPI_Finalize", deadline, || {
        in_finalize(case).is_ok_and(|ranks| ranks == [0, 2])
    });
    job.explain(others, case.dir)?;
    kill_last(&job, 1);
    let ended = job.wait(deadline)?;
    let said = job::read_text(&job.stderr);
    let words = "while a rank was in MPI_Finalize or through";
    ensure!(said.contains(words), "it does not say: {words}\n{said}");
    let failed = ended.is_some_and(|status| !status.success());
    ensure!(failed, "it ends with {ended:?}");
    Ok(())
}

/// The ranks that are in MPI_Finalize.
fn in_finalize(case: &Stages) -> Result<Vec<usize>> {
    let mut command = stasis::command(["explain"]);
    command.arg(case.ckpt());
    let answer = stasis::json(command, case.dir, "explain", LIMIT)?;
    let ranks = answer["ranks"].as_array().context("no ranks")?;
    let is_there = |rank: &Value| rank["calls"][0]["function"] == "MPI_Finalize";
    let there = ranks.iter().enumerate().filter(|(_, rank)| is_there(rank));
    Ok(there.map(|(number, _)| number).collect())
}

fn calls(case: &Stages) -> Result<()> {
    let program = case.program("stages_calls.c")?;
    for call in CALLS {
        let run = || {
            let finished = case
                .run(&program, call, &[call])?
                .expect_success("stasis run --stages")?;
            ensure!(
                finished.stdout.contains("OK"),
                "printed {}",
                finished.stdout
            );
            recovered(&finished, 1, 1)?;
            let anew = finished.stderr.contains("is started anew, too");
            ensure!(!anew, "a survivor has lost its memory\n{}", finished.stderr);
            Ok(())
        };
        run().with_context(|| format!("survivors in {call}"))?;
    }
    Ok(())
}

/// Kills a rank, if it is there.
fn kill_last(job: &Job, rank: usize) {
    if let Some(process) = job.processes_of(rank).last() {
        signal::kill_now(*process);
    }
}

/// Another rank dies while the ranks go on after the first death: its memory is lost, and the result is the same.
/// The second death comes at a random time of the first half: the way back takes some tenths of a second, and after it
/// the rest of the job could be over before that time has passed.
fn reload(case: &Stages) -> Result<()> {
    const TIMES: u64 = 3;
    const EPOCHS: &str = "400";
    const HALF: &str = "app.200.0";
    let program = case.program("stages_matrix.c")?;
    let native = case.natively(&program, &[EPOCHS])?;
    let wanted = line_of(&native.stdout, "OK ").context("the native run prints no result")?;
    let mut random = Random::new(case.seed, "stages/reload");
    for time in 0..TIMES {
        let name = format!("staged-{time}");
        let folder = case.folder(&name)?;
        let mut job = Job::start(case.staged(&program, &folder, &[EPOCHS]), case.dir, &name)?;
        let deadline = Instant::now() + LIMIT;
        let third = folder.join("app.3.0");
        job.until("the third epoch has come", deadline, || third.exists())?;
        kill_last(&job, 1);
        job.until_said("the job goes on from epoch", deadline)?;
        let half = folder.join(HALF);
        let kill_at = Instant::now() + random.seconds(0.0, 0.6);
        job.until("it is time for the second death", deadline, || {
            half.exists() || Instant::now() >= kill_at
        })?;
        kill_last(&job, 2);
        ends_with(&mut job, wanted, deadline, case.dir)?;
    }
    Ok(())
}

/// The job ends, and prints this result.
fn ends_with(job: &mut Job, wanted: &str, deadline: Instant, dir: &Path) -> Result<()> {
    job.succeed(deadline, dir)?;
    let printed = job::read_text(&job.stdout);
    ensure!(
        line_of(&printed, "OK ") == Some(wanted),
        "printed {printed}, natively {wanted}"
    );
    Ok(())
}

/// A rank is killed as soon as it is there, maybe before it has connected to `stasis run`.
fn early(case: &Stages) -> Result<()> {
    const TIMES: usize = 4;
    const LAST: usize = RANKS - 1;
    let program = case.program("stages_ring.c")?;
    let native = case.natively(&program, &["5"])?;
    let wanted = line_of(&native.stdout, "OK ").context("the native run prints no result")?;
    for time in 0..TIMES {
        let name = format!("staged-{time}");
        let folder = case.folder(&name)?;
        let mut job = Job::start(case.staged(&program, &folder, &["5"]), case.dir, &name)?;
        let deadline = Instant::now() + LIMIT;
        job.until_seen("the last rank is there", deadline, |job| {
            let processes = job.processes_of(LAST);
            if let [_, rank] = processes[..] {
                signal::kill_now(rank);
            }
            processes.len() > 1
        })?;
        ends_with(&mut job, wanted, deadline, case.dir)?;
    }
    Ok(())
}

/// MPI_Abort of a survivor that has not gone back ends the job with its code.
fn abort(case: &Stages) -> Result<()> {
    let program = case.program("stages_calls.c")?;
    let finished = case.run(&program, "abort", &["abort"])?;
    ensure!(
        finished.status.code() == Some(6),
        "it ends with {}\n{}",
        finished.status,
        finished.stderr
    );
    Ok(())
}

/// Reinit: all ranks enter the restart point again, natively once.
fn reinit(case: &Stages) -> Result<()> {
    let program = case.program("reinit_ring.c")?;
    let native = case.natively(&program, &["7"])?;
    let staged = case.run(&program, "staged", &["7"])?;
    same_result(&native, &staged.expect_success("stasis run --stages")?)?;
    for killed in 0..RANKS {
        let rank = killed.to_string();
        let finished = case.run(&program, &format!("killed-{killed}"), &["7", &rank, "4"])?;
        let finished = finished.expect_success("stasis run --stages")?;
        same_result(&native, &finished)?;
        for rank in 0..RANKS {
            let again = if rank == killed {
                "RESTARTED"
            } else {
                "REINITED"
            };
            let entered = finished.stdout.lines();
            let of_rank = format!("rank {rank} enters ");
            let entered: Vec<&str> = entered
                .filter_map(|line| line.strip_prefix(&of_rank))
                .collect();
            ensure!(
                entered == ["NEW", again],
                "rank {rank} has entered as {entered:?}\n{}{}",
                finished.stdout,
                finished.stderr
            );
        }
    }
    let include = format!("-I{}", paths::root().join("upper-half/include").display());
    let flags = ["-x", "c++", "-Wall", "-Werror", &include];
    compile(case.dir, &case.mpi.compiler("cpp"), "reinit_ring.c", &flags).map(drop)
}

fn refusals(case: &Stages) -> Result<()> {
    let program = case.program("stages_ring.c")?;
    for flags in [
        &["-i", "10"][..],
        &["--memory-interval", "10"],
        &["--resume"],
        &["--local-dir", "/tmp"],
    ] {
        let mut launch = stasis::launch(case.mpi, RANKS, &case.ckpt(), case.dir);
        launch.args(flags).arg(&program).arg(case.dir).arg("3");
        let finished = job::run(
            stasis::run(&["--stages"], &launch),
            case.dir,
            "refused",
            LIMIT,
        )?;
        refused(
            &finished,
            USAGE,
            &[&["--stages"], &["takes no checkpoints"]],
        )?;
    }
    Ok(())
}
