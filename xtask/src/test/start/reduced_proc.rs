//! Jobs on machines that show less in /proc: other users' processes are hidden (`hidepid=2`, as on shared login nodes),
//! or all but processes is (`subset=pid`, as in some containers), or the kernel's settings are (a masked /proc/sys).

use crate::harness::job;
use crate::harness::mpi::Mpi;
use crate::harness::stasis;
use crate::test::support::held_job::{begin, example, reach_cut, ring_ends, RANKS};
use crate::test::support::NOBODY;
use crate::test::Case;
use anyhow::{ensure, Result};
use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

/// Hides the processes of others.
const HIDE: &str = "mount -t proc -o hidepid=2 proc /proc";

/// Hides what a checkpoint needs, by the end of a case's name.
const HIDES_MORE: [(&str, &str); 2] = [
    ("subset", "mount -t proc -o subset=pid proc /proc"),
    ("masked", "mount -t tmpfs -o ro masked /proc/sys"),
];

/// Why these cases need root.
const ROOT: &str = "needs root to mount another /proc";

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for mpi in Mpi::ALL {
        let name = format!("reduced-proc/hidepid:{mpi}>{}", mpi.other());
        cases.push(Case::as_root(name, ROOT, move |dir| moved(dir, mpi)));
    }
    for (name, mount) in HIDES_MORE {
        let name = format!("reduced-proc/{name}");
        cases.push(Case::as_root(name, ROOT, move |dir| refused(dir, mount)));
    }
    cases
}

/// A job of an ordinary user that is killed and goes on under the other library.
fn moved(dir: &Path, mpi: Mpi) -> Result<()> {
    chown(dir, Some(NOBODY), Some(NOBODY))?;
    let ckpt = dir.join("ck");
    let launch = within(HIDE, &stasis::launch(mpi, RANKS, &ckpt, dir), dir);
    let mut job = begin(launch, &example("p2p", "p2p/ring_loop")?, dir, mpi)?;
    reach_cut(&mut job, dir)?;
    let checkpoint = within(HIDE, &stasis::checkpoint(&ckpt), dir);
    let taken = job::run(checkpoint, dir, "checkpoint", LIMIT)?;
    job.explain(taken.expect_success("stasis checkpoint"), dir)?;
    job.kill()?;
    fs::write(dir.join("go"), "")?;
    let other = mpi.other();
    let mut restart = within(HIDE, &stasis::restart(other, RANKS, &ckpt, dir), dir);
    restart.current_dir(dir);
    ring_ends(restart, dir)
}

/// Over Open MPI the job runs, and a checkpoint is refused with the name of the file. `stasis doctor` has said so.
/// MPICH over UCX does not start with less than the whole of /proc, natively either.
fn refused(dir: &Path, mount: &str) -> Result<()> {
    const MISSING: &str = "/proc/sys/kernel/random/boot_id";
    chown(dir, Some(NOBODY), Some(NOBODY))?;
    let doctor = job::run(
        within(mount, &stasis::command(["doctor"]), dir),
        dir,
        "doctor",
        LIMIT,
    )?;
    ensure!(
        !doctor.status.success() && doctor.stdout.contains(MISSING),
        "doctor says {}",
        doctor.stdout
    );
    let ckpt = dir.join("ck");
    let mpi = Mpi::OpenMpi;
    let launch = within(mount, &stasis::launch(mpi, RANKS, &ckpt, dir), dir);
    let mut job = begin(launch, &example("p2p", "p2p/ring_loop")?, dir, mpi)?;
    reach_cut(&mut job, dir)?;
    let checkpoint = within(mount, &stasis::checkpoint(&ckpt), dir);
    let taken = job::run(checkpoint, dir, "checkpoint", LIMIT)?;
    ensure!(
        !taken.status.success() && taken.stderr.contains(&format!("cannot read {MISSING}")),
        "it says {}",
        taken.stderr
    );
    fs::write(dir.join("go"), "")?;
    job.succeed(Instant::now() + LIMIT, dir)
}

/// A command of the user, with this /proc.
fn within(mount: &str, command: &Command, dir: &Path) -> Command {
    // Root sees all processes.
    let user = format!("--reuid {NOBODY} --regid {NOBODY} --clear-groups");
    let script = format!("{mount} && exec setpriv {user} -- \"$@\"");
    let mut apart = Command::new("unshare");
    apart.args([
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-c",
        &script,
        "sh",
    ]);
    let mut apart = stasis::before(apart, command);
    apart.env("HOME", dir);
    apart
}
