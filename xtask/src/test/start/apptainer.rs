//! Jobs in containers of Apptainer, without root (in a user namespace), with a read-only image. In one model the
//! launcher runs on the machine and starts each rank in a container of its own; in the other it runs in one container
//! with all ranks. A job goes from one container to another, into one and out of one, under the other library. One is
//! an ordinary user's, in a login shell.
//!
//! An image is the fresh Debian of `clean_root.rs`: as a file, which each container mounts, and as its directory.

use crate::build::apptainer;
use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::{paths, stasis};
use crate::test::support::clean_root;
use crate::test::support::held_job::{begin, example, reach_cut_of};
use crate::test::{Case, Outcome};
use anyhow::{ensure, Result};
use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
const WINDOWS: (&str, &str) = ("window", "window/shared");
const RING: (&str, &str) = ("p2p", "p2p/ring_loop");

/// Where a job runs.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Machine,
    /// A container for each rank, from the file.
    Each,
    /// The same from the directory.
    EachDirectory,
    /// One for the launcher and all ranks, from the file.
    File,
    /// The same, from the directory.
    Directory,
}

use Place::{Directory, Each, EachDirectory, File, Machine};

/// Uid and gid of an ordinary user whom the machine does not have.
const USER: u32 = 54_321;
/// Runs a command in a login shell as the user with the number `$0`, whom the two files name.
const LOG_IN: &str = "mount --bind \"$1\" /etc/passwd && mount --bind \"$2\" /etc/group && shift 2 && \
    exec setpriv --reuid \"$0\" --regid \"$0\" --clear-groups -- bash -lc 'exec \"$@\"' bash \"$@\"";

/// By whom the commands are run.
#[derive(Clone, Copy, PartialEq)]
enum By {
    Root,
    User,
}

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    let ways = [
        ("each", RING, 2, By::Root, Each, Each),
        ("into", RING, 2, By::Root, Machine, Each),
        ("out-of", RING, 2, By::Root, Each, Machine),
        ("inside", RING, 2, By::Root, Directory, File),
        ("windows", WINDOWS, 3, By::Root, Each, Each),
        // Without the right to open /dev/fuse, a user mounts no image file.
        ("user", RING, 2, By::User, EachDirectory, EachDirectory),
        ("user-inside", RING, 2, By::User, Directory, Directory),
    ];
    let mut cases = Vec::new();
    for (name, program, ranks, by, from, to) in ways {
        for mpi in Mpi::ALL {
            let other = mpi.other();
            let name = format!("apptainer/{name}:{mpi}>{other}");
            cases.push(Case::new(name, move |_, dir| match apptainer::missing() {
                Some(why) => Outcome::Skipped(why),
                None => moved(dir, program, ranks, by, [(from, mpi), (to, other)]).into(),
            }));
        }
    }
    cases
}

/// A job that is killed in one place and goes on in another.
fn moved(
    dir: &Path,
    (folder, program): (&str, &str),
    ranks: usize,
    by: By,
    [(from, mpi), (to, other)]: [(Place, Mpi); 2],
) -> Result<()> {
    let images = Images::here(dir)?;
    let ckpt = dir.join("ck");
    let launch = images.place(stasis::launch(mpi, ranks, &ckpt, dir), from, dir);
    let launch = by.run(launch, dir)?;
    let mut job = begin(launch, &example(folder, program)?, dir, mpi)?;
    reach_cut_of(ranks, &mut job, dir)?;
    let checkpoint = by.run(stasis::checkpoint(&ckpt), dir)?;
    let taken = job::run(checkpoint, dir, "checkpoint", LIMIT)?;
    job.explain(taken.expect_success("stasis checkpoint"), dir)?;
    job.kill()?;
    fs::write(dir.join("go"), "")?;
    let restart = images.place(stasis::restart(other, ranks, &ckpt, dir), to, dir);
    let mut restart = by.run(restart, dir)?;
    restart.current_dir(dir);
    let mut job = Job::start(restart, dir, "restart")?;
    job.succeed(Instant::now() + LIMIT, dir)?;
    let printed = job::read_text(&job.stdout);
    let (_, name) = program.split_once('/').unwrap_or_default();
    ensure!(
        printed.contains(&format!("OK {name}")),
        "it prints {printed}"
    );
    Ok(())
}

impl By {
    /// The command, in the environment that it has. The user owns the folder.
    fn run(self, command: Command, dir: &Path) -> Result<Command> {
        if self == By::Root {
            return Ok(command);
        }
        chown(dir, Some(USER), Some(USER))?;
        let mut login = Command::new("unshare");
        login
            .args(["--mount", "sh", "-c", LOG_IN])
            .arg(USER.to_string());
        let home = dir.display();
        for (name, line) in [
            (
                "passwd",
                format!("tester:x:{USER}:{USER}::{home}:/bin/bash\n"),
            ),
            ("group", format!("tester:x:{USER}:\n")),
        ] {
            let [machines, whole] = [Path::new("/etc").join(name), dir.join(name)];
            fs::write(&whole, fs::read_to_string(machines)? + &line)?;
            login.arg(whole);
        }
        login.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            if let Some(value) = value {
                login.env(name, value);
            }
        }
        login.env("HOME", dir);
        Ok(login)
    }
}

/// The images of a case's containers.
struct Images {
    directory: PathBuf,
    file: PathBuf,
}

impl Images {
    /// Makes the file if it is not there. Needs root; `dir` is for the output of the making.
    fn here(dir: &Path) -> Result<Images> {
        let directory = clean_root::files(dir)?;
        let file = apptainer::folder().join("debian.sif");
        static MAKING: Mutex<()> = Mutex::new(());
        let _making = MAKING.lock().expect("nothing panics under it");
        if !file.exists() {
            let new = apptainer::folder().join("new.sif");
            let mut build = Command::new(apptainer::path());
            build.args(["build", "--force"]).arg(&new).arg(&directory);
            job::run(build, dir, "build", LIMIT * 5)?.expect_success("apptainer build")?;
            fs::rename(new, &file)?;
        }
        Ok(Images { directory, file })
    }

    /// The command in this place.
    fn place(&self, command: Command, place: Place, dir: &Path) -> Command {
        let (image, each) = match place {
            Machine => return command,
            Each => (&self.file, true),
            EachDirectory => (&self.directory, true),
            File => (&self.file, false),
            Directory => (&self.directory, false),
        };
        let installed = paths::stasis();
        let words: Vec<_> = command.get_args().collect();
        // The launcher with its options, and the rank's command.
        let rank = words.iter().position(|word| *word == installed);
        let (launcher, rank) = words.split_at(rank.filter(|_| each).unwrap_or(0));
        let mut placed = match each {
            true => Command::new(command.get_program()),
            false => Command::new(apptainer::path()),
        };
        if each {
            placed.args(launcher).arg(apptainer::path());
        }
        placed.args(["--quiet", "exec", "--userns"]);
        for (folder, access) in [
            (paths::product(), "ro"),
            (paths::compiled(), "ro"),
            (dir.to_owned(), "rw"),
        ] {
            let bind = format!("{0}:{0}:{access}", folder.display());
            placed.args(["--bind", &bind]);
        }
        placed.arg(image);
        if !each {
            placed.arg(command.get_program());
        }
        placed.args(rank);
        for (name, value) in command.get_envs() {
            if let Some(value) = value {
                placed.env(name, value);
            }
        }
        placed
    }
}
