//! `docs/mpi-functions.md`: generated from the table, and checked to be what the table says now.

use crate::paths;
use anyhow::{ensure, Context, Result};
use std::fs;
use std::path::PathBuf;

fn page() -> PathBuf {
    paths::root().join("docs/mpi-functions.md")
}

/// Write the page.
pub fn write() -> Result<()> {
    let page = page();
    fs::write(&page, mpi_table::generate::coverage())
        .with_context(|| format!("writing {}", page.display()))
}

/// Fails if the page is not the table's.
pub fn check() -> Result<()> {
    let written = fs::read_to_string(page()).unwrap_or_default();
    ensure!(
        written == mpi_table::generate::coverage(),
        "docs/mpi-functions.md is not what the table says; run `cargo xtask docs`"
    );
    Ok(())
}
