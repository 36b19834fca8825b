//! Programs without MPI: their output and exit status must be the same natively and in the upper half, for root and an
//! ordinary user, with an ordinary and an unlimited stack.

use crate::harness::job::{self, Finished};
use crate::harness::{paths, signal};
use crate::test::support::compile::command_line;
use crate::test::support::directives::{collect, Example};
use crate::test::support::NOBODY;
use crate::test::{Case, Outcome};
use anyhow::{ensure, Result};
use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// All cases of this file.
pub fn cases() -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for example in collect(&paths::examples(), &["loader"])? {
        let example = Arc::new(example);
        for (user, stack) in [
            ("self", "default"),
            ("self", "unlimited"),
            ("nobody", "default"),
            ("nobody", "unlimited"),
        ] {
            let example = example.clone();
            cases.push(Case::new(
                format!("{}:{user}:{stack}-stack", example.name),
                move |_, dir| {
                    if user == "nobody" && !signal::is_root() {
                        return Outcome::Skipped("only root can become nobody".into());
                    }
                    run(&example, user == "nobody", stack, dir).into()
                },
            ));
        }
    }
    Ok(cases)
}

fn run(example: &Example, nobody: bool, stack: &str, dir: &Path) -> Result<()> {
    let line = command_line(example, None)?;
    let work = dir.join("work");
    fs::create_dir(&work)?;
    if nobody {
        chown(&work, Some(NOBODY), Some(NOBODY))?;
    }
    let under = |name: &str, before: &[&str]| -> Result<Finished> {
        let mut command = Command::new("/bin/bash");
        let ulimit = match stack {
            "unlimited" => "ulimit -s unlimited && ",
            _ => "",
        };
        command.args(["-c", &format!("{ulimit}exec \"$@\""), "stasis-test"]);
        command.args(before).args(&line).current_dir(&work);
        command.env("HOME", "/tmp").env_remove("XDG_RUNTIME_DIR");
        if nobody {
            command.uid(NOBODY).gid(NOBODY);
        }
        job::run(command, dir, name, LIMIT)
    };
    let native = under("native", &[])?;
    let stasis = paths::stasis();
    let ours = under(
        "stasis",
        &[&stasis.to_string_lossy(), "launch", "--ckpt-dir", "ck"],
    )?;
    ensure!(
        native.status.code() == ours.status.code(),
        "ends with {}, natively with {}\n{}{}",
        ours.status,
        native.status,
        job::tail(&ours.stdout, 10),
        job::tail(&ours.stderr, 10)
    );
    ensure!(
        native.stdout == ours.stdout,
        "other output; natively\n{}here\n{}{}",
        job::tail(&native.stdout, 10),
        job::tail(&ours.stdout, 10),
        job::tail(&ours.stderr, 10)
    );
    Ok(())
}
