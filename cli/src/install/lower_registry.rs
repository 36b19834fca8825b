//! The lower halves built here, and the choice of one for a job: that of the MPI library whose launcher started the
//! job.
//!
//! A lower half is a program `lower-NAME`. The record `lower-NAME.json` beside it describes its library.
//! `stasis build-lower` makes both. One lower half comes with Stasis and is for no library in particular: it loads any
//! that has the standard ABI, and serves those for which none was built.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail, ensure, Context, Result};
use launcher::{Launcher, Library};
use serde::{Deserialize, Serialize};

use crate::install::standard_library;
use crate::ui::text;
use linked::mpi::Abi;

/// Kind of the lower half for the standard ABI.
const STANDARD: &str = "standard";

/// Record of a lower half, readable without starting it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Readable name and version of its MPI library.
    pub library: String,
    /// Kind of the library, as `launcher::Library::key` gives it, or [`STANDARD`].
    pub kind: String,
    /// Compiler that built it; empty for the standard ABI.
    #[serde(default)]
    pub mpicc: PathBuf,
    /// Folder of the library's launchers, links resolved; empty for the standard ABI.
    #[serde(default)]
    pub launchers: PathBuf,
    /// Version of its argument ([`job_spec::VERSION`]); 0 in records of lower halves without one.
    #[serde(default)]
    pub spec_version: u32,
}

/// A lower half.
#[derive(Clone, Debug)]
pub struct Lower {
    /// Name for `--mpi`.
    pub name: String,
    /// Path of the program.
    pub path: PathBuf,
    /// Record of it.
    pub record: Record,
    /// The library that it will load, if it is for the standard ABI and chosen for a job.
    pub mpi_library: Option<PathBuf>,
}

/// Its library, its name and its file.
impl Display for Lower {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let library = match &self.mpi_library {
            Some(library) => library.display().to_string(),
            None => text::library(&self.record.library).to_owned(),
        };
        write!(
            f,
            "{library} (lower half {}, {})",
            self.name,
            self.path.display()
        )
    }
}

impl Lower {
    /// Whether it loads its library.
    pub fn is_standard(&self) -> bool {
        self.record.kind == STANDARD
    }

    /// This one with the library that it will load.
    fn with(&self, library: &Path) -> Lower {
        Lower {
            mpi_library: Some(library.to_owned()),
            ..self.clone()
        }
    }

    /// Checks that it reads this version of the argument.
    pub fn check_version(&self) -> Result<()> {
        ensure!(
            !self.is_standard() || self.record.spec_version == job_spec::VERSION,
            "the lower half {} ({}) came with another version of Stasis: install Stasis again",
            self.name,
            self.path.display()
        );
        ensure!(
            self.record.spec_version == job_spec::VERSION,
            "the lower half {} ({}) was built for another version of Stasis: build it again by `stasis build-lower \
             --mpicc {} --name {}`",
            self.name,
            self.path.display(),
            self.record.mpicc.display(),
            self.name
        );
        Ok(())
    }

    fn belongs_to(&self, launcher: &Launcher) -> bool {
        self.record.kind == launcher.library.key() && self.record.launchers == launcher.folder()
    }
}

/// Facts about the start of this process.
pub struct Start {
    /// Launcher among its ancestors.
    pub launcher: Option<Launcher>,
    /// Kind of library, from the environment.
    pub kind: Option<Library>,
    /// Library of the standard ABI in the launcher's installation.
    pub beside: Option<PathBuf>,
    /// Library of the standard ABI that this process finds.
    pub here: Option<PathBuf>,
}

impl Start {
    /// Facts about this process.
    pub fn here() -> Start {
        let launcher = launcher::launcher();
        let folder = launcher.as_ref().map(Launcher::folder);
        Start {
            beside: folder.and_then(standard_library::beside),
            here: standard_library::here(),
            kind: launcher::library(),
            launcher,
        }
    }
}

