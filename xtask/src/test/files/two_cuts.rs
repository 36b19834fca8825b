//! Files that change between two checkpoints.

use crate::harness::job;
use crate::harness::mpi::Mpi;
use crate::harness::stasis;
use crate::test::support::helper_programs::compile;
use crate::test::support::phased_job::PhasedJob;
use crate::test::support::refusal::{refused, IMAGE};
use crate::test::support::small_fs::in_btrfs;
use crate::test::Case;
use anyhow::{ensure, Result};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

const LIMIT: Duration = Duration::from_secs(60);

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for mpi in Mpi::ALL {
        let name = format!("two-cuts/unlinked:{mpi}");
        cases.push(Case::new(name, move |_, dir| unlinked(dir, mpi).into()));
        let name = format!("two-cuts/directory:{mpi}");
        cases.push(Case::new(name, move |_, dir| directory(dir, mpi).into()));
        let name = format!("two-cuts/privately:{mpi}");
        cases.push(Case::new(name, move |_, dir| privately(dir, mpi).into()));
        let name = format!("two-cuts/workdir:{mpi}");
        cases.push(Case::new(name, move |_, dir| workdir(dir, mpi).into()));
        let name = format!("two-cuts/left-behind:{mpi}");
        cases.push(Case::new(name, move |_, dir| left_behind(dir, mpi).into()));
    }
    cases.push(Case::new("two-cuts/cloned", |_, dir| in_btrfs(dir, cloned)));
    cases.push(Case::new("two-cuts/remapped", |_, dir| {
        remapped(dir).into()
    }));
    cases.push(Case::new("two-cuts/objects", |_, dir| objects(dir).into()));
    cases.push(Case::new("two-cuts/named", |_, dir| named(dir).into()));
    cases
}

fn launch<'a>(dir: &'a Path, mpi: Mpi, how: &[&str]) -> Result<PhasedJob<'a>> {
    let program = compile(dir, &mpi.compiler("c"), "two_cuts.c", &[])?;
    let mut launch = stasis::launch(mpi, 1, &dir.join("ck"), dir);
    launch.arg(program).args(how);
    PhasedJob::start(launch, dir)
}

/// Runs the program's changes behind a checkpoint and restarts it from there, up to the state at the checkpoint.
fn undone<'a>(dir: &'a Path, mpi: Mpi, how: &[&str]) -> Result<PhasedJob<'a>> {
    let mut job = launch(dir, mpi, how)?;
    job.reach(1)?;
    job.checkpoint()?;
    job.go(1)?;
    job.reach(2)?;
    fs::remove_file(dir.join("go.1"))?;
    job.restart(mpi.other(), "ckpt-1")?;
    Ok(job)
}

/// Lets a restarted program make its changes again.
fn repeated(mut job: PhasedJob) -> Result<()> {
    for phase in 1..=2 {
        job.go(phase)?;
    }
    job.finish("")
}

fn is_filled(path: &Path) -> Result<()> {
    let held = fs::read(path)?;
    let other = held.iter().position(|byte| *byte != b'a');
    ensure!(
        held.len() == 1 << 16 && other.is_none(),
        "{} has {} bytes, and another one at {other:?}",
        path.display(),
        held.len()
    );
    Ok(())
}

/// Files that were overwritten by clones of another one have their content again.
fn cloned(dir: &Path) -> Result<()> {
    let job = undone(dir, Mpi::Mpich, &["cloned"])?;
    for file in ["whole", "part"] {
        is_filled(&dir.join(file))?;
    }
    repeated(job)
}

/// A file that was overwritten through an enlarged mapping has its content again.
fn remapped(dir: &Path) -> Result<()> {
    let job = undone(dir, Mpi::Mpich, &["remapped"])?;
    is_filled(&dir.join("data"))?;
    repeated(job)
}

/// Objects of shared memory have their content again, those that were unmapped among them. One that was made is gone.
fn objects(dir: &Path) -> Result<()> {
    let tag = std::process::id().to_string();
    let job = undone(dir, Mpi::Mpich, &["objects", &tag])?;
    let name = |number| Path::new("/dev/shm").join(format!("stasis-{tag}-{number}"));
    let starts =
        |number, text: &[u8]| Ok::<_, anyhow::Error>(fs::read(name(number))?.starts_with(text));
    ensure!(starts(0, b"held")?, "the mapped object has another content");
    ensure!(
        starts(1, b"closed")?,
        "the unmapped object has another content"
    );
    ensure!(!name(2).exists(), "an object that was made is still there");
    repeated(job)
}

/// Names of pipes and sockets that were made are gone, one that was there is there, and access rights are as they were.
fn named(dir: &Path) -> Result<()> {
    let job = undone(dir, Mpi::Mpich, &["named"])?;
    for name in ["pipe", "socket", "node"] {
        ensure!(!dir.join(name).exists(), "{name} is still there");
    }
    for (name, wanted) in [
        ("file", 0o644),
        ("held", 0o644),
        ("directory", 0o755),
        ("old-pipe", 0o600),
    ] {
        let mode = fs::metadata(dir.join(name))?.mode() & 0o7777;
        ensure!(mode == wanted, "{name} has the mode {mode:o}");
    }
    repeated(job)
}

