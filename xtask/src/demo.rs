//! `cargo xtask demo`: Debian's LAMMPS, frozen under one MPI library and continued under the
//! other, in both directions, compared to the last digit with an uninterrupted run.

use crate::bench::newest_set;
use crate::build::setup;
use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::random::{fresh_seed, Random};
use crate::harness::{paths, stasis};
use crate::test::support::compare::number_lines;
use anyhow::{ensure, Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const RANKS: usize = 2;
const LIMIT: Duration = Duration::from_secs(600);
/// Advice for a machine on which the job ends too soon.
const TOO_SHORT: &str = "if the job was too short for this machine, give it more --steps";

/// Options of `cargo xtask demo`.
#[derive(clap::Args)]
pub struct Options {
    /// Time steps of the melt (2500 are about 25 s)
    #[arg(long, default_value_t = 2500)]
    steps: usize,
    /// Seed of the random moment of the cut
    #[arg(long)]
    seed: Option<u64>,
    /// Use target/stasis as it is
    #[arg(long)]
    no_setup: bool,
}

/// `lmp` with its arguments for the LJ melt of 32,000 atoms.
pub fn lammps_arguments(steps: usize) -> Vec<String> {
    let input = paths::examples().join("lammps/in.lj");
    let words = [
        "lmp",
        "-in",
        &input.to_string_lossy(),
        "-var",
        "steps",
        &steps.to_string(),
    ]
    .map(str::to_owned);
    words.to_vec()
}

/// Output of a finished run of LAMMPS.
struct Melt {
    thermo: Vec<String>,
    atoms: Vec<u8>,
    took: Duration,
}

/// Runs the demo.
pub fn run(options: &Options) -> Result<()> {
    if !options.no_setup {
        setup::for_demo(
            "runs LAMMPS three times, twice in two parts: about two minutes on two cores",
        )?;
    }
    setup::require("lammps")?;
    let seed = options.seed.unwrap_or_else(fresh_seed);
    let root = paths::target().join("demo");
    if root.exists() {
        fs::remove_dir_all(&root)?;
    }
    println!("An LJ melt of 32,000 atoms, {} steps, {RANKS} ranks, with Debian's lammps (built for Open MPI). Seed {seed}.\n", options.steps);
    let reference = uninterrupted(options, &folder(&root, "uninterrupted")?)?;
    println!(
        "Uninterrupted, natively under Open MPI: {:.1} s\n",
        reference.took.as_secs_f64()
    );
    let mut agree = true;
    for first in Mpi::ALL {
        let dir = folder(&root, &format!("{first}-to-{}", first.other()))?;
        let mut random = Random::new(seed, first.name());
        agree &= both_halves(options, first, &dir, &reference, &mut random)?;
    }
    ensure!(agree, "the runs do not agree");
    println!("Both agree with the uninterrupted run to the last digit.");
    Ok(())
}

fn folder(root: &Path, name: &str) -> Result<PathBuf> {
    let dir = root.join(name);
    fs::create_dir_all(&dir)?;
    Ok(dir)
}

/// The command line of the README, with the environment that Open MPI needs under root.
fn mpirun(mpi: Mpi, dir: &Path) -> Command {
    let mut command = Command::new(mpi.launcher());
    mpi.set_environment(&mut command);
    command.args(["-n", &RANKS.to_string()]).current_dir(dir);
    command
}

fn show(command: &Command) {
    let root = format!("{}/", paths::root().display());
    let words: Vec<_> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy().replace(&root, ""))
        .collect();
    println!("$ {}", words.join(" "));
}

fn uninterrupted(options: &Options, dir: &Path) -> Result<Melt> {
    let mut command = mpirun(Mpi::OpenMpi, dir);
    command.args(lammps_arguments(options.steps));
    show(&command);
    let finished = job::run(command, dir, "lammps", LIMIT)?.expect_success("LAMMPS")?;
    melt(&finished.stdout, dir, finished.took)
}

fn melt(stdout: &str, dir: &Path, took: Duration) -> Result<Melt> {
    let atoms = fs::read(dir.join("lj.final")).context("LAMMPS wrote no lj.final")?;
    Ok(Melt {
        thermo: number_lines(stdout)
            .into_iter()
            .map(str::to_owned)
            .collect(),
        atoms,
        took,
    })
}

