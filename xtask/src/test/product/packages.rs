//! The packages of `cargo xtask package`, without the rest of the repository: the tarball, unpacked by an ordinary
//! user; and, with `--full`, Debian's package in a fresh Debian.

use crate::build::package;
use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::{signal, stasis};
use crate::test::programs::mpi::reference;
use crate::test::support::compile::command_line;
use crate::test::support::directives::Example;
use crate::test::support::held_job::example;
use crate::test::support::refusal::{refused, CANNOT_SERVE};
use crate::test::support::NOBODY;
use crate::test::Case;
use anyhow::{ensure, Result};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(120);

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    vec![
        Case::new("package/tarball", |_, dir| unpacked(dir).into()),
        Case::new("package/elsewhere", |_, dir| elsewhere(dir).into()),
    ]
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
    // Made of the tree of the tarball.
    once(&MADE, || tarball().and_then(|_| package::deb()))
}

fn once(made: &Made, make: impl FnOnce() -> Result<PathBuf>) -> Result<PathBuf> {
    let file = made.get_or_init(|| make().map_err(|error| format!("{error:#}")));
    file.clone().map_err(anyhow::Error::msg)
}

/// An ordinary user with a read-only unpacked tarball.
struct User {
    /// Folder of the unpacked tarball.
    place: PathBuf,
    work: PathBuf,
}

impl User {
    /// Unpacks the tarball to this folder in `dir`.
    fn new(dir: &Path, place: &str) -> Result<User> {
        let (place, work) = (dir.join(place), dir.join("work"));
        fs::create_dir(&place)?;
        fs::create_dir_all(&work)?;
        let mut tar = Command::new("tar");
        tar.arg("-xzf").arg(tarball()?).arg("-C").arg(&place);
        job::run(tar, dir, "tar", LIMIT)?.expect_success("tar")?;
        if signal::is_root() {
            chown(&work, Some(NOBODY), Some(NOBODY))?;
        }
        let user = User { place, work };
        user.rights("a-w", dir)?;
        Ok(user)
    }

    fn rights(&self, change: &str, dir: &Path) -> Result<()> {
        let mut chmod = Command::new("chmod");
        chmod.args(["-R", change]).arg(&self.place);
        job::run(chmod, dir, "chmod", LIMIT)?.expect_success("chmod")?;
        Ok(())
    }

    /// Path of an unpacked file.
    fn file(&self, path: &str) -> PathBuf {
        self.place.join(package::name()).join(path)
    }

    /// Removes the unpacked files.
    fn remove(self, dir: &Path) -> Result<()> {
        self.rights("u+w", dir)?;
        Ok(fs::remove_dir_all(&self.place)?)
    }

    /// Switches to another user if the tests run as root.
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
        let mut command = Command::new(self.file("bin/stasis"));
        command.args(words);
        self.become_it(command)
    }

    /// The same as ranks of a job.
    fn ranks(&self, mpi: Mpi, words: &[&str]) -> Command {
        let mut command = mpi.mpirun(2, &self.work);
        command.arg(self.file("bin/stasis")).args(words);
        command.env("STASIS_TEST_READY", self.work.join("ready"));
        command.env("STASIS_TEST_GO", self.work.join("go"));
        self.become_it(command)
    }
}

fn unpacked(dir: &Path) -> Result<()> {
    let user = User::new(dir, "some where")?;
    let doctor = user.command(&["doctor"]);
    let said = job::run(doctor, dir, "doctor", LIMIT)?.expect_success("doctor")?;
    for words in [
        "lower half openmpi:",
        "lower half mpich:",
        "lower half standard:",
        "front for standard: is there",
    ] {
        ensure!(
            said.stdout.contains(words),
            "says no '{words}':\n{}",
            said.stdout
        );
    }
    for file in ["LICENSE-MIT", "LICENSE-APACHE", "third-party.txt"] {
        let file = user.file("share/doc/stasis").join(file);
        ensure!(file.is_file(), "{} is missing", file.display());
    }
    // The package has the sources, so that only the compiler is missing.
    let build = user.command(&["build-lower", "--mpicc", "/nowhere/mpicc"]);
    let build = job::run(build, dir, "build-lower", LIMIT)?;
    refused(&build, CANNOT_SERVE, &[&["/nowhere/mpicc"]])?;
    ensure!(!build.stderr.contains("--source"), "says\n{}", build.stderr);
    let ring = example("p2p", "p2p/ring_loop")?;
    let user = job_of(&ring, Mpi::Mpich, user, Ok, dir)?;
    user.remove(dir)
}

/// The installation that took a checkpoint is removed. Another one, with other fronts as in a newer version, continues
/// the job, and the program then opens more of its MPI library.
fn elsewhere(dir: &Path) -> Result<()> {
    let late = example("run", "run/late_library")?;
    let newer = |first: User| {
        first.remove(dir)?;
        let second = User::new(dir, "else where")?;
        second.rights("u+w", dir)?;
        let front = second.file("lib/stasis/front-openmpi.so");
        OpenOptions::new()
            .append(true)
            .open(front)?
            .write_all(b"newer")?;
        second.rights("a-w", dir)?;
        Ok(second)
    };
    let user = job_of(&late, Mpi::OpenMpi, User::new(dir, "here")?, newer, dir)?;
    user.remove(dir)
}

/// A job of a program built for `front` is checkpointed, killed and restarted under the other library, and ends as it
/// does natively. `meanwhile` runs between the two.
fn job_of(
    program: &Example,
    front: Mpi,
    user: User,
    between: impl FnOnce(User) -> Result<User>,
    dir: &Path,
) -> Result<User> {
    let native = reference(program, front)?;
    let ckpt = user.work.join("ck");
    let deadline = Instant::now() + LIMIT;

    let mut launch = user.ranks(front, &["launch", "--ckpt-dir", "ck"]);
    launch.args(command_line(program, Some(front))?);
    let mut running = Job::start(launch, dir, "launch")?;
    let reached = stasis::until_reached(&mut running, &ckpt, "", deadline);
    let before = running.explain(reached, dir)?;
    let checkpoint = user.command(&["checkpoint", "ck"]);
    job::run(checkpoint, dir, "checkpoint", LIMIT)?.expect_success("checkpoint")?;
    running.kill()?;
    let user = between(user)?;

    let inspect = user.command(&["inspect", "ck"]);
    let held = stasis::json(inspect, dir, "inspect", LIMIT)?;
    ensure!(
        held["stasis_version"] == package::VERSION,
        "the checkpoint names the version {}",
        held["stasis_version"]
    );
    fs::write(user.work.join("go"), "")?;
    let mut again = Job::start(
        user.ranks(front.other(), &["restart", "ck"]),
        dir,
        "restart",
    )?;
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
    Ok(user)
}
