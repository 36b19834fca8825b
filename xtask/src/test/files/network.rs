//! Files on a file system that is like those of networks (`examples/tools/network_files.c`): its files have other inode
//! numbers at each mount, and a file that is removed while it is open gets a hidden name. The ranks are killed
//! some time after the checkpoint. Then the file system is mounted again, and the job goes on under the other library.
//!
//! Some of these file systems have no hard links, and some no file locks.
//!
//! A file that another machine removes while it is open is lost (ESTALE).
//!
//! Two machines are simulated by two mounts of the file system that holds the checkpoint directory. The ranks use one
//! mount. The commands and the restart use the other one, which caches names and attributes until a file is opened.

use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::stasis;
use crate::test::support::compile::command_line;
use crate::test::support::held_job::{
    bring_back, example, reach_cut, start_held, take_checkpoint, RANKS,
};
use crate::test::support::network_files::{on_file_system, Mounted};
use crate::test::support::refusal::{refused, CHECKPOINT};
use crate::test::Case;
use anyhow::{ensure, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

const LIMIT: Duration = Duration::from_secs(60);
/// A file in it has its numbers changed at once.
const RENUMBER: &str = "renumber";

/// What happens to the inode numbers before the checkpoint.
#[derive(Clone, Copy, PartialEq)]
enum Numbers {
    Stay,
    Change,
}

/// All cases of this file. Each program checks its files itself.
pub fn cases() -> Vec<Case> {
    let programs = [
        ("files/closed", Numbers::Stay, None),
        ("files/closed", Numbers::Change, None),
        ("files/overwritten", Numbers::Stay, None),
        ("files/regular", Numbers::Stay, None),
        ("tools/removed", Numbers::Stay, None),
        ("files/closed", Numbers::Stay, Some("no-links")),
        ("tools/removed", Numbers::Stay, Some("no-links")),
        ("files/closed", Numbers::Stay, Some("no-locks")),
    ];
    let mut cases = Vec::new();
    for (program, numbers, way) in programs {
        for mpi in Mpi::ALL {
            let (other, moved) = (mpi.other(), numbers == Numbers::Change);
            let moved = if moved { "-renumbered" } else { "" };
            let without = way.map(|way| format!("-{way}")).unwrap_or_default();
            let (_, short) = program.split_once('/').unwrap_or_default();
            let name = format!("network-files/{short}{moved}{without}:{mpi}>{other}");
            cases.push(Case::new(name, move |_, dir| {
                on_file_system(|| mounted_anew(dir, program, numbers, way, [mpi, other]))
            }));
        }
    }
    for mpi in Mpi::ALL {
        let other = mpi.other();
        cases.push(Case::new(
            format!("network-files/stale:{mpi}>{other}"),
            move |_, dir| on_file_system(|| stale(dir, mpi)),
        ));
        cases.push(Case::new(
            format!("network-files/two-mounts:{mpi}>{other}"),
            move |_, dir| on_file_system(|| two_mounts(dir, mpi)),
        ));
    }
    cases
}

/// `way` names what the file system lacks, if anything.
fn mounted_anew(
    dir: &Path,
    program: &str,
    numbers: Numbers,
    way: Option<&str>,
    [mpi, other]: [Mpi; 2],
) -> Result<()> {
    let kept = dir.join("kept");
    let work = dir.join("work");
    let mounted = Mounted::new(dir, &kept, &work, 0, way.as_slice())?;
    // On the same file system, so that the journal keeps links to files.
    let ckpt = work.join("ck");
    let mut launch = stasis::launch(mpi, RANKS, &ckpt, dir);
    let (folder, _) = program.split_once('/').unwrap_or_default();
    let program = example(folder, program)?;
    launch.args(command_line(&program, Some(mpi))?);
    let mut job = start_in(&work, launch, dir, "launch")?;
    reach_cut(&mut job, dir)?;
    if numbers == Numbers::Change {
        fs::write(work.join(RENUMBER), "")?;
    }
    let taken = job::run(stasis::checkpoint(&ckpt), dir, "checkpoint", LIMIT)?;
    job.explain(taken.expect_success("stasis checkpoint"), dir)?;
    if folder == "files" {
        let before = state_of(&kept)?;
        job.until("the files change", Instant::now() + LIMIT, || {
            state_of(&kept).is_ok_and(|now| now != before)
        })?;
    }
    job.kill()?;
    let refuses = mounted.has_refused();
    ensure!(
        refuses == way.is_some(),
        "the file system was never asked for what it lacks, or lacks too much"
    );
    remove_hidden(&kept)?;
    drop(mounted);
    let _mounted = Mounted::new(dir, &kept, &work, 77_000, way.as_slice())?;
    fs::write(dir.join("go"), "")?;
    let restart = stasis::restart(other, RANKS, &ckpt, dir);
    let mut job = start_in(&work, restart, dir, "restart")?;
    job.succeed(Instant::now() + LIMIT, dir)?;
    let (printed, said) = (job::read_text(&job.stdout), job::read_text(&job.stderr));
    ensure!(printed.contains("OK "), "it prints {printed}");
    ensure!(
        !said.contains("left as"),
        "files were left as they were: {said}"
    );
    Ok(())
}

/// While a file is stale, a checkpoint is given up with a message that names it, and the job runs on. When the program
/// has closed the file, the next one is taken and restarted.
fn stale(dir: &Path, mpi: Mpi) -> Result<()> {
    let (kept, work, ckpt) = (dir.join("kept"), dir.join("work"), dir.join("ck"));
    let _mounted = Mounted::new(dir, &kept, &work, 0, &["loses"])?;
    let mut launch = stasis::launch(mpi, RANKS, &ckpt, dir);
    launch.args(command_line(&example("tools", "tools/stale")?, Some(mpi))?);
    let mut job = start_in(&work, launch, dir, "launch")?;
    reach_cut(&mut job, dir)?;
    let lost = |rank: usize| format!("lost.{rank}");
    fs::remove_file(kept.join(lost(1)))?;
    let taken = job::run(stasis::checkpoint(&ckpt), dir, "given-up", LIMIT)?;
    let named = format!("{}, which is open", work.join(lost(1)).display());
    let advice = "when the program has closed the file";
    refused(
        &taken,
        CHECKPOINT,
        &[&["rank 1"], &[&named], &["ESTALE"], &[advice]],
    )?;
    fs::write(kept.join("close"), "")?;
    let closed = |rank: usize| kept.join(format!("closed.{rank}")).exists();
    job.until("the files are closed", Instant::now() + LIMIT, || {
        (0..RANKS).all(closed)
    })?;
    take_checkpoint(&mut job, dir, &ckpt)?;
    fs::write(dir.join("go"), "")?;
    let restart = stasis::restart(mpi.other(), RANKS, &ckpt, dir);
    let mut job = start_in(&work, restart, dir, "restart")?;
    job.succeed(Instant::now() + LIMIT, dir)?;
    let printed = job::read_text(&job.stdout);
    ensure!(printed.contains("OK stale"), "it prints {printed}");
    Ok(())
}

/// The ranks write their checkpoints through one mount, and commands and a restart find them through another one, which
/// has seen the directory before and does not ask again.
fn two_mounts(dir: &Path, mpi: Mpi) -> Result<()> {
    let [kept, near, far] = ["kept", "near", "far"].map(|name| dir.join(name));
    let _near = Mounted::new(dir, &kept, &near, 0, &[])?;
    let _far = Mounted::new(dir, &kept, &far, 77_000, &["caches"])?;
    let [near, far] = [near, far].map(|mount| mount.join("ck"));
    let mut job = start_held(dir, &near, mpi)?;
    let shows = |ckpt: &Path, newest: &str| -> Result<()> {
        let mut list = stasis::command(["list"]);
        list.arg(ckpt);
        let told = stasis::json(list, dir, "list", LIMIT)?;
        let sets = told["checkpoints"].as_array().into_iter().flatten();
        let newest_there = sets.filter_map(|set| set["name"].as_str()).max();
        let newest_there = newest_there.unwrap_or("none");
        ensure!(
            newest_there == newest,
            "{} shows {newest_there}, not {newest}",
            ckpt.display()
        );
        Ok(())
    };
    shows(&far, "none")?;
    stasis::take_checkpoint(&far, dir, "first", LIMIT)?;
    shows(&far, "ckpt-1")?;
    stasis::verify(&far, dir, LIMIT)?.expect_success("stasis verify")?;
    stasis::take_checkpoint(&near, dir, "second", LIMIT)?;
    shows(&far, "ckpt-2")?;

    let restart = stasis::restart(mpi.other(), RANKS, &far, dir);
    bring_back(&mut job, restart, &near, dir)?;
    stasis::take_checkpoint(&near, dir, "third", LIMIT)?;
    stasis::take_checkpoint(&far, dir, "fourth", LIMIT)?;
    for ckpt in [&near, &far] {
        shows(ckpt, "ckpt-4")?;
    }
    fs::write(dir.join("go"), "")?;
    job.succeed(Instant::now() + LIMIT, dir)
}

/// Removes files with the hidden names that NFS gives to those that are removed while they are open, as NFS does when
/// the process dies.
fn remove_hidden(directory: &Path) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(".nfs") {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Starts a job in a working directory.
fn start_in(work: &Path, mut command: Command, dir: &Path, name: &str) -> Result<Job> {
    command
        .current_dir(work)
        .env("STASIS_TEST_READY", dir.join("ready"))
        .env("STASIS_TEST_GO", dir.join("go"));
    Job::start(command, dir, name)
}

/// Lengths and times of all files below a directory.
fn state_of(directory: &Path) -> Result<BTreeMap<PathBuf, (u64, SystemTime)>> {
    let mut state = BTreeMap::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        // A file that is removed meanwhile is not there.
        let Ok(facts) = fs::symlink_metadata(&path) else {
            continue;
        };
        if facts.is_dir() {
            state.extend(state_of(&path)?);
        } else {
            state.insert(path, (facts.len(), facts.modified()?));
        }
    }
    Ok(state)
}
