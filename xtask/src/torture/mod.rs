//! `cargo xtask torture`: programs under a stream of checkpoints at random moments, killed and
//! restarted again and again under alternating MPI libraries, compared with an uninterrupted native
//! run.
//!
//! Run number `i` draws everything (program, ranks, libraries, pauses, kills) from seed `SEED + i`,
//! so that `--seed N --runs 1` repeats run `N` of a longer torture. A replay cannot repeat the place in the program at
//! which a moment falls.

mod ckpt_stream;
mod program;
mod recover;
mod replay;

use crate::build::setup;
use crate::harness::paths;
use crate::harness::random::{fresh_seed, Random};
use crate::test::programs::mpi::reference;
use crate::test::{folder, Case, Outcome};
use anyhow::{ensure, Result};
use ckpt_stream::{CkptStream, Tally};
use program::{Program, Programs};
use recover::RecoveredRun;
use replay::RecordedRun;
use std::fmt::Display;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Checkpoints in one run of the long form.
const CUTS_PER_RUN: u64 = 60;
/// Checkpoints in one case of the short form.
const CUTS_PER_CASE: u64 = 20;

/// Kills in one run of `--recover`, and in one case of its short form.
const KILLS_PER_RUN: u64 = 20;
const KILLS_PER_CASE: u64 = 6;

/// Folder of the current run.
const RUN: &str = "torture-run";

/// Options of `cargo xtask torture`.
#[derive(clap::Args)]
pub struct Options {
    /// Seed of the first run; the next has the next (printed; a new one each time)
    #[arg(long)]
    seed: Option<u64>,
    /// Begin no run after this number of committed checkpoints
    #[arg(long, default_value_t = 10_000)]
    cuts: u64,
    /// Begin no run after this number of minutes
    #[arg(long, default_value_t = 60)]
    minutes: u64,
    /// Begin no more runs than this
    #[arg(long)]
    runs: Option<u64>,
    /// Only programs whose name contains one of these
    #[arg(long, value_delimiter = ',')]
    programs: Vec<String>,
    /// Run the programs under `stasis run`, some on several nodes, kill their ranks, launchers, node keepers and nodes,
    /// and leave the rest to it
    #[arg(long)]
    recover: bool,
    /// With --recover, begin no run after this number of kills
    #[arg(long, default_value_t = 1000)]
    kills: u64,
    /// Record random programs and replay each, from its start or from a checkpoint
    #[arg(long, conflicts_with = "recover")]
    record: bool,
    /// With --record, the percentage of runs that are replayed from a checkpoint
    #[arg(long, value_name = "PERCENT", requires = "record", default_value_t = replay::FROM_CHECKPOINTS,
          value_parser = clap::value_parser!(u64).range(..=100))]
    from_checkpoints: u64,
    /// With --record, begin no run after this number of replays
    #[arg(long, default_value_t = 1000)]
    replays: u64,
    /// Name the programs, run nothing
    #[arg(long)]
    list: bool,
    /// Use target/stasis as it is
    #[arg(long)]
    no_setup: bool,
}

/// The long form.
pub fn run(options: &Options) -> Result<()> {
    let programs = Programs::collect(&options.programs)?;
    if options.list {
        programs.names().for_each(|name| println!("{name}"));
        return Ok(());
    }
    setup::unless(options.no_setup)?;
    let first = options.seed.unwrap_or_else(fresh_seed);
    println!("seed {first}");
    let any = |random: &mut Random| programs.draw(random);
    match (options.recover, options.record) {
        (true, _) => runs(
            options,
            first,
            any,
            |total: &recover::Tally| total.kills() >= options.kills,
            |program, random, native, dir| kill_again(program, random, KILLS_PER_RUN, native, dir),
        ),
        (_, true) => runs(
            options,
            first,
            |random| programs.draw_to_record(random),
            |total: &replay::Tally| total.replays >= options.replays,
            |program, random, native, dir| {
                record_and_replay(program, random, options.from_checkpoints, native, dir)
            },
        ),
        _ => runs(
            options,
            first,
            any,
            |total: &Tally| total.cuts >= options.cuts,
            |program, random, native, dir| torture(program, random, CUTS_PER_RUN, native, dir),
        ),
    }
}

