//! One rank of a recorded run, alone: its output is that of the recorded run; where the record ends, and where the
//! program does something else, it says so.

use crate::demo::lammps_arguments;
use crate::harness::job::{self, Finished, Job};
use crate::harness::mpi::Mpi;
use crate::harness::{paths, stasis};
use crate::test::product::gdb;
use crate::test::product::record::Races;
use crate::test::support::compare::number_lines;
use crate::test::support::compile::command_line;
use crate::test::support::directives::{collect, Example};
use crate::test::support::held_job::{example, reach_cut_of};
use crate::test::support::helper_programs::planted;
use crate::test::support::refusal::{refused, IMAGE};
use crate::test::Case;
use anyhow::{ensure, Result};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
/// Exit code of a rank that cannot go on as in the recorded run.
const DIVERGED: i32 = 8;
/// Message of a rank whose record is not whole.
const ENDS: &str = "is not recorded from here on";

/// Examples of the default run. With `--full` all those of their folders run.
const SOME: [&str; 15] = [
    "p2p/ring.rendezvous",
    "p2p/completions.testsome",
    "p2p/completions.waitany",
    "p2p/derived_types.large",
    "p2p/matched",
    "p2p/persistent",
    "p2p/tested_in_loops.testany",
    "p2p/wildcards",
    "coll/in_place.nonblocking",
    "coll/neighbours.blocking",
    "coll/nonblocking.large",
    "coll/user_ops",
    "comm/intercomm",
    "comm/topologies",
    "io/views",
];
const FOLDERS: [&str; 6] = ["p2p", "coll", "comm", "io", "form", "fortran"];

/// All cases of this file.
pub fn cases(full: bool) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for example in collect(&paths::examples(), &FOLDERS)? {
        // The contents of messages of gigabytes take as much on the disk.
        let is_huge = ["large_counts", "huge"]
            .iter()
            .any(|word| example.name.contains(word));
        let runs = example.pending.is_none()
            && example.command.is_none()
            && example.ranks <= 8
            && !is_huge;
        if !runs || !full && !SOME.contains(&example.name.as_str()) {
            continue;
        }
        for mpi in Mpi::ALL
            .into_iter()
            .filter(|mpi| example.fronts.contains(mpi))
        {
            let name = format!("record/solo/{}:{mpi}", example.name);
            let example = example.clone();
            cases.push(Case::new(name, move |_, dir| {
                every_rank(&example, dir, mpi).into()
            }));
        }
    }
    for mpi in Mpi::ALL {
        let case = |name: &str, body: fn(&Path, Mpi) -> Result<()>| {
            let name = format!("record/solo/{name}:{mpi}");
            Case::new(name, move |_, dir| body(dir, mpi).into())
        };
        cases.push(case("race", race));
        cases.push(case("killed", killed));
    }
    let case = |name: &str, body: fn(&Path) -> Result<()>| {
        Case::new(format!("record/solo/{name}"), move |_, dir| {
            body(dir).into()
        })
    };
    cases.push(case("checkpoint", up_to_a_checkpoint));
    cases.push(case("diverges", diverges));
    cases.push(case("damaged", damaged));
    cases.push(case("refused", refuses_by_name));
    cases.push(case("gdb", by_gdb));
    cases.push(case("lammps", lammps));
    Ok(cases)
}

/// `mpirun -n RANKS stasis launch --record rec --contents`; each rank's output goes to `out.RANK`.
fn recorded(mpi: Mpi, ranks: usize, dir: &Path, words: &[String]) -> Command {
    let mut command = mpi.mpirun(ranks, dir);
    command
        .args([
            "sh",
            "-c",
            "exec \"$@\" >out.${OMPI_COMM_WORLD_RANK:-$PMI_RANK}",
            "sh",
        ])
        .arg(paths::stasis())
        .args(["launch", "--ckpt-dir"])
        .arg(dir.join("ck"))
        .args(["--record", "rec", "--contents"])
        .args(words)
        .current_dir(dir);
    command
}

/// `stasis solo rec --rank RANK`.
fn alone(rank: usize, dir: &Path) -> Command {
    let mut command = stasis::command(["solo", "rec", "--rank"]);
    command.arg(rank.to_string()).current_dir(dir);
    command
}

