//! `cargo xtask torture`: programs under a stream of checkpoints at random moments, killed and
//! restarted again and again under alternating MPI libraries, compared with an uninterrupted native
//! run.
//!
//! Run number `i` draws everything (program, ranks, libraries, pauses, kills) from seed `SEED + i`,
//! so that `--seed N --runs 1` does again what run `N` of a longer torture did. What a replay cannot
//! repeat is where in the program a moment falls.

mod stream;
mod subject;

use crate::random::{fresh_seed, Random};
use crate::test::real::reference;
use crate::test::{folder, Case, Outcome};
use crate::{paths, setup};
use anyhow::{ensure, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use stream::{Stream, Tally};
use subject::{Subject, Subjects};

/// Checkpoints in one run of the long form.
const CUTS_PER_RUN: u64 = 60;
/// Checkpoints in one case of the short form.
const CUTS_PER_CASE: u64 = 20;

/// Folder of the run that is under way.
const RUN: &str = "torture-run";

/// What `cargo xtask torture` takes.
#[derive(clap::Args)]
pub struct Options {
    /// Seed of the first run; the next has the next (printed; a new one each time)
    #[arg(long)]
    seed: Option<u64>,
    /// Begin no run after so many committed checkpoints
    #[arg(long, default_value_t = 10_000)]
    cuts: u64,
    /// Begin no run after so many minutes
    #[arg(long, default_value_t = 60)]
    minutes: u64,
    /// Begin no more runs than this
    #[arg(long)]
    runs: Option<u64>,
    /// Only programs whose name contains one of these
    #[arg(long, value_delimiter = ',')]
    programs: Vec<String>,
    /// Name the programs, run nothing
    #[arg(long)]
    list: bool,
    /// Use target/stasis as it is
    #[arg(long)]
    no_setup: bool,
}

/// The long form.
pub fn run(options: &Options) -> Result<()> {
    let subjects = Subjects::collect(&options.programs)?;
    if options.list {
        subjects.names().for_each(|name| println!("{name}"));
        return Ok(());
    }
    setup::unless(options.no_setup)?;
    let first = options.seed.unwrap_or_else(fresh_seed);
    println!("seed {first}");
    let end = Instant::now() + Duration::from_secs(60 * options.minutes);
    let mut total = Tally::default();
    let mut failures = Vec::new();
    let mut natively = 0;
    for run in 0..options.runs.unwrap_or(u64::MAX) {
        if Instant::now() > end || total.cuts >= options.cuts {
            break;
        }
        let seed = first + run;
        let mut random = Random::new(seed, "torture");
        let subject = subjects.draw(&mut random)?;
        let name = format!("{seed} {}", subject.name());
        let native = match native(&subject) {
            Ok(native) => native,
            Err(error) => {
                natively += 1;
                println!("none  {name}: {error:#}");
                continue;
            }
        };
        let started = Instant::now();
        let (tally, result) = folder(RUN)
            .map(|dir| torture(&subject, random, CUTS_PER_RUN, &native, &dir))
            .unwrap_or_else(|error| (Tally::default(), Err(error)));
        total.add(&tally);
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

/// The short form.
pub fn cases() -> Result<Vec<Case>> {
    let subjects = Subjects::collect(&[])?;
    let mut cases = Vec::new();
    for subject in subjects.for_the_short_form()? {
        cases.push(Case::new(
            format!("torture/{}", subject.label()),
            move |session, dir| {
                let random = Random::new(session.seed, &subject.name());
                match native(&subject) {
                    Ok(native) => torture(&subject, random, CUTS_PER_CASE, &native, dir)
                        .1
                        .into(),
                    Err(error) => Outcome::Skipped(format!("it fails natively: {error:#}")),
                }
            },
        ));
    }
    Ok(cases)
}

/// The folder of the native run. The job will go on under every library, so it must succeed natively
/// under each.
fn native(subject: &Subject) -> Result<PathBuf> {
    for front in &subject.example.fronts {
        reference(&subject.example, *front)?;
    }
    reference(&subject.example, subject.front)
}

/// One run, in an empty folder.
fn torture(
    subject: &Subject,
    random: Random,
    cuts: u64,
    native: &Path,
    dir: &Path,
) -> (Tally, Result<()>) {
    let mut stream = Stream::new(subject, random, cuts, dir);
    let result = stream.run(native);
    (stream.tally, result)
}

/// Puts the folder of a failed run aside: the next uses the same.
fn keep(seed: u64) -> Result<()> {
    let test = paths::target().join("test");
    let kept = test.join(format!("torture-failed-{seed}"));
    let _ = fs::remove_dir_all(&kept);
    fs::rename(test.join(RUN), kept)?;
    Ok(())
}
