//! `cargo xtask bench`: native runs and runs under Stasis, alternating, as ratios; `bench images`: checkpoints;
//! `bench files`: writes to files; `bench migration`: migration of a job between networks. Prints Markdown.
//!
//! The order alternates between rounds, because a processor that was just idle is faster. Calls are measured in a third
//! way as well: natively with the thread pointer written twice per call. Any crossing between two C libraries has that
//! cost; only the rest is due to Stasis. A fourth way is under Stasis with a barrier before every blocking collective
//! operation, as in checkpointers before collective clocks (two-phase commit).
//!
//! | file | holds |
//! |---|---|
//! | `calls.rs` | MPI calls |
//! | `imb.rs` | the Intel MPI Benchmarks over all sizes, as a picture |
//! | `applications.rs` | HPCC and NWChem |
//! | `images.rs` | checkpoints of memory of several kinds and sizes |
//! | `other_checkpointers.rs` | the same by `criu` and other checkpointers |
//! | `disk.rs` | the speed of the disk without Stasis (`fio`) |
//! | `files.rs` | writes to files, with the undo journal |
//! | `system_calls.rs` | system calls of programs, and short programs that make many |
//! | `recovery.rs` | the time from a rank's death to the next calls of all ranks |
//! | `late.rs` | checkpoints while a rank is late for a collective operation |
//! | `paired.rs` | ratios within a round, and times that agree with them |
//! | `migration.rs` | latencies of a job that migrates between networks and libraries |
//! | `papers/` | the tables and figures of the papers, with ours beside theirs |

mod applications;
mod calls;
mod criu;
mod disk;
mod files;
mod images;
mod imb;
mod late;
mod migration;
mod other_checkpointers;
mod paired;
pub mod papers;
mod recovery;
mod system_calls;

use crate::build::setup;
use crate::harness::job::{self, Finished, Job};
use crate::harness::mpi::Mpi;
use crate::harness::{paths, stasis};
use anyhow::{bail, ensure, Context, Result};
use paired::Paired;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const RANKS: usize = 2;
const LIMIT: Duration = Duration::from_secs(300);

/// Options of `cargo xtask bench`.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Options {
    #[command(subcommand)]
    other: Option<Other>,
    /// Pairs of runs (native, Stasis) of the call benchmark per MPI library
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Pairs of runs of LAMMPS
    #[arg(long, default_value_t = 3)]
    lammps_rounds: usize,
    /// Time steps of LAMMPS
    #[arg(long, default_value_t = 1000)]
    steps: usize,
    /// Use target/stasis as it is
    #[arg(long)]
    no_setup: bool,
}

/// Other benchmarks.
#[derive(clap::Subcommand)]
enum Other {
    /// HPCC and NWChem without a checkpoint
    Applications(applications::Options),
    /// The Intel MPI Benchmarks over all sizes, drawn into docs/
    Imb(imb::Options),
    /// Size, pause and speed of checkpoints and restarts, compared with other checkpointers and the disk
    Images(images::Options),
    /// Writing to files before and after a checkpoint
    Files(files::Options),
    /// System calls of a program, natively, trapped and patched
    SystemCalls(system_calls::Options),
    /// The phases of a recovery by `stasis run`
    Recovery(recovery::Options),
    /// Checkpoints while a rank is late for a collective operation
    Late(late::Options),
    /// A ring of eight ranks that migrates between networks and MPI libraries, drawn into docs/
    Migration(migration::Options),
    /// The tables and figures of the papers that Stasis implements, written to docs/papers.md
    Papers(papers::Options),
}

/// Runs all measurements in order.
pub fn run(options: &Options) -> Result<()> {
    match &options.other {
        Some(Other::Applications(options)) => return applications::run(options),
        Some(Other::Imb(options)) => return imb::run(options),
        Some(Other::Images(options)) => return images::run(options),
        Some(Other::Files(options)) => return files::run(options),
        Some(Other::SystemCalls(options)) => return system_calls::run(options),
        Some(Other::Recovery(options)) => return recovery::run(options),
        Some(Other::Late(options)) => return late::run(options),
        Some(Other::Migration(options)) => return migration::run(options),
        Some(Other::Papers(options)) => return papers::run(options),
        None => {}
    }
    let dir = prepare(options.no_setup)?;
    setup::require("lammps")?;
    for mpi in Mpi::ALL {
        calls::run(options.rounds, mpi, &dir)?;
    }
    lammps(options, &dir)?;
    Ok(())
}