/// The lower halves in a folder, sorted by name.
pub fn in_folder(folder: &Path) -> Vec<Lower> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<Lower> = entries
        .filter_map(|entry| {
            let file = entry.file_name().into_string().ok()?;
            let name = file.strip_prefix("lower-")?.strip_suffix(".json")?;
            let path = folder.join(format!("lower-{name}"));
            let record = serde_json::from_slice(&fs::read(entry.path()).ok()?).ok()?;
            path.is_file().then(|| Lower {
                name: name.to_owned(),
                path,
                record,
                mpi_library: None,
            })
        })
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// Preferences for a process without a launcher, which may run over any library.
#[derive(Clone, Copy, Debug, Default)]
pub struct Preferred<'a> {
    /// Library of the previous run, by the name that the library reports.
    pub library: Option<&'a str>,
    /// Kind of library for which the program was built.
    pub abi: Option<Abi>,
}

impl Preferred<'_> {
    fn of<'b>(&self, built: &[&'b Lower]) -> Option<&'b Lower> {
        let named = |lower: &&Lower| {
            let same = |library| text::library(library) == text::library(&lower.record.library);
            self.library.is_some_and(same)
        };
        let of_kind = |lower: &&Lower| self.abi.is_some_and(|abi| abi.key() == lower.record.kind);
        // The record of the lower half for the standard ABI does not name the library that it loads.
        let unnamed = |lower: &&Lower| self.library.is_some() && lower.is_standard();
        let found = |is_it: &dyn Fn(&&'b Lower) -> bool| built.iter().copied().find(is_it);
        let found = found(&named).or_else(|| found(&unnamed).or_else(|| found(&of_kind)));
        found.or(built.first().copied())
    }
}

/// Chooses the lower half for a job: the one named by `--mpi`, else that of the launcher, else the preferred one.
pub fn choose(
    built: &[Lower],
    wanted: Option<&str>,
    start: &Start,
    preferred: Preferred,
) -> Result<Lower> {
    let standard = built.iter().find(|lower| lower.is_standard());
    if let Some(name) = wanted {
        return named(built, standard, name, start);
    }
    let linked = || built.iter().filter(|lower| !lower.is_standard());
    if let Some(launcher) = &start.launcher {
        if let Some(found) = linked().find(|lower| lower.belongs_to(launcher)) {
            return Ok(found.clone());
        }
        let library = start
            .beside
            .as_deref()
            .filter(|_| is_served(launcher.library));
        return standard
            .zip(library)
            .map(|(lower, library)| lower.with(library))
            .ok_or_else(|| missing(built, launcher));
    }
    let standard = standard
        .zip(start.here.as_deref())
        .map(|(lower, library)| lower.with(library));
    let Some(kind) = start.kind else {
        let usable: Vec<&Lower> = linked().chain(&standard).collect();
        return preferred.of(&usable).cloned().context(
            "there is no lower half yet: `stasis build-lower --mpicc PATH` builds one for the MPI library whose \
             compiler is PATH",
        );
    };
    // The launcher serves several libraries (srun), or is not visible on this machine.
    let of_kind: Vec<&Lower> = linked()
        .filter(|lower| lower.record.kind == kind.key())
        .collect();
    match of_kind[..] {
        [one] => Ok(one.clone()),
        [] => standard.filter(|_| is_served(kind)).with_context(|| {
            format!(
                "this job was started for {}, for which there is no lower half: build it with `stasis \
             build-lower --mpicc PATH`, PATH being the compiler of the library that the launcher \
             belongs to",
                kind.title()
            )
        }),
        _ => bail!(
            "this job was started for {}, which has several lower halves: choose one with \
             --mpi NAME, NAME being one of {}",
            kind.title(),
            names(of_kind)
        ),
    }
}

/// Whether libraries of this kind are served by their standard ABI.
fn is_served(kind: Library) -> bool {
    kind == Library::Mpich
}

/// The lower half that `--mpi` names, by its name or by the path of a library of the standard ABI.
fn named(built: &[Lower], standard: Option<&Lower>, name: &str, start: &Start) -> Result<Lower> {
    if name.contains('/') {
        let lower = standard.context(
            "--mpi takes a path only where Stasis has a lower half for the standard ABI: install Stasis again",
        )?;
        let path = std::path::absolute(name)?;
        ensure!(
            path.is_file(),
            "--mpi {name}: there is no such file; a path is that of an MPI library's {}",
            standard_library::NAME
        );
        return Ok(lower.with(&path));
    }
    let mut all = built.iter();
    let lower = all.find(|lower| lower.name == name).with_context(|| {
        format!(
            "there is no lower half called {name}: --mpi takes {}, or the path of an MPI library's {}; \
             `stasis build-lower --mpicc PATH --name {name}` builds one",
            names(built),
            standard_library::NAME
        )
    })?;
    if !lower.is_standard() {
        return Ok(lower.clone());
    }
    let library = start.beside.as_deref().or(start.here.as_deref());
    let library = library.with_context(|| {
        format!(
            "--mpi {name}: there is no {} beside the launcher or in LD_LIBRARY_PATH: give its path with --mpi, or \
             install an MPI library that has it ({GET_ONE})",
            standard_library::NAME
        )
    })?;
    Ok(lower.with(library))
}

