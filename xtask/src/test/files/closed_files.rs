//! Files that a job had written to and closed before the checkpoint, and that have grown or were replaced by the time
//! of the restart.

use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::stasis;
use crate::test::support::held_job::{bring_back, example, start};
use crate::test::Case;
use anyhow::{ensure, Result};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
const RANKS: usize = 2;

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    let case = |name: &str, run: fn(&Path) -> Result<()>| {
        Case::new(format!("closed/{name}"), move |_, dir| run(dir).into())
    };
    vec![
        case("cut-back", truncated),
        case("left", left),
        case("not-kept", not_kept),
    ]
}

/// A job with closed files, at its cut.
struct Closed<'a> {
    dir: &'a Path,
    ckpt: PathBuf,
    job: Job,
}

impl Closed<'_> {
    fn launch(dir: &Path, mpi: Mpi) -> Result<Closed<'_>> {
        let ckpt = dir.join("ck");
        let job = start(&example("tools", "tools/closed")?, dir, &ckpt, mpi)?;
        let closed = Closed { dir, ckpt, job };
        closed.take()?;
        Ok(closed)
    }

    fn take(&self) -> Result<()> {
        let command = stasis::checkpoint(&self.ckpt);
        let taken = job::run(command, self.dir, "checkpoint", LIMIT)?;
        taken.expect_success("stasis checkpoint").map(drop)
    }

    /// Kills the job and restarts it from that set. Returns the messages of the restart.
    fn restart(&mut self, mpi: Mpi, set: &str, flags: &[&str]) -> Result<String> {
        let mut command = stasis::restart(mpi, RANKS, &self.ckpt.join(set), self.dir);
        command
            .args(flags)
            .env("STASIS_TEST_GO", self.dir.join("go"));
        bring_back(&mut self.job, command, &self.ckpt, self.dir)?;
        Ok(job::read_text(&self.job.stderr))
    }

    /// Lets the job run to its end.
    fn finish(mut self) -> Result<()> {
        fs::write(self.dir.join("go"), "")?;
        self.job.succeed(Instant::now() + LIMIT, self.dir)
    }

    fn append(&self, name: &str, text: &str) -> Result<()> {
        let mut file = OpenOptions::new().append(true).open(self.dir.join(name))?;
        Ok(file.write_all(text.as_bytes())?)
    }

    fn holds(&self, name: &str, text: &str) -> Result<()> {
        let held = fs::read_to_string(self.dir.join(name))?;
        ensure!(held == text, "{name} holds {held:?}, should hold {text:?}");
        Ok(())
    }

    /// Saved tails of a file, in order.
    fn kept(&self, name: &str) -> Result<Vec<String>> {
        let file = self.dir.canonicalize()?.join(name);
        let kept = self.ckpt.join("cut-off").join(file.strip_prefix("/")?);
        let mut names: Vec<PathBuf> = fs::read_dir(kept)?
            .map(|entry| Ok(entry?.path()))
            .collect::<Result<_>>()?;
        names.sort_unstable();
        names
            .iter()
            .map(|name| Ok(fs::read_to_string(name)?))
            .collect()
    }

    fn keeps(&self, name: &str, tails: &[&str]) -> Result<()> {
        let kept = self.kept(name)?;
        ensure!(kept == tails, "of {name} are kept {kept:?}, not {tails:?}");
        Ok(())
    }
}

fn says(said: &str, words: &[&str]) -> Result<()> {
    for words in words {
        ensure!(said.contains(words), "'{words}' is not said:\n{said}");
    }
    Ok(())
}

