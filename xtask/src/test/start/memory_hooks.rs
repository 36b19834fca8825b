//! Users' settings by which an MPI library would use a cache of registered memory that nobody tells of `munmap`.

use crate::harness::job::{self, Finished};
use crate::harness::mpi::Mpi;
use crate::harness::stasis;
use crate::test::Case;
use anyhow::{ensure, Result};
use std::path::Path;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// The application's value of the variable in $0, and that in the process of the MPI library.
const SHOW: &str = "echo application $(printenv $0); \
                    tr '\\0' '\\n' < /proc/$$/environ | sed -n \"s/^$0=/library /p\"";

/// Caches of libfabric, UCX, Open MPI and MVAPICH: the variable, a user's value with which the cache would learn from
/// hooks, and the value that the library gets instead.
const HOOKS: [[&str; 3]; 5] = [
    ["FI_MR_CACHE_MONITOR", "memhooks", "disabled"],
    ["UCX_MEM_EVENTS", "y", "n"],
    ["OMPI_MCA_mpi_leave_pinned", "1", "0"],
    ["MV2_USE_LAZY_MEM_UNREGISTER", "1", "0"],
    ["MVP_USE_LAZY_MEM_UNREGISTER", "1", "0"],
];

/// Of these, the caches that are told what memory the program gives back.
const TOLD: [(Mpi, &str); 3] = [
    (Mpi::OpenMpi, "UCX_MEM_EVENTS"),
    (Mpi::OpenMpi, "OMPI_MCA_mpi_leave_pinned"),
    (Mpi::Mpich, "UCX_MEM_EVENTS"),
];

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for mpi in Mpi::ALL {
        for hook in HOOKS {
            let name = hook[0].to_lowercase().replace('_', "-");
            cases.push(match TOLD.contains(&(mpi, hook[0])) {
                true => Case::new(format!("memory-hooks/told-{name}:{mpi}"), move |_, dir| {
                    kept(mpi, hook[0], hook[1], dir).into()
                }),
                false => Case::new(
                    format!("memory-hooks/ignored-{name}:{mpi}"),
                    move |_, dir| ignored(mpi, hook, dir).into(),
                ),
            });
        }
        cases.push(Case::new(
            format!("memory-hooks/kernel-monitor:{mpi}"),
            move |_, dir| kept(mpi, "FI_MR_CACHE_MONITOR", "kdreg2", dir).into(),
        ));
    }
    cases
}

fn show(mpi: Mpi, name: &str, value: &str, dir: &Path) -> Result<Finished> {
    let mut launch = stasis::launch(mpi, 2, &dir.join("ck"), dir);
    launch.args(["sh", "-c", SHOW, name]).env(name, value);
    job::run(launch, dir, "run", LIMIT)?.expect_success("the program that shows the settings")
}

/// Whether both ranks have these values.
fn have(shown: &Finished, application: &str, library: &str) -> bool {
    let count = |line: String| shown.stdout.lines().filter(|found| **found == line).count();
    count(format!("application {application}")) == 2 && count(format!("library {library}")) == 2
}

/// The library does not get the setting, the application does, and one line says so.
fn ignored(mpi: Mpi, [name, users, ours]: [&str; 3], dir: &Path) -> Result<()> {
    let shown = show(mpi, name, users, dir)?;
    ensure!(
        have(&shown, users, ours),
        "the settings are others:\n{}",
        shown.stdout
    );
    let line = format!("{name}={users} is ignored, and {name}={ours} used");
    let said = shown.stderr.matches(&line);
    ensure!(said.count() == 1, "it is not said once:\n{}", shown.stderr);
    Ok(())
}

/// A cache that is told of the memory of both halves keeps the setting: by the kernel, or by Stasis.
fn kept(mpi: Mpi, name: &str, value: &str, dir: &Path) -> Result<()> {
    let shown = show(mpi, name, value, dir)?;
    ensure!(
        have(&shown, value, value),
        "the settings are others:\n{}",
        shown.stdout
    );
    ensure!(!shown.stderr.contains("is ignored"), "{}", shown.stderr);
    Ok(())
}