/// The command that gets an MPI library of the standard ABI, without root and without a compiler.
pub const GET_ONE: &str = "`python3 -m pip install mpich`";

fn missing(built: &[Lower], launcher: &Launcher) -> anyhow::Error {
    let compilers: &[&str] = match launcher.library {
        Library::OpenMpi => &["mpicc.openmpi", "mpicc"],
        Library::Mpich => &["mpicc.mpich", "mpicc"],
    };
    let mut paths = compilers.iter().map(|name| launcher.folder().join(name));
    let build = match paths.find(|path| path.exists()) {
        Some(mpicc) => format!("run `stasis build-lower --mpicc {}`", mpicc.display()),
        None => format!(
            "there is no mpicc in {}: install the development files of that library, then run \
             `stasis build-lower --mpicc PATH` with the path of its mpicc",
            launcher.folder().display()
        ),
    };
    let other = match built {
        [] => String::new(),
        _ => format!(
            "; or force another with --mpi, which takes {}",
            names(built)
        ),
    };
    anyhow!(
        "this job was started by {}, and there is no lower half for its MPI library: {build}{other}",
        launcher.path.display()
    )
}

fn names<'a>(lowers: impl IntoIterator<Item = &'a Lower>) -> String {
    let names: Vec<&str> = lowers.into_iter().map(|lower| &*lower.name).collect();
    match names[..] {
        [] => "none, since none was built".to_owned(),
        _ => names.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lower(name: &str, kind: Library, launchers: &str) -> Lower {
        Lower {
            name: name.into(),
            path: format!("/lib/lower-{name}").into(),
            record: Record {
                library: name.into(),
                kind: kind.key().into(),
                mpicc: format!("{launchers}/mpicc").into(),
                launchers: launchers.into(),
                spec_version: job_spec::VERSION,
            },
            mpi_library: None,
        }
    }

    fn built() -> Vec<Lower> {
        vec![
            lower("mpich", Library::Mpich, "/usr/bin"),
            lower("openmpi", Library::OpenMpi, "/usr/bin"),
            lower("openmpi-5", Library::OpenMpi, "/opt/ompi/bin"),
        ]
    }

    fn by(path: &str, library: Library) -> Start {
        Start {
            launcher: Some(Launcher {
                path: path.into(),
                library,
            }),
            kind: Some(library),
            beside: None,
            here: None,
        }
    }

    fn chosen(wanted: Option<&str>, start: &Start, abi: Option<Abi>) -> Result<String> {
        let preferred = Preferred { library: None, abi };
        choose(&built(), wanted, start, preferred).map(|lower| lower.name)
    }

    #[test]
    fn the_lower_half_of_the_launcher_is_chosen() {
        let of = |path, library| chosen(None, &by(path, library), Some(Abi::Mpich)).unwrap();
        assert_eq!(of("/usr/bin/orterun", Library::OpenMpi), "openmpi");
        assert_eq!(of("/usr/bin/hydra_pmi_proxy", Library::Mpich), "mpich");
        assert_eq!(of("/opt/ompi/bin/prted", Library::OpenMpi), "openmpi-5");
        let start = by("/opt/ompi/bin/prted", Library::OpenMpi);
        assert_eq!(chosen(Some("mpich"), &start, None).unwrap(), "mpich");
    }

    #[test]
    fn a_missing_lower_half_names_its_build_command() {
        let start = by("/opt/mpich/bin/hydra_pmi_proxy", Library::Mpich);
        let error = chosen(None, &start, None).unwrap_err().to_string();
        assert!(error.contains("/opt/mpich/bin/hydra_pmi_proxy"), "{error}");
        assert!(error.contains("build-lower --mpicc"), "{error}");
        let error = chosen(Some("x"), &start, None).unwrap_err().to_string();
        assert!(error.contains("mpich, openmpi, openmpi-5"), "{error}");
        assert!(choose(&[], None, &start, Preferred::default()).is_err());
    }

    #[test]
    fn another_version_names_the_build_command() {
        let mut lower = lower("mpich", Library::Mpich, "/usr/bin");
        lower.check_version().unwrap();
        let old = r#"{"library": "L", "kind": "mpich", "mpicc": "/m/mpicc", "launchers": "/l"}"#;
        lower.record = serde_json::from_str(old).unwrap();
        let error = lower.check_version().unwrap_err().to_string();
        let again = "build-lower --mpicc /m/mpicc --name mpich";
        assert!(error.contains(again), "{error}");
    }

    #[test]
    fn without_a_visible_launcher_the_kind_decides() {
        let srun = |kind| Start {
            launcher: None,
            kind,
            beside: None,
            here: None,
        };
        let of = |kind| chosen(None, &srun(kind), None);
        assert_eq!(of(Some(Library::Mpich)).unwrap(), "mpich");
        let error = of(Some(Library::OpenMpi)).unwrap_err().to_string();
        assert!(error.contains("openmpi, openmpi-5"), "{error}");
        let alone = chosen(None, &srun(None), Some(Abi::Openmpi));
        assert_eq!(alone.unwrap(), "openmpi");
        // A continued job keeps its library, if it is installed.
        for (library, expected) in [("openmpi-5", "openmpi-5"), ("another", "mpich")] {
            let before = Preferred {
                library: Some(library),
                abi: Some(Abi::Mpich),
            };
            let found = choose(&built(), None, &srun(None), before).unwrap().name;
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn libraries_without_a_lower_half_are_served_by_the_standard_abi() {
        let mut all = built();
        let mut standard = lower(STANDARD, Library::Mpich, "");
        standard.record.kind = STANDARD.into();
        all.push(standard);
        let library = PathBuf::from("/opt/mpich/lib/libmpi_abi.so.1");
        let of = |wanted, start: &Start, abi| {
            let preferred = Preferred { library: None, abi };
            let found = choose(&all, wanted, start, preferred)?;
            Ok::<_, anyhow::Error>((found.name, found.mpi_library))
        };
        let served = || (STANDARD.to_owned(), Some(library.clone()));
        let with = |start: Start| Start {
            beside: Some(library.clone()),
            here: Some(library.clone()),
            ..start
        };
        let pypi = || by("/opt/mpich/bin/hydra_pmi_proxy", Library::Mpich);
        assert_eq!(of(None, &with(pypi()), None).unwrap(), served());
        assert!(of(None, &pypi(), None).is_err(), "it has no such library");
        let debian = with(by("/usr/bin/hydra_pmi_proxy", Library::Mpich));
        assert_eq!(of(None, &debian, None).unwrap().0, "mpich");
        let prte = with(by("/opt/mpich/bin/prted", Library::OpenMpi));
        assert!(of(None, &prte, None).is_err(), "of another kind");
        assert_eq!(of(Some(STANDARD), &debian, None).unwrap(), served());
        let error = of(Some(STANDARD), &pypi(), None).unwrap_err().to_string();
        assert!(error.contains("pip install mpich"), "{error}");
        let error = of(Some("/nowhere/lib"), &pypi(), None).unwrap_err();
        assert!(error.to_string().contains("/nowhere/lib"), "{error}");

        let alone = || Start {
            launcher: None,
            kind: None,
            beside: None,
            here: None,
        };
        let of_abi = |start: &Start| of(None, start, Some(Abi::Standard)).unwrap();
        assert_eq!(of_abi(&with(alone())), served());
        assert_eq!(of_abi(&alone()).0, "mpich");
        for (library, expected) in [("openmpi", "openmpi"), ("MPICH 5.0.2", STANDARD)] {
            let before = Preferred {
                library: Some(library),
                abi: Some(Abi::Openmpi),
            };
            let found = choose(&all, None, &with(alone()), before).unwrap();
            assert_eq!(found.name, expected);
        }
    }
}
