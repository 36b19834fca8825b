//! `cargo xtask bench images`: checkpoints of a job with much memory of one kind (`examples/run/footprint.c`):
//! a first one, increments after 1 % of the memory has changed, and a restart from them, in each directory compared
//! with
//! `fio`. Then one rank compared with other checkpointers.

use super::{compile, disk, median, newest_set, other_checkpointers, prepare, LIMIT};
use crate::build::setup;
use crate::harness::job::Job;
use crate::harness::mpi::Mpi;
use crate::harness::stasis;
use anyhow::{bail, ensure, Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// One library is enough, because images do not depend on it.
const MPI: Mpi = Mpi::Mpich;
const KINDS: [&str; 3] = ["zeros", "random", "fields"];
const MIB: f64 = (1 << 20) as f64;
/// Package that this benchmark needs in addition to the set-up.
const PACKAGES: &[(&str, &str)] = &[
    ("fio", "what the disk does by itself"),
    ("criu", "a checkpointer to compare with"),
];

/// Options of `cargo xtask bench images`.
#[derive(clap::Args)]
pub struct Options {
    /// MiB of memory in each rank
    #[arg(long, value_delimiter = ',', default_value = "64,512,2048")]
    mib: Vec<usize>,
    /// Ranks of the job (the comparison with other checkpointers has one)
    #[arg(long, default_value_t = 2)]
    ranks: usize,
    /// Number of checkpoints after 1 % has changed, of which the median is reported
    #[arg(long, default_value_t = 3)]
    changes: usize,
    /// Directory for checkpoints, in addition to memory (/dev/shm) [default: target/bench]
    #[arg(long, value_name = "DIR")]
    disk: Option<PathBuf>,
    /// Another checkpointer: `CMD dump PID DIR` saves a process, which runs on; `CMD restore DIR` restores it and
    /// returns when it runs
    #[arg(long, value_name = "CMD")]
    peer: Vec<PathBuf>,
    /// Use target/stasis as it is
    #[arg(long)]
    no_setup: bool,
}

/// Runs all measurements in order.
pub fn run(options: &Options) -> Result<()> {
    let dir = prepare(options.no_setup)?;
    if let Err(why) = setup::install_packages(PACKAGES) {
        println!("not installed: {why:#}\n");
    }
    let program = compile(MPI, "run/footprint.c", "footprint", &[])?;
    let disk = options.disk.clone().unwrap_or_else(|| dir.clone());
    let memory = PathBuf::from("/dev/shm");
    for (name, place) in [("memory (/dev/shm)", &memory), ("disk", &disk)] {
        let place = place.join(format!("stasis-bench-{}", std::process::id()));
        fs::create_dir(&place).with_context(|| format!("making {}", place.display()))?;
        let done = tables(options, &program, name, &place, &dir);
        fs::remove_dir_all(&place)?;
        done?;
    }
    Ok(())
}

fn tables(options: &Options, program: &Path, name: &str, place: &Path, dir: &Path) -> Result<()> {
    let ranks = options.ranks;
    println!("| {name}, {ranks} ranks | set, MiB | pause, ms | all, s | GB/s a rank | of fio's | 1 % later: set, % | pause, ms | all, ms | restart, s |");
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for mib in &options.mib {
        let disk = disk::write_rate(place, dir, ranks, *mib);
        if let Err(why) = &disk {
            println!("| {mib} MiB | fio: {why:#} |");
        }
        for kind in KINDS {
            let ready = Workload::new(program, kind, *mib, dir)?;
            let figures = measure(&ready, ranks, options.changes, &place.join("ck"))
                .with_context(|| format!("{mib} MiB of {kind} in {ranks} ranks, {name}"))?;
            println!(
                "| {mib} MiB of {kind} {}",
                figures.row(*mib, ranks, disk.as_ref().ok())
            );
        }
    }
    println!("\n| {name}, 1 rank alone | by | image, MiB | all, s | restart, s |");
    println!("|---|---|---|---|---|");
    for mib in &options.mib {
        for kind in KINDS {
            let workload = Workload::new(program, kind, *mib, dir)?;
            let ours = measure(&workload, 1, 1, &place.join("ck"))?;
            println!(
                "| {mib} MiB of {kind} | Stasis | {:.1} | {:.2} (pause {:.3}) | {:.2} |",
                ours.first.bytes / MIB,
                ours.first.total,
                ours.first.pause,
                ours.restart
            );
            for peer in other_checkpointers::all(&options.peer) {
                // The control files of the last job are removed.
                let workload = Workload::new(program, kind, *mib, dir)?;
                match peer.measure(&workload, &place.join("peer")) {
                    Ok(row) => println!("| | {} | {row} |", peer.name()),
                    Err(why) => println!("| | {} | {why:#} |", peer.name()),
                }
            }
        }
    }
    println!();
    Ok(())
}

/// The program and its control files.
pub struct Workload {
    program: PathBuf,
    kind: &'static str,
    mib: usize,
    /// Empty directory for files of the program and its runs.
    pub dir: PathBuf,
}

impl Workload {
    fn new(program: &Path, kind: &'static str, mib: usize, dir: &Path) -> Result<Workload> {
        let dir = dir.join("subject");
        if dir.exists() {
            fs::remove_dir_all(&dir)?;
        }
        fs::create_dir(&dir)?;
        Ok(Workload {
            program: program.to_owned(),
            kind,
            mib,
            dir,
        })
    }

    /// The command of the program, under a launcher or alone.
    pub fn append_to(&self, command: &mut Command) {
        command.arg(&self.program);
        self.arguments(command);
    }

    /// The program alone, in a form that other checkpointers support: without netlink sockets, and without ending with
    /// its parent, which after a restore is the checkpointer.
    pub fn alone(&self) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "clear"]).arg(&self.program);
        self.arguments(&mut command);
        command.env("UCX_TLS", "self");
        command
    }

    fn arguments(&self, command: &mut Command) {
        command.args([self.kind, &self.mib.to_string()]);
        command.env("STASIS_TEST_READY", self.dir.join("ready"));
        command.env("STASIS_TEST_STEP", self.dir.join("step"));
        command.env("STASIS_TEST_GO", self.dir.join("go"));
    }

    /// Whether all ranks have reported the end of this step.
    pub fn has_done(&self, step: usize, ranks: usize) -> bool {
        let ready = |rank: usize| self.dir.join(format!("ready.{}", rank + step * ranks));
        (0..ranks).all(|rank| ready(rank).exists())
    }

    /// Lets all ranks execute a step, in which 1 % of their memory changes.
    fn step(&self, job: &mut Job, step: usize, ranks: usize) -> Result<()> {
        self.allow(step)?;
        let deadline = Instant::now() + LIMIT;
        job.until("the step was done", deadline, || self.has_done(step, ranks))
    }

    /// Permits the step.
    pub fn allow(&self, step: usize) -> Result<()> {
        Ok(fs::write(self.dir.join(format!("step.{step}")), "")?)
    }

    /// Lets the program run to its end, at which it checks its memory.
    pub fn finish(&self) -> Result<()> {
        Ok(fs::write(self.dir.join("go"), "")?)
    }
}

