//! What `cargo xtask package` makes, used as by people who have nothing else: the tarball unpacked anywhere by
//! an ordinary user; and, with `--full`, Debian's package in a fresh Debian.

use super::bad_input::{example, refused, CANNOT_SERVE};
use super::loader::NOBODY;
use super::programs::command_line;
use super::{real, Case};
use crate::job::{self, Job};
use crate::mpi::Mpi;
use crate::{package, signal, stasis};
use anyhow::{ensure, Result};
use std::fs::{self, Permissions};
use std::os::unix::fs::{chown, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(120);

/// The cases.
pub fn cases() -> Vec<Case> {
    vec![Case::new("package/tarball", |_, dir| unpacked(dir).into())]
}

type Made = OnceLock<std::result::Result<PathBuf, String>>;

/// The tarball, made once per run of the harness.
pub fn tarball() -> Result<PathBuf> {
    static MADE: Made = OnceLock::new();
    once(&MADE, || package::tree().and_then(|_| package::tarball()))
}

/// Debian's package, likewise.
pub fn deb() -> Result<PathBuf> {
    static MADE: Made = OnceLock::new();
    // It is of the tree that the tarball is of.
    once(&MADE, || tarball().and_then(|_| package::deb()))
}

fn once(made: &Made, make: impl FnOnce() -> Result<PathBuf>) -> Result<PathBuf> {
    let file = made.get_or_init(|| make().map_err(|error| format!("{error:#}")));
    file.clone().map_err(anyhow::Error::msg)
}

/// An ordinary user with an unpacked tarball that nobody can write to.
struct User {
    stasis: PathBuf,
    work: PathBuf,
}

impl User {
    /// Unpacks the tarball somewhere in `dir`.
    fn new(dir: &Path) -> Result<User> {
        let (place, work) = (dir.join("some where"), dir.join("work"));
        fs::create_dir(&place)?;
        fs::create_dir(&work)?;
        let mut tar = Command::new("tar");
        tar.arg("-xzf").arg(tarball()?).arg("-C").arg(&place);
        job::run(tar, dir, "tar", LIMIT)?.expect_success("tar")?;
        let mut chmod = Command::new("chmod");
        chmod.args(["-R", "a-w"]).arg(&place);
        job::run(chmod, dir, "chmod", LIMIT)?.expect_success("chmod")?;
        if signal::is_root() {
            chown(&work, Some(NOBODY), Some(NOBODY))?;
        }
        let stasis = place.join(package::name()).join("bin/stasis");
        Ok(User { stasis, work })
    }

    /// Who runs the tests as root becomes somebody else for this.
    fn become_it(&self, mut command: Command) -> Command {
        command.current_dir(&self.work).env("HOME", &self.work);
        command.env_remove("XDG_RUNTIME_DIR");
        if signal::is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    /// `stasis` with these words.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.stasis);
        command.args(words);
        self.become_it(command)
    }

    /// The same as ranks of a job.
    fn ranks(&self, mpi: Mpi, words: &[&str]) -> Command {
        let mut command = mpi.mpirun(2, &self.work);
        command.arg(&self.stasis).args(words);
        command.env("STASIS_TEST_READY", self.work.join("ready"));
        command.env("STASIS_TEST_GO", self.work.join("go"));
        self.become_it(command)
    }
}

fn unpacked(dir: &Path) -> Result<()> {
    let user = User::new(dir)?;
    let doctor = user.command(&["doctor"]);
    let said = job::run(doctor, dir, "doctor", LIMIT)?.expect_success("doctor")?;
    for words in [
        "lower half openmpi:",
        "lower half mpich:",
        "front for standard: is there",
    ] {
        ensure!(
            said.stdout.contains(words),
            "says no '{words}':\n{}",
            said.stdout
        );
    }
    // The sources are in it: the compiler is what is missing.
    let build = user.command(&["build-lower", "--mpicc", "/nowhere/mpicc"]);
    let build = job::run(build, dir, "build-lower", LIMIT)?;
    refused(&build, CANNOT_SERVE, &[&["/nowhere/mpicc"]])?;
    ensure!(!build.stderr.contains("--source"), "says\n{}", build.stderr);
    job_of(&user, dir)?;
    // So that the folder can be emptied.
    fs::set_permissions(dir.join("some where"), Permissions::from_mode(0o755))?;
    let mut chmod = Command::new("chmod");
    chmod.args(["-R", "u+w"]).arg(dir.join("some where"));
    job::run(chmod, dir, "chmod", LIMIT)?.expect_success("chmod")?;
    Ok(())
}

/// A job is frozen, killed and continued under the other library, and ends as it does natively.
fn job_of(user: &User, dir: &Path) -> Result<()> {
    let (first, second) = (Mpi::Mpich, Mpi::OpenMpi);
    let ring = example("p2p", "p2p/ring_loop")?;
    let native = real::reference(&ring, first)?;
    let ckpt = user.work.join("ck");
    let deadline = Instant::now() + LIMIT;

    let mut launch = user.ranks(first, &["launch", "--ckpt-dir", "ck"]);
    launch.args(command_line(&ring, Some(first))?);
    let mut running = Job::start(launch, dir, "launch")?;
    let reached = stasis::until_reached(&mut running, &ckpt, "", deadline);
    let before = running.explain(reached, dir)?;
    let checkpoint = user.command(&["checkpoint", "ck"]);
    job::run(checkpoint, dir, "checkpoint", LIMIT)?.expect_success("checkpoint")?;
    running.kill()?;

    let inspect = user.command(&["inspect", "ck"]);
    let held = stasis::json(inspect, dir, "inspect", LIMIT)?;
    ensure!(
        held["stasis_version"] == package::VERSION,
        "the checkpoint names the version {}",
        held["stasis_version"]
    );
    fs::write(user.work.join("go"), "")?;
    let mut again = Job::start(user.ranks(second, &["restart", "ck"]), dir, "restart")?;
    again.succeed(deadline, dir)?;
    ensure!(
        stasis::job_file(&ckpt) != before,
        "the file of the killed job is left"
    );
    let printed = job::read_text(&again.stdout);
    let expected = job::read_text(&native.join("run.out"));
    ensure!(
        printed == expected,
        "it printed\n{}natively\n{}",
        job::tail(&printed, 10),
        job::tail(&expected, 10)
    );
    Ok(())
}