/// Sets up, prints the machine, and creates an empty directory.
fn prepare(no_setup: bool) -> Result<PathBuf> {
    setup::unless(no_setup)?;
    let dir = paths::target().join("bench");
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    fs::create_dir_all(&dir)?;
    println!("{}\n", machine());
    Ok(dir)
}

fn machine() -> String {
    let model = job::read_text(Path::new("/proc/cpuinfo"));
    let model = model
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map_or("unknown processor", |rest| {
            rest.trim_start_matches([' ', '\t', ':'])
        });
    let kernel = job::read_text(Path::new("/proc/sys/kernel/osrelease"));
    let load = job::read_text(Path::new("/proc/loadavg"));
    format!(
        "{model}, {} processors, Linux {}, load at start {}",
        crate::harness::mpi::cores(),
        kernel.trim(),
        load.split(' ').next().unwrap_or("?")
    )
}

/// A launcher as called by a user, with the library's default binding.
fn mpirun(mpi: Mpi, ranks: usize, dir: &Path) -> Command {
    let mut command = Command::new(mpi.launcher());
    mpi.set_environment(&mut command);
    command.args(["-n", &ranks.to_string()]).current_dir(dir);
    command
}

fn under_stasis(mpi: Mpi, dir: &Path, ckpt: &Path) -> Command {
    let mut command = mpirun(mpi, RANKS, dir);
    command.arg(paths::stasis()).args(["launch", "--ckpt-dir"]);
    command.arg(ckpt);
    command
}

/// Results of one run: name to (fastest, median) in nanoseconds.
type Figures = BTreeMap<String, (f64, f64)>;

/// Ways of running a measured program.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Native,
    /// Natively, with writes of the thread pointer as in a crossing.
    Crossings,
    Stasis,
    /// Under Stasis, with two-phase commit.
    TwoPhase,
    /// Under Stasis, with a record of the run.
    Recorded,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Native => "native",
            Way::Crossings => "crossings",
            Way::Stasis => "stasis",
            Way::TwoPhase => "two-phase",
            Way::Recorded => "recorded",
        }
    }

    /// Runs a program of two ranks to its end.
    fn run(
        self,
        mpi: Mpi,
        dir: &Path,
        name: &str,
        program: impl FnOnce(&mut Command),
    ) -> Result<Finished> {
        let name = format!("{name}-{}", self.name());
        let mut command = match self {
            Way::Native | Way::Crossings => mpirun(mpi, RANKS, dir),
            Way::Stasis | Way::TwoPhase | Way::Recorded => {
                under_stasis(mpi, dir, &dir.join(format!("{name}-ck")))
            }
        };
        match self {
            Way::Native | Way::Crossings | Way::Stasis => {}
            Way::TwoPhase => drop(command.env("STASIS_PUBLISHED", "two-phase-commit")),
            Way::Recorded => {
                let record = dir.join(format!("{name}-record"));
                command.arg("--record").arg(record);
            }
        }
        program(&mut command);
        job::run(command, dir, &name, LIMIT)?.expect_success(&name)
    }
}

/// The ways in the order of one round.
fn in_turn<W, const N: usize>(mut ways: [W; N], round: usize) -> [W; N] {
    ways.rotate_left(round % N);
    ways
}

/// An example in C, compiled under `name` with more arguments.
pub fn compile(mpi: Mpi, source: &str, name: &str, more: &[&str]) -> Result<PathBuf> {
    let dir = paths::compiled().join(mpi.name()).join("bench");
    fs::create_dir_all(&dir)?;
    let binary = dir.join(name);
    let mut command = Command::new(mpi.compiler("c"));
    command.args(["-O2", "-Wno-stringop-overflow"]).args(more);
    command
        .arg("-o")
        .arg(&binary)
        .arg(paths::examples().join(source));
    job::run(command, &dir, "compile", LIMIT)?.expect_success("compiling the benchmark")?;
    Ok(binary)
}

fn figures(printed: &str) -> Result<Figures> {
    let mut figures = Figures::new();
    for line in printed.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [name, fastest, median] = words[..] {
            figures.insert(name.to_owned(), (fastest.parse()?, median.parse()?));
        }
    }
    ensure!(!figures.is_empty(), "the benchmark printed nothing");
    Ok(figures)
}

/// Lowest, median and highest.
fn range(values: &[f64]) -> (f64, f64, f64) {
    let pick = |pick: fn(f64, f64) -> f64| values.iter().copied().reduce(pick).unwrap_or(f64::NAN);
    (pick(f64::min), median(values.to_vec()), pick(f64::max))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}

