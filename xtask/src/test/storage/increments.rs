//! Incremental checkpoints: a job with small changes of memory between checkpoints, killed and restarted from the
//! chain; an abandoned increment; retention; chains with a damaged link; merged chains. Each case runs twice: the
//! kernel watches writes, or it does not, and digests are compared.

use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::stasis;
use crate::test::start::registration_caches::{Registering, TOLD};
use crate::test::support::held_job::{bring_back, example, start_by};
use crate::test::support::helper_programs::{compile, on_older_kernel};
use crate::test::support::phased_job::PhasedJob;
use crate::test::support::refusal::{refused, CHECKPOINT, DIRECTORY, IMAGE};
use crate::test::Case;
use anyhow::{ensure, Context, Result};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(120);
const RANKS: usize = 2;

/// The kernel of a case: its own, or one that seems to lack the feature of this name (`examples/tools/older_kernel.c`).
#[derive(Clone, Copy)]
struct Kernel(Option<&'static str>);

const OWN: Kernel = Kernel(None);
/// Forbids userfaultfd, as some containers do.
const UNWATCHED: Kernel = Kernel(Some("watch"));

impl Kernel {
    /// The command on this kernel.
    fn run(self, command: Command, dir: &Path) -> Result<Command> {
        match self.0 {
            Some(feature) => on_older_kernel(feature, &command, dir),
            None => Ok(command),
        }
    }
}

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    type Run = fn(&Path, Kernel) -> Result<()>;
    let both: [(&str, Run); 6] = [
        ("restart", |dir, on| chain(dir, on, Mpi::Mpich, Mpi::Mpich)),
        ("migrate", |dir, on| {
            chain(dir, on, Mpi::OpenMpi, Mpi::Mpich)
        }),
        ("given-up", given_up),
        ("kept", kept),
        ("bad-link", bad_link),
        ("compact", compacted),
    ];
    let case = |name: &str, run: Run, on: Kernel| {
        Case::new(format!("increments/{name}"), move |_, dir| {
            run(dir, on).into()
        })
    };
    let marks = both.iter().map(|(name, run)| case(name, *run, OWN));
    let digests = both
        .iter()
        .map(|(name, run)| case(&format!("digests-{name}"), *run, UNWATCHED));
    let others = [
        case("without-scan", without, Kernel(Some("scan"))),
        case("without-watch", without, UNWATCHED),
        case("one-without-watch", one_without, OWN),
    ];
    let all = marks.chain(digests).chain(others);
    let late = [
        case("loads-late", loads_late, OWN),
        case("guard-pages", guard_pages, OWN),
        case("digests-guard-pages", guard_pages, UNWATCHED),
        case("remapped-parts", remapped_parts, OWN),
        case("digests-remapped-parts", remapped_parts, UNWATCHED),
    ];
    let registered = TOLD.map(|lower| {
        Case::new(lower.case("increments/registered"), move |_, dir| {
            registered(dir, lower).into()
        })
    });
    all.chain(late).chain(registered).collect()
}

/// The MPI library is loaded into memory that was freed after the first checkpoint. The increment holds the code of the
/// library, not the content of the freed memory.
fn loads_late(dir: &Path, on: Kernel) -> Result<()> {
    let program = compile(dir, "cc", "loads_late.c", &["-ldl"])?;
    let mut launch = stasis::launch(Mpi::OpenMpi, 1, &dir.join("ck"), dir);
    launch.args(["--full-every", "8"]).arg(program);
    let mut job = PhasedJob::start(on.run(launch, dir)?, dir)?;
    for number in 1..=2 {
        job.reach(number)?;
        job.checkpoint()?;
        if number == 1 {
            job.go(1)?;
        }
    }
    job.restart(Mpi::Mpich, "ckpt-2")?;
    job.go(2)?;
    job.finish("version of MPI: ")
}