/// One checkpoint: seconds and bytes.
#[derive(Clone, Copy)]
struct Taken {
    bytes: f64,
    pause: f64,
    total: f64,
}

struct Figures {
    first: Taken,
    later: Vec<Taken>,
    restart: f64,
}

impl Figures {
    fn row(&self, mib: usize, ranks: usize, disk: Option<&f64>) -> String {
        let Figures { first, later, .. } = self;
        let all = (mib * ranks) as f64 * MIB;
        let rate = all / first.total;
        let later = |of: fn(&Taken) -> f64| median(later.iter().map(of).collect());
        format!(
            "| {:.1} | {:.1} | {:.2} | {:.2} | {} | {:.1} | {:.1} | {:.0} | {:.2} |",
            first.bytes / MIB,
            first.pause * 1e3,
            first.total,
            rate / ranks as f64 / 1e9,
            disk.map_or("?".to_owned(), |disk| format!("{:.2}", rate / disk)),
            later(|taken| taken.bytes) / first.bytes * 100.0,
            later(|taken| taken.pause) * 1e3,
            later(|taken| taken.total) * 1e3,
            self.restart
        )
    }
}

fn measure(workload: &Workload, ranks: usize, changes: usize, ckpt: &Path) -> Result<Figures> {
    let dir = &workload.dir;
    let mut command = stasis::launch(MPI, ranks, ckpt, dir);
    command.args(["--full-every", &(changes + 1).to_string()]);
    workload.append_to(&mut command);
    let mut job = Job::start(command, dir, "launch")?;
    let deadline = Instant::now() + LIMIT;
    let filled = job.until("memory was filled", deadline, || {
        workload.has_done(0, ranks)
    });
    job.explain(filled, dir)?;
    let before = stasis::until_reached(&mut job, ckpt, "", deadline)?;
    let first = take(ckpt, dir)?;
    let mut later = Vec::new();
    for step in 1..=changes {
        workload.step(&mut job, step, ranks)?;
        later.push(take(ckpt, dir)?);
    }
    job.kill()?;

    let start = Instant::now();
    let mut again = Job::start(stasis::restart(MPI, ranks, ckpt, dir), dir, "restart")?;
    let back = stasis::until_reached(&mut again, ckpt, &before, start + LIMIT);
    again.explain(back, dir)?;
    let restart = start.elapsed().as_secs_f64();
    workload.finish()?;
    let Some(status) = again.wait(Instant::now() + LIMIT)? else {
        bail!("the restarted job does not end");
    };
    ensure!(status.success(), "the restarted job ended with {status}");
    fs::remove_dir_all(ckpt)?;
    Ok(Figures {
        first,
        later,
        restart,
    })
}

fn take(ckpt: &Path, dir: &Path) -> Result<Taken> {
    let report = stasis::json(stasis::checkpoint(ckpt), dir, "checkpoint", LIMIT)?;
    let seconds = |name: &str| report[name].as_f64().with_context(|| format!("no {name}"));
    Ok(Taken {
        bytes: newest_set(ckpt)?.1 as f64,
        pause: seconds("pause_seconds")?,
        total: seconds("total_seconds")?,
    })
}
