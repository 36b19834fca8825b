//! The MPI library of a lower half, with a fault: `examples/bugs/library.c` on top of the real one.

use super::compile::patchelf;
use super::helper_programs::planted;
use crate::harness::mpi::Mpi;
use crate::harness::{job, paths};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// Makes a library with the fault that this macro of the source selects, in a folder of the case. The folder is the
/// value of LD_LIBRARY_PATH with which a lower half loads it.
pub fn faulty_library(dir: &Path, mpi: Mpi, fault: &str) -> Result<PathBuf> {
    let (soname, real) = library_of(dir, mpi)?;
    let folder = dir.join(fault);
    fs::create_dir_all(&folder)?;
    let flags = [
        "-shared",
        "-fPIC",
        &format!("-D{fault}"),
        &format!("-Wl,-soname,{soname}"),
    ];
    let compiled = planted(&folder, &mpi.compiler("c"), "library.c", &flags)?;
    let library = folder.join(&soname);
    fs::rename(compiled, &library)?;
    // By its path, since its SONAME now leads to the faulty library.
    patchelf(&library, &["--add-needed", &real])?;
    Ok(folder)
}

/// SONAME and path of the library that a lower half loads.
fn library_of(dir: &Path, mpi: Mpi) -> Result<(String, String)> {
    let mut ldd = Command::new("ldd");
    ldd.arg(paths::product().join(format!("lib/stasis/lower-{mpi}")));
    let printed = job::run(ldd, dir, "ldd", LIMIT)?
        .expect_success("ldd")?
        .stdout;
    let library = printed.lines().find_map(|line| {
        let (name, rest) = line.trim().split_once(" => ")?;
        let is_mpi = ["libmpi.so.", "libmpich.so."]
            .iter()
            .any(|begin| name.starts_with(begin));
        let path = rest.split_whitespace().next()?;
        is_mpi.then(|| (name.to_owned(), path.to_owned()))
    });
    library.with_context(|| format!("no MPI library in\n{printed}"))
}