/// Guard pages come and go between the sets of a chain, and stay in the sets after a restart.
fn guard_pages(dir: &Path, on: Kernel) -> Result<()> {
    let program = compile(dir, &Mpi::Mpich.compiler("c"), "guards.c", &[])?;
    let mut launch = stasis::launch(Mpi::Mpich, 1, &dir.join("ck"), dir);
    launch.args(["--full-every", "8"]).arg(program);
    let mut job = PhasedJob::start(on.run(launch, dir)?, dir)?;
    for number in 1..=2 {
        job.reach(number)?;
        job.checkpoint()?;
        if number == 1 {
            job.go(1)?;
        }
    }
    job.restart(Mpi::OpenMpi, "ckpt-2")?;
    job.go(2)?;
    job.reach(3)?;
    job.checkpoint()?;
    job.restart(Mpi::Mpich, "ckpt-3")?;
    job.go(3)?;
    job.finish("all is there")
}

/// Parts of watched memory are replaced, and then all of it is moved, enlarged and shrunk, while checkpoints are taken.
fn remapped_parts(dir: &Path, on: Kernel) -> Result<()> {
    let program = compile(dir, &Mpi::Mpich.compiler("c"), "remapped_parts.c", &[])?;
    let mut launch = stasis::launch(Mpi::Mpich, 1, &dir.join("ck"), dir);
    launch
        .args(["--full-every", "9", "--keep", "all"])
        .arg(program);
    let mut job = PhasedJob::start(on.run(launch, dir)?, dir)?;
    job.reach(1)?;
    job.checkpoint()?;
    job.go(1)?;
    job.reach(2)?;
    for _ in 0..3 {
        job.checkpoint()?;
    }
    job.reach(3)?;
    job.checkpoint()?;
    // From a set behind all moves, and from one between two of them.
    job.restart(Mpi::OpenMpi, "ckpt-5")?;
    job.go(3)?;
    job.finish("all is there")?;
    job.restart(Mpi::OpenMpi, "ckpt-3")?;
    job.finish("all is there")
}

/// A job that changes a little of its memory in each permitted step.
struct Stepper<'a> {
    dir: &'a Path,
    on: Kernel,
    ckpt: PathBuf,
    job: Job,
    /// Number of permitted steps.
    steps: usize,
}

impl Stepper<'_> {
    /// Starts the job with these flags.
    fn launch<'a>(dir: &'a Path, on: Kernel, mpi: Mpi, flags: &[&str]) -> Result<Stepper<'a>> {
        let command = stasis::launch(mpi, RANKS, &dir.join("ck"), dir);
        Stepper::launch_by(command, dir, on, mpi, flags)
    }

    /// Starts the job by this command.
    fn launch_by<'a>(
        command: Command,
        dir: &'a Path,
        on: Kernel,
        mpi: Mpi,
        flags: &[&str],
    ) -> Result<Stepper<'a>> {
        let mut command = on.run(command, dir)?;
        let ckpt = dir.join("ck");
        let footprint = example("run", "run/footprint.random")?;
        command
            .args(flags)
            .env("STASIS_TEST_STEP", dir.join("step"));
        let job = start_by(command, &footprint, dir, mpi)?;
        let steps = 0;
        Ok(Stepper {
            dir,
            on,
            ckpt,
            job,
            steps,
        })
    }

    /// Kills and restarts the job.
    fn restart(&mut self, mpi: Mpi, flags: &[&str]) -> Result<()> {
        let command = stasis::restart(mpi, RANKS, &self.ckpt, self.dir);
        let mut command = self.on.run(command, self.dir)?;
        command
            .args(flags)
            .env("STASIS_TEST_GO", self.dir.join("go"));
        bring_back(&mut self.job, command, &self.ckpt, self.dir)
    }

    /// Lets 1 % of the job's memory change.
    fn step(&mut self) -> Result<()> {
        self.steps += 1;
        let (dir, first) = (self.dir, self.steps * RANKS);
        fs::write(dir.join(format!("step.{}", self.steps)), "")?;
        let done = |rank: usize| dir.join(format!("ready.{}", first + rank)).exists();
        let all = || (0..RANKS).all(done);
        let deadline = Instant::now() + LIMIT;
        let done = self.job.until("the step was done", deadline, all);
        self.job.explain(done, self.dir)
    }

    /// Takes a checkpoint, which must be an increment of this set, or a full one; then a step.
    fn take(&mut self, parent: Option<&str>) -> Result<Value> {
        let command = stasis::checkpoint(&self.ckpt);
        let report = stasis::json(command, self.dir, "checkpoint", LIMIT)?;
        ensure!(
            report["increment_of"].as_str() == parent,
            "not of {parent:?}: {report:#}"
        );
        self.step()?;
        Ok(report)
    }

    /// Bytes of each rank's memory that are registered with devices.
    fn pinned(&self) -> Result<Vec<u64>> {
        let of = |pid: i32| {
            let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
            let line = status.lines().find_map(|line| line.strip_prefix("VmPin:"));
            let size = line.context("the kernel does not tell")?.trim();
            Ok(size.trim_end_matches(" kB").parse::<u64>()? << 10)
        };
        self.job.ranks().into_iter().map(of).collect()
    }

    /// Names of the sets with their parents, newest first.
    fn sets(&self) -> Result<Vec<(String, Option<String>)>> {
        let mut list = stasis::command(["list"]);
        list.arg(&self.ckpt);
        let list = stasis::json(list, self.dir, "list", LIMIT)?;
        let sets = list["checkpoints"].as_array().into_iter().flatten();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        sets.map(|set| {
            ensure!(set["state"] == "whole", "{set:#}");
            let name = text(&set["name"]).context("a set without a name")?;
            Ok((name, text(&set["increment_of"])))
        })
        .collect()
    }

    /// Restarts the job from there and lets it run to its end, at which it checks all of its memory.
    fn finish(mut self, mpi: Mpi, from: &str, flags: &[&str]) -> Result<()> {
        self.job.kill()?;
        fs::write(self.dir.join("go"), "")?;
        let command = stasis::restart(mpi, RANKS, &self.ckpt.join(from), self.dir);
        let mut command = self.on.run(command, self.dir)?;
        command
            .args(flags)
            .env("STASIS_TEST_GO", self.dir.join("go"));
        self.job = Job::start(command, self.dir, "last")?;
        self.job.succeed(Instant::now() + LIMIT, self.dir)
    }
}

