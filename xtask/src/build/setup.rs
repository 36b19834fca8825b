//! `cargo xtask setup`: packages, builds, and the installed layout:
//!
//! ```text
//! target/stasis/bin/stasis
//! target/stasis/lib/stasis/{lower-openmpi, lower-mpich, lower-standard, front-openmpi.so, front-mpich.so,
//!     front-standard.so}
//!     and a record of each lower half, lower-NAME.json
//! target/stasis/include/{stasis.h, stasis.f90, stasis_mpix.h}
//!
//! ```
//!
//! An MPI library from PyPI (`pypi.rs`) is for the tests of the standard ABI. `--full` adds others, Apptainer
//! (`apptainer.rs`) and Grid Engine (`gridengine.rs`), which only the tests of `--full` need. `--minimal` omits the
//! large programs of the tests. The file `target/minimal` records that, until a `setup` without it.

use crate::build::apt::{self, Package};
use crate::build::{apptainer, gridengine, node_exporter, pypi, succeed};
use crate::harness::mpi::Mpi;
use crate::harness::paths;
use anyhow::{anyhow, bail, ensure, Context, Result};
use std::fs;
use std::io::{ErrorKind, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Debian packages that a build needs, each with its purpose.
const TO_BUILD: &[Package] = &[
    ("openmpi-bin", "mpirun.openmpi"),
    (
        "libopenmpi-dev",
        "mpicc.openmpi, Open MPI's headers for the lower half",
    ),
    ("mpich", "mpirun.mpich"),
    (
        "libmpich-dev",
        "mpicc.mpich, MPICH's headers for the lower half",
    ),
    ("libclang-dev", "mpi-sys reads mpi.h with it"),
    ("gcc", "examples, linking"),
    ("libc6-dev", "examples, linking"),
];

/// Those that tests need as well.
const TO_TEST: &[Package] = &[
    ("g++", "C++ examples"),
    ("gfortran", "Fortran examples"),
    ("python3", "tests"),
    ("python3-mpi4py", "tests"),
    ("python3-venv", "MPI libraries from PyPI"),
    ("python3-yaml", "reads Kubernetes' manifests in tests"),
    ("netpipe-openmpi", "tests"),
    ("netpipe-mpich2", "tests"),
    ("iproute2", "network namespaces that stand for nodes"),
    ("gdb", "says where a test hangs"),
    ("libcap2-bin", "gives files capabilities in tests"),
    ("strace", "makes system calls fail in tests"),
    ("zsh", "tests of completions"),
    ("chromium", "looks at reports in tests (350 MB)"),
    ("patchelf", "gives MPI libraries a vendor's names in tests"),
    ("libucx-dev", "tells a cache of registered memory in tests"),
    (
        "libfuse3-dev",
        "a file system like those of networks, in tests",
    ),
];

/// The program of the demo.
const LAMMPS: Package = ("lammps", "demo, tests, benchmark");

/// Large programs, omitted by `--minimal`.
const PROGRAMS: &[Package] = &[
    LAMMPS,
    ("quantum-espresso", "tests of Fortran (280 MB)"),
    ("quantum-espresso-data", "its pseudopotentials (75 MB)"),
];

/// Packages that only `--full` needs.
const FULL_PACKAGES: &[Package] = &[
    ("python3-dev", "mpi4py for MPICH, from PyPI"),
    ("python3-setuptools", "mpi4py for MPICH, from PyPI"),
    ("cp2k", "tests of Fortran with OpenMP (250 MB)"),
    ("freefem++", "tests of finite elements"),
    ("python3-h5py", "tests of files that are overwritten"),
    ("python3-netcdf4", "tests of files that are overwritten"),
    ("python3-petsc4py", "tests of files that are overwritten"),
    ("form", "tests of scratch files"),
    ("podman", "tests in containers"),
    ("runc", "tests in containers"),
    ("uidmap", "tests in containers of an ordinary user"),
    (
        "nwchem-openmpi",
        "tests of files that are overwritten (65 MB)",
    ),
    (
        "nwchem-mpich",
        "tests of files that are overwritten (65 MB)",
    ),
    ("python3-petsc4py", "tests of files that MPI overwrites"),
    ("hpcc", "benchmark of programs with many MPI calls"),
    ("gromacs", "benchmark of the papers (66 MB)"),
    ("mpqc", "tests of threads below MPI_THREAD_MULTIPLE"),
    ("slurmctld", "tests of job scripts"),
    ("slurmd", "tests of job scripts"),
    ("slurm-client", "tests of job scripts"),
];

/// Crates to download for the product.
const CRATES: &str = "20 MB";
/// Disk space of a build of the product: `target/release`, a `target/lower-NAME` for each of three, `target/stasis`.
const DISK: &str = "4 GB";
/// Time of a whole first demo.
const FIRST_DEMO: &str = "13 minutes";

/// Options of `cargo xtask setup`.
#[derive(clap::Args)]
pub struct Options {
    /// Also what the tests of --full need: Slurm, and MPI libraries from PyPI, into target/pypi
    #[arg(long)]
    full: bool,
    /// Without the large programs that Stasis is tested with (LAMMPS, Quantum ESPRESSO): cases that need them
    /// are skipped
    #[arg(long, conflicts_with = "full")]
    minimal: bool,
}

/// Install missing packages, build, lay out. A machine that was set up with `--minimal` stays so.
pub fn run() -> Result<()> {
    run_with(&Options {
        full: false,
        minimal: minimal().exists(),
    })
}

/// File that marks a machine set up with `--minimal`.
fn minimal() -> PathBuf {
    paths::target().join("minimal")
}

/// As [`run`], unless the installed layout is to be used unchanged. Then it only warns if the sources are newer,
/// because results of an older build mislead.
pub fn unless(as_it_is: bool) -> Result<()> {
    if !as_it_is {
        return run();
    }
    if let Some(source) = newer_source()? {
        eprintln!("target/stasis is older than {source}: leave --no-setup away to build it again");
    }
    Ok(())
}

/// A source of the product that is newer than the layout.
fn newer_source() -> Result<Option<String>> {
    let laid_out = fs::metadata(paths::stasis()).and_then(|file| file.modified());
    let laid_out = laid_out.context("there is no target/stasis yet: leave --no-setup away")?;
    let mut list = Command::new("git");
    list.args(["ls-files", "*.rs", "*.table", "*.toml"]);
    list.args([":!examples", ":!fuzz", ":!xtask"])
        .current_dir(paths::root());
    let files = list.output().context("git ls-files")?;
    let changed = |path: &&str| {
        fs::metadata(paths::root().join(path))
            .and_then(|file| file.modified())
            .is_ok_and(|time| time > laid_out)
    };
    let files = String::from_utf8_lossy(&files.stdout);
    Ok(files.lines().find(changed).map(str::to_owned))
}

/// As [`run`], or with the prerequisites of the tests of `--full`.
pub fn run_fully() -> Result<()> {
    run_with(&Options {
        full: true,
        minimal: false,
    })
}

/// Sets up according to the options.
pub fn run_with(options: &Options) -> Result<()> {
    packages(options)?;
    build(false)?;
    match options.minimal {
        true => fs::write(minimal(), "")?,
        false => match fs::remove_file(minimal()) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        },
    }
    if let Err(error) = pypi::install_for_standard_abi(options.full) {
        // A machine may have no way to PyPI, and all else can be tested there.
        println!("no MPI library from PyPI, so the cases `standard/` will be skipped: {error:#}");
    }
    if let Err(error) = node_exporter::install() {
        println!(
            "no node_exporter, so the cases `history/node-exporter` will be skipped: {error:#}"
        );
    }
    if options.full {
        pypi::install()?;
        let apptainer = install_packages(&apptainer::TOOLS).and_then(|()| apptainer::install());
        if let Err(error) = apptainer {
            println!("no Apptainer from Debian sid, so the cases `apptainer/` will be skipped: {error:#}");
        }
        gridengine::install()?;
    }
    println!("stasis is at {}", paths::stasis().display());
    Ok(())
}

