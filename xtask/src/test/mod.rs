//! `cargo xtask test`: every case has a name, its own folder and a hard deadline, and ends with a
//! line of its own; the last line of all counts them.

mod bad_input;
mod clean_root;
mod closed;
mod compare;
mod conformance;
pub mod directives;
mod faults;
mod guide;
mod increments;
mod levels;
mod loader;
mod lowers;
mod matrix;
mod migration;
mod packages;
mod pause;
pub mod programs;
pub mod real;
mod schedule;
mod slurm;
mod status;
mod style;
mod tools;

pub use compare::number_lines;

use crate::{parallel, paths, random, setup, signal, torture};
use anyhow::{bail, Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

/// What `cargo xtask test` takes.
#[derive(clap::Args)]
pub struct Options {
    /// Only cases whose name contains one of these
    #[arg(long, value_delimiter = ',')]
    filter: Vec<String>,
    /// Name the cases, run nothing
    #[arg(long)]
    list: bool,
    /// Every combination of example, mode, ABI, library and restart library; and the long tests
    #[arg(long)]
    full: bool,
    /// Cases at a time (2 at most: most of a case is waiting for launchers, and no case has a core to
    /// spare)
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Seed of the random moments (printed; a new one each run)
    #[arg(long)]
    seed: Option<u64>,
    /// Use target/stasis as it is
    #[arg(long)]
    no_setup: bool,
}

/// How a case ended.
pub enum Outcome {
    /// As it should; so many of them (a suite counts all its tests).
    Passed(usize),
    /// So many did not pass, and this is why.
    Failed(usize, usize, String),
    /// Not run, because.
    Skipped(String),
}

impl From<Result<()>> for Outcome {
    fn from(result: Result<()>) -> Self {
        match result {
            Ok(()) => Outcome::Passed(1),
            Err(error) => Outcome::Failed(0, 1, format!("{error:#}")),
        }
    }
}

/// What every case is given.
pub struct Session {
    /// The run's seed.
    pub seed: u64,
}

type Body = Box<dyn FnOnce(&Session, &Path) -> Outcome + Send>;

/// One case.
pub struct Case {
    name: String,
    body: Body,
}

impl Case {
    /// A case from its name and what it does in its own (empty) folder.
    pub fn new(
        name: impl Into<String>,
        body: impl FnOnce(&Session, &Path) -> Outcome + Send + 'static,
    ) -> Case {
        Case {
            name: name.into(),
            body: Box::new(body),
        }
    }

    /// One that only root can run; anybody else is told why.
    pub fn as_root(
        name: impl Into<String>,
        why: &'static str,
        body: impl FnOnce(&Path) -> Result<()> + Send + 'static,
    ) -> Case {
        Case::new(name, move |_, dir| match signal::is_root() {
            true => body(dir).into(),
            false => Outcome::Skipped(why.into()),
        })
    }
}

/// Run the cases.
pub fn run(options: &Options) -> Result<()> {
    let start = Instant::now();
    let mut cases = style::cases(options.full);
    cases.extend(bad_input::cases());
    cases.extend(faults::cases(options.full));
    cases.extend(tools::cases());
    cases.extend(conformance::cases());
    cases.extend(closed::cases());
    cases.extend(pause::cases());
    cases.extend(schedule::cases());
    cases.extend(status::cases());
    cases.extend(increments::cases());
    cases.extend(levels::cases());
    cases.extend(loader::cases()?);
    cases.extend(lowers::cases());
    cases.extend(migration::cases());
    cases.extend(packages::cases());
    cases.extend(real::cases(options.full)?);
    cases.extend(torture::cases()?);
    if options.full {
        cases.extend(matrix::cases()?);
        cases.extend(slurm::cases());
        cases.extend(guide::cases());
    }
    if !options.filter.is_empty() {
        cases.retain(|case| {
            options
                .filter
                .iter()
                .any(|f| case.name.contains(f.as_str()))
        });
    }
    if options.list {
        for case in &cases {
            println!("{}", case.name);
        }
        return Ok(());
    }
    if cases.is_empty() {
        bail!("no case has a name like that; see --list");
    }
    match options.full && !options.no_setup {
        true => setup::run_fully()?,
        false => setup::unless(options.no_setup)?,
    }
    let context = Session {
        seed: options.seed.unwrap_or_else(random::fresh_seed),
    };
    println!("{} cases, seed {}", cases.len(), context.seed);
    let tally = Mutex::new(Tally::default());
    parallel::each(options.jobs.clamp(1, 2), cases.into_iter(), |case| {
        let started = Instant::now();
        let name = case.name;
        let outcome = match folder(&name) {
            Ok(dir) => (case.body)(&context, &dir),
            Err(error) => Err(error).into(),
        };
        let took = started.elapsed().as_secs_f64();
        tally
            .lock()
            .expect("nothing panics under it")
            .count(&name, &outcome, took);
    });
    let tally = tally.into_inner().expect("all threads have ended");
    for (name, why) in &tally.failures {
        println!("\n---- {name}\n{why}");
    }
    println!(
        "\n{:.0} s, seed {}",
        start.elapsed().as_secs_f64(),
        context.seed
    );
    let skipped = match tally.skipped {
        0 => String::new(),
        n => format!(", {n} skipped"),
    };
    println!("{} passed, {} failed{skipped}", tally.passed, tally.failed);
    if tally.failed > 0 {
        std::process::exit(1);
    }
    Ok(())
}

#[derive(Default)]
struct Tally {
    passed: usize,
    failed: usize,
    skipped: usize,
    failures: Vec<(String, String)>,
}

impl Tally {
    fn count(&mut self, name: &str, outcome: &Outcome, took: f64) {
        match outcome {
            Outcome::Passed(n) => {
                self.passed += n;
                println!("ok    {name} ({took:.1} s)");
            }
            Outcome::Failed(passed, n, why) => {
                self.passed += passed;
                self.failed += n;
                let first = why.lines().next().unwrap_or_default();
                println!("FAIL  {name} ({took:.1} s): {first}");
                self.failures.push((name.to_owned(), why.clone()));
            }
            Outcome::Skipped(why) => {
                self.skipped += 1;
                println!("skip  {name}: {why}");
            }
        }
    }
}

/// An empty folder for a case.
pub fn folder(name: &str) -> Result<PathBuf> {
    let plain: String = name
        .chars()
        .map(|c| if "/:@>".contains(c) { '_' } else { c })
        .collect();
    let dir = paths::target().join("test").join(plain);
    if dir.exists() {
        fs::remove_dir_all(&dir).with_context(|| format!("emptying {}", dir.display()))?;
    }
    fs::create_dir_all(&dir).with_context(|| format!("making {}", dir.display()))?;
    Ok(dir)
}
