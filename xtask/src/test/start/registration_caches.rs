//! Caches of registered memory in the MPI library are told what memory the application gives back, before it does.
//!
//! Without a network adapter nothing registers memory. So the lower half gets a part of a library that sends by
//! registrations (`examples/tools/registering.c`). A registration that is used after its pages were replaced sends
//! other bytes than those that are in the buffer; the part counts them.

use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::{paths, stasis};
use crate::test::support::compile::patchelf;
use crate::test::support::held_job::{begin, example, reach_cut, take_checkpoint, RANKS};
use crate::test::support::helper_programs::compile;
use crate::test::Case;
use anyhow::{ensure, Context, Result};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(300);
/// Cycles in a step of the example. In each cycle one rank replaces its buffer and sends it twice.
const CYCLES: usize = 60;
/// Steps: some thousand cycles, on a machine with fewer cores than ranks. With `--full` a million.
const STEPS: usize = 30;
const MANY_STEPS: usize = 1_000_000 / CYCLES + 1;

/// The library that reports memory which is given back.
#[derive(Clone, Copy, PartialEq)]
enum By {
    Ucx,
    OpenMpi,
    Nobody,
}

impl By {
    fn name(self) -> &'static str {
        match self {
            By::Ucx => "ucx",
            By::OpenMpi => "openmpi",
            By::Nobody => "nobody",
        }
    }
}

/// All cases of this file. Open MPI has the functions; over MPICH the caches are off.
pub fn cases(full: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    for by in [By::Ucx, By::OpenMpi] {
        let case = |kind: &str| format!("registration/{kind}:{}", by.name());
        cases.push(Case::new(case("told"), move |_, dir| {
            told(by, STEPS, dir).into()
        }));
        cases.push(Case::new(case("continue"), move |_, dir| {
            continues(by, dir).into()
        }));
        for mpi in Mpi::ALL {
            let name = match mpi.is_open_mpi() {
                true => "restart",
                false => "migrate",
            };
            cases.push(Case::new(case(name), move |_, dir| {
                restarts(mpi, by, dir).into()
            }));
        }
        if full {
            cases.push(Case::new(case("million"), move |_, dir| {
                told(by, MANY_STEPS, dir).into()
            }));
        }
    }
    cases.push(Case::new("registration/control", |_, dir| {
        control(dir).into()
    }));
    cases
}

/// A user's folder with a lower half over Open MPI that sends by registrations; the value of XDG_DATA_HOME.
fn registering_lower(dir: &Path) -> Result<PathBuf> {
    let data = dir.join("data");
    let folder = data.join("stasis").join(env!("CARGO_PKG_VERSION"));
    fs::create_dir_all(&folder)?;
    let flags = [
        "-shared",
        "-fPIC",
        "-O2",
        "-Wl,--no-as-needed",
        "-lucm",
        "-lucs",
        "-ldl",
    ];
    let compiler = Mpi::OpenMpi.mpicc().to_string_lossy().into_owned();
    let part = compile(&folder, &compiler, "registering.c", &flags)?;
    let lower = format!("lower-{}", Mpi::OpenMpi);
    for entry in fs::read_dir(paths::product().join("lib/stasis"))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("front-") {
            symlink(entry.path(), folder.join(&name))?;
        } else if name.starts_with(&lower) {
            fs::copy(entry.path(), folder.join(&name))?;
        }
    }
    let part = part.to_string_lossy().into_owned();
    patchelf(&folder.join(lower), &["--add-needed", &part])?;
    Ok(data)
}

/// The command over the lower half that sends by registrations.
fn registering(mut command: Command, by: By, dir: &Path) -> Result<Command> {
    command.env("XDG_DATA_HOME", registering_lower(dir)?);
    command.env("REGISTERING_TOLD_BY", by.name());
    Ok(command)
}

fn start(launch: Command, mpi: Mpi, steps: usize, dir: &Path) -> Result<Job> {
    let mut command = launch;
    command.env("REMAPPED_STEPS", steps.to_string());
    begin(command, &example("p2p", "p2p/remapped")?, dir, mpi)
}

/// The same over the lower half that sends by registrations.
fn start_registering(by: By, steps: usize, ckpt: &Path, dir: &Path) -> Result<Job> {
    let mpi = Mpi::OpenMpi;
    let launch = registering(stasis::launch(mpi, RANKS, ckpt, dir), by, dir)?;
    start(launch, mpi, steps, dir)
}