fn packages(options: &Options) -> Result<()> {
    let programs = PROGRAMS.iter().filter(|_| !options.minimal);
    let full = FULL_PACKAGES.iter().filter(|_| options.full);
    install_packages(TO_BUILD.iter().chain(TO_TEST).chain(programs).chain(full))
}

/// Install those Debian packages that are missing.
pub fn install_packages<'a>(packages: impl IntoIterator<Item = &'a Package<'a>>) -> Result<()> {
    let missing = apt::missing(packages);
    if !missing.is_empty() {
        println!("To be installed with apt-get:\n{missing}");
    }
    missing.install()
}

/// Whether only `--full` installs a package.
pub fn only_full(package: &str) -> bool {
    !PROGRAMS.iter().any(|(name, _)| *name == package)
}

/// Reason for skipping a case whose package is missing after a `setup` with `--minimal`, or without `--full`.
pub fn missing(package: Option<&str>) -> Option<String> {
    let package = package.filter(|package| !apt::is_installed(package))?;
    let full = if only_full(package) { " --full" } else { "" };
    Some(format!(
        "{package} is not installed: `cargo xtask setup{full}`"
    ))
}

/// Fails if such a package is missing.
pub fn require(package: &str) -> Result<()> {
    missing(Some(package)).map_or(Ok(()), |why| Err(anyhow!(why)))
}

