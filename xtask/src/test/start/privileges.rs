//! Files that give privileges to their caller: those of Stasis refuse to run; a program runs without the privileges
//! that it would have natively, after a message.

use crate::harness::{job, paths, stasis};
use crate::test::support::refusal::{refused, CANNOT_SERVE};
use crate::test::support::NOBODY;
use crate::test::{copy_program, Case};
use anyhow::{ensure, Result};
use std::fs::{self, Permissions};
use std::os::unix::fs::{chown, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
const SETUID: u32 = 0o4755;
const SETGID: u32 = 0o2755;
const WHY: &str = "needs root to give files away";

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    vec![
        Case::as_root("privileges/of-stasis", WHY, of_stasis),
        Case::as_root("privileges/of-a-program", WHY, of_a_program),
        Case::as_root("privileges/capabilities", WHY, capabilities),
    ]
}

/// A copy with these bits, of this user and group.
fn copy(from: &Path, dir: &Path, owner: u32, mode: u32) -> Result<PathBuf> {
    let name = from.file_name().unwrap_or_default();
    let to = dir.join(format!("{}-{mode:o}-{owner}", name.display()));
    copy_program(from, &to)?;
    chown(&to, Some(owner), Some(owner))?;
    fs::set_permissions(&to, Permissions::from_mode(mode))?;
    Ok(to)
}

fn of_stasis(dir: &Path) -> Result<()> {
    let lower = paths::stasis()
        .with_file_name("../lib/stasis/lower-mpich")
        .canonicalize()?;
    for (file, words) in [
        (paths::stasis(), ["list", "/nonexistent"]),
        (lower, ["launch", "true"]),
    ] {
        for mode in [SETUID, SETGID] {
            let mut command = Command::new(copy(&file, dir, 0, mode)?);
            command.args(words).uid(NOBODY).gid(NOBODY);
            command.current_dir("/");
            let finished = job::run(command, dir, "privileged", LIMIT)?;
            refused(&finished, CANNOT_SERVE, &[&["privileges"], &["chmod ug-s"]])?;
        }
    }
    Ok(())
}

fn of_a_program(dir: &Path) -> Result<()> {
    for (mode, word) in [(SETUID, "setuid"), (SETGID, "setgid")] {
        for (owner, said) in [(NOBODY, true), (0, false)] {
            let program = copy(Path::new("/usr/bin/id"), dir, owner, mode)?;
            let mut command = stasis::command(["launch", "--ckpt-dir"]);
            command.arg(dir.join("ck")).arg(program).arg("-u");
            let run = job::run(command, dir, "run", LIMIT)?.expect_success("id")?;
            ensure!(
                run.stdout == "0\n" && run.stderr.contains(word) == said,
                "of user {owner} with {word} it prints\n{}{}",
                run.stdout,
                run.stderr
            );
        }
    }
    Ok(())
}

/// Capabilities of a file: refused for Stasis, reported for a program.
fn capabilities(dir: &Path) -> Result<()> {
    let with = |file: &Path| -> Result<PathBuf> {
        let file = copy(file, dir, 0, 0o755)?;
        let mut set = Command::new("/sbin/setcap");
        set.arg("cap_net_raw+ep").arg(&file);
        job::run(set, dir, "setcap", LIMIT)?.expect_success("setcap")?;
        Ok(file)
    };
    let mut command = Command::new(with(&paths::stasis())?);
    command.args(["list", "/nonexistent"]).current_dir("/");
    command.uid(NOBODY).gid(NOBODY);
    let finished = job::run(command, dir, "privileged", LIMIT)?;
    refused(&finished, CANNOT_SERVE, &[&["privileges"], &["setcap -r"]])?;

    let mut command = stasis::command(["launch", "--ckpt-dir"]);
    command
        .arg(dir.join("ck"))
        .arg(with(Path::new("/usr/bin/id"))?);
    let run = job::run(command, dir, "run", LIMIT)?.expect_success("id")?;
    ensure!(
        run.stderr.contains("without its file's capabilities"),
        "nothing is said of the program's capabilities: {}",
        run.stderr
    );
    Ok(())
}
