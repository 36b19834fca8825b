//! Checkpoint directories that cannot be used, or have no space.

use super::{as_root, case, launch_alone, LIMIT};
use crate::harness::mpi::Mpi;
use crate::harness::{job, stasis};
use crate::test::support::held_job::start_held;
use crate::test::support::refusal::{refused, CHECKPOINT, DIRECTORY};
use crate::test::support::small_fs::{in_full_directory, in_small_directory};
use crate::test::support::NOBODY;
use crate::test::Case;
use anyhow::{ensure, Result};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{chown, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::time::Instant;

pub fn cases() -> Vec<Case> {
    vec![
        as_root("directory-not-writable", |dir| {
            let closed = dir.join("closed");
            fs::create_dir(&closed)?;
            let mut command = launch_alone(&closed.join("ck"), &["/bin/true"]);
            command.uid(NOBODY).gid(NOBODY).current_dir("/");
            let finished = job::run(command, dir, "launch", LIMIT)?;
            refused(
                &finished,
                DIRECTORY,
                &[&["closed"], &["permission", "writable", "write"]],
            )
        }),
        as_root("directory-of-someone-else", |dir| {
            let theirs = dir.join("theirs");
            fs::create_dir(&theirs)?;
            fs::set_permissions(&theirs, Permissions::from_mode(0o700))?;
            chown(&theirs, Some(NOBODY), Some(NOBODY))?;
            let command = launch_alone(&theirs, &["/bin/true"]);
            let finished = job::run(command, dir, "launch", LIMIT)?;
            refused(&finished, DIRECTORY, &[&["theirs"], &["own", "belong"]])?;
            // The other way round the directory cannot even be looked into.
            let mine = dir.join("mine");
            fs::create_dir(&mine)?;
            fs::set_permissions(&mine, Permissions::from_mode(0o700))?;
            for command in ["status", "checkpoint", "stop", "list", "verify", "drain"] {
                for (directory, user, owner) in
                    [(&theirs, NOBODY - 1, "nobody"), (&mine, NOBODY, "root")]
                {
                    let mut asked = stasis::command([command]);
                    asked.arg(directory).uid(user).gid(user).current_dir("/");
                    let asked = job::run(asked, dir, command, LIMIT)?;
                    refused(&asked, DIRECTORY, &[&[&format!("belongs to {owner}")]])?;
                }
            }
            Ok(())
        }),
        case("directory-open-to-others", |dir| {
            let open = dir.join("open");
            fs::create_dir(&open)?;
            fs::set_permissions(&open, Permissions::from_mode(0o777))?;
            let command = launch_alone(&open, &["/bin/true"]);
            let finished = job::run(command, dir, "launch", LIMIT)?;
            refused(
                &finished,
                DIRECTORY,
                &[&["open"], &["write", "writable", "others"]],
            )
        }),
        Case::new("bad-input/directory-full", |_, dir| {
            in_full_directory(dir, checkpoint_into_full)
        }),
        without_inodes("bad-input/directory-without-inodes", 0),
        without_inodes("bad-input/directory-with-two-inodes", 2),
    ]
}

/// A case whose checkpoint finds only this many free inodes: two are those of the set's directory and of one image.
///
/// They are taken while the job stands at its cut. A job that begins there makes and removes files of its own.
fn without_inodes(name: &str, free: usize) -> Case {
    Case::new(name, move |_, dir| {
        in_small_directory(dir, "size=64m,nr_inodes=64", |dir, ckpt| {
            let take = || take_inodes(ckpt, free);
            checkpoint_fails(dir, ckpt, take, &["no inodes are left"])
        })
    })
}

/// Makes files in a directory until its file system can hold only this many more.
fn take_inodes(ckpt: &Path, free: usize) -> Result<()> {
    let filler = |number: usize| ckpt.join(format!("filler.{number}"));
    let mut made = 0;
    let refused = loop {
        match fs::write(filler(made), "") {
            Ok(()) => made += 1,
            Err(error) => break error,
        }
    };
    ensure!(
        refused.kind() == io::ErrorKind::StorageFull,
        "cannot fill the file system at {}: {refused}",
        ckpt.display()
    );
    for number in 0..free {
        fs::remove_file(filler(number))?;
    }
    Ok(())
}

/// A checkpoint into a full file system fails with a message; the job continues to its correct end.
fn checkpoint_into_full(dir: &Path, ckpt: &Path) -> Result<()> {
    checkpoint_fails(dir, ckpt, || Ok(()), &["space", "full"])
}

/// A checkpoint after `before` fails with one of these words; the job continues to its correct end.
fn checkpoint_fails(
    dir: &Path,
    ckpt: &Path,
    before: impl FnOnce() -> Result<()>,
    words: &[&str],
) -> Result<()> {
    let mut job = start_held(dir, ckpt, Mpi::OpenMpi)?;
    before()?;
    let finished = job::run(stasis::checkpoint(ckpt), dir, "checkpoint", LIMIT)?;
    refused(&finished, CHECKPOINT, &[words])?;
    fs::write(dir.join("go"), "")?;
    let status = job.wait(Instant::now() + LIMIT)?;
    ensure!(
        status.is_some_and(|status| status.success()),
        "the job did not survive the failed checkpoint: {status:?}\n{}",
        job::tail(&job::read_text(&job.stderr), 10)
    );
    Ok(())
}
