//! `cargo xtask bench late`: the time of a checkpoint while one rank stays outside of an operation in which all others
//! wait, over the time that it stays there (the imbalance).
//!
//! MPI_Barrier is retracted: the cut comes before it. MPI_Allreduce with an operation of the program's own is completed
//! first, as every collective operation is in the published algorithm, so it shows the time without retraction.
//!
//! A second table has operations of all kinds, each with the last of three ranks late.

use super::{compile, prepare, range};
use crate::harness::job::Job;
use crate::harness::mpi::Mpi;
use crate::harness::stasis;
use anyhow::Result;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(300);

/// Options of `cargo xtask bench late`.
#[derive(clap::Args)]
pub struct Options {
    /// Checkpoints of each kind that is retracted; the others are taken once
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds for which the last rank stays outside
    #[arg(long, value_delimiter = ',', default_value = "1,10,60", value_parser = clap::value_parser!(u64).range(1..))]
    imbalance: Vec<u64>,
    /// Ranks
    #[arg(long, value_delimiter = ',', default_value = "2,4,8")]
    ranks: Vec<usize>,
    /// Use target/stasis as it is
    #[arg(long)]
    no_setup: bool,
}

/// Operations of the second table. Rank 0 is the root of those that have one.
const OPERATIONS: [&str; 17] = [
    "Barrier",
    "Allreduce",
    "Allreduce in place",
    COMPLETED,
    "Bcast",
    "Reduce",
    "Gather",
    "Scatter",
    "Alltoall",
    "Allgather",
    "Scan",
    "Comm_dup",
    "Comm_split",
    "Win_create",
    "File_open",
    "Ssend",
    "Barrier beside others",
];
const COMPLETED: &str = "Allreduce with an operation of the program's";

/// Runs the measurements and prints them.
pub fn run(options: &Options) -> Result<()> {
    let dir = prepare(options.no_setup)?;
    by_imbalance(options, &dir)?;
    println!("\nThe last of three ranks is outside for 5 s; seconds of a checkpoint.\n");
    println!(
        "| operation | {} |",
        Mpi::ALL.map(|mpi| mpi.to_string()).join(" | ")
    );
    println!("|---|---|---|");
    for operation in OPERATIONS {
        let of = |mpi| -> Result<String> {
            let program = compile(mpi, "bench/late.c", "late", &[])?;
            let subject = Subject {
                mpi,
                ranks: 3,
                program: &program,
                dir: &dir,
            };
            let took = subject.checkpoint(operation, Duration::from_secs(5))?;
            Ok(format!("{took:.3}"))
        };
        let row = Mpi::ALL.into_iter().map(of).collect::<Result<Vec<_>>>()?;
        println!("| {operation} | {} |", row.join(" | "));
    }
    Ok(())
}

fn by_imbalance(options: &Options, dir: &Path) -> Result<()> {
    println!("Seconds from the command to the end of a checkpoint.\n");
    println!(
        "| library | ranks | imbalance, s | completed | retracted: median | lowest to highest |"
    );
    println!("|---|---|---|---|---|---|");
    for mpi in Mpi::ALL {
        let program = compile(mpi, "bench/late.c", "late", &[])?;
        for &ranks in &options.ranks {
            let subject = Subject {
                mpi,
                ranks,
                program: &program,
                dir,
            };
            for &seconds in &options.imbalance {
                let imbalance = Duration::from_secs(seconds);
                let completed = subject.checkpoint(COMPLETED, imbalance)?;
                let retracted =
                    (0..options.rounds).map(|_| subject.checkpoint("Barrier", imbalance));
                let retracted = retracted.collect::<Result<Vec<f64>>>()?;
                let (lowest, median, highest) = range(&retracted);
                println!(
                    "| {mpi} | {ranks} | {seconds} | {completed:.3} | {median:.3} | {lowest:.3} to {highest:.3} |"
                );
            }
        }
    }
    Ok(())
}

struct Subject<'a> {
    mpi: Mpi,
    ranks: usize,
    program: &'a Path,
    dir: &'a Path,
}

impl Subject<'_> {
    fn ckpt(&self) -> PathBuf {
        self.dir.join("ck")
    }

    /// Seconds of a checkpoint whose last rank comes to the operation this long after the command, or when the
    /// checkpoint is there.
    fn checkpoint(&self, operation: &str, imbalance: Duration) -> Result<f64> {
        let (ckpt, gate) = (self.ckpt(), self.dir.join("come"));
        if ckpt.exists() {
            fs::remove_dir_all(&ckpt)?;
        }
        if gate.exists() {
            fs::remove_file(&gate)?;
        }
        let mut launch = stasis::launch(self.mpi, self.ranks, &ckpt, self.dir);
        launch.arg(self.program).arg(&gate).arg(operation);
        let mut job = Job::start(launch, self.dir, "run")?;
        let taken = self.take(&mut job, &gate, imbalance);
        let taken = job.explain(taken, self.dir)?;
        job.succeed(deadline(), self.dir)?;
        Ok(taken)
    }

    fn take(&self, job: &mut Job, gate: &Path, imbalance: Duration) -> Result<f64> {
        let ckpt = self.ckpt();
        job.until("all other ranks are in the operation", deadline(), || {
            let status = stasis::status(&ckpt, self.dir, LIMIT);
            status.is_ok_and(|status| {
                let is_inside = |rank: usize| {
                    let doing = status["ranks"][rank]["doing"].as_str();
                    doing.is_some_and(|doing| doing.contains("MPI_"))
                };
                (0..self.ranks - 1).all(is_inside)
            })
        })?;
        let begun = Instant::now();
        let mut checkpoint = Job::start(stasis::checkpoint(&ckpt), self.dir, "checkpoint")?;
        let end = begun + imbalance;
        let ended = checkpoint.wait(end.min(deadline()))?;
        let took = begun.elapsed();
        fs::write(gate, "")?;
        if ended.is_some() {
            return Ok(took.as_secs_f64());
        }
        checkpoint.succeed(deadline(), self.dir)?;
        Ok(begun.elapsed().as_secs_f64())
    }
}

fn deadline() -> Instant {
    Instant::now() + LIMIT
}
