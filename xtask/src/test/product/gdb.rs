//! `--break` and `stasis gdb`: a rank stops at a call, and the debugger shows the program's source and variables there,
//! from the program's start and after a restart.

use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::{paths, stasis};
use crate::test::support::held_job::reach_cut_of;
use crate::test::support::helper_programs::planted;
use crate::test::support::refusal::{refused, NO_JOB, USAGE};
use crate::test::Case;
use anyhow::{ensure, Context, Result};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
const RANKS: usize = 3;
/// The program that is debugged.
pub(super) const SOURCE: &str = "race.c";

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new("gdb/told", |_, dir| told(dir).into()),
        Case::new("gdb/none", |_, dir| without_a_debugger(dir).into()),
    ];
    for mpi in Mpi::ALL {
        let name = |name: &str| format!("gdb/{name}:{mpi}");
        cases.push(Case::new(name("start"), move |_, dir| {
            from_the_start(dir, mpi).into()
        }));
        cases.push(Case::new(name("function"), move |_, dir| {
            at_a_function(dir, mpi).into()
        }));
        cases.push(Case::new(name("restart"), move |_, dir| {
            after_a_restart(dir, mpi).into()
        }));
        cases.push(Case::new(name("replay"), move |_, dir| {
            in_a_replay(dir, mpi).into()
        }));
        cases.push(Case::new(name("replay-from-checkpoint"), move |_, dir| {
            in_a_replay_from_a_checkpoint(dir, mpi).into()
        }));
    }
    cases
}

fn program(dir: &Path, mpi: Mpi) -> Result<PathBuf> {
    planted(dir, &mpi.compiler("c"), SOURCE, &["-g", "-O0"])
}

fn launch(dir: &Path, mpi: Mpi, flags: &[&str]) -> Result<Command> {
    let mut launch = stasis::launch(mpi, RANKS, &dir.join("ck"), dir);
    launch.args(flags).arg(program(dir, mpi)?).current_dir(dir);
    Ok(launch)
}

/// The line of the source with this text.
pub(super) fn line(text: &str) -> Result<usize> {
    let source = fs::read_to_string(paths::examples().join("bugs").join(SOURCE))?;
    let line = source.lines().position(|line| line.contains(text));
    Ok(line.with_context(|| format!("{text} is not in {SOURCE}"))? + 1)
}

/// Waits until a rank has stopped. The result is its process.
fn stopped(job: &mut Job, dir: &Path) -> Result<String> {
    let said = job.until_said("let it go on with", Instant::now() + LIMIT);
    job.explain(said, dir)?;
    let text = job::read_text(&job.stderr);
    let pid = text
        .split("as process ")
        .nth(1)
        .and_then(|rest| rest.split('.').next());
    Ok(pid.with_context(|| text.clone())?.to_owned())
}

/// Output of the debugger for these commands.
fn gdb(dir: &Path, rank: &[&str], commands: &[impl AsRef<OsStr>]) -> Result<String> {
    let mut gdb = stasis::command(["gdb"]);
    gdb.args(rank)
        .args(["--", "-nx", "-batch"])
        .current_dir(dir);
    execute(&mut gdb, commands);
    let ended = job::run(gdb, dir, "gdb", LIMIT)?;
    Ok(format!("{}{}", ended.stdout, ended.stderr))
}

/// Adds commands of the debugger to its command line.
pub(super) fn execute(gdb: &mut Command, commands: &[impl AsRef<OsStr>]) {
    for command in commands {
        gdb.arg("-ex").arg(command);
    }
}

/// Commands for rank 0 in its second receive of a round. The debugger shows the place and the round, goes on to the
/// line behind the receives, and shows what has come and the rank.
pub(super) fn from_receive_to_line() -> Result<Vec<String>> {
    let line = format!("break {SOURCE}:{}", line("wrong += left[0] != 1")?);
    let commands = [
        "backtrace",
        "frame function main",
        "print round",
        &line,
        "continue",
        "print right[1] + 1000",
        "print 1100 + test_rank",
        "delete",
    ];
    Ok(commands.map(str::to_owned).to_vec())
}

