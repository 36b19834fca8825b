//! Jobs in containers of Podman, with its seccomp policy and a read-only root: from container to container under the
//! other library, and between a container and the machine. The launcher runs in the container with its ranks. Some
//! are an ordinary user's (rootless), in whose user namespace root is the user.
//!
//! A container sees the installation of Stasis, the folder of the case, and a fresh Debian with both MPI libraries.

use crate::build::setup;
use crate::harness::job;
use crate::harness::mpi::Mpi;
use crate::harness::{paths, stasis};
use crate::test::support::clean_root;
use crate::test::support::held_job::{example, ring_ends, start_by, RANKS};
use crate::test::{Case, Outcome};
use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
const PACKAGE: &str = "podman";
/// Has the programs that give a user's containers further uids.
const FOR_USERS: &str = "uidmap";

/// Where a job runs.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Machine,
    Container,
}

use Place::{Container, Machine};

/// Uid and gid of an ordinary user whom the machine does not have.
const USER: u32 = 54_321;
/// The same user's other uids and gids, those in containers.
const RANGE: &str = "tester:1000000:65536\n";
/// Runs a command as the user with the number `$0`. The files of the folder `$1` name the user, and the range.
const LOG_IN: &str = "for file in passwd group subuid subgid; do mount --bind \"$1/$file\" /etc/$file || exit; done; \
    shift; exec setpriv --reuid \"$0\" --regid \"$0\" --clear-groups -- \"$@\"";

/// By whom the commands are run.
#[derive(Clone, Copy, PartialEq)]
enum By {
    Root,
    User,
}

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    let ways = [
        ("within", By::Root, Container, Container),
        ("into", By::Root, Machine, Container),
        ("out-of", By::Root, Container, Machine),
        ("rootless", By::User, Container, Container),
        ("rootless-into", By::User, Machine, Container),
        ("rootless-out-of", By::User, Container, Machine),
    ];
    let mut cases = Vec::new();
    for (name, by, from, to) in ways {
        for mpi in Mpi::ALL {
            let other = mpi.other();
            let name = format!("containers/{name}:{mpi}>{other}");
            cases.push(Case::new(name, move |_, dir| {
                let missing = setup::missing(Some(PACKAGE));
                match missing.or_else(|| setup::missing(Some(FOR_USERS))) {
                    Some(why) => Outcome::Skipped(why),
                    None => moved(dir, by, [(from, mpi), (to, other)]).into(),
                }
            }));
        }
    }
    cases
}

/// A job that is killed in one place and goes on in another.
fn moved(dir: &Path, by: By, [(from, mpi), (to, other)]: [(Place, Mpi); 2]) -> Result<()> {
    let root = by.prepare(dir)?;
    let ckpt = dir.join("ck");
    let launch = stasis::launch(mpi, RANKS, &ckpt, dir);
    let before = Containers::new(dir, &root, "before", by);
    let launch = before.place(launch, from);
    let mut job = start_by(launch, &example("p2p", "p2p/ring_loop")?, dir, mpi)?;
    let checkpoint = by.run(stasis::checkpoint(&ckpt), dir);
    let taken = job::run(checkpoint, dir, "checkpoint", LIMIT)?;
    job.explain(taken.expect_success("stasis checkpoint"), dir)?;
    match from {
        Machine => job.kill()?,
        Container => {
            before.kill(dir)?;
            job.wait(Instant::now() + LIMIT)?
                .context("the killed container does not end")?;
        }
    }
    fs::write(dir.join("go"), "")?;
    let restart = stasis::restart(other, RANKS, &ckpt, dir);
    let after = Containers::new(dir, &root, "after", by);
    let mut restart = after.place(restart, to);
    restart.current_dir(dir);
    ring_ends(restart, dir)
}

/// A container of a case.
struct Containers<'a> {
    dir: &'a Path,
    root: &'a Path,
    name: String,
    by: By,
}

impl By {
    /// The files of a container. The folder gets what the user needs, who owns it.
    fn prepare(self, dir: &Path) -> Result<PathBuf> {
        if self == By::Root {
            return clean_root::files(dir);
        }
        chown(dir, Some(USER), Some(USER))?;
        let user = format!("tester:x:{USER}:{USER}::{}:/bin/bash\n", dir.display());
        let group = format!("tester:x:{USER}:\n");
        let of_machine = |name: &str| fs::read_to_string(Path::new("/etc").join(name));
        fs::write(dir.join("passwd"), of_machine("passwd")? + &user)?;
        fs::write(dir.join("group"), of_machine("group")? + &group)?;
        fs::write(dir.join("subuid"), RANGE)?;
        fs::write(dir.join("subgid"), RANGE)?;
        clean_root::files_of(USER, dir)
    }

    /// The command, in the environment that it has.
    fn run(self, command: Command, dir: &Path) -> Command {
        if self == By::Root {
            return command;
        }
        let mut login = Command::new("unshare");
        login.args(["--mount", "sh", "-c", LOG_IN]);
        login.arg(USER.to_string()).arg(dir);
        let mut login = stasis::before(login, &command);
        login.env("HOME", dir).env("XDG_RUNTIME_DIR", dir);
        login
    }
}

impl Containers<'_> {
    fn new<'a>(dir: &'a Path, root: &'a Path, name: &str, by: By) -> Containers<'a> {
        let id = std::process::id();
        let case = dir.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("stasis-{id}-{}-{name}", case.replace([':', '>', '@'], "-"));
        Containers {
            dir,
            root,
            name,
            by,
        }
    }

    /// The command, in a container if that is its place.
    fn place(&self, command: Command, place: Place) -> Command {
        let command = match place {
            Machine => command,
            Container => self.contain(&command),
        };
        self.by.run(command, self.dir)
    }

    fn contain(&self, command: &Command) -> Command {
        let mut contained = podman();
        contained.args([
            "run",
            "--rm",
            "--network=host",
            "--read-only",
            "--name",
            &self.name,
        ]);
        // Podman's own limits are more than a user may have who was not given the right to raise them.
        contained.args([
            "--ulimit",
            "nofile=4096:4096",
            "--ulimit",
            "nproc=4096:4096",
        ]);
        let installation = paths::target().join("stasis");
        for (folder, access) in [
            (installation, "ro"),
            (paths::compiled(), "ro"),
            (self.dir.into(), "rw"),
        ] {
            let folder: PathBuf = folder;
            let volume = format!("{0}:{0}:{access}", folder.display());
            contained.args(["--volume", &volume]);
        }
        contained.arg("--workdir").arg(self.dir);
        for (name, value) in [("READY", "ready"), ("GO", "go")] {
            let value = self.dir.join(value);
            contained.args(["--env", &format!("STASIS_TEST_{name}={}", value.display())]);
        }
        for (name, value) in command.get_envs() {
            if let Some(value) = value {
                let setting = format!("{}={}", name.to_string_lossy(), value.to_string_lossy());
                contained.args(["--env", &setting]);
            }
        }
        contained.arg("--rootfs").arg(self.root);
        contained
            .arg(command.get_program())
            .args(command.get_args());
        contained
    }

    fn kill(&self, dir: &Path) -> Result<()> {
        let mut kill = podman();
        kill.args(["kill", "--signal", "KILL", &self.name]);
        let kill = self.by.run(kill, dir);
        job::run(kill, dir, "kill", LIMIT)?.expect_success("podman kill")?;
        Ok(())
    }
}

/// Podman on a machine without systemd.
fn podman() -> Command {
    let mut command = Command::new(PACKAGE);
    command.args(["--runtime", "runc", "--cgroup-manager=cgroupfs"]);
    command
}