/// Several cuts in one run, and again after a restart. The first cut after a restart makes a full set.
fn chain(dir: &Path, on: Kernel, first: Mpi, second: Mpi) -> Result<()> {
    let key = dir.join("key");
    fs::write(&key, [7; 32])?;
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600))?;
    let key = key.to_string_lossy();
    let flags = ["--full-every", "3", "--keep", "all", "--key-file", &key];
    let mut job = Stepper::launch(dir, on, first, &flags)?;
    let full = job.take(None)?["bytes"].as_u64().context("no bytes")?;
    let least = job.take(Some("ckpt-1"))?["bytes"].as_u64();
    ensure!(
        least.is_some_and(|least| least < full / 4),
        "{least:?} of {full}"
    );
    for parent in [Some("ckpt-2"), None, Some("ckpt-4")] {
        job.take(parent)?;
    }
    job.restart(second, &flags)?;
    for parent in [None, Some("ckpt-6"), Some("ckpt-7")] {
        job.take(parent)?;
    }
    let mut verify = stasis::command(["verify", "--key-file", &key]);
    verify.arg(&job.ckpt);
    job::run(verify, dir, "verify", LIMIT)?.expect_success("verify")?;
    let mut diff = stasis::command(["diff", "--key-file", &key]);
    diff.args([job.ckpt.join("ckpt-7"), job.ckpt.join("ckpt-8")]);
    let diff = stasis::json(diff, dir, "diff", LIMIT)?;
    let bytes = |name: &str| diff["all"][name].as_u64().unwrap_or(0);
    ensure!(
        bytes("changed_bytes") > 0 && bytes("same_bytes") > 20 * bytes("changed_bytes"),
        "{diff:#}"
    );
    job.finish(first, "", &["--key-file", &key])
}

/// A checkpoint fails in one rank after all have found the changed pages. The next increment holds the changes of both
/// intervals.
fn given_up(dir: &Path, on: Kernel) -> Result<()> {
    let flags = ["--full-every", "9"];
    let mut job = Stepper::launch(dir, on, Mpi::OpenMpi, &flags)?;
    job.take(None)?;
    job.take(Some("ckpt-1"))?;
    let pids = job.job.pids();
    let limit = |bytes: &str| {
        pids.iter().try_for_each(|pid| {
            let mut command = Command::new("prlimit");
            command.args(["--pid", &pid.to_string(), &format!("--fsize={bytes}")]);
            let done = job::run(command, dir, "prlimit", LIMIT)?;
            done.expect_success("prlimit").map(drop)
        })
    };
    limit("4096:")?;
    let failed = job::run(stasis::checkpoint(&job.ckpt), dir, "failed", LIMIT)?;
    refused(&failed, CHECKPOINT, &[&["file too large"]])?;
    limit("unlimited:")?;
    job.step()?;
    job.take(Some("ckpt-2"))?;
    job.finish(Mpi::OpenMpi, "", &[])
}

