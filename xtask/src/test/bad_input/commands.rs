//! Commands that are wrong, or given at the wrong time.

use super::damaged_set::{copy_of_set, restart};
use super::{case, LIMIT};
use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::stasis;
use crate::test::support::held_job::{example, start, take_checkpoint, RANKS};
use crate::test::support::refusal::{refused, CHECKPOINT, IMAGE, NO_JOB, USAGE};
use crate::test::Case;
use anyhow::{ensure, Result};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::time::Instant;

pub fn cases() -> Vec<Case> {
    vec![
        case("checkpoint-without-job", |dir| {
            let finished = job::run(
                stasis::checkpoint(&dir.join("ck")),
                dir,
                "checkpoint",
                LIMIT,
            )?;
            refused(&finished, NO_JOB, &[&["ck"], &["job", "no such"]])
        }),
        case("checkpoint-of-dead-job", |dir| {
            let ckpt = copy_of_set(dir)?;
            let finished = job::run(stasis::checkpoint(&ckpt), dir, "checkpoint", LIMIT)?;
            refused(&finished, NO_JOB, &[&["job", "coordinator"]])
        }),
        case("checkpoint-without-mpi-init", never_initialised),
        case("unknown-option", |dir| {
            let command = stasis::command(["launch", "--frob", "/bin/true"]);
            let finished = job::run(command, dir, "launch", LIMIT)?;
            refused(&finished, USAGE, &[&["no option --frob"], &["--help"]])
        }),
        case("launcher-behind-stasis", launcher_behind),
        case("no-number-of-ranks", no_size),
        case("drain-of-nothing", |dir| {
            let (ckpt, ring) = (copy_of_set(dir)?, dir.join("empty"));
            fs::create_dir(&ring)?;
            fs::set_permissions(&ring, Permissions::from_mode(0o700))?;
            for (at, words) in [(ckpt, "nothing to drain"), (ring, "no checkpoint")] {
                let mut command = stasis::command(["drain"]);
                command.arg(at);
                let said = job::run(command, dir, "drain", LIMIT)?.expect_success("drain")?;
                ensure!(said.stdout.contains(words), "says {}", said.stdout);
            }
            Ok(())
        }),
        case("restart-from-nothing", |dir| {
            let finished = restart(dir, &dir.join("ck"), RANKS)?;
            refused(&finished, IMAGE, &[&["ck"]])
        }),
        case("restart-with-1-rank", |dir| {
            let finished = restart(dir, &copy_of_set(dir)?, 1)?;
            refused(&finished, IMAGE, &[&["2 ranks", "2 processes", "-n 2"]])
        }),
        case("restart-with-3-ranks", |dir| {
            let finished = restart(dir, &copy_of_set(dir)?, 3)?;
            refused(&finished, IMAGE, &[&["2 ranks", "2 processes", "-n 2"]])
        }),
        case("restart-with-changed-file", |dir| {
            with_changed_file(dir, |file| file.write_all_at(&[0], 5000))
        }),
        case("restart-with-shorter-file", |dir| {
            with_changed_file(dir, |file| file.set_len(8191))
        }),
    ]
}

/// A job of several ranks that never calls MPI_Init: `stasis checkpoint` reports that, and the program's children, and
/// returns when its `--patience` ends.
fn never_initialised(dir: &Path) -> Result<()> {
    let ckpt = dir.join("ck");
    let mut command = stasis::launch(Mpi::Mpich, RANKS, &ckpt, dir);
    command.args(["/bin/bash", "-c", "sleep 600; true"]);
    let mut job = Job::start(command, dir, "launch")?;
    let reached = stasis::until_reached(&mut job, &ckpt, "", Instant::now() + LIMIT);
    job.explain(reached, dir)?;
    let mut command = stasis::checkpoint(&ckpt);
    command.args(["--patience", "7"]);
    let finished = job::run(command, dir, "checkpoint", LIMIT)?;
    let words: &[&[&str]] = &[
        &["still not called MPI_Init"],
        &["has started another program, sleep"],
        &["within 7 s; the job runs on"],
    ];
    refused(&finished, CHECKPOINT, words)?;
    job.kill()
}

/// `prterun` alone tells its ranks no number of ranks: a coordinator for one rank would be of no use.
fn no_size(dir: &Path) -> Result<()> {
    for arguments in [
        &["launch", "--ckpt-dir", "ck", "/bin/true"][..],
        &["restart", "ck"],
    ] {
        let mut command = stasis::command(arguments);
        command.env("PMIX_RANK", "1").current_dir(dir);
        let finished = job::run(command, dir, "alone", LIMIT)?;
        refused(&finished, USAGE, &[&["PMIX_RANK"], &["--personality ompi"]])?;
    }
    ensure!(!dir.join("ck").exists(), "a checkpoint directory was made");
    Ok(())
}

/// The launcher of ranks comes after stasis, as with other checkpointers: the message gives the right order.
fn launcher_behind(dir: &Path) -> Result<()> {
    for mpi in [Mpi::OpenMpi, Mpi::Mpich] {
        let launcher = mpi.launcher();
        let mut command = stasis::command(["launch", "--ckpt-dir", "ck"]);
        command.args([&*launcher, "-n", "2", "/bin/true", "x"]);
        command.current_dir(dir);
        let finished = job::run(command, dir, "launch", LIMIT)?;
        let line = format!("{launcher} -n 2 stasis launch --ckpt-dir ck /bin/true x");
        refused(&finished, USAGE, &[&[&line]])?;
    }
    Ok(())
}

/// A restart is refused, and changes no file, if an open file has another content. With `--changed-files warn` it warns
/// and continues.
fn with_changed_file(dir: &Path, change: fn(&fs::File) -> io::Result<()>) -> Result<()> {
    let (ckpt, name) = (dir.join("ck"), "table.1");
    let mut job = start(
        &example("files", "files/changed")?,
        dir,
        &ckpt,
        Mpi::OpenMpi,
    )?;
    take_checkpoint(&mut job, dir, &ckpt)?;
    change(&fs::OpenOptions::new().write(true).open(dir.join(name))?)?;
    let steps = || [0, 1].map(|rank| fs::read(dir.join(format!("steps.{rank}"))).ok());
    let written = steps();
    let named: &[&[&str]] = &[&[name], &["at the checkpoint"], &["--changed-files warn"]];
    refused(&restart(dir, &ckpt, RANKS)?, IMAGE, named)?;
    ensure!(steps() == written, "a refused restart has changed files");
    fs::write(dir.join("go"), "")?;
    for (word, says) in [("warn", true), ("ignore", false)] {
        let mut command = stasis::restart(Mpi::OpenMpi, RANKS, &ckpt, dir);
        command.args(["--changed-files", word]);
        let finished = job::run(command, dir, word, LIMIT)?;
        let finished = finished.expect_success(word)?;
        ensure!(
            finished.stderr.contains(name) == says,
            "with {word} it says\n{}",
            finished.stderr
        );
        ensure!(
            !finished.stderr.contains("restore the file"),
            "with {word} it says what a refusal says:\n{}",
            finished.stderr
        );
    }
    Ok(())
}
