//! Users' settings by which an MPI library would use a cache of registered memory that nobody tells of `munmap`.

use crate::harness::job::{self, Finished};
use crate::harness::mpi::Mpi;
use crate::harness::stasis;
use crate::test::start::lower_halves;
use crate::test::support::compile::{command_line, patchelf};
use crate::test::support::held_job::{example, RANKS};
use crate::test::support::helper_programs::compile;
use crate::test::Case;
use anyhow::{ensure, Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// The application's value of the variable in $0, and that in the process of the MPI library.
const SHOW: &str = "echo application $(printenv $0); \
                    tr '\\0' '\\n' < /proc/$$/environ | sed -n \"s/^$0=/library /p\"";

/// Caches of libfabric, UCX, Open MPI and MVAPICH: the variable, a user's value with which the cache would learn from
/// hooks, and the value that the library gets instead.
const HOOKS: [[&str; 3]; 5] = [
    ["FI_MR_CACHE_MONITOR", "memhooks", "disabled"],
    ["UCX_MEM_EVENTS", "y", "n"],
    ["OMPI_MCA_mpi_leave_pinned", "1", "0"],
    ["MV2_USE_LAZY_MEM_UNREGISTER", "1", "0"],
    ["MVP_USE_LAZY_MEM_UNREGISTER", "1", "0"],
];

/// Of these, the caches that are told what memory the program gives back.
const TOLD: [(Mpi, &str); 4] = [
    (Mpi::OpenMpi, "UCX_MEM_EVENTS"),
    (Mpi::OpenMpi, "OMPI_MCA_mpi_leave_pinned"),
    (Mpi::Mpich, "UCX_MEM_EVENTS"),
    (Mpi::Standard, "UCX_MEM_EVENTS"),
];

/// UCX's libraries, which MPICH 5 of PyPI is linked with.
const UCX: [&str; 4] = ["libucp.so.0", "libuct.so.0", "libucs.so.0", "libucm.so.0"];

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for mpi in Mpi::ALL.into_iter().chain([Mpi::Standard]) {
        for hook in HOOKS {
            let name = hook[0].to_lowercase().replace('_', "-");
            cases.push(match TOLD.contains(&(mpi, hook[0])) {
                true => Case::over(mpi, &format!("memory-hooks/told-{name}"), move |_, dir| {
                    kept(mpi, hook[0], hook[1], dir)
                }),
                false => {
                    let name = format!("memory-hooks/ignored-{name}");
                    Case::over(mpi, &name, move |_, dir| ignored(mpi, hook, dir))
                }
            });
        }
        cases.push(Case::over(
            mpi,
            "memory-hooks/kernel-monitor",
            move |_, dir| kept(mpi, "FI_MR_CACHE_MONITOR", "kdreg2", dir),
        ));
    }
    cases.push(Case::over(
        Mpi::Standard,
        "memory-hooks/ucx-at-start",
        |_, dir| ucx_at_start(dir),
    ));
    cases.push(Case::over(
        Mpi::Standard,
        "memory-hooks/ucx-in-mpi-init",
        |_, dir| ucx_in_mpi_init(dir),
    ));
    cases
}

fn show(mpi: Mpi, name: &str, value: &str, dir: &Path) -> Result<Finished> {
    let launch = stasis::launch(mpi, 2, &dir.join("ck"), dir);
    show_by(launch, name, value, dir)
}

fn show_by(mut launch: Command, name: &str, value: &str, dir: &Path) -> Result<Finished> {
    launch.args(["sh", "-c", SHOW, name]).env(name, value);
    job::run(launch, dir, "run", LIMIT)?.expect_success("the program that shows the settings")
}

/// Whether both ranks have these values.
fn have(shown: &Finished, application: &str, library: &str) -> bool {
    let count = |line: String| shown.stdout.lines().filter(|found| **found == line).count();
    count(format!("application {application}")) == 2 && count(format!("library {library}")) == 2
}

/// The library does not get the setting, the application does, and one line says so.
fn ignored(mpi: Mpi, [name, users, ours]: [&str; 3], dir: &Path) -> Result<()> {
    let shown = show(mpi, name, users, dir)?;
    ensure!(
        have(&shown, users, ours),
        "the settings are others:\n{}",
        shown.stdout
    );
    is_said(&shown, [name, users, ours])
}

/// Whether one line says that the user's value is not used.
fn is_said(shown: &Finished, [name, users, ours]: [&str; 3]) -> Result<()> {
    let line = format!("{name}={users} is ignored, and {name}={ours} used");
    let said = shown.stderr.matches(&line);
    ensure!(said.count() == 1, "it is not said once:\n{}", shown.stderr);
    Ok(())
}

