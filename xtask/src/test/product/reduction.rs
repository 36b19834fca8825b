//! `--reduce` as a user has it: sums in the order of ranks, and `stasis bisect`.

use crate::harness::job::{self, Finished};
use crate::harness::mpi::Mpi;
use crate::harness::stasis;
use crate::test::support::helper_programs::{self, compile};
use crate::test::support::refusal::{refused, USAGE};
use crate::test::Case;
use anyhow::{ensure, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(240);

/// Open MPI is told to reduce in a ring, which is wrong for operations that are not commutative.
const RING: [(&str, &str); 2] = [
    ("OMPI_MCA_coll_tuned_use_dynamic_rules", "1"),
    ("OMPI_MCA_coll_tuned_allreduce_algorithm", "4"),
];

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    let case =
        |name: &str, body: fn(&Path) -> Result<()>| Case::new(name, move |_, dir| body(dir).into());
    vec![
        case("reduce/sums", sums),
        case("reduce/refused", refusals),
        case("bisect/library", library),
        case("bisect/wrapper", wrapper),
        case("bisect/no-failure", no_failure),
    ]
}

fn job(dir: &Path, name: &str, command: Command) -> Result<Finished> {
    job::run(command, dir, name, LIMIT)
}

/// The bits are the same over both libraries, with any number of ranks those of the order of ranks.
fn sums(dir: &Path) -> Result<()> {
    for ranks in [3, 6] {
        let mut told = Vec::new();
        for mpi in Mpi::ALL {
            let program = compile(dir, &mpi.compiler("c"), "sums.c", &[])?;
            let mut command = stasis::launch(mpi, ranks, &dir.join(format!("ck-{mpi}")), dir);
            command.arg("--anew").arg("--reduce").arg("all");
            command.arg(program).arg("order");
            let name = format!("{mpi}-{ranks}");
            told.push(job(dir, &name, command)?.expect_success(&name)?.stdout);
        }
        ensure!(told[0] == told[1], "{told:?}");
    }
    Ok(())
}

fn refusals(dir: &Path) -> Result<()> {
    let launch = |which: &str| {
        let ckpt = dir.join("ck");
        let mut command = stasis::command(["launch", "--reduce", which, "--ckpt-dir"]);
        command.arg(ckpt).arg("true");
        job(dir, "launch", command)
    };
    refused(&launch("Bcst")?, USAGE, &[&["Bcst"], &["Allreduce"]])?;
    refused(&launch("Bcast:9-3")?, USAGE, &[&["9-3"]])
}

/// The output of a job with a planted bug, where there is none.
fn expected(dir: &Path, program: &Path) -> Result<()> {
    let mut command = Mpi::OpenMpi.mpirun(3, dir);
    command.arg(program);
    let native = job(dir, "native", command)?.expect_success("the native run")?;
    Ok(fs::write(dir.join("expected"), native.stdout)?)
}

/// Compiles a program or a library with a bug for Open MPI.
fn planted(dir: &Path, source: &str, flags: &[&str]) -> Result<PathBuf> {
    helper_programs::planted(dir, &Mpi::OpenMpi.compiler("c"), source, flags)
}

fn bisect(dir: &Path, program: &Path, environment: &[(&str, &str)]) -> Result<Finished> {
    let mut launch = stasis::launch(Mpi::OpenMpi, 3, &dir.join("ck"), dir);
    launch.arg(program);
    launch.envs(environment.iter().copied());
    let check = format!("cmp - {}", dir.join("expected").display());
    let flags = ["--limit", "60", "--check", &check];
    job(dir, "bisect", stasis::bisect(&flags, &launch))
}

/// An algorithm that is wrong for one call of one function is found by its number.
fn library(dir: &Path) -> Result<()> {
    let program = planted(dir, "order.c", &[])?;
    expected(dir, &program)?;
    let found = bisect(dir, &program, &RING)?.expect_success("stasis bisect")?;
    ensure!(
        found.stdout == "Allreduce:19-19\n",
        "found {}",
        found.stdout
    );
    Ok(())
}

/// A fault above MPI is not one of the library's operations.
fn wrapper(dir: &Path) -> Result<()> {
    let program = planted(dir, "order.c", &[])?;
    let wrapper = planted(dir, "wrapper.c", &["-shared", "-fPIC"])?;
    expected(dir, &program)?;
    let preload = wrapper.display().to_string();
    let found = bisect(dir, &program, &[("LD_PRELOAD", &preload)])?;
    let found = found.expect_success("stasis bisect")?;
    ensure!(
        found.stdout.is_empty() && found.stderr.contains("not in those of the MPI library"),
        "{}",
        found.stderr
    );
    Ok(())
}

fn no_failure(dir: &Path) -> Result<()> {
    let program = planted(dir, "order.c", &[])?;
    expected(dir, &program)?;
    refused(
        &bisect(dir, &program, &[])?,
        USAGE,
        &[&["passes"], &["--runs"]],
    )?;
    let nothing = job(dir, "nothing", stasis::command(["bisect", "true"]))?;
    refused(&nothing, USAGE, &[&["stasis launch"]])
}
