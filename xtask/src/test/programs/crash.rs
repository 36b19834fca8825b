//! Programs that crash: they end as natively, with the MPI library's report.
//!
//! Open MPI handles the signals of crashes, and its handler needs the lower half's thread pointer. The cases crash
//! before and after a restart.

use crate::harness::job::{self, Finished, Job};
use crate::harness::mpi::Mpi;
use crate::harness::{paths, stasis};
use crate::test::Case;
use anyhow::{ensure, Context, Result};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
const RANKS: usize = 1;
const WAYS: [&str; 4] = ["abort", "fault", "sent", "caught"];

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for mpi in Mpi::ALL {
        for way in WAYS {
            cases.push(Case::new(format!("crash/{way}-{mpi}"), move |_, dir| {
                crash(way, mpi, dir).into()
            }));
        }
    }
    cases
}

fn crash(way: &str, mpi: Mpi, dir: &Path) -> Result<()> {
    let program = dir.join("crash");
    let mut compile = Command::new(mpi.compiler("c"));
    compile.arg(paths::examples().join("tools/crash.c"));
    compile.arg("-o").arg(&program);
    job::run(compile, dir, "compile", LIMIT)?.expect_success("the compiler")?;

    let mut native = mpi.mpirun(RANKS, dir);
    native.arg(&program).arg(way);
    let native = job::run(native, dir, "native", LIMIT)?;
    ensure!(
        native.status.success() == (way == "caught"),
        "natively it ends with {}",
        native.status
    );

    let ckpt = dir.join("ck");
    let mut launch = stasis::launch(mpi, RANKS, &ckpt, dir);
    launch.arg(&program).arg(way);
    as_natively(&native, &job::run(launch, dir, "plain", LIMIT)?)?;

    let (ready, go) = (dir.join("ready"), dir.join("go"));
    let mut launch = stasis::launch(mpi, RANKS, &ckpt, dir);
    launch.arg(&program).arg(way);
    launch.env("STASIS_TEST_READY", &ready);
    launch.env("STASIS_TEST_GO", &go);
    let mut job = Job::start(launch, dir, "cut")?;
    let stands = || dir.join("ready.0").exists();
    job.until("it reached the cut", Instant::now() + LIMIT, stands)?;
    job::run(stasis::checkpoint(&ckpt), dir, "checkpoint", LIMIT)?.expect_success("checkpoint")?;
    job.kill()?;
    fs::write(go, "")?;
    let restart = stasis::restart(mpi, RANKS, &ckpt, dir);
    as_natively(&native, &job::run(restart, dir, "restart", LIMIT)?).context("after a restart")
}

/// Checks for the same exit code, and for the first and last line of Open MPI's report.
fn as_natively(native: &Finished, run: &Finished) -> Result<()> {
    ensure!(
        run.status == native.status,
        "ends with {} instead of {}\n{}",
        run.status,
        native.status,
        job::tail(&run.stderr, 10)
    );
    let said = |run: &Finished| -> Vec<String> {
        let lines = run.stderr.lines();
        let lines = lines.filter_map(|line| line.split_once("] ")?.1.into());
        let of_signal = |line: &&str| line.starts_with("Signal: ") || line.starts_with("***");
        lines.filter(of_signal).map(str::to_owned).collect()
    };
    ensure!(
        said(run) == said(native),
        "says {:?} instead of {:?}",
        said(run),
        said(native)
    );
    Ok(())
}