pub(super) fn prints(printed: &str, words: &[&str]) -> Result<()> {
    for words in words {
        ensure!(printed.contains(words), "no '{words}' in\n{printed}");
    }
    Ok(())
}

/// The fifth call of rank 0 is its second receive of the second round. The debugger shows that, and goes on to a line.
fn from_the_start(dir: &Path, mpi: Mpi) -> Result<()> {
    let mut job = Job::start(launch(dir, mpi, &["--break", "0:5"])?, dir, "launch")?;
    stopped(&mut job, dir)?;
    let printed = gdb(dir, &["ck", "0"], &from_receive_to_line()?)?;
    let receive = format!("{SOURCE}:{}", line("MPI_Recv(right")?);
    prints(
        &printed,
        &[
            "main (",
            &receive,
            "$1 = 1",
            "Breakpoint 1, ",
            "$2 = 1001",
            "$3 = 1100",
        ],
    )?;
    job.succeed(Instant::now() + LIMIT, dir)
}

/// A breakpoint at a function of MPI is at the program's call of it. The same function of the lower half and of its
/// library does not stop the program again.
fn at_a_function(dir: &Path, mpi: Mpi) -> Result<()> {
    let program = planted(dir, &mpi.compiler("c"), "sizes.c", &["-g", "-O0"])?;
    let mut launch = stasis::launch(mpi, RANKS, &dir.join("ck"), dir);
    launch.args(["--break", "0:5"]).arg(program);
    launch.current_dir(dir);
    let mut job = Job::start(launch, dir, "launch")?;
    stopped(&mut job, dir)?;
    let mut commands = vec!["break MPI_Allreduce", "break MPI_Irecv"];
    for _ in 0..4 {
        commands.extend([
            "continue",
            "backtrace",
            "frame function main",
            "print 1000 + step",
        ]);
    }
    commands.push("delete");
    let printed = gdb(dir, &["ck", "0"], &commands)?;
    // It has stopped in the second sum. The places are in turn those of both functions.
    let stops: Vec<_> = printed
        .lines()
        .filter_map(|line| line.split_once(" hit Breakpoint "))
        .map(|(_, stop)| stop.split([',', '.']).next().unwrap_or_default())
        .collect();
    ensure!(stops == ["2", "1", "2", "1"], "{stops:?}\n{printed}");
    prints(
        &printed,
        &[
            "in MPI_Irecv ()",
            "in MPI_Allreduce ()",
            "$1 = 1002",
            "$2 = 1003",
            "$3 = 1003",
            "$4 = 1004",
        ],
    )?;
    job.succeed(Instant::now() + LIMIT, dir)
}

/// Starts a job with these flags, and takes a checkpoint at its cut, in the middle of the program. Then it may go on.
fn with_a_checkpoint(dir: &Path, mpi: Mpi, flags: &[&str]) -> Result<Job> {
    let mut launch = launch(dir, mpi, flags)?;
    cuts(&mut launch, dir);
    let mut job = Job::start(launch, dir, "launch")?;
    let reached = reach_cut_of(RANKS, &mut job, dir);
    job.explain(reached, dir)?;
    stasis::take_checkpoint(&dir.join("ck"), dir, "checkpoint", LIMIT)?;
    Ok(job)
}

fn cuts(command: &mut Command, dir: &Path) {
    command
        .env("STASIS_TEST_READY", dir.join("ready"))
        .env("STASIS_TEST_GO", dir.join("go"))
        .current_dir(dir);
}

/// Restarts it under the other library.
fn restart(dir: &Path, mpi: Mpi, flags: &[&str]) -> Result<Job> {
    let set = dir.join("ck/ckpt-1");
    let mut restart = stasis::restart(mpi.other(), RANKS, &set, dir);
    restart.args(flags);
    cuts(&mut restart, dir);
    Job::start(restart, dir, "restart")
}

