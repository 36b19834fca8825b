//! Whether a program can be served, found out before it is run: it must be a dynamic 64-bit program,
//! and every function that it or its libraries want from MPI must be one that the front has.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};
use launcher::preload;
use mpi_table::Via;

use crate::elf::{self, Elf, Kind};
use crate::layout::{Abi, Layout};
use crate::search::{self, Libraries};

/// Names of MPI libraries and the front that stands for each.
const FRONTS: [(&str, Abi); 6] = [
    ("libmpi.so.40", Abi::Openmpi),
    ("libmpi_mpifh.so.40", Abi::Openmpi),
    ("libmpich.so.12", Abi::Mpich),
    ("libmpi.so.12", Abi::Mpich),
    ("libmpi_abi.so.1", Abi::Standard),
    ("libmpi_abi.so.0", Abi::Standard),
];

/// MPI libraries that Stasis does not stand in for, by how their names begin.
const OTHERS: [&str; 4] = [
    "libmpi.so.",
    "libmpi_mpifh.so.",
    "libmpich.so.",
    "libmpi_abi.so.",
];

/// MPICH's Fortran layer, which refers to every function of its library whether a program calls it or
/// not.
const FORTRAN: [&str; 2] = ["libmpichfort.so.", "libmpifort.so."];

/// Libraries of MPI's own that programs load on top of a front. They refer to every function, whether
/// the program calls it or not.
const LAYERS: [&str; 6] = [
    "libmpichfort.so.",
    "libmpifort.so.",
    "libmpichcxx.so.",
    "libmpi_usempif08.so.",
    "libmpi_usempi_ignore_tkr.so.",
    "libmpi_cxx.so.",
];

/// Functions that MPICH's front has for that layer, to refuse them when they are called.
const REFUSED: &str = include_str!("../../fronts/mpich/refused.names");

/// How names begin that only an MPI library can offer.
const MPI_NAMES: [&str; 12] = [
    "MPI_", "PMPI_", "MPIX_", "PMPIX_", "mpi_", "pmpi_", "mpix_", "pmpix_", "ompi_", "ompix_",
    "MPIR_", "MPII_",
];

/// Deepest chain of scripts that is followed, as in the kernel.
const SCRIPTS: usize = 4;

/// What was found out about a program.
#[derive(Default)]
pub struct Findings {
    /// The MPI library that it was linked with.
    pub front: Option<Abi>,
    /// The names by which it asks for that library.
    pub sonames: BTreeSet<String>,
    /// What it and its libraries import from that library (and its layers for other languages), each
    /// with the first file found that does.
    pub imports: BTreeMap<String, PathBuf>,
    /// Functions that it imports and that answer "not supported" when they are called.
    pub refused: BTreeMap<String, PathBuf>,
    /// Functions that it wants from MPI and that the front has not, each with the file that wants it.
    pub missing: BTreeMap<String, PathBuf>,
    /// MPI libraries that it wants and for which there is no front.
    pub unknown: BTreeSet<String>,
    /// Files that were looked at.
    pub files: usize,
}

impl Findings {
    /// Refuses a program that would not run to its end.
    pub fn accept(&self, program: &Path) -> Result<()> {
        if let Some(name) = self.unknown.first() {
            let known: Vec<&str> = FRONTS.iter().map(|(name, _)| *name).collect();
            bail!(
                "{} cannot be served: it was linked with {name}, and Stasis stands in for {} only; \
                 build it against one of these",
                program.display(),
                known.join(", ")
            );
        }
        let front = |name: &String| FRONTS.iter().find(|f| f.0 == name).map(|f| f.1);
        let mut sonames = self.sonames.iter();
        let one = sonames.next();
        let other = sonames.find(|name| one.and_then(front) != front(name));
        if let (Some(one), Some(other)) = (one, other) {
            bail!(
                "{} cannot be served: it and its libraries (with those in LD_PRELOAD) were linked with \
                 two MPI libraries, {other} and {one}; use libraries that were built for one",
                program.display()
            );
        }
        let Some((name, file)) = self.missing.first_key_value() else {
            return Ok(());
        };
        let names: Vec<&str> = self.missing.keys().take(12).map(String::as_str).collect();
        let more = self.missing.len() - names.len();
        bail!(
            "{} cannot be served: Stasis does not support {}{}, which {} wants{}; without a \
             replacement for {} run it without Stasis",
            program.display(),
            names.join(", "),
            if more > 0 {
                format!(" and {more} other functions of MPI")
            } else {
                String::new()
            },
            file.display(),
            if self.missing.len() > 1 {
                " (or libraries of it do)"
            } else {
                ""
            },
            if self.missing.len() > 1 { "them" } else { name }
        )
    }
}

/// Finds the program and finds out about it.
pub fn inspect(name: &OsStr, layout: &Layout) -> Result<(PathBuf, Findings)> {
    let named = search::program(name)?;
    let (binary, elf) = binary_of(&named)?;
    if !elf.interpreted {
        bail!(
            "{} is statically linked and cannot be served, because Stasis cannot replace the MPI \
             library inside it: link it dynamically (without -static)",
            binary.display()
        );
    }
    let findings = look_through(&binary, elf, layout)?;
    Ok((named, findings))
}

/// Finds out about a program as [`inspect`] does, or about a library that programs load while they run.
pub fn examine(name: &OsStr, layout: &Layout) -> Result<(PathBuf, Findings)> {
    let path = PathBuf::from(name);
    match elf::read(&path, is_mpi_name) {
        Ok(Kind::Elf(elf)) if !elf.interpreted && !elf.needed.is_empty() => {
            let findings = look_through(&path, elf, layout)?;
            Ok((path, findings))
        }
        _ => inspect(name, layout),
    }
}

