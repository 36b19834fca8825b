//! `cargo xtask package`: binary packages, in `target/package`:
//!
//! | | |
//! |---|---|
//! | `stasis-VERSION-x86_64.tar.gz` | unpacks anywhere and runs from there |
//! | `stasis_VERSION-1_amd64.deb` | the same under `/usr`, made by cargo-deb (configured in `cli/Cargo.toml`) |
//! | `tree/` | the content of both |
//!
//! A package holds the layout that `setup.rs` makes, without debug information, and with lower halves for Debian's
//! MPI libraries and for the standard ABI alone: other libraries from PyPI are installed in this repository. It also
//! holds the sources, from which `stasis build-lower` builds lower halves for other libraries.

use crate::build::{setup, succeed};
use crate::harness::mpi::Mpi;
use crate::harness::paths;
use crate::tidy::crates;
use anyhow::{ensure, Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Version of all crates.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
const CARGO_DEB: &str = "3.8.0";

/// Installed files beside the documents.
const PAGES: [&str; 7] = [
    "README.md",
    "CITATION.cff",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
];
/// Tracked files that the build of a lower half does not need.
const NOT_SOURCES: [&str; 5] = [":!.ci", ":!docs", ":!examples", ":!fuzz", ":!packaging"];

/// Options of `cargo xtask package`.
#[derive(clap::Args)]
pub struct Options {
    /// Use target/stasis as it is
    #[arg(long)]
    no_setup: bool,
}

/// Both packages.
pub fn run(options: &Options) -> Result<()> {
    setup::unless(options.no_setup)?;
    tree()?;
    for package in [tarball()?, deb()?] {
        println!("{}", package.display());
    }
    Ok(())
}

/// Folder of the packages.
fn folder() -> PathBuf {
    paths::target().join("package")
}

/// Name of the tarball's only folder.
pub fn name() -> String {
    format!("stasis-{VERSION}-x86_64")
}

/// Lays out the content of a package.
pub fn tree() -> Result<PathBuf> {
    let tree = folder().join("tree");
    if tree.exists() {
        fs::remove_dir_all(&tree).with_context(|| format!("emptying {}", tree.display()))?;
    }
    programs(&tree)?;
    for header in ["stasis.h", "stasis.f90", "stasis_mpix.h"] {
        copy(
            &paths::product().join("include").join(header),
            &tree.join("include"),
        )?;
    }
    let share = tree.join("share");
    pages(&share)?;
    documents(&share.join("doc/stasis"))?;
    sources(&share.join("stasis/source"))?;
    let module = share.join("modulefiles/stasis");
    fs::create_dir_all(&module)?;
    fs::copy(
        paths::root().join("packaging/modulefile"),
        module.join(VERSION),
    )?;
    Ok(tree)
}

fn programs(tree: &Path) -> Result<()> {
    let (bin, lib) = (tree.join("bin"), tree.join("lib/stasis"));
    let from = paths::product().join("lib/stasis");
    let lowers = [Mpi::OpenMpi, Mpi::Mpich, Mpi::Standard].map(|mpi| format!("lower-{mpi}"));
    let fronts = ["openmpi", "mpich", "standard"].map(|abi| format!("front-{abi}.so"));
    let mut programs = vec![copy(&paths::stasis(), &bin)?];
    for name in lowers.iter().chain(&fronts) {
        programs.push(copy(&from.join(name), &lib)?);
    }
    for name in lowers {
        copy(&from.join(name).with_extension("json"), &lib)?;
    }
    let mut strip = Command::new("strip");
    succeed(strip.arg("--strip-debug").args(programs))
}

/// Manual pages and completions, written by the packaged command.
fn pages(share: &Path) -> Result<()> {
    let manual = share.join("man/man1");
    let mut man = Command::new(paths::stasis());
    succeed(man.args(["man", "--directory"]).arg(&manual))?;
    let pages: Vec<PathBuf> = fs::read_dir(&manual)?
        .map(|e| Ok(e?.path()))
        .collect::<Result<_>>()?;
    succeed(Command::new("gzip").arg("-9n").args(pages))?;
    for (shell, file) in [
        ("bash", "bash-completion/completions/stasis"),
        // Where Debian's zsh looks.
        ("zsh", "zsh/vendor-completions/_stasis"),
        ("fish", "fish/vendor_completions.d/stasis.fish"),
    ] {
        let file = share.join(file);
        fs::create_dir_all(file.parent().context("a file in a folder")?)?;
        let mut command = Command::new(paths::stasis());
        let output = command.args(["completions", shell]).output()?;
        ensure!(output.status.success(), "stasis completions {shell} failed");
        fs::write(file, output.stdout)?;
    }
    Ok(())
}

fn documents(doc: &Path) -> Result<()> {
    let root = paths::root();
    for file in PAGES {
        copy(&root.join(file), doc)?;
    }
    let third_party = crates::read()?.third_party()?;
    fs::write(doc.join("third-party.txt"), third_party)?;
    for folder in ["docs", "docs/internals", "examples/slurm"] {
        for entry in fs::read_dir(root.join(folder))? {
            let path = entry?.path();
            if path.is_file() {
                copy(&path, &doc.join(folder))?;
            }
        }
    }
    Ok(())
}

/// Tracked files, as in the working tree.
fn sources(to: &Path) -> Result<()> {
    let mut list = Command::new("git");
    list.args(["ls-files", "-z", "--"])
        .arg(".")
        .args(NOT_SOURCES);
    let listed = list
        .current_dir(paths::root())
        .output()
        .context("git ls-files")?;
    ensure!(listed.status.success(), "git ls-files failed");
    let files = String::from_utf8(listed.stdout).context("git ls-files")?;
    for file in files.split_terminator('\0').map(Path::new) {
        let folder = file.parent().context("a file in a folder")?;
        copy(&paths::root().join(file), &to.join(folder))?;
    }
    Ok(())
}

/// Copies a file into a folder, which is created if need be.
fn copy(file: &Path, folder: &Path) -> Result<PathBuf> {
    let to = folder.join(file.file_name().context("a file has a name")?);
    fs::create_dir_all(folder)?;
    fs::copy(file, &to).with_context(|| format!("copying {}", file.display()))?;
    Ok(to)
}

/// The tarball of the tree.
pub fn tarball() -> Result<PathBuf> {
    let to = folder().join(format!("{}.tar.gz", name()));
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.arg(format!("--transform=s,^tree,{},", name()));
    tar.arg("-C").arg(folder()).arg("-czf").arg(&to).arg("tree");
    succeed(&mut tar)?;
    Ok(to)
}

/// Debian's package of the tree.
pub fn deb() -> Result<PathBuf> {
    let to = folder().join(format!("stasis_{VERSION}-1_amd64.deb"));
    let mut deb = Command::new(cargo_deb()?);
    deb.args([
        "deb",
        "--package",
        "stasis-cli",
        "--no-build",
        "--no-strip",
        "--quiet",
        "--output",
    ]);
    succeed(deb.arg(&to).current_dir(paths::root()))?;
    Ok(to)
}

/// Path of cargo-deb, which is installed into target/tools if it is missing.
fn cargo_deb() -> Result<PathBuf> {
    let mut version = Command::new("cargo-deb");
    if version.arg("--version").output().is_ok() {
        return Ok("cargo-deb".into());
    }
    let tools = paths::target().join("tools");
    let installed = tools.join("bin/cargo-deb");
    if installed.exists() {
        return Ok(installed);
    }
    println!(
        "To be installed from crates.io into {}: cargo-deb",
        tools.display()
    );
    let mut install = Command::new("cargo");
    install.args([
        "install",
        "--quiet",
        "--locked",
        "--version",
        CARGO_DEB,
        "--root",
    ]);
    succeed(install.arg(&tools).arg("cargo-deb"))?;
    Ok(installed)
}
