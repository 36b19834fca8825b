//! Files on a file system that is like those of networks (`examples/tools/network_files.c`): its files have other inode
//! numbers at each mount, and a file that is removed while it is open gets a hidden name. The ranks are killed
//! some time after the checkpoint. Then the file system is mounted again, and the job goes on under the other library.
//!
//! A file that another machine removes while it is open is lost (ESTALE).
//!
//! Two machines are simulated by two mounts of the file system that holds the checkpoint directory. The ranks use one
//! mount. The commands and the restart use the other one, which caches names and attributes until a file is opened.

use crate::build::setup;
use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::stasis;
use crate::test::support::compile::command_line;
use crate::test::support::held_job::{
    bring_back, example, reach_cut, start_held, take_checkpoint, RANKS,
};
use crate::test::support::helper_programs;
use crate::test::support::refusal::{refused, CHECKPOINT};
use crate::test::{Case, Outcome};
use anyhow::{bail, ensure, Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant, SystemTime};

const LIMIT: Duration = Duration::from_secs(60);
const PACKAGE: &str = "libfuse3-dev";
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
        ("files/closed", Numbers::Stay),
        ("files/closed", Numbers::Change),
        ("files/overwritten", Numbers::Stay),
        ("files/regular", Numbers::Stay),
        ("tools/removed", Numbers::Stay),
    ];
    let mut cases = Vec::new();
    for (program, numbers) in programs {
        for mpi in Mpi::ALL {
            let (other, moved) = (mpi.other(), numbers == Numbers::Change);
            let moved = if moved { "-renumbered" } else { "" };
            let (_, short) = program.split_once('/').unwrap_or_default();
            let name = format!("network-files/{short}{moved}:{mpi}>{other}");
            cases.push(Case::new(name, move |_, dir| {
                on_file_system(|| mounted_anew(dir, program, numbers, [mpi, other]))
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

fn on_file_system(case: impl FnOnce() -> Result<()>) -> Outcome {
    match setup::missing(Some(PACKAGE)).or_else(cannot_mount) {
        Some(why) => Outcome::Skipped(why),
        None => case().into(),
    }
}

fn cannot_mount() -> Option<String> {
    let opened = fs::OpenOptions::new().write(true).open("/dev/fuse");
    opened.err().map(|why| format!("no FUSE: {why}"))
}

fn mounted_anew(dir: &Path, program: &str, numbers: Numbers, [mpi, other]: [Mpi; 2]) -> Result<()> {
    let kept = dir.join("kept");
    let work = dir.join("work");
    let mounted = Mounted::new(dir, &kept, &work, 0, &[])?;
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
    remove_hidden(&kept)?;
    drop(mounted);
    let _mounted = Mounted::new(dir, &kept, &work, 77_000, &[])?;
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

/// The file system, as long as it is mounted.
struct Mounted {
    at: PathBuf,
    server: Child,
}

impl Mounted {
    /// Shows the directory `kept` there, with this number added to its inode numbers, in the ways that the words name.
    /// Both directories are made if they do not exist.
    fn new(dir: &Path, kept: &Path, at: &Path, salt: u64, ways: &[&str]) -> Result<Mounted> {
        let flags = ["-Wall", "-Wextra", "-Wl,--no-as-needed", "-lfuse3"];
        let program = helper_programs::compile(dir, "gcc", "network_files.c", &flags)?;
        fs::create_dir_all(kept)?;
        fs::create_dir_all(at)?;
        let outside = fs::metadata(at)?.dev();
        let mut serve = Command::new(program);
        serve.arg(kept).arg(at).arg(salt.to_string()).args(ways);
        serve.stderr(fs::File::create(dir.join("network_files.err"))?);
        let server = serve.spawn().context("starting the file system")?;
        let mut mounted = Mounted {
            at: at.to_owned(),
            server,
        };
        let end = Instant::now() + LIMIT;
        while fs::metadata(at)?.dev() == outside {
            if let Some(status) = mounted.server.try_wait()? {
                bail!("network_files ends with {status}");
            }
            ensure!(Instant::now() < end, "the file system is not mounted");
            // No event tells of it.
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(mounted)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // A failure leaves a process that ends with the machine.
        let _ = Command::new("umount").arg("-l").arg(&self.at).output();
        let _ = self.server.wait();
    }
}
