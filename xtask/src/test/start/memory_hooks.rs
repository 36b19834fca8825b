//! Users' settings by which an MPI library would use a cache of registered memory that nobody tells of `munmap`.

use crate::harness::job::{self, Finished};
use crate::harness::mpi::Mpi;
use crate::harness::stasis;
use crate::test::Case;
use anyhow::{ensure, Result};
use std::path::Path;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// The application's value, and that in the process of the MPI library.
const SHOW: &str = "echo application $FI_MR_CACHE_MONITOR; \
                    tr '\\0' '\\n' < /proc/$$/environ | sed -n 's/^FI_MR_CACHE_MONITOR=/library /p'";

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for mpi in Mpi::ALL {
        cases.push(Case::new(
            format!("memory-hooks/ignored:{mpi}"),
            move |_, dir| ignored(mpi, dir).into(),
        ));
        cases.push(Case::new(
            format!("memory-hooks/kernel-monitor:{mpi}"),
            move |_, dir| kernel_monitor(mpi, dir).into(),
        ));
    }
    cases
}

fn show(mpi: Mpi, monitor: &str, dir: &Path) -> Result<Finished> {
    let mut launch = stasis::launch(mpi, 2, &dir.join("ck"), dir);
    launch
        .args(["sh", "-c", SHOW])
        .env("FI_MR_CACHE_MONITOR", monitor);
    job::run(launch, dir, "run", LIMIT)?.expect_success("the program that shows the settings")
}

fn count(text: &str, line: &str) -> usize {
    text.lines().filter(|found| *found == line).count()
}

/// The library does not get the setting, the application does, and one line says so.
fn ignored(mpi: Mpi, dir: &Path) -> Result<()> {
    let shown = show(mpi, "memhooks", dir)?;
    ensure!(
        count(&shown.stdout, "application memhooks") == 2
            && count(&shown.stdout, "library disabled") == 2,
        "the settings are others:\n{}",
        shown.stdout
    );
    let said = shown
        .stderr
        .matches("FI_MR_CACHE_MONITOR=memhooks is ignored");
    ensure!(said.count() == 1, "it is not said once:\n{}", shown.stderr);
    Ok(())
}

/// A monitor that the kernel tells sees the memory of both halves.
fn kernel_monitor(mpi: Mpi, dir: &Path) -> Result<()> {
    let shown = show(mpi, "kdreg2", dir)?;
    ensure!(
        count(&shown.stdout, "library kdreg2") == 2,
        "the settings are others:\n{}",
        shown.stdout
    );
    ensure!(!shown.stderr.contains("is ignored"), "{}", shown.stderr);
    Ok(())
}
