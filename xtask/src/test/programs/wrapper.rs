//! Launchers that start a wrapper instead of the MPI program: the child that executes the MPI program is followed,
//! checkpointed and restarted.

use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::{paths, stasis};
use crate::test::support::compile::command_line;
use crate::test::support::held_job::{bring_back, example, files_named, reach_cut};
use crate::test::Case;
use anyhow::{ensure, Context, Result};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
const FOLLOWED: &str = "is what checkpoints save from now on";
const LOST: &str = "its further lines do not run";
const NOT_SAVED: &str = "another MPI program that the wrapper has started, is not saved";
const SECOND: &str = "is a second MPI program";

/// Wrappers: the words in front of the program, which is their last argument. `{other}` is a program that is
/// linked with MPI and never initialises it.
const WRAPPERS: [(&str, &[&str]); 7] = [
    // dash creates its children by vfork, bash by fork, and Python by vfork with all files closed.
    ("sh", &["sh", "-c", "true; \"$0\"; echo behind"]),
    (
        "bash",
        &["bash", "-c", "(cd /; exec true); time \"$0\"; echo behind"],
    ),
    (
        "python",
        &[
            "/usr/bin/python3",
            "-c",
            "import subprocess, sys; subprocess.run(sys.argv[1:], check=True, close_fds=False); print('behind')",
        ],
    ),
    (
        "chain",
        &["sh", "-c", "timeout 300 env A=1 \"$0\"; echo behind"],
    ),
    (
        "nested",
        &["bash", "-c", "sh -c \"cd .; $0; true\"; echo behind"],
    ),
    (
        "another-before",
        &["bash", "-c", "{other}; \"$0\"; echo behind"],
    ),
    (
        "another-beside",
        &[
            "bash",
            "-c",
            "\"$0\" & until [ -e ready.0 ]; do sleep 0.01; done; {other} go & wait; echo behind",
        ],
    ),
];

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for mpi in Mpi::ALL {
        for (name, words) in WRAPPERS {
            cases.push(Case::new(format!("wrapper/{name}-{mpi}"), move |_, dir| {
                wrapped(name, words, mpi, 2, dir).into()
            }));
        }
        cases.push(Case::new(format!("wrapper/alone-{mpi}"), move |_, dir| {
            wrapped("sh", WRAPPERS[0].1, mpi, 1, dir).into()
        }));
        cases.push(Case::new(
            format!("wrapper/without-mpi-{mpi}"),
            move |_, dir| without_mpi(mpi, dir).into(),
        ));
        cases.push(Case::new(format!("wrapper/script-{mpi}"), move |_, dir| {
            script(mpi, dir).into()
        }));
    }
    cases
}

/// A checkpoint requested while no MPI program runs fails with a message.
fn without_mpi(mpi: Mpi, dir: &Path) -> Result<()> {
    let mut launch = stasis::launch(mpi, 2, &dir.join("ck"), dir);
    launch.args(["--interval", "1s", "bash", "-c"]);
    launch.arg("until [ -e go ]; do sleep 0.01; done");
    launch.current_dir(dir);
    let mut job = Job::start(launch, dir, "launch")?;
    let deadline = Instant::now() + LIMIT;
    let said = job.until_said("waits for the ranks to call MPI_Init (2 of 2", deadline);
    job.explain(said, dir)?;
    fs::write(dir.join("go"), "")?;
    job.succeed(deadline, dir)
}

/// A script that ends with the code of its program, and runs the commands after it.
fn script(mpi: Mpi, dir: &Path) -> Result<()> {
    let path = dir.join("w.sh");
    fs::write(
        &path,
        "#!/bin/sh\nset -e\nls / | wc -l > listed\n\"$@\"\necho behind\n",
    )?;
    fs::set_permissions(&path, Permissions::from_mode(0o755))?;
    let mut launch = stasis::launch(mpi, 2, &dir.join("ck"), dir);
    launch
        .arg(path)
        .args(command_line(&example("p2p", "p2p/ring_loop")?, Some(mpi))?);
    launch.current_dir(dir);
    let run = job::run(launch, dir, "run", LIMIT)?.expect_success("the script")?;
    ensure!(
        run.stdout.contains("OK") && run.stdout.matches("behind").count() == 2,
        "it prints\n{}{}",
        run.stdout,
        run.stderr
    );
    Ok(())
}

fn wrapped(name: &str, words: &[&str], mpi: Mpi, ranks: usize, dir: &Path) -> Result<()> {
    let other = dir.join("other");
    let mut compile = Command::new(mpi.compiler("c"));
    compile.arg(paths::examples().join("tools/linked.c"));
    compile.arg("-o").arg(&other);
    job::run(compile, dir, "compile", LIMIT)?.expect_success("the compiler")?;
    let ckpt = dir.join("ck");
    let mut launch = stasis::launch(mpi, ranks, &ckpt, dir);
    let other = other.display().to_string();
    launch.args(words.iter().map(|word| word.replace("{other}", &other)));
    launch.args(command_line(&example("p2p", "p2p/ring_loop")?, Some(mpi))?);
    launch.current_dir(dir);
    launch.env("STASIS_TEST_READY", dir.join("ready"));
    launch.env("STASIS_TEST_GO", dir.join("go"));
    let mut job = Job::start(launch, dir, "launch")?;
    match ranks {
        1 => job.until("it reached the cut", Instant::now() + LIMIT, || {
            dir.join("ready.0").exists()
        })?,
        _ => reach_cut(&mut job, dir)?,
    }
    let deadline = Instant::now() + LIMIT;
    job.until_said(FOLLOWED, deadline)?;
    if name == "another-beside" {
        job.until_said(SECOND, deadline)?;
        // That is said when the program is executed, before it has loaded the library by which checkpoints know it.
        job.until("the other program runs", deadline, || {
            files_named(dir, "linked.") == ranks
        })?;
    }
    let taken = job::run(stasis::checkpoint(&ckpt), dir, "checkpoint", LIMIT)?;
    job.explain(taken.expect_success("stasis checkpoint"), dir)?;
    let said = job::read_text(&job.stderr);
    ensure!(
        said.contains(NOT_SAVED) == (name == "another-beside")
            && said.contains(SECOND) == (name == "another-beside"),
        "says\n{said}"
    );
    bring_back(
        &mut job,
        stasis::restart(mpi, ranks, &ckpt, dir),
        &ckpt,
        dir,
    )?;
    fs::write(dir.join("go"), "")?;
    job.succeed(Instant::now() + LIMIT, dir)
        .context("after a restart")?;
    let (printed, said) = (job::read_text(&job.stdout), job::read_text(&job.stderr));
    ensure!(
        printed.contains("OK") && !printed.contains("behind") && said.contains(LOST),
        "prints\n{printed}{said}"
    );
    Ok(())
}
