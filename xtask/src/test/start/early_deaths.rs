//! `stasis run`: a rank is killed before it has connected to `stasis run`, in the moment when `stasis launch` executes
//! the lower half. In the place of the lower half there is a script that kills itself once. Most launchers notice the
//! death. Here they do not, as Intel MPI's: their child is a shell that stays.

use crate::harness::job::Job;
use crate::harness::mpi::Mpi;
use crate::harness::{paths, signal, stasis};
use crate::test::start::recovery::{said, RunCase};
use crate::test::Case;
use anyhow::{ensure, Result};
use std::fs;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Words of the message about the death.
const MISSED: &str = "rank 1 ended before it ran; the job goes on from";

/// A shell that does not end when its child is killed.
const STAYS: &str = r#""$@"; code=$?; [ $code -le 128 ] || exec tail -f /dev/null; exit $code"#;

/// All cases of this file.
pub fn cases(full: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    let libraries = Mpi::of(full)
        .iter()
        .filter(|mpi| !Mpi::STANDARD.contains(mpi));
    for &mpi in libraries {
        let mut add = |name: &str, body: fn(&RunCase) -> Result<()>| {
            cases.push(RunCase::case(mpi, name, body));
        };
        add("before-it-runs", before_it_runs);
        add("before-it-runs-again", before_it_runs_again);
        add("before-it-runs.launcher", by_the_launcher);
    }
    cases
}

/// A folder with lower halves, the value of XDG_DATA_HOME. That of rank 1 is killed the first time that it is started
/// by this verb.
fn killed_lower(dir: &Path, mpi: Mpi, verb: &str) -> Result<PathBuf> {
    let data = dir.join("data");
    let folder = data.join("stasis").join(env!("CARGO_PKG_VERSION"));
    fs::create_dir_all(&folder)?;
    let lower = format!("lower-{mpi}");
    let product = paths::product().join("lib/stasis");
    for entry in fs::read_dir(&product)? {
        let name = entry?.file_name();
        if name != *lower {
            symlink(product.join(&name), folder.join(&name))?;
        }
    }
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = {verb} ] && [ \"${{PMI_RANK:-$OMPI_COMM_WORLD_RANK}}\" = 1 ] && mkdir {} 2>/dev/null\n\
         then kill -KILL $$\nfi\nexec {} \"$@\"\n",
        dir.join("killed").display(),
        product.join(&lower).display()
    );
    fs::write(folder.join(&lower), script)?;
    let executable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(folder.join(&lower), executable)?;
    Ok(data)
}

/// The job, whose launcher notices no death if `stays`.
fn command(case: &RunCase, verb: &str, stays: bool) -> Result<Command> {
    let mut line = case.mpi.mpirun(case.ranks, case.dir);
    if stays {
        line.args(["sh", "-c", STAYS, "sh"]);
    }
    line.arg(paths::stasis()).args(["launch", "--ckpt-dir"]);
    line.arg(&case.ckpt).arg(&case.program).arg("runs");
    let mut command = case.at_its_cut(stasis::run(&["--lease", "1"], &line));
    command.env("XDG_DATA_HOME", killed_lower(case.dir, case.mpi, verb)?);
    Ok(command)
}

fn missed(case: &RunCase, job: &Job, from: &str) -> Result<()> {
    ensure!(case.dir.join("killed").exists(), "no rank was killed");
    let said = said(job);
    let words = format!("{MISSED} {from} ");
    ensure!(said.contains(&words), "it does not say: {words}\n{said}");
    Ok(())
}

fn before_it_runs(case: &RunCase) -> Result<()> {
    let job = case.start_command(command(case, "launch", true)?, "run")?;
    missed(case, &job, "its beginning")?;
    case.finish(job)
}

/// The next incarnation after a failure loses a rank so.
fn before_it_runs_again(case: &RunCase) -> Result<()> {
    let mut job = case.start_command(command(case, "restart", true)?, "run")?;
    case.checkpoint()?;
    case.recovered(&mut job, |job| {
        job.ranks().into_iter().for_each(signal::kill_now);
    })?;
    missed(case, &job, "ckpt-1")?;
    case.finish(job)
}

/// A launcher that notices it ends the job at once, and the message still names the rank.
fn by_the_launcher(case: &RunCase) -> Result<()> {
    let job = case.start_command(command(case, "launch", false)?, "run")?;
    missed(case, &job, "its beginning")?;
    case.finish(job)
}
