//! Pages that are generated. `docs/mpi-coverage.md` comes from the table and the examples, and is
//! checked to be what they say now; `docs/faults.md` from a test of `ckpt-image`, which checks it
//! whenever it runs.

use crate::{calls, paths};
use anyhow::{ensure, Context, Result};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

fn file() -> PathBuf {
    paths::root().join("docs/mpi-coverage.md")
}

fn page() -> Result<String> {
    Ok(mpi_table::generate::coverage(&calls::of_examples()?))
}

/// Write the pages.
pub fn write() -> Result<()> {
    let file = file();
    fs::write(&file, page()?).with_context(|| format!("writing {}", file.display()))?;
    let status = Command::new("cargo")
        .args(["test", "--package=stasis-ckpt-image", "--test=faults"])
        .env("STASIS_WRITE_DOCS", "1")
        .current_dir(paths::root())
        .status()
        .context("starting cargo")?;
    ensure!(status.success(), "docs/faults.md was not written");
    Ok(())
}

/// Fails if the page is not what the table and the examples say.
pub fn check() -> Result<()> {
    let written = fs::read_to_string(file()).unwrap_or_default();
    ensure!(
        written == page()?,
        "docs/mpi-coverage.md is not what the table and the examples say; run `cargo xtask docs`"
    );
    Ok(())
}
