//! Debian packages: the missing ones, their sizes, and their installation by root or by a user whom sudo asks for no
//! password.

use crate::harness::signal;
use anyhow::{bail, ensure, Context, Result};
use std::fmt::{self, Display, Formatter};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A package and its purpose.
pub type Package<'a> = (&'a str, &'a str);

/// Time for which apt-get waits for another one.
const PATIENCE: Duration = Duration::from_secs(900);
/// Interval at which it is tried again to read the lists of packages: apt-get itself waits for its other locks.
const AGAIN: Duration = Duration::from_secs(2);
const INSTALL: [&str; 3] = ["install", "-y", "--no-install-recommends"];

/// Packages that are to be installed.
pub struct Missing<'a>(Vec<&'a Package<'a>>);

/// Those of the packages that are not installed.
pub fn missing<'a>(packages: impl IntoIterator<Item = &'a Package<'a>>) -> Missing<'a> {
    let packages = packages.into_iter();
    Missing(packages.filter(|(name, _)| !is_installed(name)).collect())
}

/// Programs of packages that serve as well when they come from elsewhere, by their names in PATH.
const PROGRAMS: &[(&str, &str)] = &[
    ("openmpi-bin", "mpirun.openmpi"),
    ("mpich", "mpirun.mpich"),
    ("gcc", "gcc"),
    ("g++", "g++"),
    ("gfortran", "gfortran"),
    ("python3", "python3"),
    ("gdb", "gdb"),
    ("strace", "strace"),
    ("patchelf", "patchelf"),
];

/// Compilers that find the header of packages with headers. The compilers themselves are in other packages.
const COMPILERS: &[(&str, &str)] = &[
    ("libopenmpi-dev", "mpicc.openmpi"),
    ("libmpich-dev", "mpicc.mpich"),
];

/// Whether a package is installed, or its program or its headers are there in another way. LIBCLANG_PATH, which bindgen
/// reads, stands for `libclang-dev`.
pub fn is_installed(package: &str) -> bool {
    let in_path = |program: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
    };
    let mut programs = PROGRAMS.iter().filter(|(name, _)| *name == package);
    let mut compilers = COMPILERS.iter().filter(|(name, _)| *name == package);
    programs.any(|(_, program)| in_path(program))
        || compilers.any(|(_, compiler)| finds_mpi(compiler))
        || package == "libclang-dev" && std::env::var_os("LIBCLANG_PATH").is_some()
        || has_package(package)
}

fn finds_mpi(compiler: &str) -> bool {
    Command::new(compiler)
        .args(["-fsyntax-only", "-include", "mpi.h", "-x", "c", "/dev/null"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn has_package(package: &str) -> bool {
    Command::new("dpkg-query")
        .args(["-W", "-f", "${db:Status-Status}", package])
        .stderr(Stdio::null())
        .output()
        .is_ok_and(|output| output.stdout == b"installed")
}

impl Missing<'_> {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| *name)
    }

    /// Sizes of the download and on the disk, from apt-get. None if it does not know the packages.
    pub fn cost(&self) -> Option<String> {
        let mut ask = Command::new("apt-get");
        // Nobody's lock is needed for a question.
        ask.args(["-o", "Debug::NoLocking=1", "--assume-no"]);
        ask.args(&INSTALL[2..]).arg(INSTALL[0]).args(self.names());
        let told = ask.env("LC_ALL", "C").output().ok()?;
        cost(&String::from_utf8_lossy(&told.stdout))
    }

    /// Installs them. Without the right to, the error has the line for someone who has it.
    pub fn install(&self) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let Some(way) = Way::here() else {
            let names: Vec<&str> = self.names().collect();
            bail!(
                "packages are missing, and this user may not install them. An administrator can, by this line:\n\n  \
                 apt-get update && apt-get {} {}\n\n\
                 What is here in another way counts, too: MPI libraries as mpirun.openmpi, mpicc.openmpi, mpirun.mpich \
                 and mpicc.mpich in PATH (links will do), libclang by LIBCLANG_PATH. `cargo xtask setup --minimal` \
                 needs no LAMMPS and no Quantum ESPRESSO.",
                INSTALL.join(" "),
                names.join(" ")
            );
        };
        way.update()?;
        let status = way.apt(&INSTALL).args(self.names()).status();
        let status = status.context("apt-get cannot be run")?;
        ensure!(
            status.success(),
            "apt-get failed ({status}): its messages are above"
        );
        Ok(())
    }
}