/// Installs the packages of the demo alone, and builds the product. Prints the sizes and the time before that.
pub fn for_demo(runs: &str) -> Result<()> {
    let missing = apt::missing(TO_BUILD.iter().chain([&LAMMPS]));
    println!("This demo");
    if !missing.is_empty() {
        let cost = missing.cost();
        let cost = cost.unwrap_or_else(|| "up to 230 MB to download, 1.2 GB on disk".to_owned());
        println!("- installs packages with apt-get ({cost}):\n{missing}");
    }
    let target = paths::target();
    fs::create_dir_all(&target).with_context(|| format!("making {}", target.display()))?;
    let free = nix::sys::statvfs::statvfs(&target)?;
    let free = free.blocks_available() * free.fragment_size() / 1_000_000_000;
    let mut lower_halves = Mpi::ALL.into_iter().chain([Mpi::Standard]);
    let built = lower_halves.all(|mpi| lower_target(mpi).exists()) && paths::stasis().exists();
    match built {
        true => println!("- builds what has changed since the last time"),
        false => println!(
            "- builds Stasis and its lower halves for Open MPI, MPICH and the standard ABI: {CRATES} of crates to \
             download, {DISK} in {} (free: {free} GB)",
            target.display()
        ),
    }
    println!("- {runs}");
    if !built {
        println!("The first time took {FIRST_DEMO} on two cores.");
    }
    println!();
    missing.install()?;
    build(true)
}

/// Build everything and lay it out. Without changes this is quick, because cargo builds nothing. What is built is
/// shown if asked for, and on a terminal.
pub fn build(shown: bool) -> Result<()> {
    let shown = shown || std::io::stderr().is_terminal();
    let release = paths::target().join("release");
    cargo(
        "the stasis command and the fronts",
        None,
        &[
            "build",
            "--release",
            "-p",
            "stasis-cli",
            "-p",
            "stasis-front-openmpi",
            "-p",
            "stasis-front-mpich",
            "-p",
            "stasis-front-standard",
        ],
        shown,
    )?;
    install(&release.join("stasis"), "bin/stasis")?;
    for mpi in Mpi::ALL {
        lend_crates(mpi)?;
        build_lower_shown(&mpi.compiler("c"), mpi.name(), shown)?;
    }
    lend_crates(Mpi::Standard)?;
    build_standard_lower(shown)?;
    for abi in ["openmpi", "mpich", "standard"] {
        let front = release.join(format!("libstasis_front_{abi}.so"));
        install(&front, &format!("lib/stasis/front-{abi}.so"))?;
    }
    for header in ["stasis.h", "stasis.f90", "stasis_mpix.h"] {
        let from = paths::root().join("upper-half/include").join(header);
        install(&from, &format!("include/{header}"))?;
    }
    // The layout now corresponds to the sources, unchanged parts included: see `newer_source`.
    let stasis = fs::File::open(paths::stasis())?;
    stasis.set_modified(std::time::SystemTime::now())?;
    Ok(())
}

/// Builds the lower half for the library of this compiler, as users do.
pub fn build_lower(mpicc: &str, name: &str) -> Result<()> {
    build_lower_shown(mpicc, name, false)
}

fn build_lower_shown(mpicc: &str, name: &str, shown: bool) -> Result<()> {
    let mut build = Command::new(paths::stasis());
    build.args(["build-lower", "--mpicc", mpicc, "--name", name]);
    if shown {
        build.arg("--verbose");
    }
    let status = build.stdout(Stdio::null()).status()?;
    ensure!(
        status.success(),
        "building the lower half for {name} failed ({status}); the messages are above"
    );
    Ok(())
}

/// Builds the lower half for the standard ABI, which needs no MPI library, and writes its record.
fn build_standard_lower(shown: bool) -> Result<()> {
    cargo(
        "the lower half for the standard ABI",
        Some(Mpi::Standard),
        &["build", "--release", "-p", "stasis-lower-half"],
        shown,
    )?;
    let target = lower_target(Mpi::Standard);
    let built = target.join("release/stasis-lower");
    let about = Command::new(&built).arg("about").output()?;
    ensure!(about.status.success(), "{} about failed", built.display());
    let record = target.join("record.json");
    fs::write(&record, about.stdout)?;
    install(&built, "lib/stasis/lower-standard")?;
    install(&record, "lib/stasis/lower-standard.json")
}

/// Target directory of `stasis build-lower` for one library. Builds must not overwrite each other.
fn lower_target(mpi: Mpi) -> PathBuf {
    paths::target().join(format!("lower-{mpi}"))
}