/// Without dirty tracking in the kernel the job says so, and finds changes by digests.
fn without(dir: &Path, on: Kernel) -> Result<()> {
    let mut job = Stepper::launch(dir, on, Mpi::OpenMpi, &["--full-every", "9"])?;
    let told = job::read_text(&job.job.stderr);
    ensure!(
        told.contains("each checkpoint compares digests of all memory"),
        "not told: {told}"
    );
    small_changes(&mut job)?;
    job.finish(Mpi::Mpich, "", &[])
}

/// The MPI library keeps memory registered with a device, which writes to it unseen. At the cut the library gives the
/// registrations up. So increments are small, by marks, and hold what the device has written.
fn registered(dir: &Path, lower: Registering) -> Result<()> {
    let launch = stasis::launch(lower.mpi, RANKS, &dir.join("ck"), dir);
    let mut command = lower.below(launch, dir)?;
    command.envs([("REGISTERING_PINS", "1"), ("FOOTPRINT_SENDS", "1")]);
    command.env("STASIS_LOG", "info");
    let log = dir.join("log");
    let log = log.to_string_lossy();
    let flags = ["--full-every", "9", "--log-dir", &log];
    let mut job = Stepper::launch_by(command, dir, OWN, lower.mpi, &flags)?;
    job.step()?;
    let mut full = None;
    for parent in [None, Some("ckpt-1"), Some("ckpt-2"), Some("ckpt-3")] {
        ensure!(
            job.pinned()?.iter().all(|bytes| *bytes > 0),
            "nothing is registered"
        );
        let command = stasis::checkpoint(&job.ckpt);
        let report = stasis::json(command, dir, "checkpoint", LIMIT)?;
        ensure!(
            job.pinned()?.iter().all(|bytes| *bytes == 0),
            "something is still registered"
        );
        ensure!(report["increment_of"].as_str() == parent, "{report:#}");
        let bytes = report["bytes"].as_u64().context("no bytes")?;
        let full = *full.get_or_insert(bytes);
        ensure!(parent.is_none() || bytes < full / 4, "{bytes} of {full}");
        job.step()?;
    }
    let mut log = String::new();
    for file in fs::read_dir(dir.join("log"))? {
        log += &job::read_text(&file?.path());
    }
    ensure!(log.contains("memory examined"), "nothing was logged");
    ensure!(!log.contains("found by digests"), "not by marks: {log}");
    job.finish(lower.mpi.other(), "", &[])
}

/// Marks find the changes of one rank, and digests those of the other.
fn one_without(dir: &Path, on: Kernel) -> Result<()> {
    let mut command = stasis::launch(Mpi::Mpich, RANKS, &dir.join("ck"), dir);
    command.env("STASIS_FAULT", "unwatched@1");
    let mut job = Stepper::launch_by(command, dir, on, Mpi::Mpich, &["--full-every", "9"])?;
    small_changes(&mut job)?;
    job.finish(Mpi::OpenMpi, "", &[])
}

/// Two increments are much smaller than the full set before them.
fn small_changes(job: &mut Stepper<'_>) -> Result<()> {
    let full = job.take(None)?["bytes"].as_u64().context("no bytes")?;
    for parent in ["ckpt-1", "ckpt-2"] {
        let bytes = job.take(Some(parent))?["bytes"].as_u64();
        ensure!(
            bytes.is_some_and(|bytes| bytes < full / 4),
            "{bytes:?} of {full}"
        );
    }
    Ok(())
}

