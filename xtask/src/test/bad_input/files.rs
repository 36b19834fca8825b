//! Files of MPI_File_open that a restart needs and that are missing or shorter, and a missing working directory.

use super::damaged_set::restart;
use super::{case, LIMIT};
use crate::harness::job;
use crate::harness::mpi::Mpi;
use crate::harness::stasis;
use crate::test::support::held_job::{example, start, start_held, take_checkpoint, RANKS};
use crate::test::support::refusal::{refused, IMAGE};
use crate::test::Case;
use anyhow::{ensure, Result};
use std::fs;
use std::path::Path;

/// A restart needs the files that the job had open with MPI_File_open, and its working directory.
pub fn cases() -> Vec<Case> {
    let of = |name: &str, damage: fn(&Path) -> Result<()>, words: &'static [&'static str]| {
        case(name, move |dir| {
            let ckpt = dir.join("ck");
            let pending = example("io", "io/pending")?;
            let mut job = start(&pending, dir, &ckpt, Mpi::OpenMpi)?;
            take_checkpoint(&mut job, dir, &ckpt)?;
            damage(&dir.join("pending.dat"))?;
            let said: Vec<_> = words.iter().map(core::slice::from_ref).collect();
            refused(&restart(dir, &ckpt, RANKS)?, IMAGE, &said)
        })
    };
    vec![
        of(
            "restart-without-file-of-mpi",
            |path| Ok(fs::remove_file(path)?),
            &["pending.dat", "no such file", "put it back"],
        ),
        of(
            "restart-with-shorter-file-of-mpi",
            |path| Ok(fs::write(path, "short")?),
            &["pending.dat", "with 3000000 bytes and has 5 now"],
        ),
        case("restart-without-workdir", without_workdir),
    ]
}

/// The working directory is gone, or a file has its name. That is found before any rank is restored, and foretold.
fn without_workdir(dir: &Path) -> Result<()> {
    let (ckpt, work) = (dir.join("ck"), dir.join("work"));
    fs::create_dir(&work)?;
    let mut job = start_held(&work, &ckpt, Mpi::OpenMpi)?;
    take_checkpoint(&mut job, &work, &ckpt)?;
    fs::rename(&work, dir.join("away"))?;
    let name = work.display().to_string();
    for why in ["no such file", "not a directory"] {
        let words: &[&[&str]] = &[
            &["rank 1: ", "ranks 0 to 1: "],
            &["working directory"],
            &[&name],
            &["cannot be entered"],
            &[why],
            &["make it again"],
        ];
        let restarted = restart(dir, &ckpt, RANKS)?;
        refused(&restarted, IMAGE, words)?;
        // This line comes when all ranks can be restored.
        ensure!(
            !restarted.stderr.contains("continuing"),
            "{}",
            restarted.stderr
        );
        let mut dry_run = stasis::command(["restart", "--dry-run"]);
        dry_run.arg(&ckpt);
        refused(&job::run(dry_run, dir, "dry-run", LIMIT)?, IMAGE, words)?;
        if !work.exists() {
            fs::write(&work, "")?;
        }
    }
    Ok(())
}