fn run_alone(rank: usize, dir: &Path) -> Result<Finished> {
    job::run(alone(rank, dir), dir, &format!("solo-{rank}"), LIMIT)
}

/// Each rank of a job, alone, prints what it has printed.
fn same_output(ranks: usize, dir: &Path) -> Result<()> {
    for rank in 0..ranks {
        let now = run_alone(rank, dir)?.expect_success("stasis solo")?.stdout;
        let then = fs::read_to_string(dir.join(format!("out.{rank}")))?;
        ensure!(now == then, "rank {rank}: {now} instead of {then}");
    }
    Ok(())
}

/// Each rank of an example, which checks what it receives.
fn every_rank(example: &Example, dir: &Path, mpi: Mpi) -> Result<()> {
    let words = command_line(example, Some(mpi))?;
    let mut command = recorded(mpi, example.ranks, dir, &words);
    command.envs(example.environment.clone());
    let ended = job::run(command, dir, "recorded", example.timeout)?.expect_success("recorded")?;
    if !ended.stderr.contains(ENDS) {
        return same_output(example.ranks, dir);
    }
    for rank in 0..example.ranks {
        let ended = run_alone(rank, dir)?;
        if ended.status.code() != Some(0) {
            // Threads may come in another order than in the recorded run.
            let words = [
                "the record ends in call",
                "something else than in the recorded run",
            ];
            refused(&ended, DIVERGED, &[&words])?;
        }
    }
    Ok(())
}

/// Messages come in another order in every run, and a rank alone gets those of the recorded one.
fn race(dir: &Path, mpi: Mpi) -> Result<()> {
    let race = example("bugs", "bugs/race")?;
    let mut words = command_line(&race, Some(mpi))?;
    words.push("3".to_owned());
    let command = recorded(mpi, race.ranks, dir, &words);
    job::run(command, dir, "recorded", LIMIT)?.expect_success("recorded")?;
    same_output(race.ranks, dir)
}

/// A job that holds at its cut.
fn held(dir: &Path, mpi: Mpi, ranks: usize) -> Result<Job> {
    let ring = example("p2p", "p2p/ring.eager")?;
    let mut command = recorded(mpi, ranks, dir, &command_line(&ring, Some(mpi))?);
    command
        .env("STASIS_TEST_READY", dir.join("ready"))
        .env("STASIS_TEST_GO", dir.join("go"));
    let mut job = Job::start(command, dir, "recorded")?;
    let reached = reach_cut_of(ranks, &mut job, dir);
    job.explain(reached, dir)?;
    Ok(job)
}

/// The record of a job that was killed ends where it was.
fn killed(dir: &Path, mpi: Mpi) -> Result<()> {
    held(dir, mpi, 3)?.kill()?;
    let words: [&[&str]; 2] = [&["rank 1: the record ends in call"], &["was ended there"]];
    refused(&run_alone(1, dir)?, DIVERGED, &words)
}

/// A run is recorded up to its first checkpoint.
fn up_to_a_checkpoint(dir: &Path) -> Result<()> {
    let mut job = held(dir, Mpi::Mpich, 3)?;
    stasis::take_checkpoint(&dir.join("ck"), dir, "checkpoint", LIMIT)?;
    fs::write(dir.join("go"), "")?;
    job.succeed(Instant::now() + LIMIT, dir)?;
    let said = job::read_text(&job.stderr);
    ensure!(said.contains(ENDS), "{said}");
    refused(
        &run_alone(2, dir)?,
        DIVERGED,
        &[&["a checkpoint was taken"]],
    )
}

/// A program that is another one is told, with the call and what both did.
fn diverges(dir: &Path) -> Result<()> {
    let mpi = Mpi::Mpich;
    let race = Races::new("bugs/race", dir, mpi, Some("3"))?;
    let other = Races::new("bugs/choices", dir, mpi, Some("3"))?;
    let program = dir.join("program");
    let (race, other) = (race.line(), other.line());
    fs::copy(&race[0], &program)?;
    let mut words = race.to_vec();
    words[0] = program.display().to_string();
    let command = recorded(mpi, 3, dir, &words);
    job::run(command, dir, "recorded", LIMIT)?.expect_success("recorded")?;
    fs::remove_file(&program)?;
    fs::copy(&other[0], &program)?;
    let words: [&[&str]; 3] = [
        &["does something else than in the recorded run, at call"],
        &["in the recorded run"],
        &["in this one"],
    ];
    refused(&run_alone(0, dir)?, DIVERGED, &words)
}

