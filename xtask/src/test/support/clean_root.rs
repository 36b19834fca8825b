//! A fresh Debian with MPI libraries and nothing of ours, made once by debootstrap in
//! `target/debian`. Each use of it has a layer of its own above it, and namespaces of its own, with which all
//! processes and mounts end.

use crate::build::setup;
use crate::harness::job::{self, Finished};
use crate::harness::paths;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(1200);
const RELEASE: &str = "bookworm";
/// Packages of a usual Debian with MPI, and sudo.
const PACKAGES: &str = "openmpi-bin mpich environment-modules sudo";

/// Mounts of the machine in every system.
const MOUNTS: &str = "mount -t proc proc \"$root/proc\" && mount -t sysfs sysfs \"$root/sys\" && \
    mount --rbind /dev \"$root/dev\"";

/// A root file system for a trial.
pub struct CleanRoot {
    below: PathBuf,
    dir: PathBuf,
}

impl CleanRoot {
    /// Creates a system for a case with this folder. Needs root.
    pub fn new(dir: &Path) -> Result<CleanRoot> {
        let below = below(dir)?;
        let dir = dir.join("layer");
        for part in ["upper", "work", "root"] {
            fs::create_dir_all(dir.join(part))?;
        }
        Ok(CleanRoot { below, dir })
    }

    /// Puts a file into it.
    pub fn put(&self, file: &Path, folder: &str) -> Result<()> {
        let folder = self.dir.join("upper").join(folder);
        let name = file.file_name().context("a file has a name")?;
        fs::create_dir_all(&folder)?;
        fs::copy(file, folder.join(name)).with_context(|| format!("copying {}", file.display()))?;
        Ok(())
    }

    /// Runs a script in it, as its root.
    pub fn run(&self, script: &str, dir: &Path, name: &str) -> Result<Finished> {
        let layers = "mount -t overlay overlay \
            -o \"lowerdir=$below,upperdir=$layer/upper,workdir=$layer/work\" \"$root\"";
        let mut command = apart(&format!("{layers} && {MOUNTS}"), script);
        command.env("below", self.below.join("root"));
        command
            .env("layer", &self.dir)
            .env("root", self.dir.join("root"));
        job::run(command, dir, name, LIMIT)
    }
}

/// The files of the fresh Debian, read-only. Needs root; `dir` is for the output of its making.
pub fn files(dir: &Path) -> Result<PathBuf> {
    Ok(below(dir)?.join("root"))
}

/// The same files as those of a user, as are the images that the user has fetched.
pub fn files_of(user: u32, dir: &Path) -> Result<PathBuf> {
    let root = files(dir)?;
    let own = root.with_file_name(format!("of-{user}"));
    let whole = own.with_extension("whole");
    let _making = MAKING.lock().expect("nothing panics under it");
    if !whole.exists() {
        let mut copy = Command::new("sh");
        copy.args([
            "-c",
            "rm -rf \"$1\" && cp -a \"$0\" \"$1\" && chown -hR \"$2\" \"$1\"",
        ]);
        copy.arg(&root).arg(&own).arg(format!("{user}:{user}"));
        job::run(copy, dir, "copy", LIMIT)?.expect_success("the copy")?;
        fs::write(whole, "")?;
    }
    Ok(own)
}

/// Held while files are made that several cases use.
static MAKING: Mutex<()> = Mutex::new(());

fn below(dir: &Path) -> Result<PathBuf> {
    let below = paths::target().join("debian");
    let whole = below.join("whole");
    let _making = MAKING.lock().expect("nothing panics under it");
    if !whole.exists() {
        setup::install_packages(&[("debootstrap", "a fresh Debian for tests")])?;
        make(&below, dir)?;
        fs::write(whole, "")?;
    }
    Ok(below)
}

fn make(below: &Path, dir: &Path) -> Result<()> {
    let root = below.join("root");
    if root.exists() {
        fs::remove_dir_all(&root)?;
    }
    fs::create_dir_all(below)?;
    let mut debootstrap = Command::new("debootstrap");
    debootstrap.args(["--variant=minbase", RELEASE]).arg(&root);
    job::run(debootstrap, dir, "debootstrap", LIMIT)?.expect_success("debootstrap")?;
    for file in ["resolv.conf", "hosts"] {
        fs::copy(Path::new("/etc").join(file), root.join("etc").join(file))?;
    }
    let install = format!(
        "apt-get update -q && apt-get install -y -q --no-install-recommends {PACKAGES} && apt-get clean"
    );
    let mut command = apart(MOUNTS, &install);
    command.env("root", &root);
    job::run(command, dir, "apt-get", LIMIT)?.expect_success("apt-get")?;
    Ok(())
}

/// A script in `$root`, which `mounts` prepares, in separate namespaces.
fn apart(mounts: &str, script: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c"]);
    command.arg(format!(
        "{mounts} && exec chroot \"$root\" /bin/bash -c \"$script\""
    ));
    command
        .env_clear()
        .env("script", script)
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("DEBIAN_FRONTEND", "noninteractive");
    command
}
