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

/// A lower half that sends by registrations.
#[derive(Clone, Copy)]
pub struct Registering {
    pub mpi: Mpi,
    told_by: By,
}

/// All of these that are told what is given back.
pub const TOLD: [Registering; 3] = {
    const fn of(mpi: Mpi, told_by: By) -> Registering {
        Registering { mpi, told_by }
    }
    [
        of(Mpi::OpenMpi, By::Ucx),
        of(Mpi::OpenMpi, By::OpenMpi),
        of(Mpi::Mpich, By::Ucx),
    ]
};

/// All cases of this file.
pub fn cases(full: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    for lower in TOLD {
        let mpi = lower.mpi;
        let case = |kind: &str| lower.case(&format!("registration/{kind}"));
        cases.push(Case::new(case("told"), move |_, dir| {
            told(lower, STEPS, dir).into()
        }));
        cases.push(Case::new(case("signals"), move |_, dir| {
            signals(lower, dir).into()
        }));
        cases.push(Case::new(case("continue"), move |_, dir| {
            continues(lower, dir).into()
        }));
        for (name, first) in [("restart", mpi), ("migrate", mpi.other())] {
            cases.push(Case::new(case(name), move |_, dir| {
                restarts(first, lower, dir).into()
            }));
        }
        if full {
            cases.push(Case::new(case("million"), move |_, dir| {
                told(lower, MANY_STEPS, dir).into()
            }));
        }
    }
    for mpi in Mpi::ALL {
        let told_by = By::Nobody;
        let lower = Registering { mpi, told_by };
        let name = format!("registration/control:{mpi}");
        cases.push(Case::new(name, move |_, dir| control(lower, dir).into()));
    }
    cases
}

/// A user's folder with a lower half that sends by registrations; the value of XDG_DATA_HOME.
fn registering_lower(mpi: Mpi, dir: &Path) -> Result<PathBuf> {
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
    let compiler = mpi.mpicc().to_string_lossy().into_owned();
    let part = compile(&folder, &compiler, "registering.c", &flags)?;
    let lower = format!("lower-{mpi}");
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

impl Registering {
    /// The name of a case over this lower half.
    pub fn case(self, name: &str) -> String {
        format!("{name}:{}.{}", self.mpi, self.told_by.name())
    }

    /// The command over this lower half.
    pub fn below(self, mut command: Command, dir: &Path) -> Result<Command> {
        command.env("XDG_DATA_HOME", registering_lower(self.mpi, dir)?);
        command.env("REGISTERING_TOLD_BY", self.told_by.name());
        Ok(command)
    }

    /// The example over this lower half.
    fn start(self, steps: usize, ckpt: &Path, dir: &Path) -> Result<Job> {
        let launch = stasis::launch(self.mpi, RANKS, ckpt, dir);
        start(self.below(launch, dir)?, self.mpi, steps, dir)
    }
}

fn start(launch: Command, mpi: Mpi, steps: usize, dir: &Path) -> Result<Job> {
    let mut command = launch;
    command.env("REMAPPED_STEPS", steps.to_string());
    begin(command, &example("p2p", "p2p/remapped")?, dir, mpi)
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
    /// Signals of the application that were sent while the part was told.
    raised: usize,
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
            [registered, used_again, told, late, own, wrong, raised] => Some(Count {
                registered,
                used_again,
                told,
                late,
                own,
                wrong,
                raised,
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
fn told(lower: Registering, steps: usize, dir: &Path) -> Result<()> {
    fs::write(dir.join("go"), "")?;
    let mut job = lower.start(steps, &dir.join("ck"), dir)?;
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

/// A signal that arrives while a cache is told waits for the end of the call: its handler interrupts the program, not
/// the library, whose locks are held. None is lost.
fn signals(lower: Registering, dir: &Path) -> Result<()> {
    fs::write(dir.join("go"), "")?;
    let launch = stasis::launch(lower.mpi, RANKS, &dir.join("ck"), dir);
    let mut launch = lower.below(launch, dir)?;
    launch.env("REMAPPED_SIGNALS", "1");
    let mut job = start(launch, lower.mpi, STEPS, dir)?;
    ends(&mut job, dir)?;
    let text = job::read_text(&job.stderr);
    let handled = text.lines().filter_map(|line| {
        let (_, number) = line.split_once("remapped: ")?;
        number.strip_suffix(" signals")?.parse::<usize>().ok()
    });
    let handled: usize = handled.sum();
    let counts = counts(&job)?;
    let raised: usize = counts.iter().map(|count| count.raised).sum();
    ensure!(raised > 0, "signals were blocked in all told calls");
    ensure!(
        handled == raised,
        "of {raised} signals {handled} were handled"
    );
    counts.iter().try_for_each(is_right)
}

/// The same with a checkpoint in the middle.
fn continues(lower: Registering, dir: &Path) -> Result<()> {
    let ckpt = dir.join("ck");
    let mut job = lower.start(STEPS, &ckpt, dir)?;
    reach_cut(&mut job, dir)?;
    stasis::take_checkpoint(&ckpt, dir, "checkpoint", LIMIT)?;
    ends_well(&mut job, dir)
}

/// The same after a restart of a job that ran over `mpi`.
fn restarts(mpi: Mpi, lower: Registering, dir: &Path) -> Result<()> {
    let ckpt = dir.join("ck");
    let mut job = start(stasis::launch(mpi, RANKS, &ckpt, dir), mpi, STEPS, dir)?;
    reach_cut(&mut job, dir)?;
    take_checkpoint(&mut job, dir, &ckpt)?;
    let command = stasis::restart(lower.mpi, RANKS, &ckpt, dir);
    let mut job = Job::start(lower.below(command, dir)?, dir, "restart")?;
    ends_well(&mut job, dir)
}

/// A cache that nobody tells sends wrong bytes, so that the other cases can fail.
fn control(lower: Registering, dir: &Path) -> Result<()> {
    fs::write(dir.join("go"), "")?;
    let said = dir.join("said");
    let mut launch = lower.below(stasis::launch(lower.mpi, RANKS, &dir.join("ck"), dir), dir)?;
    // Hydra may lose what a rank prints shortly before MPI_Abort.
    launch.args(["sh", "-c", "exec \"$@\" 2>>\"$SAID\"", "sh"]);
    launch.env("SAID", &said);
    let mut job = start(launch, lower.mpi, STEPS, dir)?;
    let ended = job.wait(Instant::now() + LIMIT)?.context("it hangs")?;
    ensure!(!ended.success(), "nothing went wrong");
    let said = job::read_text(&said);
    ensure!(
        said.contains("has other bytes"),
        "it failed by another cause: {said}"
    );
    Ok(())
}
