//! `cargo xtask bench files`: cost of writes to files with the undo journal, compared with native runs.

use super::paired::Paired;
use super::{compile, figures, in_turn, mpirun, prepare, under_stasis, Figures, Way, LIMIT};
use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::stasis;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Instant;

/// Options of `cargo xtask bench files`.
#[derive(clap::Args)]
pub struct Options {
    /// Pairs of runs (native, Stasis) per MPI library
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Use target/stasis as it is
    #[arg(long)]
    no_setup: bool,
}

/// Rows: name in the benchmark's output, and label.
const KINDS: &[(&str, &str)] = &[
    ("mpi_random", "MPI_File_write_at, 4 KiB at random"),
    ("own_random", "pwrite, 4 KiB at random"),
    ("mpi_append", "MPI_File_write_at, 4 KiB behind the end"),
    ("own_append", "write, 4 KiB behind the end"),
    (
        "mpi_stretch",
        "MPI_File_write_at_all, 1 MiB after 1 MiB (as IOR)",
    ),
];

/// Lower bound of the journal's cost, measured natively.
const FLOORS: &[(&str, &str)] = &[
    ("floor_random_by_hand", "4 KiB at random"),
    ("floor_stretch_by_hand", "1 MiB after 1 MiB"),
];

/// Moments of measurement.
const MOMENTS: &[(&str, &str)] = &[
    ("before", "before a checkpoint"),
    ("first", "first time after it"),
    ("again", "again"),
];

/// Benchmark of all libraries.
pub fn run(options: &Options) -> Result<()> {
    let dir = prepare(options.no_setup)?;
    for mpi in Mpi::ALL {
        table(options, mpi, &dir)?;
    }
    Ok(())
}

fn table(options: &Options, mpi: Mpi, dir: &Path) -> Result<()> {
    let program = compile(mpi, "bench/overwrite.c", "overwrite", &[])?;
    let mut runs: BTreeMap<Way, Vec<Figures>> = BTreeMap::new();
    for round in 0..options.rounds {
        for way in in_turn([Way::Native, Way::Stasis], round) {
            let dir = dir.join(format!("files-{mpi}"));
            runs.entry(way)
                .or_default()
                .push(one(way, mpi, &dir, &program)?);
        }
    }
    let rounds = options.rounds;
    println!(
        "| {mpi}: {rounds} rounds | when | native, us | Stasis, us | ratio (lowest to highest) | of the processor: \
         native, us | Stasis, us | ratio |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for (kind, title) in KINDS {
        for (moment, when) in MOMENTS {
            let key = format!("{kind}_{moment}");
            let clock = paired(&runs, &key, |figure| figure.0)?;
            let processor = paired(&runs, &key, |figure| figure.1)?;
            let (lowest, ratio, highest) = clock.spread();
            println!(
                "| {title} | {when} | {:.1} | {:.1} | {:.2} ({lowest:.2} to {highest:.2}) | {:.1} | {:.1} | {:.2} |",
                clock.base(),
                clock.ours(),
                ratio,
                processor.base(),
                processor.ours(),
                processor.ratio(),
            );
        }
    }
    for (key, title) in FLOORS {
        let [clock, processor] = [paired(&runs, key, |f| f.0)?, paired(&runs, key, |f| f.1)?];
        println!(
            "| pread, write to a new file, pwrite, {title} | natively | {:.1} | | | {:.1} | | |",
            clock.base(),
            processor.base(),
        );
    }
    println!();
    Ok(())
}

/// Results in microseconds, natively and under Stasis.
fn paired(
    runs: &BTreeMap<Way, Vec<Figures>>,
    key: &str,
    pick: fn(&(f64, f64)) -> f64,
) -> Result<Paired> {
    let column = |way: Way| -> Result<Vec<f64>> {
        let figure = |run: &Figures| run.get(key).map(|figure| pick(figure) / 1e3);
        let figures: Option<Vec<f64>> = runs[&way].iter().map(figure).collect();
        figures.with_context(|| format!("no figure for {key}"))
    };
    Ok(Paired::new(column(Way::Native)?, column(Way::Stasis)?))
}

/// One run, in a temporary directory.
fn one(way: Way, mpi: Mpi, dir: &Path, program: &Path) -> Result<Figures> {
    if dir.exists() {
        fs::remove_dir_all(dir)?;
    }
    fs::create_dir_all(dir)?;
    let ckpt = dir.join("ck");
    let mut command = match way {
        Way::Stasis => under_stasis(mpi, dir, &ckpt),
        _ => mpirun(mpi, super::RANKS, dir),
    };
    let (ready, go) = (dir.join("ready"), dir.join("go"));
    command.env("STASIS_TEST_READY", &ready);
    command.env("STASIS_TEST_GO", &go).arg(program);
    let mut job = Job::start(command, dir, "job")?;
    let deadline = Instant::now() + LIMIT;
    let stands = || (0..super::RANKS).all(|rank| dir.join(format!("ready.{rank}")).exists());
    job.until("all ranks reached the cut", deadline, stands)?;
    if way == Way::Stasis {
        let taken = job::run(stasis::checkpoint(&ckpt), dir, "checkpoint", LIMIT)?;
        taken.expect_success("stasis checkpoint")?;
    }
    fs::write(go, "")?;
    job.succeed(deadline, dir)?;
    let figures = figures(&job::read_text(&job.stdout))?;
    fs::remove_dir_all(dir)?;
    Ok(figures)
}