/// The packages with their purposes, a line each.
impl Display for Missing<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let lines = self.0.iter();
        let lines = lines.map(|(name, purpose)| format!("  {name:18} {purpose}"));
        f.write_str(&lines.collect::<Vec<_>>().join("\n"))
    }
}

/// How this user installs packages.
enum Way {
    Root,
    Sudo,
}

impl Way {
    fn here() -> Option<Way> {
        if signal::is_root() {
            return Some(Way::Root);
        }
        let mut sudo = Command::new("sudo");
        sudo.args(["-n", "true"]).stderr(Stdio::null());
        let may = sudo.status().is_ok_and(|status| status.success());
        may.then_some(Way::Sudo)
    }

    /// apt-get, which waits while another one installs something.
    fn apt(&self, words: &[&str]) -> Command {
        let mut command = match self {
            Way::Root => Command::new("apt-get"),
            Way::Sudo => {
                let mut sudo = Command::new("sudo");
                sudo.args(["-n", "DEBIAN_FRONTEND=noninteractive", "apt-get"]);
                sudo
            }
        };
        let wait = format!("DPkg::Lock::Timeout={}", PATIENCE.as_secs());
        command.args(["-q", "-o", &wait]).args(words);
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command.env("LC_ALL", "C");
        command
    }

    /// Reads the lists of packages. apt-get does not wait for another one that reads them.
    fn update(&self) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        let mut told = false;
        loop {
            let mut update = self.apt(&["update"]);
            let done = update.stderr(Stdio::piped()).spawn();
            let done = done.and_then(|child| child.wait_with_output());
            let done = done.context("apt-get cannot be run")?;
            let said = String::from_utf8_lossy(&done.stderr);
            let waits = is_locked(&said) && Instant::now() < end;
            if done.status.success() || !waits {
                eprint!("{said}");
                ensure!(
                    done.status.success(),
                    "apt-get update failed ({})",
                    done.status
                );
                return Ok(());
            }
            if !told {
                println!("Another program reads the lists of packages: waiting for it");
                told = true;
            }
            // No event tells that apt's lock is free.
            std::thread::sleep(AGAIN);
        }
    }
}

/// Whether apt-get says that another one has the lock of the lists.
fn is_locked(said: &str) -> bool {
    said.contains("Could not get lock")
}

/// Download and disk, from what `apt-get install --assume-no` says.
fn cost(said: &str) -> Option<String> {
    let behind = |words: &str| said.lines().find_map(|line| line.strip_prefix(words));
    let download = behind("Need to get ")?.split(" of archives").next()?;
    let disk = behind("After this operation, ")?
        .split(" of additional")
        .next()?;
    // Of what is in the cache, `12 MB/228 MB`.
    let download = download.split('/').next()?;
    Some(format!("{download} to download, {disk} on disk"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_is_what_apt_says() {
        let said = "The following NEW packages will be installed:\n  lammps\n\
            0 upgraded, 193 newly installed, 0 to remove and 0 not upgraded.\n\
            Need to get 12.5 MB/228 MB of archives.\n\
            After this operation, 1168 MB of additional disk space will be used.\n";
        let told = cost(said);
        assert_eq!(
            told.as_deref(),
            Some("12.5 MB to download, 1168 MB on disk")
        );
        assert_eq!(cost("E: Unable to locate package lammps\n"), None);
    }

    #[test]
    fn what_is_there_in_another_way_counts() {
        assert!(PROGRAMS.contains(&("gcc", "gcc")));
        assert!(is_installed("gcc"));
        assert!(!finds_mpi("gcc") && !finds_mpi("no-such-compiler"));
        assert!(!is_installed("no-such-package"));
    }

    #[test]
    fn missing_packages_are_named_with_their_purpose() {
        let packages = [("no-such-package", "nothing"), ("dpkg", "packages")];
        let missing = missing(&packages);
        assert_eq!(missing.to_string(), "  no-such-package    nothing");
    }
}
