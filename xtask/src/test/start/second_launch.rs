//! A second launch into a directory with checkpoints: nothing is lost, and a refusal ends with the code of
//! `stasis --help` under both launchers.

use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::{paths, stasis};
use crate::test::support::compile::command_line;
use crate::test::support::held_job::{bring_back, example, start, start_by};
use crate::test::support::refusal::{refused, DIRECTORY, IMAGE, USAGE};
use crate::test::Case;
use anyhow::{ensure, Context, Result};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
const RANKS: usize = 2;
const PROGRAM: &str = "p2p/ring_loop";
const ANOTHER: &str = "p2p/wildcards";

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = [Mpi::OpenMpi, Mpi::Mpich]
        .into_iter()
        .flat_map(|mpi| {
            let case = |name: &str, body: fn(&Path, Mpi) -> Result<()>| {
                Case::new(format!("again/{name}-{mpi}"), move |_, dir| {
                    body(dir, mpi).into()
                })
            };
            [
                case("launched", launched),
                case("in-use", in_use),
                case("other-arguments", other_arguments),
                case("several-programs", several_programs),
            ]
        })
        .collect();
    cases.push(Case::new("again/default-directory", |_, dir| {
        default_directory(dir).into()
    }));
    cases
}

fn take(ckpt: &Path, dir: &Path, name: &str) -> Result<()> {
    stasis::take_checkpoint(ckpt, dir, name, LIMIT)
}

/// Names in a directory with this prefix, sorted.
fn names(dir: &Path, prefix: &str) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        names.extend(name.starts_with(prefix).then_some(name));
    }
    names.sort();
    Ok(names)
}

/// Waits until a directory has only these sets. Older ones are removed after the answer.
fn until_left(job: &mut Job, ckpt: &Path, dir: &Path, sets: &[&str]) -> Result<()> {
    let mut there = Vec::new();
    let left = job.until(
        "only the newest sets are left",
        Instant::now() + LIMIT,
        || {
            there = names(ckpt, "ckpt-").unwrap_or_default();
            there == sets
        },
    );
    let left = left.with_context(|| format!("there are {there:?}"));
    job.explain(left, dir)
}

/// Without a flag a start is refused; one from the beginning keeps what was there, whatever it makes itself, and
/// that can still be continued. So does a restart from an older set keep what another branch has made.
fn launched(dir: &Path, mpi: Mpi) -> Result<()> {
    let (ckpt, ring) = (dir.join("ck"), example("p2p", PROGRAM)?);
    let mut job = start(&ring, dir, &ckpt, mpi)?;
    take(&ckpt, dir, "first")?;
    take(&ckpt, dir, "second")?;
    job.kill()?;
    let again = |program: &str, name: &str| -> Result<job::Finished> {
        let mut command = stasis::launch(mpi, RANKS, &ckpt, dir);
        command.args(command_line(&example("p2p", program)?, Some(mpi))?);
        job::run(command, dir, name, LIMIT)
    };
    let held: &[&[&str]] = &[
        &["ckpt-2, ckpt-1"],
        &["--resume"],
        &["--anew"],
        &["ring_loop"],
    ];
    refused(&again(PROGRAM, "again")?, DIRECTORY, held)?;
    let other: &[&[&str]] = &[&["of another program"], &["ring_loop"], &["wildcards"]];
    refused(&again(ANOTHER, "another")?, DIRECTORY, other)?;
    // Ranks that never call MPI_Init prevent neither the end of the job nor the exit code.
    let mut command = stasis::launch(mpi, RANKS, &ckpt, dir);
    command.args(["/bin/sleep", "600"]);
    let stranger: &[&[&str]] = &[&["of another program"], &["sleep 600"]];
    refused(
        &job::run(command, dir, "stranger", LIMIT)?,
        DIRECTORY,
        stranger,
    )?;
    ensure!(
        names(&ckpt, "ckpt-")? == ["ckpt-1", "ckpt-2"],
        "sets are gone"
    );

    for rank in 0..RANKS {
        fs::remove_file(dir.join(format!("ready.{rank}")))?;
    }
    let mut command = stasis::launch(mpi, RANKS, &ckpt, dir);
    command.arg("--anew");
    let mut job = start_by(command, &ring, dir, mpi)?;
    let said = job::read_text(&job.stderr);
    ensure!(said.contains("aside-1: ckpt-2, ckpt-1"), "says: {said}");
    for name in ["1", "2", "3"] {
        take(&ckpt, dir, name)?;
    }
    until_left(&mut job, &ckpt, dir, &["ckpt-2", "ckpt-3"])?;
    let archived = ckpt.join("aside-1");
    ensure!(
        names(&archived, "ckpt-")? == ["ckpt-1", "ckpt-2"],
        "the moved checkpoints are gone"
    );

    // Two branches from ckpt-3.
    let from = |set: &str| stasis::restart(mpi, RANKS, &ckpt.join(set), dir);
    bring_back(&mut job, from("ckpt-3"), &ckpt, dir)?;
    take(&ckpt, dir, "one-branch")?;
    bring_back(&mut job, from("ckpt-3"), &ckpt, dir)?;
    for name in ["a", "b", "c"] {
        take(&ckpt, dir, name)?;
    }
    until_left(&mut job, &ckpt, dir, &["ckpt-4", "ckpt-6", "ckpt-7"])?;
    job.kill()?;
    let list = stasis::json(listed(&ckpt), dir, "list", LIMIT)?;
    let abi = &list["checkpoints"][0]["abi"];
    ensure!(
        *abi == mpi.name(),
        "after a restart the program's ABI is {abi}"
    );

    fs::write(dir.join("go"), "")?;
    let old = stasis::restart(mpi, RANKS, &archived, dir);
    let mut command = old;
    command.env("STASIS_TEST_GO", dir.join("go"));
    job::run(command, dir, "aside", LIMIT)?.expect_success("a restart of the moved checkpoints")?;
    Ok(())
}