/// Run time, checkpoint and restart of Debian's LAMMPS.
fn lammps(options: &Options, dir: &Path) -> Result<()> {
    println!(
        "| LAMMPS, {} steps, {RANKS} ranks, loop time over Open MPI | base, s | with it, s | ratio | budget |",
        options.steps
    );
    println!("|---|---|---|---|---|");
    let input = crate::demo::lammps_arguments(options.steps);
    let mpi = Mpi::OpenMpi;
    let mut runs: BTreeMap<Way, Vec<f64>> = BTreeMap::new();
    for round in 0..options.lammps_rounds {
        for way in in_turn([Way::Native, Way::Stasis, Way::Recorded], round) {
            let finished = way.run(mpi, dir, &format!("lammps-{round}"), |command| {
                command.args(&input);
            })?;
            runs.entry(way).or_default().push(loop_seconds(&finished)?);
        }
    }
    for (name, base, way, budget) in [
        ("Stasis and native", Way::Native, Way::Stasis, 1.01),
        ("recorded and Stasis", Way::Stasis, Way::Recorded, 1.02),
    ] {
        let paired = Paired::new(runs[&base].clone(), runs[&way].clone());
        let (lowest, ratio, highest) = paired.spread();
        println!(
            "| {name} | {:.2} | {:.2} | {ratio:.3} ({lowest:.2} to {highest:.2}) | ≤ {budget}{} |",
            paired.base(),
            paired.ours(),
            if ratio < budget + 0.005 {
                ""
            } else {
                ", **over**"
            }
        );
    }
    println!();
    checkpoints(options, dir)
}

fn loop_seconds(finished: &Finished) -> Result<f64> {
    finished
        .stdout
        .lines()
        .find_map(|line| {
            line.strip_prefix("Loop time of ")?
                .split(' ')
                .next()?
                .parse()
                .ok()
        })
        .context("LAMMPS printed no 'Loop time of'")
}

/// Checkpoints of a running LAMMPS, and a restart from the last.
fn checkpoints(options: &Options, dir: &Path) -> Result<()> {
    println!("| | checkpoint, s (command to commit) | pause, ms | image set, MiB | restart, s (to the job answering) |");
    println!("|---|---|---|---|---|");
    for mpi in Mpi::ALL {
        let ckpt = dir.join(format!("pause-{mpi}"));
        let mut command = under_stasis(mpi, dir, &ckpt);
        command.args(crate::demo::lammps_arguments(options.steps.max(1000)));
        let mut job = Job::start(command, dir, &format!("pause-{mpi}"))?;
        let deadline = Instant::now() + LIMIT;
        stasis::until_reached(&mut job, &ckpt, "", deadline)?;
        std::thread::sleep(Duration::from_secs(1));
        let (mut seconds, mut pauses) = (Vec::new(), Vec::new());
        for n in 0..3 {
            let (name, start) = (format!("checkpoint-{mpi}-{n}"), Instant::now());
            let report = stasis::json(stasis::checkpoint(&ckpt), dir, &name, LIMIT)?;
            seconds.push(start.elapsed().as_secs_f64());
            pauses.push(report["pause_seconds"].as_f64().unwrap_or(f64::NAN) * 1e3);
        }
        let before = stasis::job_file(&ckpt);
        job.kill()?;
        let start = Instant::now();
        let mut command = mpirun(mpi, RANKS, dir);
        command.arg(paths::stasis()).arg("restart").arg(&ckpt);
        let mut again = Job::start(command, dir, &format!("restart-{mpi}"))?;
        stasis::until_reached(&mut again, &ckpt, &before, deadline)?;
        let back = start.elapsed().as_secs_f64();
        again.kill()?;
        println!(
            "| {mpi} | {:.2} | {:.1} | {:.1} | {back:.2} |",
            median(seconds),
            median(pauses),
            newest_set(&ckpt)?.1 as f64 / (1 << 20) as f64
        );
    }
    Ok(())
}

/// The newest set in a checkpoint directory, and the bytes in it.
pub fn newest_set(ckpt: &Path) -> Result<(PathBuf, u64)> {
    let mut sets: Vec<(u64, PathBuf)> = Vec::new();
    for entry in fs::read_dir(ckpt)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or("");
        if let Some(number) = name.strip_prefix("ckpt-").and_then(|n| n.parse().ok()) {
            sets.push((number, path));
        }
    }
    sets.sort();
    let Some((_, newest)) = sets.pop() else {
        bail!("there is no set in {}", ckpt.display());
    };
    let mut bytes = 0;
    for entry in fs::read_dir(&newest)? {
        bytes += entry?.metadata()?.len();
    }
    Ok((newest, bytes))
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn medians() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    }
}
