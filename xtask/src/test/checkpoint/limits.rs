//! Programs that have used up a resource limit: checkpoints are taken or given up, and the program runs on.

use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::stasis;
use crate::test::support::held_job::{bring_back, reach_cut};
use crate::test::support::helper_programs::compile;
use crate::test::support::phased_job::PhasedJob;
use crate::test::support::refusal::{refused, CHECKPOINT};
use crate::test::support::NOBODY;
use crate::test::Case;
use anyhow::{ensure, Context, Result};
use std::fs::{self, Permissions};
use std::os::unix::fs::{chown, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
const RANKS: usize = 2;

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for mpi in Mpi::ALL {
        for what in ["memory", "files"] {
            let name = format!("limits/{what}:{mpi}");
            cases.push(Case::new(name, move |_, dir| {
                at_limit(dir, mpi, what, false).into()
            }));
        }
        // RLIMIT_NPROC does not apply to root.
        let name = format!("limits/processes:{mpi}");
        let why = "needs root to be another user, whose processes are counted";
        cases.push(Case::as_root(name, why, move |dir| {
            at_limit(dir, mpi, "processes", true)
        }));
        let why = "needs root to lock memory where other users may not";
        for now in [true, false] {
            let what = if now { "locked" } else { "locked-later" };
            let name = format!("limits/{what}:{mpi}");
            cases.push(Case::as_root(name, why, move |dir| locked(dir, mpi, now)));
        }
    }
    cases
}

/// A program that has locked memory, or has all later memory locked, is restarted where it may lock nothing.
fn locked(dir: &Path, mpi: Mpi, now: bool) -> Result<()> {
    let program = compile(dir, &mpi.compiler("c"), "locks_memory.c", &[])?;
    let ckpt = dir.join("ck");
    let mut launch = stasis::launch(mpi, 1, &ckpt, dir);
    launch.arg(program).args(now.then_some("now"));
    let mut job = PhasedJob::start(launch, dir)?;
    job.reach(1)?;
    job.checkpoint()?;
    let restart = stasis::restart(mpi, 1, &ckpt, dir);
    let mut limited = Command::new("prlimit");
    limited.args(["--memlock=0:0", "setpriv", "--bounding-set=-ipc_lock", "--"]);
    let mut limited = stasis::before(limited, &restart);
    limited.current_dir(dir);
    bring_back(&mut job.job, limited, &ckpt, dir)?;
    job.go(1)?;
    job.finish("it goes on")?;
    let said = job::read_text(&job.job.stderr);
    let wanted = match now {
        true => "1024 KiB of memory that the program had locked (mlock) are not locked here",
        false => "not allowed to lock as much here",
    };
    ensure!(said.contains(wanted), "{said} instead of {wanted}");
    Ok(())
}

fn at_limit(dir: &Path, mpi: Mpi, what: &str, nobody: bool) -> Result<()> {
    let program = compile(dir, &mpi.compiler("c"), "at_limit.c", &[])?;
    let work = dir.join("work");
    fs::create_dir(&work)?;
    if nobody {
        chown(&work, Some(NOBODY), Some(NOBODY))?;
        fs::set_permissions(&work, Permissions::from_mode(0o755))?;
    }
    let ckpt = work.join("ck");
    let as_user = |mut command: Command| {
        if nobody {
            command.uid(NOBODY).gid(NOBODY);
            command.env("HOME", "/tmp").env_remove("XDG_RUNTIME_DIR");
        }
        command.current_dir(&work);
        command.env("STASIS_TEST_READY", work.join("ready"));
        command.env("STASIS_TEST_GO", work.join("go"));
        command
    };
    let mut launch = stasis::launch(mpi, RANKS, &ckpt, &work);
    launch.arg(program).arg(what);
    let mut job = Job::start(as_user(launch), dir, "launch")?;
    let file = |rank: usize| work.join(format!("ready.limit.{rank}"));
    let there = |rank: usize| fs::metadata(file(rank)).is_ok_and(|file| file.len() > 0);
    let come = job.until(
        "all ranks were at their limit",
        Instant::now() + LIMIT,
        || (0..RANKS).all(there),
    );
    job.explain(come, dir)?;
    for n in 0..3 {
        let ask = as_user(stasis::checkpoint(&ckpt));
        let asked = job::run(ask, dir, &format!("checkpoint-{n}"), LIMIT)?;
        let answered = match asked.status.success() {
            true => Ok(()),
            false => refused(
                &asked,
                CHECKPOINT,
                &[&["memory", "files", "thread", "temporarily"]],
            ),
        };
        job.explain(answered, dir)?;
        let ask = as_user(stasis::command(["status".as_ref(), ckpt.as_os_str()]));
        let told = job::run(ask, dir, "status", LIMIT)?.expect_success("status");
        job.explain(told, dir)?;
    }
    fs::write(work.join("go"), "")?;
    let lifted = reach_cut(&mut job, &work);
    job.explain(lifted, dir)?;
    let ask = as_user(stasis::checkpoint(&ckpt));
    let asked =
        job::run(ask, dir, "checkpoint", LIMIT)?.expect_success("a checkpoint below the limit");
    job.explain(asked, dir)?;
    let said = job::read_text(&job.stderr);
    ensure!(!said.contains("panicked"), "it panicked:\n{said}");
    bring_back(
        &mut job,
        as_user(stasis::restart(mpi, RANKS, &ckpt, &work)),
        &ckpt,
        dir,
    )?;
    fs::write(work.join("go.end"), "")?;
    let ended = job.wait(Instant::now() + LIMIT)?.context("it does not end");
    let ended = ended.and_then(|status| {
        ensure!(status.success(), "it ended with {status}");
        Ok(())
    });
    job.explain(ended, dir)?;
    ensure!(
        job::read_text(&job.stdout).contains("at_limit: right"),
        "it did not come to its end"
    );
    Ok(())
}
