//! Files of MPI_File_open that a restart needs and that are missing or shorter.

use super::case;
use super::damaged_set::restart;
use crate::harness::mpi::Mpi;
use crate::test::support::held_job::{example, start, take_checkpoint, RANKS};
use crate::test::support::refusal::{refused, IMAGE};
use crate::test::Case;
use anyhow::Result;
use std::fs;
use std::path::Path;

/// A restart needs the files that the job had open with MPI_File_open.
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
    ]
}