/// A cache that is told of the memory of both halves keeps the setting: by the kernel, or by Stasis.
fn kept(mpi: Mpi, name: &str, value: &str, dir: &Path) -> Result<()> {
    let shown = show(mpi, name, value, dir)?;
    ensure!(
        have(&shown, value, value),
        "the settings are others:\n{}",
        shown.stdout
    );
    ensure!(!shown.stderr.contains("is ignored"), "{}", shown.stderr);
    Ok(())
}

/// MPICH 5 under a layer that loads UCX in MPI_Init. `linked`: it is also linked with UCX, as it comes.
fn late_ucx(linked: bool, dir: &Path) -> Result<PathBuf> {
    let original = lower_halves::library()?;
    let folder = original.parent().context("a library lies in a folder")?;
    let below = dir.join("libmpi_below.so");
    fs::copy(&original, &below)?;
    let folders = format!("{0}:{0}/mpich", folder.display());
    let mut list = Command::new("nm");
    list.args(["-D", "--undefined-only", "--format=just-symbols"]);
    list.arg(&below);
    let listed = job::run(list, dir, "nm", LIMIT)?;
    let listed = listed.expect_success("nm (binutils)")?.stdout;
    let is_of_ucx = |name: &&str| ["ucp_", "ucs_"].iter().any(|start| name.starts_with(start));
    let names = listed.lines().filter(is_of_ucx);
    let names: String = names.map(|name| format!(" DO({name})")).collect();
    ensure!(names.contains("ucp_init"), "it does not use UCX: {listed}");
    fs::write(
        dir.join("late_names.h"),
        format!("#define LATE_NAMES(DO){names}\n"),
    )?;
    patchelf(&below, &["--set-soname", "libmpi_below.so"])?;
    for library in UCX.iter().filter(|_| !linked) {
        patchelf(&below, &["--remove-needed", library])?;
    }
    patchelf(&below, &["--set-rpath", &folders])?;
    let words = [
        "-shared".to_owned(),
        "-fPIC".to_owned(),
        "-include".to_owned(),
        dir.join("late_names.h").to_string_lossy().into_owned(),
        "-Wl,-soname,libmpi_abi.so.1".to_owned(),
        format!("-Wl,-rpath,{}:{folders}", dir.display()),
        format!("-L{}", dir.display()),
        "-Wl,--no-as-needed".to_owned(),
        "-lmpi_below".to_owned(),
    ];
    let words = words.each_ref().map(String::as_str);
    compile(dir, "gcc", "late_ucx.c", &words)
}

/// A job over this library, with UCX's cache wanted by the user; what it says of it.
fn run_late_ucx(linked: bool, dir: &Path) -> Result<Finished> {
    let library = late_ucx(linked, dir)?;
    let mut launch = stasis::launch(Mpi::Standard, RANKS, &dir.join("ck"), dir);
    launch.arg("--mpi").arg(library);
    launch.env("MPIR_CVAR_CH4_NETMOD", "ucx");
    launch.env("UCX_MEM_EVENTS", "y");
    launch.args(command_line(
        &example("p2p", "p2p/remapped")?,
        Some(Mpi::Mpich),
    )?);
    job::run(launch, dir, "run", LIMIT)?.expect_success("the program over the library")
}

fn heard(shown: &Finished, value: &str, of: &str) -> Result<()> {
    let line = format!("late_ucx: UCX_MEM_EVENTS={value}, its cache hears of {of}\n");
    let said = shown.stderr.matches(&line).count();
    ensure!(
        said == RANKS,
        "{said} ranks say '{line}':\n{}",
        shown.stderr
    );
    Ok(())
}

/// UCX's cache hears of memory that is given back, because Stasis knows the library's UCX when it starts.
fn ucx_at_start(dir: &Path) -> Result<()> {
    let shown = run_late_ucx(true, dir)?;
    heard(&shown, "y", "munmap")?;
    ensure!(!shown.stderr.contains("is ignored"), "{}", shown.stderr);
    Ok(())
}

/// A UCX that comes in MPI_Init reads the value that replaces the user's, and one line says so.
fn ucx_in_mpi_init(dir: &Path) -> Result<()> {
    let shown = run_late_ucx(false, dir)?;
    heard(&shown, "n", "nothing")?;
    is_said(&shown, ["UCX_MEM_EVENTS", "y", "n"])
}
