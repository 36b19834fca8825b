//! Building and installing: the layout under `target/stasis`, packages, MPI libraries from PyPI.

pub mod apptainer;
pub mod apt;
pub mod gridengine;
pub mod node_exporter;
pub mod package;
pub mod pypi;
pub mod setup;

use anyhow::{ensure, Context, Result};
use std::process::Command;

/// Run a command that must succeed.
pub fn succeed(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_owned();
    let status = command
        .status()
        .with_context(|| format!("{} cannot be run", program.display()))?;
    ensure!(status.success(), "{} failed ({status})", program.display());
    Ok(())
}
