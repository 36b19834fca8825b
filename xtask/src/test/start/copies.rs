//! Copies of a job (`restart --copy-of`), which run beside it and change nothing of it.

use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::{paths, stasis};
use crate::test::support::held_job::{example, reach_cut, start_by, take_checkpoint, RANKS};
use crate::test::support::refusal::{refused, DIRECTORY, IMAGE, USAGE};
use crate::test::Case;
use anyhow::{ensure, Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(120);
/// Copies of one checkpoint at a time, and in all.
const AT_A_TIME: usize = 2;
const COPIES: usize = 10;

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for mpi in Mpi::ALL {
        let other = mpi.other();
        cases.push(Case::new(
            format!("copies/ten:{mpi}>{other}"),
            move |_, dir| ten(mpi, dir).into(),
        ));
    }
    cases.push(Case::new("copies/refused", |_, dir| refusals(dir).into()));
    cases
}

/// Content of all files below a folder.
fn listing(folder: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            all.extend(listing(&entry.path())?);
        } else if kind.is_file() {
            all.insert(entry.path(), fs::read(entry.path())?);
        }
    }
    Ok(all)
}

/// A job that was started in `first`, and goes on after a checkpoint.
fn original(mpi: Mpi, dir: &Path, first: &Path, ckpt: &Path) -> Result<Job> {
    fs::create_dir(first)?;
    let study = example("files", "files/study")?;
    let mut job = start_by(stasis::launch(mpi, RANKS, ckpt, first), &study, first, mpi)?;
    let taken = stasis::take_checkpoint(ckpt, dir, "checkpoint", LIMIT);
    job.explain(taken, first)?;
    // From here on the first job's directory does not change by itself.
    stasis::until_noted(&mut job, ckpt, "checkpoint", 1, Instant::now() + LIMIT)?;
    Ok(job)
}

/// The job in a folder has gone on with this parameter.
fn went_on(folder: &Path, parameter: usize) -> Result<()> {
    let result = fs::read_to_string(folder.join("result"))?;
    let right = format!("begun at 7, went on with {parameter}\n");
    ensure!(
        result == right,
        "{} has {result:?}, not {right:?}",
        folder.display()
    );
    Ok(())
}

/// `mpirun -n RANKS stasis restart --copy-of SET --ckpt-dir OWN`.
fn copy_of(set: &Path, own: &Path, mpi: Mpi, scratch: &Path) -> Command {
    let mut copy = mpi.mpirun(RANKS, scratch);
    copy.arg(paths::stasis()).arg("restart").arg("--copy-of");
    copy.arg(set).arg("--ckpt-dir").arg(own);
    copy
}

/// The first job has overwritten and extended its files since the checkpoint, and waits. Ten copies end with the right
/// result, under both libraries in turn, and nothing of the first job changes.
fn ten(mpi: Mpi, dir: &Path) -> Result<()> {
    let (first, ckpt) = (dir.join("first"), dir.join("first/ck"));
    let mut original = original(mpi, dir, &first, &ckpt)?;
    for rank in 0..RANKS {
        fs::remove_file(first.join(format!("ready.{rank}")))?;
    }
    fs::write(first.join("overwrite"), "")?;
    reach_cut(&mut original, &first)?;
    let before = listing(&first)?;
    let set = ckpt.join("ckpt-1");
    let copies: Vec<PathBuf> = (0..COPIES).map(|n| dir.join(format!("copy-{n}"))).collect();
    for (round, folders) in copies.chunks(AT_A_TIME).enumerate() {
        let mpi = if round % 2 == 0 { mpi.other() } else { mpi };
        let mut jobs = Vec::new();
        for (n, folder) in folders.iter().enumerate() {
            fs::create_dir(folder)?;
            let parameter = round * AT_A_TIME + n;
            fs::write(folder.join("parameter"), parameter.to_string())?;
            fs::write(folder.join("go"), "")?;
            let mut copy = copy_of(&set, &folder.join("ck"), mpi, folder);
            copy.arg("--workdir").arg(folder).current_dir(dir);
            jobs.push((parameter, folder, Job::start(copy, folder, "copy")?));
        }
        for (parameter, folder, mut copy) in jobs {
            copy.succeed(Instant::now() + LIMIT, folder)?;
            went_on(folder, parameter)?;
        }
    }
    goes_on(mpi, &set, dir)?;
    let after = listing(&first)?;
    let changed: Vec<_> = before
        .keys()
        .chain(after.keys())
        .filter(|path| before.get(*path) != after.get(*path))
        .collect();
    ensure!(
        changed.is_empty(),
        "these files of the first job changed: {changed:?}"
    );
    fs::write(first.join("parameter"), "100")?;
    fs::write(first.join("go"), "")?;
    original.succeed(Instant::now() + LIMIT, &first)?;
    went_on(&first, 100)
}

/// A copy takes a checkpoint of its own, is killed, and goes on from it under the other library.
fn goes_on(mpi: Mpi, set: &Path, dir: &Path) -> Result<()> {
    let folder = dir.join("goes-on");
    let own = folder.join("ck");
    fs::create_dir(&folder)?;
    let mut copy = copy_of(set, &own, mpi, &folder);
    copy.arg("--workdir").arg(&folder).current_dir(dir);
    let mut job = Job::start(copy, &folder, "copy")?;
    stasis::until_reached(&mut job, &own, "", Instant::now() + LIMIT)?;
    take_checkpoint(&mut job, &folder, &own)?;
    fs::write(folder.join("parameter"), "11")?;
    fs::write(folder.join("go"), "")?;
    let restart = stasis::restart(mpi.other(), RANKS, &own, &folder);
    let mut job = Job::start(restart, &folder, "restart")?;
    job.succeed(Instant::now() + LIMIT, &folder)?;
    went_on(&folder, 11)
}

/// A file that both jobs would write is refused by name, as are other uses of the options.
fn refusals(dir: &Path) -> Result<()> {
    let mpi = Mpi::Mpich;
    let (first, ckpt) = (dir.join("first"), dir.join("first/ck"));
    let mut original = original(mpi, dir, &first, &ckpt)?;
    let before = listing(&first)?;
    let copy = |name: &str, more: &[&str], own: &Path| {
        let mut copy = copy_of(&ckpt, own, mpi, dir);
        copy.args(more).current_dir(dir);
        job::run(copy, dir, name, LIMIT)
    };
    let own = dir.join("own");
    let shared = copy("shared", &[], &own)?;
    refused(&shared, IMAGE, &[&["first/result"], &["--workdir"]])?;
    refused(&copy("same", &[], &ckpt)?, DIRECTORY, &[&["new directory"]])?;
    refused(
        &copy("workdir", &["--workdir", "missing"], &own)?,
        DIRECTORY,
        &[&["missing"]],
    )?;
    let mut other = stasis::command(["restart", "--ckpt-dir", "other"]);
    other.arg(&ckpt).current_dir(dir);
    let other = job::run(other, dir, "other", LIMIT)?;
    refused(&other, USAGE, &[&["--copy-of"]])?;
    let after = listing(&first)?;
    ensure!(
        before == after,
        "a refused copy changed files of the first job"
    );
    original.kill().context("ending the first job")
}
