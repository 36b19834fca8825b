//! The lower halves built here, and the choice of one for a job: that of the MPI library whose launcher started the
//! job.
//!
//! A lower half is a program `lower-NAME`. The record `lower-NAME.json` beside it describes its library.
//! `stasis build-lower` makes both.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail, ensure, Context, Result};
use launcher::{Launcher, Library};
use serde::{Deserialize, Serialize};

use crate::ui::text;
use linked::mpi::Abi;

/// Record of a lower half, readable without starting it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Readable name and version of its MPI library.
    pub library: String,
    /// Kind of the library, as `launcher::Library::key` gives it.
    pub kind: String,
    /// Compiler that built it.
    pub mpicc: PathBuf,
    /// Folder of the library's launchers, links resolved.
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
}

/// Its library, its name and its file.
impl Display for Lower {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let library = text::library(&self.record.library);
        write!(
            f,
            "{library} (lower half {}, {})",
            self.name,
            self.path.display()
        )
    }
}

impl Lower {
    /// Checks that it reads this version of the argument.
    pub fn check_version(&self) -> Result<()> {
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
}

impl Start {
    /// Facts about this process.
    pub fn here() -> Start {
        Start {
            launcher: launcher::launcher(),
            kind: launcher::library(),
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
    fn of<'b>(&self, built: &'b [Lower]) -> Option<&'b Lower> {
        let named = |lower: &&Lower| {
            let same = |library| text::library(library) == text::library(&lower.record.library);
            self.library.is_some_and(same)
        };
        let of_kind = |lower: &&Lower| self.abi.is_some_and(|abi| abi.key() == lower.record.kind);
        let mut all = built.iter();
        let found = all.find(named).or_else(|| built.iter().find(of_kind));
        found.or(built.first())
    }
}

/// Chooses the lower half for a job: the one named by `--mpi`, else that of the launcher, else the preferred one.
pub fn choose<'a>(
    built: &'a [Lower],
    wanted: Option<&str>,
    start: &Start,
    preferred: Preferred,
) -> Result<&'a Lower> {
    if let Some(name) = wanted {
        return built
            .iter()
            .find(|lower| lower.name == name)
            .with_context(|| {
                format!(
                "there is no lower half called {name}: --mpi takes {}; `stasis build-lower --mpicc \
                 PATH --name {name}` builds one",
                names(built)
            )
            });
    }
    if let Some(launcher) = &start.launcher {
        let mut all = built.iter();
        let found = all.find(|lower| lower.belongs_to(launcher));
        return found.ok_or_else(|| missing(built, launcher));
    }
    let Some(kind) = start.kind else {
        return preferred.of(built).context(
            "there is no lower half yet: `stasis build-lower --mpicc PATH` builds one for the MPI library whose \
             compiler is PATH",
        );
    };
    // The launcher serves several libraries (srun), or is not visible on this machine.
    let of_kind: Vec<&Lower> = built
        .iter()
        .filter(|lower| lower.record.kind == kind.key())
        .collect();
    match of_kind[..] {
        [one] => Ok(one),
        [] => bail!(
            "this job was started for {}, for which there is no lower half: build it with `stasis \
             build-lower --mpicc PATH`, PATH being the compiler of the library that the launcher \
             belongs to",
            kind.title()
        ),
        _ => bail!(
            "this job was started for {}, which has several lower halves: choose one with \
             --mpi NAME, NAME being one of {}",
            kind.title(),
            names(of_kind)
        ),
    }
}

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
        }
    }

    fn chosen(wanted: Option<&str>, start: &Start, abi: Option<Abi>) -> Result<String> {
        let preferred = Preferred { library: None, abi };
        choose(&built(), wanted, start, preferred).map(|lower| lower.name.clone())
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
            let found = choose(&built(), None, &srun(None), before)
                .unwrap()
                .name
                .clone();
            assert_eq!(found, expected);
        }
    }
}