/// Retention removes no parent of a remaining set.
fn kept(dir: &Path, on: Kernel) -> Result<()> {
    let flags = ["--full-every", "3", "--keep", "1"];
    let mut job = Stepper::launch(dir, on, Mpi::Mpich, &flags)?;
    for parent in [None, Some("ckpt-1"), Some("ckpt-2")] {
        job.take(parent)?;
    }
    let named = |names: &[(&str, Option<&str>)]| -> Vec<(String, Option<String>)> {
        let owned =
            |(name, parent): &(&str, Option<&str>)| ((*name).to_owned(), parent.map(str::to_owned));
        names.iter().map(owned).collect()
    };
    let all = named(&[
        ("ckpt-3", Some("ckpt-2")),
        ("ckpt-2", Some("ckpt-1")),
        ("ckpt-1", None),
    ]);
    ensure!(job.sets()? == all, "{:?}", job.sets()?);
    job.take(None)?;
    // Older sets are removed after the answer.
    let (ckpt, deadline) = (job.ckpt.clone(), Instant::now() + LIMIT);
    let gone = || !ckpt.join("ckpt-1").exists() && !ckpt.join("ckpt-1.partial").exists();
    let removed = job.job.until("old sets were removed", deadline, gone);
    job.job.explain(removed, dir)?;
    ensure!(
        job.sets()? == named(&[("ckpt-4", None)]),
        "{:?}",
        job.sets()?
    );
    job.take(Some("ckpt-4"))?;
    // The parent of the next increment is removed.
    fs::remove_dir_all(job.ckpt.join("ckpt-4"))?;
    job.take(None)?;
    job.finish(Mpi::OpenMpi, "", &[])
}

/// A chain with a damaged link is refused before anything is mapped. The message names the newest set without that
/// link.
fn bad_link(dir: &Path, on: Kernel) -> Result<()> {
    let flags = ["--full-every", "2", "--keep", "all"];
    let mut job = Stepper::launch(dir, on, Mpi::Mpich, &flags)?;
    for parent in [None, Some("ckpt-1"), None, Some("ckpt-3")] {
        job.take(parent)?;
    }
    job.job.kill()?;
    let image = job.ckpt.join("ckpt-3/rank-1.img");
    let sound = fs::read(&image)?;
    let file = fs::File::options().write(true).open(&image)?;
    file.write_all_at(&[sound[5000] ^ 1], 5000)?;
    let restart = |name: &str| {
        let command = stasis::restart(Mpi::Mpich, RANKS, &job.ckpt.join("ckpt-4"), dir);
        job::run(command, dir, name, LIMIT)
    };
    let words: &[&[&str]] = &[
        &["ckpt-4 needs ckpt-3"],
        &["ckpt-3/rank-1.img"],
        &["checksum"],
        &["stasis restart"],
        &["ck/ckpt-2"],
    ];
    refused(&restart("damaged")?, IMAGE, words)?;
    let verify = stasis::verify(&job.ckpt, dir, LIMIT)?;
    refused(&verify, IMAGE, &[&["ckpt-4: ckpt-4 needs ckpt-3"]])?;
    fs::remove_dir_all(job.ckpt.join("ckpt-3"))?;
    refused(&restart("missing")?, IMAGE, &[&["no set ckpt-3"]])?;
    job.finish(Mpi::OpenMpi, "ckpt-2", &[])
}

/// A merged chain needs no other set, and a restart uses it.
fn compacted(dir: &Path, on: Kernel) -> Result<()> {
    let flags = ["--full-every", "5", "--keep", "all"];
    let mut job = Stepper::launch(dir, on, Mpi::OpenMpi, &flags)?;
    for parent in [None, Some("ckpt-1"), Some("ckpt-2")] {
        job.take(parent)?;
    }
    let compact = || {
        let mut command = stasis::command(["compact", "--keep", "1"]);
        command.arg(dir.join("ck"));
        command
    };
    let running = job::run(compact(), dir, "running", LIMIT)?;
    refused(
        &running,
        DIRECTORY,
        &[&["is used by a job that runs already"]],
    )?;
    job.job.kill()?;
    let merged = stasis::json(compact(), dir, "compact", LIMIT)?;
    ensure!(
        merged["set"] == "ckpt-4" && merged["merged"][2] == "ckpt-1",
        "{merged:#}"
    );
    ensure!(
        job.sets()? == [("ckpt-4".to_owned(), None)],
        "{:?}",
        job.sets()?
    );
    job.finish(Mpi::Mpich, "", &[])
}
