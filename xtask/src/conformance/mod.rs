//! `cargo xtask conformance`: built MPI test programs with their lists, in the form of MPICH's suite, run natively,
//! under Stasis, and under Stasis with a checkpoint at the n-th MPI call, a kill and a restart. A program that succeeds
//! natively must succeed in all three ways.
//!
//! A run is cut at call `n` of rank `n` modulo the number of ranks (`STASIS_CUT`), the other ranks at any point. A run
//! that differs keeps its folder under `target/conformance`, with its output and, after a hang, its stacks. Images are
//! not kept, because the cut can be repeated.

mod table;
mod testlist;
mod trial;

pub use trial::{Cut, Verdict};

use crate::build::setup;
use crate::harness::mpi::Mpi;
use crate::harness::{parallel, paths};
use anyhow::{ensure, Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use table::Table;
use testlist::Entry;

/// Options of `cargo xtask conformance`.
#[derive(clap::Args, Clone)]
pub struct Options {
    /// Folder of the built programs, with a file `testlist`
    #[arg(long)]
    pub programs: PathBuf,
    /// The MPI library that they are built for, and started under
    #[arg(long, default_value = "mpich", value_parser = Mpi::named)]
    pub mpi: Mpi,
    /// The MPI library that they are restarted under (default: the same)
    #[arg(long, value_parser = Mpi::named)]
    pub under: Option<Mpi>,
    /// Words for `stasis launch`, such as '--reduce all'
    #[arg(
        long,
        value_name = "WORDS",
        value_delimiter = ' ',
        allow_hyphen_values = true
    )]
    pub launch_flags: Vec<String>,
    /// Words for `stasis restart`, which has no words of the launch
    #[arg(
        long,
        value_name = "WORDS",
        value_delimiter = ' ',
        allow_hyphen_values = true
    )]
    pub restart_flags: Vec<String>,
    /// MPI calls to cut them at
    #[arg(long, value_delimiter = ',', default_value = "2,11,40")]
    pub cuts: Vec<u64>,
    /// Only programs with this prefix: FOLDER or FOLDER/NAME
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,
    /// Programs at a time
    #[arg(long, default_value_t = 1)]
    pub jobs: usize,
    /// Time limit of a run in seconds, if its list does not give it more
    #[arg(long, default_value_t = 60)]
    pub seconds: u64,
    /// GiB of memory that a program may need
    #[arg(long, default_value_t = 2.0)]
    pub memory: f64,
    /// Use target/stasis as it is
    #[arg(long)]
    pub no_setup: bool,
}

impl Options {
    fn limit(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    fn wants(&self, entry: &Entry) -> bool {
        let begins = |name: &str, only: &str| {
            let rest = name.strip_prefix(only);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '.']))
        };
        self.only.is_empty() || self.only.iter().any(|only| begins(&entry.name, only))
    }
}

/// Runs the suite and prints the results.
pub fn run(options: &Options) -> Result<()> {
    setup::unless(options.no_setup)?;
    let started = Instant::now();
    let mut table = Table::default();
    let to = paths::target().join("conformance");
    let tell = |entry: &Entry, verdict: &Verdict| println!("{}", told(entry, verdict));
    for (entry, verdict) in examine(options, &to, tell)? {
        table.count(&entry.folder, &entry.name, &verdict);
    }
    println!("\n{table}\n{:.0} s", started.elapsed().as_secs_f64());
    ensure!(
        table.differences.is_empty(),
        "what differs is kept under {}",
        to.display()
    );
    Ok(())
}

/// A line about an entry that has been run.
fn told(entry: &Entry, verdict: &Verdict) -> String {
    let name = &entry.name;
    match verdict {
        Verdict::Skipped(why) => format!("skip  {name}: {why}"),
        Verdict::FailsNatively(why) => format!("none  {name}: {why}"),
        Verdict::Judged { stasis, cuts } => {
            let differs = |(call, cut): &(u64, Cut)| match cut {
                Cut::Differs(why) => Some(format!("cut at call {call}: {why}")),
                _ => None,
            };
            let whys = stasis.clone().err().into_iter();
            let whys: Vec<_> = whys.chain(cuts.iter().filter_map(differs)).collect();
            let reached = cuts
                .iter()
                .filter(|(_, cut)| *cut != Cut::NotReached)
                .count();
            match whys.is_empty() {
                true => format!("ok    {name} ({reached} cuts)"),
                false => format!("DIFF  {name}: {}", whys.join("; ")),
            }
        }
    }
}

/// Runs the programs that `options` select, in folders below `to`, and prints each result.
pub fn examine(
    options: &Options,
    to: &Path,
    tell: impl Fn(&Entry, &Verdict) + Sync,
) -> Result<Vec<(Entry, Verdict)>> {
    let mut options = options.clone();
    let programs = &options.programs;
    options.programs =
        fs::canonicalize(programs).with_context(|| format!("the suite {}", programs.display()))?;
    let entries = testlist::collect(&options.programs)?;
    let entries: Vec<_> = entries.into_iter().filter(|e| options.wants(e)).collect();
    ensure!(!entries.is_empty(), "no entry of a testlist is called so");
    let done = Mutex::new(Vec::new());
    parallel::each(
        options.jobs,
        entries.into_iter().enumerate(),
        |(i, entry)| {
            let dir = to.join(entry.name.replace('/', "_"));
            let _ = fs::remove_dir_all(&dir);
            let verdict = trial::run(&entry, &options, &dir)
                .unwrap_or_else(|error| Verdict::Skipped(format!("{error:#}")));
            if !differs(&verdict) {
                let _ = fs::remove_dir_all(&dir);
            }
            tell(&entry, &verdict);
            let mut done = done.lock().expect("nothing panics under it");
            done.push((i, entry, verdict));
        },
    );
    let mut done = done.into_inner().expect("all threads have ended");
    done.sort_by_key(|(i, ..)| *i);
    Ok(done
        .into_iter()
        .map(|(_, entry, verdict)| (entry, verdict))
        .collect())
}

fn differs(verdict: &Verdict) -> bool {
    match verdict {
        Verdict::Judged { stasis, cuts } => {
            stasis.is_err() || cuts.iter().any(|(_, cut)| matches!(cut, Cut::Differs(_)))
        }
        _ => false,
    }
}
