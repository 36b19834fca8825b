//! Recorded runs and their replay: the same result from the start and from a checkpoint, under each library; what
//! diverges is told; two records are compared.

use crate::harness::job::{self, Finished, Job};
use crate::harness::mpi::Mpi;
use crate::harness::{paths, stasis};
use crate::test::support::compile::command_line;
use crate::test::support::directives::{collect, Example};
use crate::test::support::held_job::{begin, bring_back, example, files_named, reach_cut_of};
use crate::test::support::helper_programs::{compile, planted};
use crate::test::support::refusal::{refused, DIRECTORY};
use crate::test::Case;
use anyhow::{ensure, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
/// Odds of a wrong round in `bugs/race`, so high that every run has some and no two runs are equal.
const ODDS: &str = "3";
/// Exit code of a job whose replay diverges.
pub(super) const DIVERGED: i32 = 8;

/// Programs of `bugs` whose result differs from run to run, and the libraries over which they are recorded by default.
const RACES: [(&str, &[Mpi]); 4] = [
    ("bugs/race", &[Mpi::OpenMpi]),
    ("bugs/choices", &[Mpi::Mpich]),
    ("bugs/polling", &[Mpi::Mpich]),
    ("bugs/threads", &Mpi::ALL),
];

/// All cases of this file; with `full`, all examples of messages are recorded and replayed.
pub fn cases(full: bool) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for (program, some) in RACES {
        for &mpi in if full { &Mpi::ALL[..] } else { some } {
            let case = |name: &str, body: fn(&Races) -> Result<()>| {
                let name = format!("record/{name}:{program}:{mpi}");
                Case::new(name, move |_, dir| {
                    Races::new(program, dir, mpi, Some(ODDS))
                        .and_then(|races| body(&races))
                        .into()
                })
            };
            cases.push(case("start", from_the_start));
            cases.push(case("checkpoint", from_a_checkpoint));
            cases.push(case("killed", goes_on_after_a_kill));
            cases.push(case("reduced", reduced));
        }
    }
    cases.push(Case::new("record/told", |_, dir| told(dir).into()));
    for mpi in Mpi::ALL {
        let name = format!("record/ends:{mpi}");
        cases.push(Case::new(name, move |_, dir| ends(dir, mpi).into()));
        let name = format!("record/before-init:{mpi}");
        cases.push(Case::new(name, move |_, dir| before_init(dir, mpi).into()));
        let name = format!("record/after-finalize:{mpi}");
        cases.push(Case::new(name, move |_, dir| {
            after_finalize(dir, mpi).into()
        }));
        let name = format!("record/tested:{mpi}");
        cases.push(Case::new(name, move |_, dir| tested(dir, mpi).into()));
    }
    for (at, example) in collect(&paths::examples(), &["p2p"])?
        .into_iter()
        .enumerate()
    {
        let runs = example.pending.is_none() && example.command.is_none() && example.ranks <= 8;
        // A sample by default.
        if runs && (full || at % 8 == 1) {
            let fronts = example.fronts.iter().filter(|mpi| Mpi::ALL.contains(mpi));
            let fronts: Vec<_> = fronts.collect();
            let Some(&&mpi) = fronts.get(at / 8 % fronts.len().max(1)) else {
                continue;
            };
            for (area, flags) in [
                ("record", &[][..]),
                ("perturb", &["--perturb", "1"]),
                ("record/reduced", &["--reduce", "all"]),
            ] {
                let name = format!("{area}/{}:{mpi}", example.name);
                let example = example.clone();
                cases.push(Case::new(name, move |_, dir| {
                    same_output(&example, dir, mpi, flags).into()
                }));
            }
        }
    }
    Ok(cases)
}

/// A program with races, and the folder of a case.
pub(super) struct Races<'a> {
    pub(super) example: Example,
    pub(super) dir: &'a Path,
    pub(super) mpi: Mpi,
    line: Vec<String>,
}

