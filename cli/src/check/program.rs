//! The check whether a program is supported, before it runs. It must be a dynamic 64-bit program, and the front must
//! have every MPI function that the program or its libraries import.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};
use launcher::preload;
use mpi_table::Via;

use crate::install::layout::Layout;
use linked::elf::{self, Elf, Kind};
use linked::mpi::{self, Abi};
use linked::script::{self, Step};
use linked::search::{self, Libraries};

/// A function that every MPI library has under this name, and that profilers leave to the library.
const OF_LIBRARIES: &str = "PMPI_Init";

/// Functions that MPICH's front exports for that layer and refuses when they are called.
const REFUSED: &str = include_str!("../../../upper-half/fronts/mpich/refused.names");

/// Name prefixes of functions that only an MPI library exports.
const MPI_NAMES: [&str; 12] = [
    "MPI_", "PMPI_", "MPIX_", "PMPIX_", "mpi_", "pmpi_", "mpix_", "pmpix_", "ompi_", "ompix_",
    "MPIR_", "MPII_",
];

/// Result of the check of a program.
#[derive(Default)]
pub struct Findings {
    /// MPI library that the program was linked with.
    pub front: Option<Abi>,
    /// Names (DT_NEEDED) by which it loads that library.
    pub sonames: BTreeSet<String>,
    /// Symbols that it and its libraries import from that library (and its layers for other languages), each with the
    /// first importing file.
    pub imports: BTreeMap<String, PathBuf>,
    /// Imported functions that return "not supported" when they are called.
    pub refused: BTreeMap<String, PathBuf>,
    /// Imported MPI functions that the front lacks, each with the importing file.
    pub missing: BTreeMap<String, PathBuf>,
    /// Needed MPI libraries without a front, each with its file, if it was found.
    pub unknown: BTreeMap<String, Option<PathBuf>>,
    /// Checked files.
    pub files: usize,
}

impl Findings {
    /// Returns an error for a program that could not run to its end.
    pub fn accept(&self, program: &Path) -> Result<()> {
        if let Some((name, file)) = self.unknown.first_key_value() {
            bail!("{}", unknown(program, name, file.as_deref()));
        }
        let mut sonames = self.sonames.iter();
        let one = sonames.next();
        let other = sonames.find(|name| one.and_then(|one| mpi::abi(one)) != mpi::abi(name));
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

/// Why a program cannot be served that needs an MPI library of this name, and what to do.
fn unknown(program: &Path, name: &str, file: Option<&Path>) -> String {
    let place = match file {
        Some(file) => format!(" ({})", file.display()),
        None => ", by its name an MPI library, which is not found here".to_owned(),
    };
    let rename = mpi::by_version(name).map_or_else(String::new, |known| {
        format!(
            "; or, if that library has the ABI of {known}, change the name in a copy of the program: patchelf \
             --replace-needed {name} {known} COPY"
        )
    });
    format!(
        "{} cannot be served: it was linked with {name}{place}, and Stasis stands in for {} only; build it against \
         one of these{rename}",
        program.display(),
        mpi::known()
    )
}

/// Finds and checks the program.
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

/// Checks a program as [`inspect`] does, or a library that programs load while they run.
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

/// Whether a symbol, in C or as mangled by a Fortran compiler, names a function that is refused when it is called.
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
    let found = script::follow(named, |path| {
        let kind = elf::read(path, is_mpi_name);
        let kind = kind.with_context(|| format!("{} cannot be started", path.display()))?;
        let script = match kind {
            Kind::Elf(elf) => return Ok(Step::Program((path.to_owned(), elf))),
            Kind::Foreign(what) => bail!("{} cannot be served: it is {what}", path.display()),
            Kind::Other => bail!(
                "{} cannot be started: it is neither an ELF program nor a script that begins with #!",
                path.display()
            ),
            Kind::Script(script) => script,
        };
        let argument = script.argument.unwrap_or_default();
        let argument = argument.to_string_lossy();
        let mut words = argument.split_whitespace();
        let mut of_env = || words.find(|w| !w.starts_with('-') && !w.contains('='));
        let next = match Path::new(&script.interpreter).file_name() {
            Some(name) if name == "env" => of_env().map(OsStr::new),
            _ => None,
        };
        let next = search::program(next.unwrap_or(&script.interpreter))
            .with_context(|| format!("the interpreter of {}", path.display()))?;
        Ok(Step::Script(next))
    })?;
    found.with_context(|| {
        format!(
            "{}: too many levels of #! interpreters; check its first line",
            named.display()
        )
    })
}

/// Functions that exist only to be refused, and that the file at `path` must not import.
fn refused_to(path: &Path) -> HashSet<&'static str> {
    if mpi::is_fortran_layer(&file_name(path)) {
        return HashSet::new();
    }
    REFUSED.lines().collect()
}

fn file_name(path: &Path) -> Cow<'_, str> {
    path.file_name().unwrap_or_default().to_string_lossy()
}

fn is_layer(path: &Path) -> bool {
    mpi::is_layer(&file_name(path))
}

/// ELF facts about a library. A missing or unreadable library is left to the dynamic linker, which reports it.
fn library(found: Option<PathBuf>) -> Option<(PathBuf, Elf)> {
    let path = found?;
    match elf::read(&path, is_mpi_name) {
        Ok(Kind::Elf(elf)) => Some((path, elf)),
        _ => None,
    }
}

/// Checks the program, its preloaded libraries, and all libraries that these need.
fn look_through(binary: &Path, elf: Elf, layout: &Layout) -> Result<Findings> {
    let libraries = Libraries::here();
    let mut findings = Findings::default();
    let mut seen = HashSet::new();
    let mut wanted: HashMap<String, PathBuf> = HashMap::new();
    let mut offered: HashSet<String> = HashSet::new();
    let mut of_layers: HashSet<String> = HashSet::new();
    let mut todo = vec![(binary.to_owned(), elf)];
    for name in preload::libraries() {
        // The dynamic linker loads one library for each name.
        seen.insert(name.clone());
        todo.extend(library(libraries.find(&name, &[], Path::new("/"))));
    }
    while let Some((path, elf)) = todo.pop() {
        findings.files += 1;
        let refused = refused_to(&path);
        let is_layer = is_layer(&path);
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
            if let Some(front) = mpi::abi(&name) {
                findings.front.get_or_insert(front);
                findings.sonames.insert(name);
                continue;
            }
            let found = library(libraries.find(&name, &elf.paths, origin));
            let is_other = match &found {
                Some((_, elf)) => elf.offers.iter().any(|function| function == OF_LIBRARIES),
                None => mpi::is_named_mpi(&name),
            };
            if is_other {
                let file = found.map(|(path, _)| path);
                findings.unknown.insert(name, file);
            } else {
                todo.extend(found);
            }
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
            if is_mpis && !is_layer(&path) {
                findings.imports.insert(name, path);
            } else if !is_mpis && !offered.contains(&name) {
                findings.missing.insert(name, path);
            }
        }
    }
    Ok(findings)
}