/// Files that have grown are truncated at every restart, and the tails are saved, once for all ranks. A replaced file
/// is left alone.
fn truncated(dir: &Path) -> Result<()> {
    let mut job = Closed::launch(dir, Mpi::OpenMpi)?;
    for name in ["own.0", "own.1", "common", "open.0"] {
        job.append(name, "later\n")?;
    }
    fs::write(dir.join("anew.0"), "1st, 2nd, 3rd\n")?;
    fs::write(dir.join("new"), "first\nof another program\n")?;
    fs::rename(dir.join("new"), dir.join("replaced.1"))?;
    fs::write(dir.join("shorter.0"), "")?;
    fs::remove_file(dir.join("gone.1"))?;
    let said = job.restart(Mpi::OpenMpi, "ckpt-1", &[])?;
    let summary = "cut back to their length at the checkpoint: 4, by 24 bytes in all";
    says(&said, &[summary, "stay as they are: 3 "])?;
    let lines = said.lines().filter(|line| line.contains(" bytes in all"));
    ensure!(lines.count() == 1, "it is said more than once:\n{said}");
    job.holds("own.0", "first\n")?;
    job.holds("own.1", "first\n")?;
    job.holds("common", "first\nfirst\n")?;
    job.holds("open.0", "first\n")?;
    job.holds("anew.0", "1st, 2nd, 3rd\n")?;
    job.holds("replaced.0", "first\n")?;
    job.holds("replaced.1", "first\nof another program\n")?;
    job.holds("shorter.0", "")?;
    ensure!(!dir.join("gone.1").exists(), "what was removed is back");
    job.keeps("common", &["later\n"])?;
    job.keeps("open.0", &["later\n"])?;
    let list = fs::read_to_string(job.ckpt.join("cut-off/list"))?;
    says(
        &list,
        &["own.1\": cut back to 6 bytes, by 6", "anew.0\": left"],
    )?;

    job.append("own.0", "once more\n")?;
    let said = job.restart(Mpi::OpenMpi, "ckpt-1", &[])?;
    says(&said, &["at the checkpoint: 1, by 10 bytes in all"])?;
    job.holds("own.0", "first\n")?;
    job.keeps("own.0", &["later\n", "once more\n"])?;

    // The files are still listed after a restart.
    job.append("own.1", "before\n")?;
    job.append("open.1", "before\n")?;
    job.take()?;
    job.append("own.1", "after\n")?;
    job.append("common", "after\n")?;
    let said = job.restart(Mpi::OpenMpi, "ckpt-2", &[])?;
    says(&said, &["at the checkpoint: 2, by 12 bytes in all"])?;
    job.holds("own.1", "first\nbefore\n")?;
    job.holds("common", "first\nfirst\n")?;
    let said = job.restart(Mpi::OpenMpi, "ckpt-2", &[])?;
    ensure!(!said.contains("cut back"), "of nothing it is said\n{said}");
    job.finish()?;
    lists_nothing_else(dir)
}

/// Saved tails do not affect the sets, which are complete and the only ones.
fn lists_nothing_else(dir: &Path) -> Result<()> {
    let ckpt = dir.join("ck");
    stasis::verify(&ckpt, dir, LIMIT)?.expect_success("stasis verify")?;
    let mut list = stasis::command(["list"]);
    list.arg(&ckpt);
    let listed = job::run(list, dir, "list", LIMIT)?.expect_success("stasis list")?;
    ensure!(
        listed.stdout.contains("ckpt-2") && !listed.stdout.contains("cut-off"),
        "it lists\n{}",
        listed.stdout
    );
    Ok(())
}

/// `--closed-files leave` applies to closed files.
fn left(dir: &Path) -> Result<()> {
    let mut job = Closed::launch(dir, Mpi::Mpich)?;
    for name in ["own.0", "common", "open.1"] {
        job.append(name, "later\n")?;
    }
    let said = job.restart(Mpi::OpenMpi, "ckpt-1", &["--closed-files", "leave"])?;
    says(&said, &["at the checkpoint: 1, by 6 bytes in all"])?;
    job.holds("own.0", "first\nlater\n")?;
    job.holds("common", "first\nfirst\nlater\n")?;
    job.holds("open.1", "first\n")?;
    job.finish()
}

/// If the tail cannot be saved, a closed file is not truncated, but an open one is.
fn not_kept(dir: &Path) -> Result<()> {
    let mut job = Closed::launch(dir, Mpi::OpenMpi)?;
    fs::write(job.ckpt.join("cut-off"), "no directory")?;
    for name in ["own.0", "open.1"] {
        job.append(name, "later\n")?;
    }
    let said = job.restart(Mpi::Mpich, "ckpt-1", &[])?;
    let unkept = "6 bytes in all; what is cut off is not kept";
    says(
        &said,
        &["at the checkpoint: 1, by ", unkept, "stay as they are: 1 "],
    )?;
    job.holds("own.0", "first\nlater\n")?;
    job.holds("open.1", "first\n")?;
    job.finish()
}