/// A missing or damaged file is reported.
fn damaged(dir: &Path) -> Result<()> {
    let ring = example("p2p", "p2p/ring.eager")?;
    let command = recorded(Mpi::Mpich, 3, dir, &command_line(&ring, Some(Mpi::Mpich))?);
    job::run(command, dir, "recorded", LIMIT)?.expect_success("recorded")?;
    refused(&run_alone(3, dir)?, IMAGE, &[&["no contents of rank 3"]])?;
    let file = dir.join("rec/rank-1.contents");
    let whole = fs::read(&file)?;
    fs::write(&file, &whole[..whole.len() / 2 * 2 - 64])?;
    refused(&run_alone(1, dir)?, IMAGE, &[&["damaged at byte"]])?;
    fs::write(&file, &whole[..100])?;
    refused(&run_alone(1, dir)?, IMAGE, &[&["no contents of a run"]])
}

/// A function whose results cannot be recorded is named, in the recorded run and by the rank alone; so are a second
/// thread, and a receive whose data come unseen.
fn refuses_by_name(dir: &Path) -> Result<()> {
    for (folder, name, why) in [
        ("window", "window/fence.create", "MPI_Win_create"),
        ("threads", "threads/multiple", "a second thread called MPI"),
        ("p2p", "p2p/freed", "MPI_Request_free"),
    ] {
        let dir = dir.join(folder);
        fs::create_dir_all(&dir)?;
        let example = example(folder, name)?;
        let words = command_line(&example, Some(Mpi::Mpich))?;
        let command = recorded(Mpi::Mpich, example.ranks, &dir, &words);
        let ended = job::run(command, &dir, "recorded", LIMIT)?.expect_success("recorded")?;
        let said = ended
            .stderr
            .lines()
            .any(|line| line.contains(ENDS) && line.contains(why));
        ensure!(said, "{}", job::tail(&ended.stderr, 10));
        let words: [&[&str]; 2] = [&["the record ends in call"], &[why]];
        refused(&run_alone(1, &dir)?, DIVERGED, &words)?;
    }
    Ok(())
}

/// The debugger sees the program's frames and variables at a call, and stops at a line of its source.
fn by_gdb(dir: &Path) -> Result<()> {
    let mpi = Mpi::Mpich;
    let program = planted(dir, &mpi.compiler("c"), gdb::SOURCE, &["-g", "-O0"])?;
    let command = recorded(mpi, 3, dir, &[program.display().to_string()]);
    job::run(command, dir, "recorded", LIMIT)?.expect_success("recorded")?;
    // The fifth call of rank 0 is its second receive of the second round.
    let receive = format!("{}:{}", gdb::SOURCE, gdb::line("MPI_Recv(right")?);
    let mut debugged = alone(0, dir);
    debugged.args(["--stop-at", "5", "--", "gdb", "-batch", "-nx"]);
    gdb::execute(&mut debugged, &gdb::from_receive_to_line()?);
    gdb::execute(&mut debugged, &["continue"]);
    let printed = job::run(debugged, dir, "gdb", LIMIT)?
        .expect_success("gdb")?
        .stdout;
    gdb::prints(
        &printed,
        &[
            " main (",
            &receive,
            "$1 = 1\n",
            "Breakpoint 1, ",
            "$2 = 1001\n",
            "$3 = 1100\n",
            "exited normally",
        ],
    )
}

/// A rank of LAMMPS, as Debian has it, prints the same numbers. Its times differ.
fn lammps(dir: &Path) -> Result<()> {
    let mpi = Mpi::OpenMpi;
    let command = recorded(mpi, 2, dir, &lammps_arguments(20));
    job::run(command, dir, "recorded", LIMIT)?.expect_success("recorded")?;
    let out = fs::read_to_string(dir.join("out.0"))?;
    let now = run_alone(0, dir)?.expect_success("stasis solo")?.stdout;
    let (then, now) = (number_lines(&out), number_lines(&now));
    ensure!(
        now == then && then.len() >= 2,
        "{now:?} instead of {then:?}"
    );
    run_alone(1, dir)?.expect_success("stasis solo")?;
    Ok(())
}
