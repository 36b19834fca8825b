//! The choice of a lower half for a job, the messages without one or without an MPI library, and its build.

use crate::build::pypi;
use crate::harness::job::{self, Finished};
use crate::harness::mpi::Mpi;
use crate::harness::{paths, stasis};
use crate::test::support::refusal::{refused, CANNOT_SERVE};
use crate::test::{copy_program, Case};
use anyhow::{ensure, Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    vec![
        case("launcher-of-another-library", of_another_library),
        Case::as_root(
            "lowers/launcher-is-first-process",
            "needs root for a namespace of processes",
            first_process,
        ),
        case("unknown-name", |dir| {
            let command = ["launch", "--ckpt-dir", "ck", "--mpi", "nonesuch", "true"];
            let finished = run(dir, stasis::command(command))?;
            refused(
                &finished,
                CANNOT_SERVE,
                &[
                    &["nonesuch"],
                    &["--mpi takes"],
                    &["mpich, "],
                    &["openmpi"],
                    &["build-lower"],
                ],
            )
        }),
        case("build-without-compiler", |dir| {
            let command = ["build-lower", "--mpicc", "/nowhere/mpicc"];
            let finished = run(dir, stasis::command(command))?;
            refused(
                &finished,
                CANNOT_SERVE,
                &[&["/nowhere/mpicc"], &["--mpicc"]],
            )
        }),
        case("version", |dir| {
            let told = stasis::json(stasis::command(["version"]), dir, "version", LIMIT)?;
            ensure!(told["version"] == env!("CARGO_PKG_VERSION"), "{told}");
            let lowers = told["lower_halves"].as_array().context("no list")?;
            for mpi in [Mpi::OpenMpi, Mpi::Mpich, Mpi::Standard] {
                let ours = lowers.iter().find(|lower| lower["name"] == mpi.name());
                ensure!(ours.is_some_and(|lower| lower["usable"] == true), "{told}");
            }
            Ok(())
        }),
        case("path-of-a-library", path_of_a_library),
        case("build-without-header", |dir| {
            let finished = run(dir, stasis::command(["build-lower", "--mpicc", "gcc"]))?;
            refused(
                &finished,
                CANNOT_SERVE,
                &[&["mpi.h"], &["development files"]],
            )
        }),
    ]
}

/// `--mpi` takes the path of a library of the standard ABI. What is none is refused by name.
fn path_of_a_library(dir: &Path) -> Result<()> {
    let launch = |path: &str| {
        let words = ["launch", "--ckpt-dir", "ck", "--mpi", path, "true"];
        run(dir, stasis::command(words))
    };
    let path = library()?;
    launch(&path.to_string_lossy())?.expect_success("with a path")?;
    let nowhere = "/nowhere/libmpi_abi.so.1";
    refused(&launch(nowhere)?, CANNOT_SERVE, &[&[nowhere]])?;
    let other = dir.join("libm.so.6");
    fs::copy("/lib/x86_64-linux-gnu/libm.so.6", &other)?;
    refused(
        &launch(&other.to_string_lossy())?,
        CANNOT_SERVE,
        &[&["libm.so.6"], &["MPI_Init_thread"], &["libmpi_abi.so.1"]],
    )
}

/// The library of the standard ABI from PyPI.
pub fn library() -> Result<PathBuf> {
    let bin = pypi::bin(Mpi::Standard).context("it has a folder")?;
    let root = bin.parent().context("bin is in a folder")?;
    Ok(root.join("lib/libmpi_abi.so.1"))
}

fn case(name: &str, body: impl FnOnce(&Path) -> Result<()> + Send + 'static) -> Case {
    Case::new(format!("lowers/{name}"), move |_, dir| body(dir).into())
}

fn run(dir: &Path, mut command: Command) -> Result<Finished> {
    command.current_dir(dir);
    job::run(command, dir, "run", LIMIT)
}

/// The launcher is seen although it is process 1, as in a container that was started for it.
fn first_process(dir: &Path) -> Result<()> {
    let launcher = dir.join("orterun");
    copy_program(Path::new("/usr/bin/orterun"), &launcher)?;
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc"]);
    command.arg(launcher).args(["-n", "1"]).arg(paths::stasis());
    command.args(["launch", "--ckpt-dir", "ck", "true"]);
    Mpi::OpenMpi.set_environment(&mut command);
    // It is that of a library in this folder, which has no lower half.
    refused(&run(dir, command)?, CANNOT_SERVE, &[&["build-lower"]])
}

/// A launcher in a new folder belongs to a library without a lower half, although its kind is known. The message names
/// the build command, and `--mpi` forces another.
fn of_another_library(dir: &Path) -> Result<()> {
    let bin = dir.join("bin");
    fs::create_dir(&bin)?;
    for name in ["mpiexec.hydra", "hydra_pmi_proxy"] {
        let from = Path::new("/usr/bin").join(name);
        copy_program(&from, &bin.join(name))?;
    }
    fs::write(bin.join("mpicc"), "")?;
    let launch = |words: &[&str]| {
        let mut command = Command::new(bin.join("mpiexec.hydra"));
        Mpi::Mpich.set_environment(&mut command);
        command.args(["-n", "1"]).arg(paths::stasis());
        command.args(["launch", "--ckpt-dir", "ck"]);
        command.args(words).arg("true");
        run(dir, command)
    };
    let build = format!("stasis build-lower --mpicc {}/mpicc", bin.display());
    refused(&launch(&[])?, CANNOT_SERVE, &[&[&build]])?;
    launch(&["--mpi", "mpich"])?.expect_success("with --mpi")?;
    Ok(())
}
