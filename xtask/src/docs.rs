//! `docs/mpi-coverage.md`: generated from the table and the examples, and checked to be what they say
//! now.

use crate::{calls, paths};
use anyhow::{ensure, Context, Result};
use std::fs;
use std::path::PathBuf;

fn file() -> PathBuf {
    paths::root().join("docs/mpi-coverage.md")
}

fn page() -> Result<String> {
    Ok(mpi_table::generate::coverage(&calls::of_examples()?))
}

/// Write the page.
pub fn write() -> Result<()> {
    let file = file();
    fs::write(&file, page()?).with_context(|| format!("writing {}", file.display()))
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
