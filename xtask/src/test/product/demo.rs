//! `cargo xtask demo` without the packages that it needs, for a user who may not install any.

use crate::harness::{job, paths, signal};
use crate::test::support::NOBODY;
use crate::test::Case;
use anyhow::{ensure, Result};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    vec![Case::new("demo/administrator", |_, dir| {
        administrator(dir).into()
    })]
}

/// Neither dpkg nor sudo are in the PATH: nothing is installed, and nothing can be.
fn administrator(dir: &Path) -> Result<()> {
    let mut demo = Command::new(std::env::current_exe()?);
    demo.arg("demo").env("PATH", dir).current_dir(paths::root());
    if signal::is_root() {
        demo.uid(NOBODY).gid(NOBODY);
    }
    let ended = job::run(demo, dir, "demo", LIMIT)?;
    ensure!(!ended.status.success(), "the demo ran without its packages");
    for words in [
        "This demo",
        "  lammps ",
        "MB to download",
        "- builds",
        "runs LAMMPS",
    ] {
        ensure!(
            ended.stdout.contains(words),
            "it does not say {words:?} before: {}",
            ended.stdout
        );
    }
    let said = &ended.stderr;
    let lines = said.lines().filter(|line| line.contains("apt-get"));
    let lines: Vec<&str> = lines.map(str::trim).collect();
    ensure!(
        matches!(lines[..], [line] if line.starts_with("apt-get update && apt-get install")
            && line.ends_with("libc6-dev lammps")),
        "the line for the administrator is missing: {said}"
    );
    ensure!(
        !said.contains("quantum-espresso"),
        "it asks for packages of the tests: {said}"
    );
    Ok(())
}