/// After a restart the kernel does not know the program's files any more.
fn after_a_restart(dir: &Path, mpi: Mpi) -> Result<()> {
    with_a_checkpoint(dir, mpi, &[])?.kill()?;
    fs::write(dir.join("go"), "")?;
    let mut job = restart(dir, mpi, &["--break", "1:2"])?;
    let pid = stopped(&mut job, dir)?;
    let commands = [
        "backtrace",
        "frame function main",
        "print round",
        "print part[0] + 100",
    ];
    let printed = gdb(dir, &[&pid], &commands)?;
    let barrier = format!("{SOURCE}:{}", line("MPI_Barrier")?);
    prints(&printed, &["main (", &barrier, "$1 = 25", "$2 = 101"])?;
    job.succeed(Instant::now() + LIMIT, dir)
}

/// In a replay from a checkpoint, too, the number is that of the call in the record. Rank 0 has made 75 calls by then,
/// three in each round.
fn in_a_replay_from_a_checkpoint(dir: &Path, mpi: Mpi) -> Result<()> {
    let mut job = with_a_checkpoint(dir, mpi, &["--record", "rec"])?;
    fs::write(dir.join("go"), "")?;
    job.succeed(Instant::now() + LIMIT, dir)?;
    let mut job = restart(dir, mpi, &["--replay", "rec", "--break", "0:80"])?;
    let pid = stopped(&mut job, dir)?;
    let printed = gdb(dir, &[&pid], &from_receive_to_line()?)?;
    let receive = format!("{SOURCE}:{}", line("MPI_Recv(right")?);
    prints(
        &printed,
        &[&receive, "$1 = 26", "Breakpoint 1, ", "$2 = 1026"],
    )?;
    job.succeed(Instant::now() + LIMIT, dir)
}

/// In a replay the number is that of the call in the record, as `stasis compare` has it.
fn in_a_replay(dir: &Path, mpi: Mpi) -> Result<()> {
    let recorded = launch(dir, mpi, &["--record", "rec"])?;
    job::run(recorded, dir, "recorded", LIMIT)?.expect_success("the recorded run")?;
    let flags = ["--anew", "--replay", "rec", "--break", "2:8"];
    let mut job = Job::start(launch(dir, mpi, &flags)?, dir, "replayed")?;
    stopped(&mut job, dir)?;
    let printed = gdb(dir, &["ck", "2"], &["frame function main", "print round"])?;
    prints(&printed, &["$1 = 3"])?;
    job.succeed(Instant::now() + LIMIT, dir)
}

/// A rank that has stopped goes on without a debugger, too.
fn without_a_debugger(dir: &Path) -> Result<()> {
    let flags = ["--break", "0:5"];
    let mut job = Job::start(launch(dir, Mpi::OpenMpi, &flags)?, dir, "launch")?;
    let mut go = Command::new("kill");
    go.args(["-CONT", &stopped(&mut job, dir)?]);
    job::run(go, dir, "go", LIMIT)?.expect_success("kill -CONT")?;
    job.succeed(Instant::now() + LIMIT, dir)
}

fn told(dir: &Path) -> Result<()> {
    let mut wrong = stasis::command(["launch", "--break", "0"]);
    wrong.arg("true").current_dir(dir);
    refused(
        &job::run(wrong, dir, "wrong", LIMIT)?,
        USAGE,
        &[&["RANK:CALL"]],
    )?;
    let late = launch(dir, Mpi::Mpich, &["--break", "0:1000"])?;
    let late = job::run(late, dir, "late", LIMIT)?.expect_success("the job")?;
    prints(
        &late.stderr,
        &["calls before the one at which --break would have stopped it"],
    )?;
    let nobody = launch(dir, Mpi::Mpich, &["--anew", "--break", "9:1"])?;
    let nobody = job::run(nobody, dir, "nobody", LIMIT)?.expect_success("the job")?;
    prints(&nobody.stderr, &["there is no rank 9"])?;
    let gdb = |arguments: &[&str]| {
        let mut gdb = stasis::command(["gdb"]);
        gdb.args(arguments).current_dir(dir);
        job::run(gdb, dir, "gdb", LIMIT)
    };
    refused(
        &gdb(&["ck", "0"])?,
        NO_JOB,
        &[&["no job runs on this machine"]],
    )?;
    refused(&gdb(&["1"])?, USAGE, &[&["no process of a rank"]])
}