fn listed(ckpt: &Path) -> std::process::Command {
    let mut command = stasis::command(["list"]);
    command.arg(ckpt);
    command
}

/// A launch or restart with the directory of a running job.
fn in_use(dir: &Path, mpi: Mpi) -> Result<()> {
    let (ckpt, ring) = (dir.join("ck"), example("p2p", PROGRAM)?);
    let mut job = start(&ring, dir, &ckpt, mpi)?;
    let words: &[&[&str]] = &[&["is used by a job that runs already"], &["--ckpt-dir"]];
    for name in ["launch-1", "launch-2"] {
        let mut command = stasis::launch(mpi, RANKS, &ckpt, dir);
        command.args(command_line(&ring, Some(mpi))?);
        refused(&job::run(command, dir, name, LIMIT)?, DIRECTORY, words)?;
        take(&ckpt, dir, name)?;
    }
    let command = stasis::restart(mpi, RANKS, &ckpt, dir);
    refused(&job::run(command, dir, "restart", LIMIT)?, DIRECTORY, words)?;
    job.kill()
}

/// `--resume` with other arguments shows both command lines, and so does a program of another name.
fn other_arguments(dir: &Path, mpi: Mpi) -> Result<()> {
    let (ckpt, ring) = (dir.join("ck"), example("p2p", PROGRAM)?);
    let mut job = start(&ring, dir, &ckpt, mpi)?;
    take(&ckpt, dir, "checkpoint")?;
    job.kill()?;
    let resumed = |flags: &[&str], name: &str| -> Result<job::Finished> {
        let mut command = stasis::launch(mpi, RANKS, &ckpt, dir);
        command.args(flags);
        command.args(command_line(&ring, Some(mpi))?).arg("more");
        job::run(command, dir, name, LIMIT)
    };
    let words: &[&[&str]] = &[&["ring_loop`"], &["ring_loop more`"], &["other arguments"]];
    refused(&resumed(&["--resume"], "resumed")?, IMAGE, words)?;
    let both: &[&[&str]] = &[&["--resume"], &["--anew"]];
    refused(&resumed(&["--resume", "--anew"], "both")?, USAGE, both)
}

/// The ranks of one job must have one directory. The default differs if they run several programs.
fn several_programs(dir: &Path, mpi: Mpi) -> Result<()> {
    let mut command = mpi.mpirun(1, dir);
    for (number, program) in [PROGRAM, ANOTHER].into_iter().enumerate() {
        if number > 0 {
            command.args([":", "-n", "1"]);
        }
        command.arg(paths::stasis()).arg("launch");
        command.args(command_line(&example("p2p", program)?, Some(mpi))?);
    }
    command.current_dir(dir);
    let words: &[&[&str]] = &[&["different checkpoint directories"], &["same --ckpt-dir"]];
    refused(&job::run(command, dir, "several", LIMIT)?, DIRECTORY, words)
}

/// Two programs in one folder without `--ckpt-dir`.
fn default_directory(dir: &Path) -> Result<()> {
    let mpi = Mpi::Mpich;
    let mut jobs = Vec::new();
    for (name, program) in [("one", PROGRAM), ("two", ANOTHER)] {
        let mut command = mpi.mpirun(RANKS, dir);
        command.arg(paths::stasis()).arg("launch");
        let line = command_line(&example("p2p", program)?, Some(mpi))?;
        command.args(&line).current_dir(dir);
        command.env("STASIS_TEST_GO", dir.join("go"));
        command.env("STASIS_TEST_READY", dir.join(format!("{name}-ready")));
        let mut job = Job::start(command, dir, name)?;
        let program = Path::new(&line[0]).file_name().context("no name")?;
        let argument = line.get(1).map_or(String::new(), |word| format!("-{word}"));
        let ckpt = dir.join(format!("{}{argument}.ckpt", program.to_string_lossy()));
        let reached = stasis::until_reached(&mut job, &ckpt, "", Instant::now() + LIMIT);
        job.explain(reached, dir)?;
        if name == "one" {
            let mut command = stasis::command(["status"]);
            command.current_dir(dir);
            job::run(command, dir, "status", LIMIT)?
                .expect_success("status of the only job here")?;
        }
        jobs.push(job);
    }
    let mut command = stasis::command(["status"]);
    command.current_dir(dir);
    let words: &[&[&str]] = &[&["name one"], &["ring_loop.ckpt"], &["wildcards"]];
    refused(
        &job::run(command, dir, "status-of-two", LIMIT)?,
        USAGE,
        words,
    )?;
    jobs.iter_mut().try_for_each(Job::kill)
}