impl<'a> Races<'a> {
    pub(super) fn new(program: &str, dir: &'a Path, mpi: Mpi, odds: Option<&str>) -> Result<Self> {
        let example = example("bugs", program)?;
        let mut line = command_line(&example, Some(mpi))?;
        line.extend(odds.map(str::to_owned));
        Ok(Races {
            example,
            dir,
            mpi,
            line,
        })
    }

    /// The program and its arguments.
    pub(super) fn line(&self) -> &[String] {
        &self.line
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// `stasis launch FLAGS PROGRAM` with a checkpoint directory of this name.
    pub(super) fn launch(&self, lower: Mpi, ckpt: &str, flags: &[&str]) -> Command {
        let mut command = stasis::launch(lower, self.example.ranks, &self.path(ckpt), self.dir);
        command.args(flags).args(&self.line).current_dir(self.dir);
        command
    }

    pub(super) fn restart(&self, lower: Mpi, flags: &[&str]) -> Command {
        let set = self.path("ck").join("ckpt-1");
        let mut command = stasis::restart(lower, self.example.ranks, &set, self.dir);
        command.args(flags).current_dir(self.dir);
        self.cuts(&mut command);
        command
    }

    fn cuts(&self, command: &mut Command) {
        command
            .env("STASIS_TEST_READY", self.path("ready"))
            .env("STASIS_TEST_GO", self.path("go"));
    }

    /// Runs a job to its end. The result is its output.
    pub(super) fn run(&self, command: Command, name: &str) -> Result<String> {
        let ended = job::run(command, self.dir, name, LIMIT)?.expect_success(name)?;
        self.check_quiet(&ended)?;
        Ok(ended.stdout)
    }

    /// No rank has left its record.
    fn check_quiet(&self, ended: &Finished) -> Result<()> {
        let left = ["record ends", "diverge", "differ"];
        let said = left.iter().find(|words| ended.stderr.contains(**words));
        ensure!(said.is_none(), "{}", job::tail(&ended.stderr, 10));
        Ok(())
    }

    /// Starts a recorded job, and waits until all ranks are at their cut, where a checkpoint is taken.
    fn recorded_to_the_cut(&self) -> Result<Job> {
        self.to_the_cut(&["--record", "rec", "--digests", "all"])
    }

    /// The same with other flags.
    pub(super) fn to_the_cut(&self, flags: &[&str]) -> Result<Job> {
        let mut launch = self.launch(self.mpi, "ck", flags);
        self.cuts(&mut launch);
        let mut job = Job::start(launch, self.dir, "launch")?;
        let reached = reach_cut_of(self.example.ranks, &mut job, self.dir);
        job.explain(reached, self.dir)?;
        job::run(
            stasis::checkpoint(&self.path("ck")),
            self.dir,
            "checkpoint",
            LIMIT,
        )?
        .expect_success("stasis checkpoint")?;
        Ok(job)
    }

    /// Kills a job, and brings it back by this command.
    pub(super) fn bring_back(&self, job: &mut Job, restart: Command) -> Result<()> {
        bring_back(job, restart, &self.path("ck"), self.dir)
    }

    /// Lets a job go on from its cut, to its end. The result is its output.
    pub(super) fn let_go(&self, job: &mut Job) -> Result<String> {
        fs::write(self.path("go"), "")?;
        job.succeed(Instant::now() + LIMIT, self.dir)?;
        Ok(job::read_text(&job.stdout))
    }
}

/// A recorded run is replayed any number of times, over either library, and no other run is like it.
fn from_the_start(races: &Races) -> Result<()> {
    let flags = ["--record", "rec", "--digests", "all", "--sends"];
    let recorded = races.run(races.launch(races.mpi, "ck", &flags), "recorded")?;
    for (round, lower) in [races.mpi, races.mpi.other()].into_iter().enumerate() {
        let ckpt = format!("ck-{round}");
        let replay = races.launch(lower, &ckpt, &["--replay", "rec"]);
        let replayed = races.run(replay, &format!("replayed-{round}"))?;
        ensure!(
            replayed == recorded,
            "{lower}: {replayed} instead of {recorded}"
        );
    }
    let free = races.run(races.launch(races.mpi, "ck-free", &[]), "free")?;
    ensure!(free != recorded, "the program has no race: {free}");
    Ok(())
}

/// The same from a checkpoint of the recorded run; and from one that a replayed run has taken.
fn from_a_checkpoint(races: &Races) -> Result<()> {
    let mut job = races.recorded_to_the_cut()?;
    let recorded = races.let_go(&mut job)?;
    let replayed = |lower: Mpi, name: &str| {
        let replayed = races.run(races.restart(lower, &["--replay", "rec"]), name)?;
        ensure!(
            replayed == recorded,
            "{lower}: {replayed} instead of {recorded}"
        );
        Ok(())
    };
    replayed(races.mpi, "replayed")?;
    replayed(races.mpi.other(), "migrated")
}

/// Checkpoints come while a rank tests for the end of its operations without a pause, often in a function that a test
/// calls. From each, the run is replayed under the other library. The number of tests that find nothing is part of its
/// result.
fn tested(dir: &Path, mpi: Mpi) -> Result<()> {
    const CHECKPOINTS: usize = 6;
    let program = compile(
        dir,
        &mpi.compiler("c"),
        "tested.c",
        &["-O2", "-Wno-stringop-overflow"],
    )?;
    let (ckpt, record) = (dir.join("ck"), dir.join("rec"));
    let mut launch = stasis::launch(mpi, 1, &ckpt, dir);
    launch.args(["--keep", "all", "--record"]).arg(&record);
    launch.arg(program).arg("1000000");
    let mut job = Job::start(launch, dir, "recorded")?;
    stasis::until_reached(&mut job, &ckpt, "", Instant::now() + LIMIT)?;
    // Before MPI_Init a checkpoint is of no record.
    let file = record.join("rank-0.record");
    job.until("it records", Instant::now() + LIMIT, || file.exists())?;
    for n in 1..=CHECKPOINTS {
        stasis::take_checkpoint(&ckpt, dir, &format!("checkpoint-{n}"), LIMIT)?;
    }
    job.succeed(Instant::now() + LIMIT, dir)?;
    let recorded = job::read_text(&job.stdout);
    ensure!(recorded.starts_with("found 1000000, "), "{recorded}");
    for n in 1..=CHECKPOINTS {
        let set = ckpt.join(format!("ckpt-{n}"));
        let mut restart = stasis::restart(mpi.other(), 1, &set, dir);
        restart.arg("--replay").arg(&record);
        let replayed = job::run(restart, dir, &format!("replayed-{n}"), LIMIT)?;
        let replayed = replayed.expect_success("the replay")?;
        ensure!(
            replayed.stdout == recorded,
            "from ckpt-{n}: {} instead of {recorded}",
            replayed.stdout
        );
    }
    Ok(())
}

/// Starts `run/outside_mpi` as a job of one rank that is recorded with its clocks, and takes a checkpoint at its cut.
fn outside_mpi(dir: &Path, mpi: Mpi, way: &str) -> Result<Job> {
    let ckpt = dir.join("ck");
    let mut launch = stasis::launch(mpi, 1, &ckpt, dir);
    launch.args(["--record", "rec", "--time"]);
    let example = example("run", &format!("run/outside_mpi.{way}"))?;
    let mut job = begin(launch, &example, dir, mpi)?;
    let reached = job.until("it is at its cut", Instant::now() + LIMIT, || {
        files_named(dir, "ready.") > 0
    });
    job.explain(reached, dir)?;
    stasis::take_checkpoint(&ckpt, dir, "checkpoint", LIMIT)?;
    Ok(job)
}

/// Restarts that job under the other library.
fn restart_outside_mpi(dir: &Path, mpi: Mpi, flag: &str) -> Command {
    let mut restart = stasis::restart(mpi.other(), 1, &dir.join("ck/ckpt-1"), dir);
    restart.args([flag, "rec"]).current_dir(dir);
    restart
}

/// A recorded run is replayed from a checkpoint of before MPI_Init. One that is to be recorded in the same directory
/// goes on without a record.
fn before_init(dir: &Path, mpi: Mpi) -> Result<()> {
    let mut job = outside_mpi(dir, mpi, "before_init")?;
    fs::write(dir.join("go"), "")?;
    job.succeed(Instant::now() + LIMIT, dir)?;
    let recorded = job::read_text(&job.stdout);
    ensure!(recorded.contains("OK before_init"), "{recorded}");
    for (flag, words) in [("--replay", ""), ("--record", "this run is not recorded")] {
        let restart = restart_outside_mpi(dir, mpi, flag);
        let ended = job::run(restart, dir, &flag[2..], LIMIT)?;
        let ended = ended.expect_success(flag)?;
        ensure!(ended.stdout == recorded, "{flag}: {}", ended.stdout);
        ensure!(ended.stderr.contains(words), "{flag}: {}", ended.stderr);
        ensure!(!ended.stderr.contains("differ"), "{flag}: {}", ended.stderr);
    }
    Ok(())
}

/// A recorded job goes on from a checkpoint of after MPI_Finalize, and is replayed from it.
fn after_finalize(dir: &Path, mpi: Mpi) -> Result<()> {
    let mut job = outside_mpi(dir, mpi, "after_finalize")?;
    for flag in ["--record", "--replay"] {
        let restart = restart_outside_mpi(dir, mpi, flag);
        bring_back(&mut job, restart, &dir.join("ck"), dir)?;
        fs::write(dir.join("go"), "")?;
        job.succeed(Instant::now() + LIMIT, dir)?;
        fs::remove_file(dir.join("go"))?;
        let printed = job::read_text(&job.stdout);
        ensure!(
            printed.contains("still here"),
            "{flag}: it prints {printed}"
        );
    }
    Ok(())
}

/// A run that is killed after a checkpoint is recorded on, and replayed through the cut and from it.
fn goes_on_after_a_kill(races: &Races) -> Result<()> {
    let mut job = races.recorded_to_the_cut()?;
    let restart = races.restart(races.mpi, &["--record", "rec"]);
    races.bring_back(&mut job, restart)?;
    let recorded = races.let_go(&mut job)?;
    let from_start = races.launch(races.mpi.other(), "ck-2", &["--replay", "rec"]);
    let replayed = races.run(from_start, "replayed")?;
    // Output from before the cut comes once.
    ensure!(replayed == recorded, "{replayed} instead of {recorded}");
    let from_cut = races.restart(races.mpi, &["--replay", "rec"]);
    let replayed = races.run(from_cut, "from-cut")?;
    ensure!(replayed == recorded, "{replayed} instead of {recorded}");
    Ok(())
}

/// The record of a run whose collective operations are reduced has the operations. So it is replayed with or without
/// that.
fn reduced(races: &Races) -> Result<()> {
    let flags = [
        "--reduce",
        "all",
        "--reduce-visible",
        "--record",
        "rec",
        "--digests",
        "all",
    ];
    let recorded = races.run(races.launch(races.mpi, "ck", &flags), "recorded")?;
    for (name, flags) in [
        ("reduced", &["--replay", "rec", "--reduce", "tree:all"][..]),
        ("usual", &["--replay", "rec"]),
        (
            "visible",
            &["--replay", "rec", "--reduce", "all", "--reduce-visible"],
        ),
    ] {
        let replay = races.launch(races.mpi.other(), name, flags);
        let replayed = races.run(replay, name)?;
        ensure!(replayed == recorded, "{replayed} instead of {recorded}");
    }
    Ok(())
}

/// A program that does something else is told with rank and call; records are compared, described and kept.
fn told(dir: &Path) -> Result<()> {
    let races = Races::new("bugs/race", dir, Mpi::Mpich, Some(ODDS))?;
    for rec in ["a", "b"] {
        let launch = races.launch(Mpi::Mpich, &format!("ck-{rec}"), &["--record", rec]);
        races.run(launch, rec)?;
    }
    let mut compare = stasis::command(["compare"]);
    compare.args([races.path("a"), races.path("b")]);
    let found = stasis::json(compare, dir, "compare", LIMIT)?;
    let first = &found["differences"][0];
    ensure!(first["rank"] == 0 && first["call"].is_u64(), "{found}");
    let what = first["what"].as_str().unwrap_or_default();
    ensure!(
        what.contains("MPI_Recv") && what.contains("got the message"),
        "{what}"
    );
    let mut info = stasis::command(["record-info"]);
    info.arg(races.path("a"));
    let found = stasis::json(info, dir, "info", LIMIT)?;
    let rank = &found["ranks"][0];
    ensure!(rank["wildcards"] == 100 && rank["sources"] == 2, "{rank}");
    ensure!(rank["races"].as_u64() > Some(10), "{rank}");
    let library = rank["library"].as_str().unwrap_or_default();
    ensure!(library.starts_with("MPICH"), "{rank}");
    let last = rank["last_call"].as_str();
    ensure!(last == Some("MPI_Finalize"), "{rank}");

    let again = races.launch(Mpi::Mpich, "ck-again", &["--record", "a"]);
    refused(
        &job::run(again, dir, "again", LIMIT)?,
        DIRECTORY,
        &[&["is a record already"]],
    )?;
    let none = races.launch(Mpi::Mpich, "ck-none", &["--replay", "none"]);
    refused(
        &job::run(none, dir, "none", LIMIT)?,
        DIRECTORY,
        &[&["nothing can be replayed"]],
    )?;
    let other = Races::new("bugs/choices", dir, Mpi::Mpich, Some(ODDS))?;
    let other = other.launch(Mpi::Mpich, "ck-other", &["--replay", "a"]);
    let words: [&[&str]; 3] = [
        &["diverges from the record at call"],
        &["recorded:"],
        &["but now:"],
    ];
    refused(&job::run(other, dir, "other", LIMIT)?, DIVERGED, &words)
}

/// A thread that ends before a call that it made in the recorded run is told, and the job does not wait for that call.
fn ends(dir: &Path, mpi: Mpi) -> Result<()> {
    let program = planted(dir, &mpi.compiler("c"), "ends.c", &["-pthread"])?;
    let run = |name: &str, flags: &[&str], number: &str| {
        let mut command = stasis::launch(mpi, 2, &dir.join(name), dir);
        command.args(flags).arg(&program).arg(number);
        command.current_dir(dir);
        job::run(command, dir, name, LIMIT)
    };
    let recorded = run("recorded", &["--record", "rec"], "3")?.expect_success("recorded")?;
    let replayed = run("replayed", &["--replay", "rec"], "3")?.expect_success("replayed")?;
    ensure!(replayed.stdout == recorded.stdout, "{}", replayed.stdout);
    let words: [&[&str]; 4] = [
        &["rank 0: the replay diverges from the record at call 3"],
        &["call 2, both:  MPI_Send (rank 1, tag 1"],
        &["then recorded: MPI_Send (rank 1, tag 1"],
        &["but now:       thread 1, which made that call, has ended"],
    ];
    refused(
        &run("shorter", &["--replay", "rec"], "2")?,
        DIVERGED,
        &words,
    )
}

/// A program without races is recorded with more flags, and its replay without them does the same.
fn same_output(example: &Example, dir: &Path, mpi: Mpi, flags: &[&str]) -> Result<()> {
    let run = |flags: &[&str], name: &str| {
        let mut command = stasis::launch(mpi, example.ranks, &dir.join(name), dir);
        command
            .args(flags)
            .args(command_line(example, Some(mpi))?)
            .envs(example.environment.clone())
            .current_dir(dir);
        if flags.contains(&"--replay") {
            command.env_remove("STASIS_PERTURB");
        }
        let ended = job::run(command, dir, name, example.timeout)?;
        ended.expect_success(name)
    };
    let all = [&["--record", "rec", "--digests", "all"], flags].concat();
    let recorded = run(&all, "recorded")?;
    let replayed = run(&["--replay", "rec"], "replayed")?;
    let (recorded, now) = (recorded.stdout, &replayed.stdout);
    ensure!(recorded == *now, "{now} instead of {recorded}");
    let left = replayed.stderr.contains("record");
    ensure!(!left, "{}", job::tail(&replayed.stderr, 10));
    Ok(())
}