/// The counters of a rank.
struct Count {
    registered: usize,
    used_again: usize,
    told: usize,
    /// Of these, told when the pages were no longer there.
    late: usize,
    /// Messages by a buffer of the library.
    own: usize,
    wrong: usize,
}

/// The counts of the ranks, from the job's output.
fn counts(job: &Job) -> Result<Vec<Count>> {
    let text = job::read_text(&job.stderr);
    let lines = text
        .lines()
        .filter_map(|line| line.split_once("registering: "));
    let count = |(_, line): (&str, &str)| {
        let numbers = line.split(' ').filter_map(|word| word.parse().ok());
        match numbers.collect::<Vec<usize>>()[..] {
            [registered, used_again, told, late, own, wrong] => Some(Count {
                registered,
                used_again,
                told,
                late,
                own,
                wrong,
            }),
            _ => None,
        }
    };
    let counts: Vec<_> = lines.filter_map(count).collect();
    ensure!(
        counts.len() == RANKS,
        "{} ranks counted:\n{text}",
        counts.len()
    );
    Ok(counts)
}

fn ends(job: &mut Job, dir: &Path) -> Result<()> {
    job.succeed(Instant::now() + LIMIT, dir)?;
    let printed = job::read_text(&job.stdout);
    ensure!(printed.contains("OK remapped"), "it printed {printed}");
    Ok(())
}

/// Each registration is used once more, none is used after its pages were replaced.
fn told(by: By, steps: usize, dir: &Path) -> Result<()> {
    fs::write(dir.join("go"), "")?;
    let mut job = start_registering(by, steps, &dir.join("ck"), dir)?;
    ends(&mut job, dir)?;
    for count in counts(&job)? {
        let cycles = steps * CYCLES / RANKS;
        ensure!(
            count.registered == cycles && count.used_again == cycles,
            "of {cycles} buffers {} were registered, and {} sent again",
            count.registered,
            count.used_again
        );
        // The last buffers are not replaced.
        ensure!(count.told + 8 > cycles, "only {} were told", count.told);
        is_right(&count)?;
    }
    Ok(())
}

/// No message was wrong, and each registration was given up in time.
fn is_right(count: &Count) -> Result<()> {
    ensure!(count.wrong == 0, "{} messages are wrong", count.wrong);
    ensure!(count.late == 0, "{} were told too late", count.late);
    ensure!(count.own > 0, "the library has sent nothing by itself");
    Ok(())
}

/// Some were registered, and no message was wrong.
fn ends_well(job: &mut Job, dir: &Path) -> Result<()> {
    fs::write(dir.join("go"), "")?;
    ends(job, dir)?;
    for count in counts(job)? {
        ensure!(count.registered > 0, "nothing was registered");
        is_right(&count)?;
    }
    Ok(())
}

/// The same with a checkpoint in the middle.
fn continues(by: By, dir: &Path) -> Result<()> {
    let ckpt = dir.join("ck");
    let mut job = start_registering(by, STEPS, &ckpt, dir)?;
    reach_cut(&mut job, dir)?;
    stasis::take_checkpoint(&ckpt, dir, "checkpoint", LIMIT)?;
    ends_well(&mut job, dir)
}

/// The same after a restart of a job that ran over `mpi`.
fn restarts(mpi: Mpi, by: By, dir: &Path) -> Result<()> {
    let ckpt = dir.join("ck");
    let mut job = start(stasis::launch(mpi, RANKS, &ckpt, dir), mpi, STEPS, dir)?;
    reach_cut(&mut job, dir)?;
    take_checkpoint(&mut job, dir, &ckpt)?;
    let command = stasis::restart(Mpi::OpenMpi, RANKS, &ckpt, dir);
    let mut job = Job::start(registering(command, by, dir)?, dir, "restart")?;
    ends_well(&mut job, dir)
}

/// A cache that nobody tells sends wrong bytes, so that the other cases can fail.
fn control(dir: &Path) -> Result<()> {
    fs::write(dir.join("go"), "")?;
    let mut job = start_registering(By::Nobody, STEPS, &dir.join("ck"), dir)?;
    let ended = job.wait(Instant::now() + LIMIT)?.context("it hangs")?;
    ensure!(!ended.success(), "nothing went wrong");
    let said = job::read_text(&job.stderr);
    ensure!(
        said.contains("has other bytes"),
        "it failed by another cause: {said}"
    );
    Ok(())
}
