//! Jobs whose ranks have a user namespace each, as in containers that the machine's launcher starts. The kernel forbids
//! such ranks to look into each other's memory. Over MPICH with UCX, their large messages then open connections that
//! `MPI_Finalize` would not always close.

use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::{paths, stasis};
use crate::test::support::held_job::{begin, example, reach_cut_of};
use crate::test::{Case, Outcome};
use anyhow::{ensure, Result};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
/// With this number, most native runs over MPICH with UCX over TCP do not end.
const RANKS: usize = 5;
/// Gives a rank a namespace of its own.
const APART: [&str; 3] = ["unshare", "--user", "--map-root-user"];

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    let case = |mpi: Mpi| {
        let name = format!("user-namespaces/each:{mpi}>{}", mpi.other());
        Case::new(name, move |_, dir| match missing() {
            Some(why) => Outcome::Skipped(why),
            None => moved(dir, mpi).into(),
        })
    };
    Mpi::ALL.into_iter().map(case).collect()
}

fn missing() -> Option<String> {
    let [command, options @ ..] = APART;
    let tried = Command::new(command).args(options).arg("true").status();
    let works = tried.is_ok_and(|status| status.success());
    (!works).then(|| "the kernel gives no user namespaces".to_owned())
}

/// A job that is killed and goes on under the other library, both times with a namespace for each rank.
fn moved(dir: &Path, mpi: Mpi) -> Result<()> {
    let ckpt = dir.join("ck");
    let mut launch = apart(mpi, dir);
    launch.args(["launch", "--ckpt-dir"]).arg(&ckpt);
    let mut job = begin(launch, &example("tools", "tools/all_pairs")?, dir, mpi)?;
    reach_cut_of(RANKS, &mut job, dir)?;
    let taken = stasis::take_checkpoint(&ckpt, dir, "checkpoint", LIMIT);
    job.explain(taken, dir)?;
    job.kill()?;
    fs::write(dir.join("go"), "")?;
    let mut restart = apart(mpi.other(), dir);
    restart.arg("restart").arg(&ckpt).current_dir(dir);
    let mut job = Job::start(restart, dir, "restart")?;
    job.succeed(Instant::now() + LIMIT, dir)?;
    let printed = job::read_text(&job.stdout);
    ensure!(printed.contains("OK all_pairs"), "it prints {printed}");
    Ok(())
}

fn apart(mpi: Mpi, dir: &Path) -> Command {
    let mut command = mpi.mpirun(RANKS, dir);
    // From such a namespace the launcher cannot be seen, and its library may have several lower halves.
    command.env("STASIS_MPI", mpi.name());
    command.args(APART).arg(paths::stasis());
    command
}