/// Whether a symbol stands for a function that is refused when it is called: its C name, or what a
/// Fortran compiler makes of it.
fn is_refused(symbol: &str) -> bool {
    let symbol = symbol.to_ascii_lowercase();
    let name = symbol.strip_prefix('p').unwrap_or(&symbol);
    let name = name.trim_end_matches('_').trim_end_matches("_f08");
    mpi_table::functions()
        .iter()
        .any(|function| function.via == Via::Refuse && function.name.eq_ignore_ascii_case(name))
}

fn is_mpi_name(name: &str) -> bool {
    MPI_NAMES.iter().any(|start| name.starts_with(start))
}

/// The program itself, or the interpreter of a script.
fn binary_of(named: &Path) -> Result<(PathBuf, Elf)> {
    let mut path = named.to_owned();
    for _ in 0..SCRIPTS {
        let kind = elf::read(&path, is_mpi_name);
        let kind = kind.with_context(|| format!("{} cannot be started", path.display()))?;
        match kind {
            Kind::Elf(elf) => return Ok((path, elf)),
            Kind::Foreign(what) => bail!("{} cannot be served: it is {what}", path.display()),
            Kind::Other => bail!(
                "{} cannot be started: it is neither an ELF program nor a script that begins with #!",
                path.display()
            ),
            Kind::Script(line) => {
                let mut words = line.split_whitespace();
                let interpreter = words.next().unwrap_or_default();
                let mut of_env = || words.find(|w| !w.starts_with('-') && !w.contains('='));
                let next = match Path::new(interpreter).file_name() {
                    Some(name) if name == "env" => of_env().unwrap_or(interpreter),
                    _ => interpreter,
                };
                path = search::program(OsStr::new(next))
                    .with_context(|| format!("the interpreter of {}", path.display()))?;
            }
        }
    }
    bail!(
        "{} is a script of a script of a script: name its interpreter",
        named.display()
    )
}

/// The functions that are there to be refused, and that the file at `path` must not want.
fn refused_to(path: &Path) -> HashSet<&'static str> {
    if is_one_of(path, &FORTRAN) {
        return HashSet::new();
    }
    REFUSED.lines().collect()
}

fn is_one_of(path: &Path, starts: &[&str]) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    starts.iter().any(|start| name.starts_with(start))
}

/// What a library says of itself. One that cannot be found or read is the dynamic linker's to complain
/// about.
fn library(found: Option<PathBuf>) -> Option<(PathBuf, Elf)> {
    let path = found?;
    match elf::read(&path, is_mpi_name) {
        Ok(Kind::Elf(elf)) => Some((path, elf)),
        _ => None,
    }
}

/// Looks through the program, what is preloaded into it, and all libraries that these need.
fn look_through(binary: &Path, elf: Elf, layout: &Layout) -> Result<Findings> {
    let libraries = Libraries::here();
    let mut findings = Findings::default();
    let mut seen = HashSet::new();
    let mut wanted: HashMap<String, PathBuf> = HashMap::new();
    let mut offered: HashSet<String> = HashSet::new();
    let mut of_layers: HashSet<String> = HashSet::new();
    let mut todo = vec![(binary.to_owned(), elf)];
    for name in preload::libraries() {
        // Libraries of one name are one.
        seen.insert(name.clone());
        todo.extend(library(libraries.find(&name, &[], Path::new("/"))));
    }
    while let Some((path, elf)) = todo.pop() {
        findings.files += 1;
        let refused = refused_to(&path);
        let is_layer = is_one_of(&path, &LAYERS);
        for name in elf.wants {
            if !is_layer && is_refused(&name) {
                findings
                    .refused
                    .entry(name.clone())
                    .or_insert_with(|| path.clone());
            }
            if refused.contains(name.trim_start_matches('P')) {
                findings.missing.entry(name).or_insert_with(|| path.clone());
            } else {
                wanted.entry(name).or_insert_with(|| path.clone());
            }
        }
        if is_layer {
            of_layers.extend(elf.offers);
        } else {
            offered.extend(elf.offers);
        }
        let origin = path.canonicalize().unwrap_or(path.clone());
        let origin = origin.parent().unwrap_or(Path::new("/"));
        for name in elf.needed {
            if !seen.insert(name.clone()) {
                continue;
            }
            if let Some((_, front)) = FRONTS.iter().find(|(soname, _)| *soname == name) {
                findings.front.get_or_insert(*front);
                findings.sonames.insert(name);
                continue;
            }
            if OTHERS.iter().any(|start| name.starts_with(start)) {
                findings.unknown.insert(name);
                continue;
            }
            todo.extend(library(libraries.find(&name, &elf.paths, origin)));
        }
    }
    if let Some(front) = findings.front {
        let path = layout.front(front);
        let kind = elf::read(&path, |_| true);
        let Kind::Elf(front) = kind.with_context(|| {
            format!(
                "{} cannot be read: build it with `cargo xtask setup`",
                path.display()
            )
        })?
        else {
            bail!(
                "{} is no library: build it again with `cargo xtask setup`",
                path.display()
            )
        };
        let has: HashSet<String> = front.offers.into_iter().collect();
        for (name, path) in wanted {
            let is_mpis = has.contains(&name) || of_layers.contains(&name);
            if is_mpis && !is_one_of(&path, &LAYERS) {
                findings.imports.insert(name, path);
            } else if !is_mpis && !offered.contains(&name) {
                findings.missing.insert(name, path);
            }
        }
    }
    Ok(findings)
}
