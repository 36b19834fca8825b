//! Checkpoints that a command of the user's stores elsewhere (`run --drain-with`, `drain --with`).

use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::stasis;
use crate::test::support::held_job::{example, start_by, RANKS};
use crate::test::support::refusal::IMAGE;
use crate::test::Case;
use anyhow::{ensure, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for mpi in Mpi::ALL {
        let other = mpi.other();
        cases.push(Case::new(
            format!("hand-over/lost-directory:{mpi}>{other}"),
            move |_, dir| lost_directory(mpi, dir).into(),
        ));
        cases.push(Case::new(format!("hand-over/slow:{mpi}"), move |_, dir| {
            slow(mpi, dir).into()
        }));
    }
    cases.push(Case::new("hand-over/fails", |_, dir| fails(dir).into()));
    cases
}

/// A job that hands its checkpoints over, and its places.
struct Stored<'a> {
    job: Job,
    dir: &'a Path,
    ckpt: PathBuf,
    store: PathBuf,
}

impl Stored<'_> {
    fn start<'a>(mpi: Mpi, dir: &'a Path, flags: &[&str], command: &str) -> Result<Stored<'a>> {
        let (ckpt, store) = (dir.join("ck"), dir.join("store"));
        fs::create_dir(&store)?;
        let mut launch = stasis::launch(mpi, RANKS, &ckpt, dir);
        launch.args(flags);
        let held = example("probes", "probes/peers.p10_pending_irecv")?;
        // The program's words come behind those of `stasis launch`.
        let run = stasis::run(&["--drain-with", command], &launch);
        Ok(Stored {
            job: start_by(run, &held, dir, mpi)?,
            dir,
            ckpt,
            store,
        })
    }

    fn checkpoint(&self, flags: &[&str]) -> Result<()> {
        let mut command = stasis::checkpoint(&self.ckpt);
        command.args(flags);
        let taken = job::run(command, self.dir, "checkpoint", LIMIT)?;
        taken.expect_success("stasis checkpoint").map(drop)
    }

    fn until_said(&mut self, words: &str) -> Result<()> {
        self.job.until_said(words, Instant::now() + LIMIT)
    }

    fn go(&self) -> Result<()> {
        Ok(fs::write(self.dir.join("go"), "")?)
    }

    /// The stored checkpoints are whole, and this one is the newest.
    fn verify(&self, newest: &str) -> Result<()> {
        let verified = stasis::verify(&self.store, self.dir, LIMIT)?;
        let verified = verified.expect_success("stasis verify")?;
        ensure!(self.store.join(newest).exists(), "{}", verified.stdout);
        Ok(())
    }
}

const STORE: &str = "cp -r \"$STASIS_CHECKPOINT\" store/";

/// The job and its checkpoint directory are lost. It goes on from what the command has stored, under the other library.
fn lost_directory(mpi: Mpi, dir: &Path) -> Result<()> {
    let mut stored = Stored::start(mpi, dir, &[], STORE)?;
    for set in ["ckpt-1", "ckpt-2"] {
        stored.checkpoint(&[])?;
        stored.until_said(&format!("{set} is handed over"))?;
    }
    stored.job.kill()?;
    fs::remove_dir_all(&stored.ckpt)?;
    stored.verify("ckpt-2")?;
    stored.go()?;
    let restart = stasis::restart(mpi.other(), RANKS, &stored.store, dir);
    let mut again = Job::start(restart, dir, "restart")?;
    again.succeed(Instant::now() + LIMIT, dir)
}

/// A command that takes longer than the job keeps its checkpoint, and longer than the job, stores both checkpoints.
fn slow(mpi: Mpi, dir: &Path) -> Result<()> {
    let command = format!("touch begun; while [ ! -e may-store ]; do sleep 0.01; done; {STORE}");
    let mut stored = Stored::start(mpi, dir, &["--keep", "1"], &command)?;
    stored.checkpoint(&[])?;
    let begun = || dir.join("begun").exists();
    stored
        .job
        .until("the command runs", Instant::now() + LIMIT, begun)?;
    stored.checkpoint(&["--stop"])?;
    // Older sets are removed after the answer.
    let first = stored.ckpt.join("ckpt-1");
    let deadline = Instant::now() + LIMIT;
    stored
        .job
        .until("ckpt-1 was removed", deadline, || !first.exists())?;
    ensure!(stored.job.poll()?.is_none(), "the job's end did not wait");
    fs::write(dir.join("may-store"), "")?;
    stored.job.succeed(Instant::now() + LIMIT, dir)?;
    stored.verify("ckpt-2")?;
    ensure!(stored.store.join("ckpt-1").exists(), "the first is missing");
    let left = stored.ckpt.join(".handing-over");
    ensure!(!left.exists(), "links are left");
    Ok(())
}

/// A command that fails is told, twice, and does the job no harm. `stasis drain --with` hands over what is missing, and
/// nothing when it is called again. The exit code tells of it, unless the job itself fails.
fn fails(dir: &Path) -> Result<()> {
    let mut stored = Stored::start(Mpi::Mpich, dir, &[], "echo no room >&2; exit 3")?;
    stored.checkpoint(&[])?;
    stored.until_said("has not stored ckpt-1 (exit status: 3)")?;
    stored.go()?;
    let ended = stored.job.wait(Instant::now() + LIMIT)?;
    let code = ended.and_then(|ended| ended.code());
    ensure!(code == Some(IMAGE), "it ends with code {code:?}");
    let said = job::read_text(&stored.job.stderr);
    let printed = said.lines().filter(|line| *line == "no room");
    ensure!(printed.count() == 2, "{said}");
    let drain = |name: &str| {
        let mut drain = stasis::command(["drain", "--with", STORE]);
        drain.arg(&stored.ckpt).current_dir(dir);
        stasis::json(drain, dir, name, LIMIT)
    };
    let first = drain("drain")?;
    ensure!(first["handed_over"][0] == "ckpt-1", "{first}");
    let second = drain("again")?;
    ensure!(
        second["handed_over"].as_array().is_some_and(Vec::is_empty),
        "{second}"
    );
    stored.verify("ckpt-1")?;
    let mut exits = stasis::launch(Mpi::Mpich, 1, &dir.join("exits"), dir);
    exits.args(["sh", "-c", "exit 9"]);
    let exits = stasis::run(&["--drain-with", STORE], &exits);
    let ended = job::run(exits, dir, "exits", LIMIT)?;
    ensure!(ended.status.code() == Some(9), "{:?}", ended.status);
    Ok(())
}