/// The journal keeps a link to a file that has lost its name since the first checkpoint. The second one is taken all
/// the same, and has the content.
fn unlinked(dir: &Path, mpi: Mpi) -> Result<()> {
    let mut job = launch(dir, mpi, &["unlinked"])?;
    job.reach(1)?;
    job.checkpoint()?;
    job.go(1)?;
    job.reach(2)?;
    job.checkpoint()?;
    job.restart(mpi.other(), "ckpt-2")?;
    job.go(2)?;
    job.finish("data: one two three")?;
    ensure!(!dir.join("data").exists(), "the file has its name again");
    Ok(())
}

/// A directory that was removed after the checkpoint has its rights again, whatever the mask of the restarted process.
/// Names that were exchanged lead to what they led to.
fn directory(dir: &Path, mpi: Mpi) -> Result<()> {
    let job = undone(dir, mpi, &["directories"])?;
    let mode = fs::metadata(dir.join("directory"))?.mode() & 0o7777;
    ensure!(mode == 0o1777, "the directory has the mode {mode:o}");
    let files = [
        ("one/file", "one"),
        ("two/file", "two"),
        ("three/file", "three"),
        ("data", "none"),
    ];
    for (file, wanted) in files {
        let held = fs::read_to_string(dir.join(file))?;
        ensure!(held == wanted, "{file} has {held:?}");
    }
    repeated(job)
}

/// Files that were mapped privately have their content again, and their times, so that the second restart from a set
/// knows them, too. One that another program has changed since is refused, although the job has opened it.
fn privately(dir: &Path, mpi: Mpi) -> Result<()> {
    let mut job = undone(dir, mpi, &["privately"])?;
    job.go(1)?;
    job.reach(2)?;
    job.job.kill()?;
    let opened = dir.join("opened");
    let then = fs::metadata(&opened)?.modified()?;
    let file = File::options().write(true).open(&opened)?;
    let dry_run = |name: &str| {
        let mut restart = stasis::restart(mpi, 1, &dir.join("ck/ckpt-1"), dir);
        restart.arg("--dry-run");
        job::run(restart, dir, name, LIMIT)
    };
    file.set_modified(SystemTime::now())?;
    let words: &[&[&str]] = &[&["opened is not the file"], &["it was modified since"]];
    refused(&dry_run("changed")?, IMAGE, words)?;
    let restart = stasis::restart(mpi, 1, &job.ckpt, dir);
    refused(&job::run(restart, dir, "refused", LIMIT)?, IMAGE, words)?;
    file.set_modified(then)?;
    dry_run("dry-run")?.expect_success("the dry run")?;
    fs::remove_file(dir.join("go.1"))?;
    job.restart(mpi, "ckpt-1")?;
    for file in [
        "over",
        "emptied",
        "extended",
        "replaced",
        "removed",
        "one/moved",
    ] {
        is_filled(&dir.join(file))?;
    }
    for phase in 1..=2 {
        job.go(phase)?;
    }
    // An emptied file takes the pages that the program has written with it.
    job.finish("mapped: bp bb ap ap ap ap ap")
}

/// A working directory that was removed since the checkpoint is made again before the program goes on in it.
fn workdir(dir: &Path, mpi: Mpi) -> Result<()> {
    let job = undone(dir, mpi, &["workdir"])?;
    ensure!(dir.join("work").is_dir(), "the directory is not there");
    repeated(job)
}

/// A restart from an older set leaves the newer one behind, whose files are lost.
fn left_behind(dir: &Path, mpi: Mpi) -> Result<()> {
    let mut job = launch(dir, mpi, &["rewritten"])?;
    job.reach(1)?;
    job.checkpoint()?;
    job.go(1)?;
    job.reach(2)?;
    job.checkpoint()?;
    // No file changes behind the second checkpoint.
    fs::remove_file(dir.join("at.2"))?;
    fs::write(dir.join("second-run"), "")?;
    job.restart(mpi.other(), "ckpt-1")?;
    job.reach(2)?;
    job.job.kill()?;
    for (name, flag) in [("restart-2", None), ("dry-run", Some("--dry-run"))] {
        let mut restart = stasis::restart(mpi, 1, &job.ckpt.join("ckpt-2"), dir);
        restart.args(flag);
        let ended = job::run(restart, dir, name, LIMIT)?;
        let words: &[&[&str]] = &[
            &["ckpt-2 cannot bring the files back"],
            &["the job has gone on from ckpt-1 since"],
            &["stasis restart --files cut"],
        ];
        refused(&ended, IMAGE, words)?;
    }
    fs::remove_file(dir.join("at.2"))?;
    job.restart(mpi, "")?;
    let said = job::read_text(&job.job.stderr);
    ensure!(
        said.contains("skipping ckpt-2: the job has gone on from ckpt-1 since"),
        "{said}"
    );
    job.reach(2)?;
    job.checkpoint()?;
    ensure!(
        job.ckpt.join("ckpt-1").exists(),
        "the set that was left behind was counted: ckpt-1 is gone"
    );
    for phase in 2..=3 {
        job.go(phase)?;
    }
    job.finish("data: two of the second run")
}
