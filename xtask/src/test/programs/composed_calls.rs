//! MPI calls that are composed of several calls of the library: cut between any two of these, killed, and restarted
//! under both libraries.

use crate::harness::job::{self, Finished, Job};
use crate::harness::mpi::Mpi;
use crate::harness::random::Random;
use crate::harness::stasis;
use crate::test::support::compile::command_line;
use crate::test::support::held_job::example;
use crate::test::Case;
use anyhow::{bail, ensure, Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
const RANKS: usize = 2;
/// Crossings at which a case cuts without `--full`.
const SAMPLE: usize = 3;
/// Upper bound of the crossings of a program.
const NEVER: u64 = 1 << 40;

/// The cases; with `full` each cuts after every crossing.
pub fn cases(full: bool) -> Vec<Case> {
    let programs = [
        ("window", "window/composed.window", Mpi::OpenMpi),
        ("window", "window/composed.file", Mpi::OpenMpi),
        ("window", "window/composed.persistent", Mpi::OpenMpi),
        ("p2p", "p2p/large_counts.fitting", Mpi::Mpich),
        ("window", "window/large_counts", Mpi::Mpich),
    ];
    let each = programs.into_iter().flat_map(|(folder, program, front)| {
        // The composition depends on the library below.
        Mpi::ALL.map(|lower| {
            let name = format!("crossings/{program}:{front}>{lower}");
            Case::new(name.clone(), move |session, dir| {
                let random = Random::new(session.seed, &name);
                let sweep = example(folder, program).and_then(|example| {
                    Ok(Sweep {
                        dir,
                        line: command_line(&example, Some(front))?,
                        lower,
                    })
                });
                sweep.and_then(|sweep| sweep.run(full, random)).into()
            })
        })
    });
    each.collect()
}

/// Leaves windows to the library.
const WINDOWS: (&str, &str) = ("STASIS_WINDOWS", "library");

struct Sweep<'a> {
    dir: &'a Path,
    line: Vec<String>,
    lower: Mpi,
}

impl Sweep<'_> {
    fn run(&self, full: bool, mut random: Random) -> Result<()> {
        let (whole, _) = self.cut(NEVER, 0, "whole")?;
        let whole = whole.expect_success("a run that is not cut")?.stdout;
        let last = |text: &str| {
            let line = text.lines().find(|line| line.starts_with("OK "));
            line.map(str::to_owned)
        };
        let whole = last(&whole).context("the run says nothing")?;
        let (mut tried, mut cut) = (0, 0);
        for rank in 0..RANKS {
            let all = self.crossings(rank)?;
            let wanted: Vec<u64> = match full {
                true => (1..=all).collect(),
                false => (0..SAMPLE).map(|_| 1 + random.below(all)).collect(),
            };
            for number in wanted {
                let was_cut = self
                    .killed(number, rank, &whole, &last)
                    .with_context(|| format!("after crossing {number} of {all} of rank {rank}"))?;
                (tried, cut) = (tried + 1, cut + u32::from(was_cut));
            }
        }
        ensure!(
            2 * cut >= tried,
            "of {tried} cuts only {cut} were made before the job ended"
        );
        Ok(())
    }

    /// Number of crossings of a rank.
    fn crossings(&self, rank: usize) -> Result<u64> {
        let (run, _) = self.cut(NEVER, rank, &format!("count-{rank}"))?;
        let said = run
            .expect_success("a run whose crossings are counted")?
            .stderr;
        let told = said.lines().find_map(|line| {
            let (_, count) = line.split_once("STASIS_CUT: ")?;
            count
                .strip_suffix(" crossings, no checkpoint")?
                .parse()
                .ok()
        });
        told.with_context(|| format!("it does not tell how many:\n{said}"))
    }

    /// Runs the program with a cut.
    fn cut(&self, number: u64, rank: usize, name: &str) -> Result<(Finished, PathBuf)> {
        let dir = self.dir.join(name);
        fs::create_dir_all(&dir)?;
        let mut command = stasis::launch(self.lower, RANKS, &dir.join("ck"), &dir);
        command
            .args(&self.line)
            .current_dir(&dir)
            .env("STASIS_CUT", format!("crossing:{number}@{rank}"));
        if self.launches_with_windows_of_the_library() {
            command.env(WINDOWS.0, WINDOWS.1);
        }
        Ok((job::run(command, &dir, "run", LIMIT)?, dir))
    }

    /// A job begins with direct windows and goes on with windows of the library, as on several nodes, or the other way.
    fn launches_with_windows_of_the_library(&self) -> bool {
        self.lower == Mpi::OpenMpi
    }

    /// Cuts and kills the program there, and restarts it under both libraries, unless a rank has ended before: the
    /// number of crossings depends on the time of waiting.
    fn killed(
        &self,
        number: u64,
        rank: usize,
        whole: &str,
        last: &impl Fn(&str) -> Option<String>,
    ) -> Result<bool> {
        let name = format!("cut-{rank}-{number}");
        let (run, dir) = self.cut(number, rank, &name)?;
        let ckpt = dir.join("ck");
        if !ckpt.join("ckpt-1/manifest.json").is_file() {
            let ends = run.status.success() && last(&run.stdout).as_deref() == Some(whole);
            let said = job::tail(&run.stderr, 12);
            ensure!(ends, "no checkpoint was taken:\n{said}");
            return Ok(false);
        }
        ensure!(!run.status.success(), "it was not killed");
        for under in [self.lower, self.lower.other()] {
            let mut command: Command = stasis::restart(under, RANKS, &ckpt.join("ckpt-1"), &dir);
            if !self.launches_with_windows_of_the_library() {
                command.env(WINDOWS.0, WINDOWS.1);
            }
            let mut job = Job::start(command, &dir, &format!("restart-{under}"))?;
            job.succeed(Instant::now() + LIMIT, &dir)
                .with_context(|| format!("restarted under {under}"))?;
            let is = last(&job::read_text(&job.stdout));
            match is {
                Some(is) if is == whole => {}
                // The program may have printed this before the cut.
                None if last(&run.stdout).as_deref() == Some(whole) => {}
                is => bail!("restarted under {under} it says {is:?}, not {whole}"),
            }
        }
        fs::remove_dir_all(&dir)?;
        Ok(true)
    }
}