/// Folders of a build in a target directory.
const BUILT: [&str; 3] = ["build", "deps", ".fingerprint"];

/// Gives a lower half what cargo has built for the first of them, where it has nothing of its own yet. They share all
/// crates but the bindings of their library, and a target directory cannot be shared: cargo would build the bindings
/// again for each library in turn.
pub fn lend_crates(to: Mpi) -> Result<()> {
    let from = lower_target(Mpi::ALL[0]).join("release");
    let to = lower_target(to).join("release");
    if from == to || !from.exists() {
        return Ok(());
    }
    if has_own_crates(&from.join("deps"), &to.join("deps"))? {
        for folder in BUILT {
            fs::remove_dir_all(to.join(folder))?;
        }
    }
    for folder in BUILT {
        let (from, to) = (from.join(folder), to.join(folder));
        fs::create_dir_all(&to)?;
        let mut missing = Vec::new();
        for entry in fs::read_dir(&from)? {
            let entry = entry?;
            let name = entry.file_name();
            if !is_of_a_library(&name.to_string_lossy()) && !to.join(&name).exists() {
                missing.push(entry.path());
            }
        }
        if !missing.is_empty() {
            // With its times, by which cargo knows that it is not older than its sources.
            let mut copy = Command::new("cp");
            succeed(copy.arg("-a").args(missing).arg(&to))?;
        }
    }
    Ok(())
}

fn is_of_a_library(name: &str) -> bool {
    let name = name.trim_start_matches("lib").replace('-', "_");
    name.starts_with("mpi_sys") || name.starts_with("stasis_lower")
}

/// Whether a crate that both have was built for each, or again for the first. Others that depend on it cannot be lent
/// then: the compiler refuses a crate that was built with another copy. Crates of the workspace do no harm: cargo
/// builds what depends on them again when their sources change.
fn has_own_crates(from: &Path, to: &Path) -> Result<bool> {
    if !to.exists() {
        return Ok(false);
    }
    let time = |path: PathBuf| fs::metadata(path).and_then(|file| file.modified());
    for entry in fs::read_dir(from)? {
        let name = entry?.file_name();
        let text = name.to_string_lossy();
        let is_crate = text.ends_with(".rlib") || text.ends_with(".rmeta");
        let of_workspace = text.starts_with("libstasis_");
        if !is_crate || of_workspace || is_of_a_library(&text) || !to.join(&name).exists() {
            continue;
        }
        if time(from.join(&name))? != time(to.join(&name))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A cargo command on the workspace. `lower` selects the MPI library of the lower half.
pub fn cargo_command(lower: Option<Mpi>, arguments: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    let (verb, arguments) = arguments.split_at(1);
    command.args(verb);
    let target = match lower {
        Some(mpi) if Mpi::STANDARD.contains(&mpi) => {
            command.args(["--no-default-features", "--features", "standard"]);
            lower_target(Mpi::Standard)
        }
        Some(mpi) => {
            command.env("MPICC", mpi.mpicc());
            lower_target(mpi)
        }
        None => paths::target(),
    };
    command
        .args(arguments)
        .env("CARGO_TARGET_DIR", target)
        .current_dir(paths::root());
    command
}

fn cargo(what: &str, lower: Option<Mpi>, arguments: &[&str], shown: bool) -> Result<()> {
    let mut arguments = arguments.to_vec();
    if !shown {
        arguments.push("--quiet");
    }
    let status = cargo_command(lower, &arguments).status()?;
    if !status.success() {
        bail!("building {what} failed ({status}); the messages are above");
    }
    Ok(())
}

/// Put a file into the layout unless its content is there already. A rename puts it in place, so that a running job
/// keeps its old file.
fn install(from: &Path, to: &str) -> Result<()> {
    let to = paths::product().join(to);
    let content = fs::read(from).with_context(|| format!("reading {}", from.display()))?;
    if fs::read(&to).is_ok_and(|present| present == content) {
        return Ok(());
    }
    let dir = to.parent().expect("a path inside the layout");
    fs::create_dir_all(dir)?;
    let new = dir.join(format!("new.{}", std::process::id()));
    fs::copy(from, &new).with_context(|| format!("writing {}", new.display()))?;
    fs::rename(&new, &to).with_context(|| format!("writing {}", to.display()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_has_the_figures_of_the_demo() {
        let readme = fs::read_to_string(paths::root().join("README.md")).unwrap();
        for figure in [
            format!("{CRATES} of crates"),
            format!("{DISK} of"),
            format!("took {FIRST_DEMO} on two cores"),
        ] {
            assert!(readme.contains(&figure), "README.md does not say {figure}");
        }
    }
}
