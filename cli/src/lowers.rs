//! The lower halves that were built here, and which of them a job runs over: that of the MPI library
//! whose launcher started it.
//!
//! Each is a program `lower-NAME` in the layout, with a record `lower-NAME.json` beside it that says
//! which library it is for. `stasis build-lower` makes both; to add a lower half is to run that.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail, Context, Result};
use launcher::{Launcher, Library};
use serde::{Deserialize, Serialize};

use crate::layout::Abi;
use crate::text;

/// What is known of a lower half without running it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Name and version of its MPI library, for people.
    pub library: String,
    /// The kind of library, by [`Library::word`].
    pub kind: String,
    /// The compiler that it was built with.
    pub mpicc: PathBuf,
    /// The folder of the library's launchers, without symbolic links.
    pub launchers: PathBuf,
}

/// A lower half.
#[derive(Clone, Debug)]
pub struct Lower {
    /// The name by which `--mpi` chooses it.
    pub name: String,
    /// The program.
    pub path: PathBuf,
    /// What is known of it.
    pub record: Record,
}

impl Lower {
    fn belongs_to(&self, launcher: &Launcher) -> bool {
        self.record.kind == launcher.library.word() && self.record.launchers == launcher.folder()
    }
}

/// What is known of how this process was started.
pub struct Start {
    /// The launcher among its ancestors.
    pub launcher: Option<Launcher>,
    /// The kind of library that the environment tells of.
    pub kind: Option<Library>,
}

impl Start {
    /// Of this very process.
    pub fn here() -> Start {
        Start {
            launcher: launcher::launcher(),
            kind: launcher::library(),
        }
    }
}

/// Those that a folder holds, in the order of their names.
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

/// What a process without a launcher, which may run over any library, is best given.
#[derive(Clone, Copy, Debug, Default)]
pub struct Preferred<'a> {
    /// The library that it ran over before, as that calls itself.
    pub library: Option<&'a str>,
    /// The kind that its program was built for.
    pub abi: Option<Abi>,
}

impl Preferred<'_> {
    fn of<'b>(&self, built: &'b [Lower]) -> Option<&'b Lower> {
        let named = |lower: &&Lower| {
            let same = |library| text::library(library) == text::library(&lower.record.library);
            self.library.is_some_and(same)
        };
        let of_kind = |lower: &&Lower| self.abi.is_some_and(|abi| abi.word() == lower.record.kind);
        let mut all = built.iter();
        let found = all.find(named).or_else(|| built.iter().find(of_kind));
        found.or(built.first())
    }
}

/// The lower half for a job: the wanted one, else that of its launcher, else the preferred one.
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
        return preferred.of(built).context("there is no lower half yet: `stasis build-lower --mpicc PATH` builds one for the MPI library whose compiler PATH is");
    };
    // Started by something that serves several libraries (srun), or on a machine where the launcher
    // cannot be seen.
    let of_kind: Vec<&Lower> = built
        .iter()
        .filter(|lower| lower.record.kind == kind.word())
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
            "this job was started for {}, of which there are several lower halves: say which with \
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
                kind: kind.word().into(),
                mpicc: format!("{launchers}/mpicc").into(),
                launchers: launchers.into(),
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
    fn the_launchers_own_is_chosen() {
        let of = |path, library| chosen(None, &by(path, library), Some(Abi::Mpich)).unwrap();
        assert_eq!(of("/usr/bin/orterun", Library::OpenMpi), "openmpi");
        assert_eq!(of("/usr/bin/hydra_pmi_proxy", Library::Mpich), "mpich");
        assert_eq!(of("/opt/ompi/bin/prted", Library::OpenMpi), "openmpi-5");
        let start = by("/opt/ompi/bin/prted", Library::OpenMpi);
        assert_eq!(chosen(Some("mpich"), &start, None).unwrap(), "mpich");
    }

    #[test]
    fn a_missing_one_names_what_builds_it() {
        let start = by("/opt/mpich/bin/hydra_pmi_proxy", Library::Mpich);
        let error = chosen(None, &start, None).unwrap_err().to_string();
        assert!(error.contains("/opt/mpich/bin/hydra_pmi_proxy"), "{error}");
        assert!(error.contains("build-lower --mpicc"), "{error}");
        let error = chosen(Some("x"), &start, None).unwrap_err().to_string();
        assert!(error.contains("mpich, openmpi, openmpi-5"), "{error}");
        assert!(choose(&[], None, &start, Preferred::default()).is_err());
    }

    #[test]
    fn without_a_launcher_in_sight_the_kind_must_be_enough() {
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
        // One that is continued stays with its library, if that is there.
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
