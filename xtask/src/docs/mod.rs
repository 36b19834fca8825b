//! The generated pages. `docs/mpi-coverage.md` comes from the table and the examples, `docs/system-calls.md` from the
//! tables of the loader; tests compare both with their sources. `docs/faults.md` comes from a test of `ckpt-image`,
//! which checks it whenever it runs. `docs/json.md` is written by hand and compared with the commands, and
//! `docs/json.schema.json` is made of it.

mod called_functions;
pub mod json_page;
pub mod json_schema;
pub mod session;
mod system_calls;

use crate::harness::paths;
use anyhow::{ensure, Context, Result};
use serde_json::Value;
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

const JSON_SCHEMA: Page = Page {
    file: "docs/json.schema.json",
    of: "docs/json.md says",
    text: json_schema::text,
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
    JSON_SCHEMA.write()?;
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

/// Fails if the page of JSON differs from the commands, or the schema from the page.
pub fn check_json() -> Result<()> {
    json_page::check()?;
    JSON_SCHEMA.check()
}

/// Fails if a command has printed a member that the page of JSON does not have, or a value that the schema does not
/// allow.
pub fn check_printed(command: &str, printed: &Value) -> Result<()> {
    json_page::check_printed(command, printed)?;
    json_schema::check_printed(command, printed)
}

/// Fails if the page of system calls differs from the loader's tables.
pub fn check_system_calls() -> Result<()> {
    SYSTEM_CALLS.check()
}
