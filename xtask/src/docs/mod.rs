//! The generated pages. `docs/mpi-coverage.md` comes from the table and the examples, `docs/system-calls.md` from the
//! tables of the loader; tests compare both with their sources. `docs/faults.md` comes from a test of `ckpt-image`,
//! which checks it whenever it runs. `docs/json.md` is written by hand and compared with the commands.

mod called_functions;
pub mod json_page;
pub mod session;
mod system_calls;

use crate::harness::paths;
use anyhow::{ensure, Context, Result};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// A page and its source.
struct Page {
    file: &'static str,
    of: &'static str,
    text: fn() -> Result<String>,
}

const FUNCTIONS: Page = Page {
    file: "docs/mpi-coverage.md",
    of: "the table and the examples say",
    text: || {
        Ok(mpi_table::generate::coverage(
            &called_functions::of_examples()?,
        ))
    },
};

const SYSTEM_CALLS: Page = Page {
    file: "docs/system-calls.md",
    of: "the tables in loader/src/interpose/syscalls say",
    text: system_calls::page,
};

impl Page {
    fn path(&self) -> PathBuf {
        paths::root().join(self.file)
    }

    fn write(&self) -> Result<()> {
        fs::write(self.path(), (self.text)()?).with_context(|| format!("writing {}", self.file))
    }

    fn check(&self) -> Result<()> {
        let written = fs::read_to_string(self.path()).unwrap_or_default();
        ensure!(
            written == (self.text)()?,
            "{} is not what {}; run `cargo xtask docs`",
            self.file,
            self.of
        );
        Ok(())
    }
}

/// Writes the pages.
pub fn write() -> Result<()> {
    FUNCTIONS.write()?;
    SYSTEM_CALLS.write()?;
    let status = Command::new("cargo")
        .args(["test", "--package=stasis-ckpt-image", "--test=faults"])
        .env("STASIS_WRITE_DOCS", "1")
        .current_dir(paths::root())
        .status()
        .context("starting cargo")?;
    ensure!(status.success(), "docs/faults.md was not written");
    Ok(())
}

/// Fails if the page of MPI functions differs from the table and the examples.
pub fn check() -> Result<()> {
    FUNCTIONS.check()
}

/// Fails if the page of system calls differs from the loader's tables.
pub fn check_system_calls() -> Result<()> {
    SYSTEM_CALLS.check()
}