/// Runs programs that are drawn until `suffice` says that there are enough, or a limit of the options is met. `N`
/// counts what a run has done.
fn runs<N: Default + Display + for<'a> AddAssign<&'a N>>(
    options: &Options,
    first: u64,
    draw: impl Fn(&mut Random) -> Result<Program>,
    suffice: impl Fn(&N) -> bool,
    one: impl Fn(&Program, Random, &Path, &Path) -> (N, Result<()>),
) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(60 * options.minutes);
    let mut total = N::default();
    let mut failures = Vec::new();
    let mut natively = 0;
    for run in 0..options.runs.unwrap_or(u64::MAX) {
        if Instant::now() > end || suffice(&total) {
            break;
        }
        let seed = first + run;
        let mut random = Random::new(seed, "torture");
        let program = draw(&mut random)?;
        let name = format!("{seed} {}", program.name());
        let native = match native(&program) {
            Ok(native) => native,
            Err(error) => {
                natively += 1;
                println!("none  {name}: {error:#}");
                continue;
            }
        };
        let started = Instant::now();
        let (tally, result) = folder(RUN)
            .map(|dir| one(&program, random, &native, &dir))
            .unwrap_or_else(|error| (N::default(), Err(error)));
        total += &tally;
        let took = started.elapsed().as_secs_f64();
        match result {
            Ok(()) => println!("ok    {name} ({took:.1} s): {tally}"),
            Err(error) => {
                println!("FAIL  {name} ({took:.1} s): {tally}: {error:#}");
                keep(seed)?;
                failures.push(name);
            }
        }
    }
    println!(
        "\nin all: {total}; {} runs failed; {natively} programs fail natively",
        failures.len()
    );
    for failure in &failures {
        println!("  {failure}");
    }
    ensure!(
        failures.is_empty(),
        "what failed is kept in target/test/torture-failed-SEED; `cargo xtask torture --seed SEED \
         --runs 1` does it again"
    );
    Ok(())
}

fn record_and_replay(
    program: &Program,
    random: Random,
    from_checkpoints: u64,
    native: &Path,
    dir: &Path,
) -> (replay::Tally, Result<()>) {
    let mut run = RecordedRun::new(program, random, dir, from_checkpoints);
    let result = run.run(native);
    (run.tally, result)
}

fn kill_again(
    program: &Program,
    random: Random,
    kills: u64,
    native: &Path,
    dir: &Path,
) -> (recover::Tally, Result<()>) {
    let mut run = RecoveredRun::new(program, random, dir);
    let result = run.run(kills, native);
    (run.tally, result)
}

/// The short form.
pub fn cases() -> Result<Vec<Case>> {
    let programs = Programs::collect(&[])?;
    let recovered = programs.to_recover()?.into_iter().map(|program| {
        case("recover.", program, |program, random, native, dir| {
            kill_again(program, random, KILLS_PER_CASE, native, dir).1
        })
    });
    let recorded = programs.to_record()?.into_iter().map(|program| {
        case("record.", program, |program, random, native, dir| {
            record_and_replay(program, random, replay::FROM_CHECKPOINTS, native, dir).1
        })
    });
    let cut = programs.for_the_short_form()?.into_iter().map(|program| {
        case("", program, |program, random, native, dir| {
            torture(program, random, CUTS_PER_CASE, native, dir).1
        })
    });
    Ok(recovered.chain(recorded).chain(cut).collect())
}

/// A case with one run of a program, whose name begins with this after `torture/`.
fn case(
    area: &str,
    program: Program,
    run: fn(&Program, Random, &Path, &Path) -> Result<()>,
) -> Case {
    let name = format!("torture/{area}{}", program.label());
    Case::new(name, move |session, dir| {
        let random = Random::new(session.seed, &program.name());
        match native(&program) {
            Ok(native) => run(&program, random, &native, dir).into(),
            Err(error) => Outcome::Skipped(format!("it fails natively: {error:#}")),
        }
    })
}

/// The folder of the native run. It must succeed natively under every library, because the job will run under each.
fn native(program: &Program) -> Result<PathBuf> {
    for front in &program.example.fronts {
        reference(&program.example, *front)?;
    }
    reference(&program.example, program.front)
}

/// One run, in an empty folder.
fn torture(
    program: &Program,
    random: Random,
    cuts: u64,
    native: &Path,
    dir: &Path,
) -> (Tally, Result<()>) {
    let mut stream = CkptStream::new(program, random, cuts, dir);
    let result = stream.run(native);
    (stream.tally, result)
}

/// Tells the job in a folder that a checkpoint was committed. Late ranks of the generator's programs wait for it.
fn note_commit(dir: &Path) -> Result<()> {
    let mut commits = OpenOptions::new();
    let commits = commits.create(true).append(true);
    Ok(writeln!(commits.open(dir.join("commits"))?)?)
}

/// Renames the folder of a failed run, because the next run uses the same.
fn keep(seed: u64) -> Result<()> {
    let test = paths::target().join("test");
    let kept = test.join(format!("torture-failed-{seed}"));
    let _ = fs::remove_dir_all(&kept);
    fs::rename(test.join(RUN), kept)?;
    Ok(())
}
