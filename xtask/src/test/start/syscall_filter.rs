//! Kernels without Syscall User Dispatch: a seccomp filter traps the program's system calls.

use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::stasis;
use crate::test::support::held_job::{example, start_by, take_checkpoint, RANKS};
use crate::test::support::helper_programs::{compile, on_older_kernel};
use crate::test::Case;
use anyhow::{ensure, Result};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for mpi in Mpi::ALL {
        let other = mpi.other();
        cases.push(Case::new(
            format!("syscall-filter/moved:{mpi}>{other}"),
            move |_, dir| moved(mpi, dir).into(),
        ));
    }
    cases.push(Case::new("syscall-filter/children", |_, dir| {
        children(dir).into()
    }));
    cases
}

/// The command on a kernel without Syscall User Dispatch, in this folder.
fn older(command: &Command, dir: &Path) -> Result<Command> {
    let mut older = on_older_kernel("sud", command, dir)?;
    older.current_dir(dir);
    Ok(older)
}

/// A job is killed after a checkpoint and goes on under the other library. Only the first kernel, or only the second
/// one, has Syscall User Dispatch.
fn moved(mpi: Mpi, dir: &Path) -> Result<()> {
    let ring = example("p2p", "p2p/ring_loop")?;
    for (name, before, after) in [
        ("both", true, true),
        ("to", false, true),
        ("from", true, false),
    ] {
        let dir = dir.join(name);
        fs::create_dir(&dir)?;
        let place = |command: Command, is_older: bool| match is_older {
            true => older(&command, &dir),
            false => Ok(command),
        };
        let ckpt = dir.join("ck");
        let launch = place(stasis::launch(mpi, RANKS, &ckpt, &dir), before)?;
        let mut job = start_by(launch, &ring, &dir, mpi)?;
        let filters = |job: &Job| -> Result<bool> {
            let of = |pid: &i32| fs::read_to_string(format!("/proc/{pid}/status"));
            let ranks = job.ranks();
            let all = ranks.iter().map(of).collect::<Result<Vec<_>, _>>()?;
            // One of them makes the kernel older.
            Ok(all
                .iter()
                .all(|status| status.contains("Seccomp_filters:\t2\n")))
        };
        ensure!(
            filters(&job)? == before,
            "{name}: the calls are trapped another way"
        );
        take_checkpoint(&mut job, &dir, &ckpt)?;
        fs::write(dir.join("go"), "")?;
        let mut restart = place(stasis::restart(mpi.other(), RANKS, &ckpt, &dir), after)?;
        restart.current_dir(&dir);
        let mut job = Job::start(restart, &dir, "restart")?;
        job.succeed(Instant::now() + LIMIT, &dir)?;
        let printed = job::read_text(&job.stdout);
        ensure!(
            printed.contains("OK ring_loop"),
            "{name}: it prints {printed}"
        );
    }
    Ok(())
}

/// Children execute programs of all kinds, by fork and by vfork; and a rank executes another program.
fn children(dir: &Path) -> Result<()> {
    let mut programs = Vec::new();
    for (name, flags) in [
        ("dynamic", &["-pie"][..]),
        ("fixed", &["-no-pie"]),
        ("static", &["-static-pie"]),
        ("static-fixed", &["-static", "-no-pie"]),
    ] {
        let folder = dir.join(name);
        fs::create_dir(&folder)?;
        programs.push(compile(&folder, "gcc", "says.c", flags)?);
    }
    let list: Vec<String> = programs
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let calls = list.iter().map(|path| format!("{path} && "));
    let shell = format!("{}exec {}", calls.collect::<String>(), list[1]);
    let python = "import subprocess, sys\n\
                  for path in sys.argv[1:]: subprocess.run([path], check=True)";
    let shell = vec!["sh".to_owned(), "-c".to_owned(), shell];
    let mut by_vfork = vec!["python3".to_owned(), "-c".to_owned(), python.to_owned()];
    by_vfork.extend(list);
    for (name, words, hellos) in [("shell", shell, 5), ("python", by_vfork, 4)] {
        let mut launch = stasis::command(["launch", "--ckpt-dir"]);
        launch.arg(dir.join(name)).args(words);
        let run = job::run(older(&launch, dir)?, dir, name, LIMIT)?.expect_success(name)?;
        let said = run.stdout.matches("hello").count();
        ensure!(
            said == hellos,
            "{name}: {said} of {hellos} programs ran\n{}",
            run.stderr
        );
    }
    Ok(())
}