/// Start under `first`, freeze at a random moment, kill, continue under the other.
fn both_halves(
    options: &Options,
    first: Mpi,
    dir: &Path,
    reference: &Melt,
    random: &mut Random,
) -> Result<bool> {
    let second = first.other();
    let ckpt = dir.join("ck");
    let deadline = Instant::now() + LIMIT;
    let mut command = mpirun(first, dir);
    command.arg(paths::stasis()).args(["launch", "--ckpt-dir"]);
    command.arg(&ckpt).args(lammps_arguments(options.steps));
    show(&command);
    let mut job = Job::start(command, dir, "first")?;
    stasis::until_reached(&mut job, &ckpt, "", deadline)?;

    // The job's own progress decides when it is cut: it may be much faster than the uninterrupted run, or slower.
    let begun = Instant::now();
    let whole = reference.took.as_secs_f64();
    let lines = reference.thermo.len();
    let line = (random.seconds(0.15, 0.6).as_secs_f64() * lines as f64) as usize + 1;
    let log = dir.join("log.lammps");
    let printed = || number_lines(&job::read_text(&log)).len();
    job.until("LAMMPS came to the line of the cut", deadline, || {
        printed() >= line
    })
    .context(TOO_SHORT)?;
    let moment = begun.elapsed();
    let command = stasis::checkpoint(&ckpt);
    show(&command);
    let answer =
        job::run(command, dir, "checkpoint", LIMIT)?.expect_success("stasis checkpoint")?;
    for line in answer.stdout.lines().chain(answer.stderr.lines()) {
        println!("  {line}");
    }
    // The job runs on a little. Its output after the checkpoint is discarded.
    let then = printed();
    job.until("LAMMPS had gone on", deadline, || printed() > then)
        .context(TOO_SHORT)?;
    println!(
        "$ kill -9 {}",
        job.pids()
            .iter()
            .map(i32::to_string)
            .collect::<Vec<_>>()
            .join(" ")
    );
    let before = stasis::job_file(&ckpt);
    job.kill()?;

    let mut command = mpirun(second, dir);
    command.arg(paths::stasis()).arg("restart").arg(&ckpt);
    show(&command);
    let start = Instant::now();
    let mut again = Job::start(command, dir, "second")?;
    stasis::until_reached(&mut again, &ckpt, &before, deadline)?;
    let back = start.elapsed();
    let status = again
        .wait(deadline)?
        .context("timeout: the restarted job does not end")?;
    ensure!(
        status.success(),
        "the restarted job failed: {status}\n{}",
        job::tail(&job::read_text(&again.stderr), 15)
    );
    let printed = job::read_text(&again.stdout);
    let ours = melt(&printed, dir, start.elapsed())?;
    let until_kill = job::read_text(&job.stdout);
    println!();
    let same = side_by_side(reference, &number_lines(&until_kill), &ours);
    let (set, bytes) = newest_set(&ckpt)?;
    println!(
        "\n{first} until line {line} of {lines} ({:.1} s), then {second}: checkpoint {:.2} s, {} = {:.1} MiB, restart {:.2} s (until the job answers), the rest {:.1} s of {whole:.1} s\n",
        moment.as_secs_f64(),
        answer.took.as_secs_f64(),
        set.file_name().unwrap_or_default().to_string_lossy(),
        bytes as f64 / (1 << 20) as f64,
        back.as_secs_f64(),
        ours.took.as_secs_f64(),
    );
    Ok(same)
}

/// Thermo lines of both runs side by side, and whether all agree.
fn side_by_side(reference: &Melt, before: &[&str], after: &Melt) -> bool {
    // The first job printed the lines before the checkpoint, the restarted job those after it. If the launcher makes a
    // pipe of standard output, LAMMPS buffers its lines and the buffer is in the image: then all lines are printed
    // after the restart.
    let split = reference.thermo.len().saturating_sub(after.thermo.len());
    let width = reference
        .thermo
        .iter()
        .map(String::len)
        .max()
        .unwrap_or(40)
        .max(14);
    println!("  {:width$}   | frozen and continued", "uninterrupted");
    let mut equal_lines = 0;
    for (i, line) in reference.thermo.iter().enumerate() {
        let ours = if i < split {
            before.get(i).copied()
        } else {
            after.thermo.get(i - split).map(String::as_str)
        };
        if i == split {
            println!(
                "  {:-<width$}   | ---- from here on printed after the restart ----",
                ""
            );
        }
        let equal = ours == Some(line.as_str());
        equal_lines += usize::from(equal);
        println!(
            "  {line:width$} {} | {}",
            if equal { '=' } else { '!' },
            ours.unwrap_or("(missing)")
        );
    }
    let same = equal_lines == reference.thermo.len() && reference.atoms == after.atoms;
    println!(
        "  {equal_lines} of {} thermo lines agree to the last digit; all atoms' final positions and velocities ({} bytes) {}",
        reference.thermo.len(),
        reference.atoms.len(),
        if reference.atoms == after.atoms { "agree too" } else { "DO NOT AGREE" }
    );
    same
}
