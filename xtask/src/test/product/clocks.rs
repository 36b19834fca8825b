//! Recorded clocks and their replay: a program that decides by its own time does the same again, from the start, from a
//! checkpoint and under the other library; one rank alone, too. Where the clocks differ, it is told.

use super::record::{Races, DIVERGED};
use crate::harness::job;
use crate::harness::mpi::Mpi;
use crate::harness::stasis;
use crate::test::support::refusal::refused;
use crate::test::Case;
use anyhow::{ensure, Context, Result};
use std::fs;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
const PROGRAM: &str = "bugs/clocks";

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for mpi in Mpi::ALL {
        let case = |name: &str, body: fn(&Races) -> Result<()>| {
            Case::new(format!("record/clocks/{name}:{mpi}"), move |_, dir| {
                Races::new(PROGRAM, dir, mpi, None)
                    .and_then(|races| body(&races))
                    .into()
            })
        };
        cases.push(case("start", from_the_start));
        cases.push(case("checkpoint", from_a_checkpoint));
    }
    let case = |name: &str, body: fn(&Races) -> Result<()>| {
        Case::new(format!("record/clocks/{name}"), move |_, dir| {
            Races::new(PROGRAM, dir, Mpi::Mpich, None)
                .and_then(|races| body(&races))
                .into()
        })
    };
    cases.push(case("killed", goes_on_after_a_kill));
    cases.push(case("alone", alone));
    cases.push(case("told", told));
    cases.push(case("without", without));
    cases
}

fn same(races: &Races, recorded: &str, lower: Mpi, name: &str) -> Result<()> {
    let replay = races.launch(lower, name, &["--replay", "rec"]);
    equal(&races.run(replay, name)?, recorded)
}

fn equal(replayed: &str, recorded: &str) -> Result<()> {
    ensure!(replayed == recorded, "{replayed} instead of {recorded}");
    Ok(())
}

/// The values come back, under either library.
fn from_the_start(races: &Races) -> Result<()> {
    let flags = ["--record", "rec", "--time", "--digests", "all"];
    let recorded = races.run(races.launch(races.mpi, "ck", &flags), "recorded")?;
    same(races, &recorded, races.mpi, "same")?;
    same(races, &recorded, races.mpi.other(), "other")
}

/// The same from a checkpoint, and with checkpoints in the recorded run.
fn from_a_checkpoint(races: &Races) -> Result<()> {
    let mut job = races.to_the_cut(&["--record", "rec", "--time"])?;
    let recorded = races.let_go(&mut job)?;
    for lower in [races.mpi, races.mpi.other()] {
        let restart = races.restart(lower, &["--replay", "rec"]);
        equal(&races.run(restart, lower.name())?, &recorded)?;
    }
    same(races, &recorded, races.mpi.other(), "start")
}

/// A run that is killed after a checkpoint is recorded on, though nobody asks for clocks again.
fn goes_on_after_a_kill(races: &Races) -> Result<()> {
    let mut job = races.to_the_cut(&["--record", "rec", "--time"])?;
    let restart = races.restart(races.mpi, &["--record", "rec"]);
    races.bring_back(&mut job, restart)?;
    let recorded = races.let_go(&mut job)?;
    same(races, &recorded, races.mpi.other(), "start")?;
    let restart = races.restart(races.mpi, &["--replay", "rec"]);
    equal(&races.run(restart, "from-cut")?, &recorded)
}

/// One rank alone gets its clocks, too.
fn alone(races: &Races) -> Result<()> {
    let flags = ["--record", "rec", "--time", "--contents"];
    let recorded = races.run(races.launch(races.mpi, "ck", &flags), "recorded")?;
    let mut solo = stasis::command(["solo"]);
    solo.arg(races.path("rec")).args(["--rank", "0"]);
    let alone = job::run(solo, races.dir, "alone", LIMIT)?.expect_success("alone")?;
    equal(&alone.stdout, &recorded)
}

/// `record-info` counts the reads. A replay names a clock that the record does not have next. Behind the record's end
/// the clocks go on, after one message.
fn told(races: &Races) -> Result<()> {
    let flags = ["--record", "rec", "--time"];
    let recorded = races.run(races.launch(races.mpi, "ck", &flags), "recorded")?;
    ensure!(recorded.contains("OK clocks"), "{recorded}");
    let mut info = stasis::command(["record-info"]);
    info.arg(races.path("rec"));
    let found = stasis::json(info, races.dir, "info", LIMIT)?;
    let reads = found["ranks"][0]["clock_reads"].as_u64();
    let reads = reads.with_context(|| found.to_string())?;
    // Three before MPI is initialised; two and five in each of 40 rounds; two more.
    ensure!(reads >= 3 + 40 * 7 + 2, "{found}");

    let file = races.path("rec/rank-0.clocks");
    let whole = fs::read(&file)?;
    // The second event names another clock.
    let mut other = whole.clone();
    let second = first_event(&whole)?;
    other[second] = 9;
    fs::write(&file, other)?;
    let words: [&[&str]; 2] = [
        &["rank 0: the clocks differ from the record at read 2, before the first call of MPI"],
        &["clock_gettime(CLOCK_BOOTTIME_ALARM) was read then, and gettimeofday is read now"],
    ];
    let replay = |name: &str| races.launch(races.mpi, name, &["--replay", "rec"]);
    // The messages depend on the clocks.
    refused(
        &job::run(replay("ck-other"), races.dir, "other", LIMIT)?,
        DIVERGED,
        &words,
    )?;
    // The program fails if a clock goes back.
    fs::write(&file, &whole[..(second + whole.len()) / 2])?;
    let ended = job::run(replay("ck-cut"), races.dir, "cut", LIMIT)?;
    let said = |words: &str| ended.stderr.matches(words).count();
    ensure!(
        said("the record of the clocks ends") == 1 && said("went back") == 0,
        "{}",
        job::tail(&ended.stderr, 20)
    );
    Ok(())
}

/// Offset behind the first event of the clocks.
fn first_event(file: &[u8]) -> Result<usize> {
    const HEADER: usize = 4096;
    let events = file.get(HEADER..).context("no events")?;
    let end = events.iter().skip(1).position(|byte| *byte < 0x80);
    Ok(HEADER + 1 + end.context("no whole event")? + 1)
}

/// A record without clocks is replayed as before: the program gets other times, and diverges.
fn without(races: &Races) -> Result<()> {
    races.run(
        races.launch(races.mpi, "ck", &["--record", "rec"]),
        "recorded",
    )?;
    ensure!(
        !races.path("rec/rank-0.clocks").exists(),
        "clocks are recorded"
    );
    let replay = races.launch(races.mpi, "ck-2", &["--replay", "rec"]);
    let words: [&[&str]; 1] = [&["diverges from the record at call"]];
    refused(
        &job::run(replay, races.dir, "replayed", LIMIT)?,
        DIVERGED,
        &words,
    )
}
