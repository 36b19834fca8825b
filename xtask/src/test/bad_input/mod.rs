//! Bad input: a clear message, an exit code that is not 0, and nothing started or restored.

mod commands;
pub mod damaged_set;
mod directories;
mod files;
mod images;
mod programs;

use super::Case;
use crate::harness::stasis;
use anyhow::Result;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    let mut cases = programs::cases();
    cases.extend(directories::cases());
    cases.extend(commands::cases());
    cases.extend(images::cases());
    cases.extend(files::cases());
    cases
}

fn case(name: &str, body: impl FnOnce(&Path) -> Result<()> + Send + 'static) -> Case {
    Case::new(format!("bad-input/{name}"), move |_, dir| body(dir).into())
}

fn as_root(name: &str, body: impl FnOnce(&Path) -> Result<()> + Send + 'static) -> Case {
    let name = format!("bad-input/{name}");
    Case::as_root(name, "needs root to set the scene", body)
}

fn launch_alone(ckpt: &Path, program: &[&str]) -> Command {
    let mut command = stasis::command(["launch", "--ckpt-dir"]);
    command.arg(ckpt).args(program);
    command
}
