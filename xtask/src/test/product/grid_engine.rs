//! The job script of `examples/schedulers` for Grid Engine, under a real one, which `grid_engine.sh` sets up for each
//! case in its own folder and its own namespaces. Only with `--full`.

use crate::build::gridengine;
use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::{paths, stasis};
use crate::test::programs::mpi::reference;
use crate::test::support::compile::command_line;
use crate::test::support::held_job::{example, reach_cut, RANKS};
use crate::test::{Case, Outcome};
use anyhow::{ensure, Result};
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(120);
const SET_UP: &str = include_str!("grid_engine.sh");
/// Gives the script namespaces that end with it, and its processes.
const APART: &str =
    "exec unshare --mount --uts --pid --fork --kill-child --mount-proc --propagation private \
    bash -c \"$SET_UP\" bash \"$PACKAGES\" \"$FOLDER\" \"$SCRIPT\"";
/// Variables of the job. An allocation ends some seconds after its start.
const PASSED: &str = "PATH,LINE,LAUNCH,STASIS_CKPT_DIR,STASIS_TIME_LIMIT=60s,STASIS_BEFORE_END=52s,STASIS_TEST_READY,\
    STASIS_TEST_GO,OMPI_ALLOW_RUN_AS_ROOT,OMPI_ALLOW_RUN_AS_ROOT_CONFIRM,UCX_LOG_FILE";

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    let cases = Mpi::ALL.into_iter().map(|mpi| {
        let name = format!("schedulers/sge:{mpi}");
        let case = Case::new(name, move |_, dir| match gridengine::missing() {
            Some(why) => Outcome::Skipped(why),
            None => requeued(mpi, dir).into(),
        });
        case.for_root("needs root to set up Grid Engine")
    });
    cases.collect()
}

/// The first allocation is too short. Grid Engine starts the job again, which goes on from its checkpoint.
fn requeued(mpi: Mpi, dir: &Path) -> Result<()> {
    let ring = example("p2p", "p2p/ring_loop")?;
    let native = job::read_text(&reference(&ring, mpi)?.join("run.out"));
    let folder = dir.join("sge");
    let mut shell = stasis::shell(APART, dir);
    // Both sockets stay open until both ports are known, so that the ports differ.
    let sockets = [(); 2].map(|()| TcpListener::bind(("127.0.0.1", 0)));
    for (name, socket) in ["SGE_QMASTER_PORT", "SGE_EXECD_PORT"].iter().zip(sockets) {
        shell.env(name, socket?.local_addr()?.port().to_string());
    }
    shell
        .env("SET_UP", SET_UP)
        .env("PACKAGES", gridengine::root())
        .env("FOLDER", &folder)
        .env("SCRIPT", paths::examples().join("schedulers/sge.sh"))
        .env("PASSED", PASSED)
        .env("LINE", command_line(&ring, Some(mpi))?.join(" "))
        .env("LAUNCH", format!("{} -n {RANKS}", mpi.launcher()))
        .env("STASIS_CKPT_DIR", dir.join("ck"))
        .env("STASIS_TEST_READY", dir.join("ready"))
        .env("STASIS_TEST_GO", dir.join("go"));
    let mut cluster = Job::start(shell, dir, "cluster")?;
    reach_cut(&mut cluster, dir)?;
    // Grid Engine appends what the next allocations print.
    let output = dir.join("chain.o1");
    let goes_on = || job::read_text(&output).contains("continuing ");
    cluster.until("the job went on", Instant::now() + LIMIT, goes_on)?;
    fs::write(dir.join("go"), "")?;
    cluster.succeed(Instant::now() + LIMIT, dir)?;
    let printed = job::read_text(&output);
    ensure!(
        printed.matches(native.trim()).count() == 1,
        "it printed:\n{}",
        job::tail(&printed, 20)
    );
    Ok(())
}
