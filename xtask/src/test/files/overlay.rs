//! Files on overlayfs, as in a container or on a node without disks: a file of the lower layer with several names gets
//! another inode number when it is first changed (`examples/tools/overlaid.c`). The ranks are killed after their
//! changes, which a restart under the other library undoes.

use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::stasis;
use crate::test::support::compile::command_line;
use crate::test::support::held_job::{example, reach_cut, RANKS};
use crate::test::Case;
use anyhow::{ensure, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
/// Beginnings of the names of each rank's files, as in the example.
const FILES: [&str; 4] = ["written", "truncated", "renamed", "removed"];

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    let case = |mpi: Mpi| {
        let name = format!("overlay/copied-up:{mpi}>{}", mpi.other());
        Case::as_root(name, "needs root to mount overlayfs", move |dir| {
            copied_up(dir, mpi)
        })
    };
    Mpi::ALL.into_iter().map(case).collect()
}

/// A mount of overlayfs, which ends with this value.
struct Mounted(PathBuf);

impl Mounted {
    fn new(dir: &Path, lower: &Path) -> Result<Mounted> {
        let [upper, work, mounted] = ["upper", "work", "mounted"].map(|name| dir.join(name));
        for folder in [&upper, &work, &mounted] {
            fs::create_dir(folder)?;
        }
        let layers = format!(
            "lowerdir={},upperdir={},workdir={}",
            lower.display(),
            upper.display(),
            work.display()
        );
        let mut mount = Command::new("mount");
        mount.args(["-t", "overlay", "-o", &layers, "overlay"]);
        mount.arg(&mounted);
        job::run(mount, dir, "mount", LIMIT)?.expect_success("mount")?;
        Ok(Mounted(mounted))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

fn copied_up(dir: &Path, mpi: Mpi) -> Result<()> {
    let lower = dir.join("lower");
    fs::create_dir(&lower)?;
    for (way, rank) in FILES
        .iter()
        .flat_map(|way| (0..RANKS).map(move |rank| (way, rank)))
    {
        let name = lower.join(format!("{way}.{rank}"));
        fs::write(&name, "old\n")?;
        fs::hard_link(&name, name.with_extension(format!("{rank}.second")))?;
    }
    let mounted = Mounted::new(dir, &lower)?;
    let (work, ckpt) = (&mounted.0, dir.join("ck"));
    let start = |mut command: Command, name: &str| {
        command.current_dir(work);
        command.env("STASIS_TEST_READY", dir.join("ready"));
        command.env("STASIS_TEST_GO", dir.join("go"));
        Job::start(command, dir, name)
    };
    let mut launch = stasis::launch(mpi, RANKS, &ckpt, dir);
    launch.args(command_line(
        &example("tools", "tools/overlaid")?,
        Some(mpi),
    )?);
    let mut job = start(launch, "launch")?;
    reach_cut(&mut job, dir)?;
    let taken = job::run(stasis::checkpoint(&ckpt), dir, "checkpoint", LIMIT)?;
    job.explain(taken.expect_success("stasis checkpoint"), dir)?;
    fs::write(dir.join("go"), "")?;
    job.until("the files are changed", Instant::now() + LIMIT, || {
        (0..RANKS).all(|rank| work.join(format!("changed.{rank}")).exists())
    })?;
    job.kill()?;
    fs::write(work.join("end"), "")?;
    let mut job = start(stasis::restart(mpi.other(), RANKS, &ckpt, dir), "restart")?;
    job.succeed(Instant::now() + LIMIT, dir)?;
    let printed = job::read_text(&job.stdout);
    ensure!(printed.contains("OK overlaid"), "it prints {printed}");
    Ok(())
}
