//! The end of the record of a job that was killed while it ran: a replay says at each rank that the record ends, goes
//! on without it, and comes to the result of the program. Receives that got no message before the end are posted there.

use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::stasis;
use crate::test::support::held_job::reach_cut_of;
use crate::test::support::helper_programs::compile;
use crate::test::Case;
use anyhow::{ensure, Result};
use std::path::Path;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
const RANKS: usize = 3;

/// Argument of the program, and the call in which rank 0 waits when the job is killed. It computes in the first one.
const KINDS: [(&str, &str); 13] = [
    ("between", ""),
    ("MPI_Wait", "MPI_Wait"),
    ("MPI_Waitall", "MPI_Waitall"),
    ("MPI_Waitany", "MPI_Waitany"),
    ("MPI_Waitsome", "MPI_Waitsome"),
    ("MPI_Test", "MPI_Test"),
    ("MPI_Testany", "MPI_Testany"),
    ("MPI_Iprobe", "MPI_Iprobe"),
    ("MPI_Probe", "MPI_Probe"),
    ("MPI_Mprobe", "MPI_Mprobe"),
    ("MPI_Recv", "MPI_Recv"),
    ("named", "MPI_Recv"),
    ("MPI_Barrier", "MPI_Barrier"),
];

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for mpi in Mpi::ALL {
        for (kind, function) in KINDS {
            let name = format!("record/tail/{kind}:{mpi}");
            cases.push(Case::new(name, move |_, dir| {
                tail(dir, mpi, kind, function).into()
            }));
        }
    }
    cases
}

fn tail(dir: &Path, mpi: Mpi, kind: &str, function: &str) -> Result<()> {
    let flags = ["-Wno-stringop-overflow"];
    let program = compile(dir, &mpi.compiler("c"), "tail.c", &flags)?;
    let mut native = mpi.mpirun(RANKS, dir);
    native.arg(&program).arg(kind);
    let native = job::run(native, dir, "native", LIMIT)?.expect_success("the native run")?;

    let ckpt = dir.join("ck");
    let mut launch = stasis::launch(mpi, RANKS, &ckpt, dir);
    launch.args(["--record", "rec"]).arg(&program).arg(kind);
    launch
        .env("STASIS_TEST_READY", dir.join("ready"))
        .env("STASIS_TEST_GO", dir.join("go"))
        .current_dir(dir);
    let mut recorded = Job::start(launch, dir, "recorded")?;
    let reached = reach_cut_of(RANKS, &mut recorded, dir);
    recorded.explain(reached, dir)?;
    let waits = || {
        let mut explain = stasis::command(["explain"]);
        explain.arg(&ckpt);
        let told = stasis::json(explain, dir, "explain", LIMIT);
        told.is_ok_and(|told| told["ranks"][0]["calls"][0]["function"] == function)
    };
    if !function.is_empty() {
        let waits = recorded.until(
            "rank 0 waits in its last call",
            Instant::now() + LIMIT,
            waits,
        );
        recorded.explain(waits, dir)?;
    }
    recorded.kill()?;

    for lower in [mpi, mpi.other()] {
        let name = format!("replayed-{lower}");
        let mut replay = stasis::launch(lower, RANKS, &dir.join(&name), dir);
        replay.args(["--replay", "rec"]).arg(&program).arg(kind);
        replay.current_dir(dir);
        let ended = job::run(replay, dir, &name, LIMIT)?.expect_success(&name)?;
        ensure!(
            ended.stdout == native.stdout,
            "{lower}: {} instead of {}",
            ended.stdout,
            native.stdout
        );
        for rank in 0..RANKS {
            let said = format!("rank {rank}: the record ends ");
            let times = ended.stderr.matches(&said).count();
            ensure!(
                times == 1,
                "{lower}: '{said}' {times} times in\n{}",
                ended.stderr
            );
        }
        ensure!(!ended.stderr.contains("diverge"), "{}", ended.stderr);
    }
    Ok(())
}
