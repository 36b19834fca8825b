//! Where the parts of Stasis are: beside this command, wherever that was put; and in the user's own
//! folder the lower halves that were built by someone who may not write there.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nix::unistd::{access, AccessFlags};

use crate::lowers::{self, Lower, Preferred, Start};

/// An ABI that applications are built for, each with a front of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abi {
    /// Open MPI's
    Openmpi,
    /// MPICH's, Intel MPI's, MVAPICH's and Cray MPICH's
    Mpich,
    /// The standard's, of MPI 5.0
    Standard,
}

impl Abi {
    /// All of them.
    pub const ALL: [Abi; 3] = [Abi::Openmpi, Abi::Mpich, Abi::Standard];

    /// As in the names of files and in manifests.
    pub fn word(self) -> &'static str {
        match self {
            Abi::Openmpi => "openmpi",
            Abi::Mpich => "mpich",
            Abi::Standard => "standard",
        }
    }
}

/// The installed parts.
pub struct Layout {
    lib: PathBuf,
    source: PathBuf,
    /// The user's own folder of lower halves, where a user has one.
    own: Option<PathBuf>,
}

impl Layout {
    /// Of this very command.
    pub fn find() -> Result<Layout> {
        let own =
            std::env::current_exe().context("cannot find out where the stasis command lies")?;
        let bin = own.parent().unwrap_or(Path::new("/"));
        let of_version = |data: PathBuf| data.join("stasis").join(env!("CARGO_PKG_VERSION"));
        Ok(Layout {
            lib: bin.join("../lib/stasis"),
            source: bin.join("../share/stasis/source"),
            own: dirs::data_local_dir().map(of_version),
        })
    }

    /// Where the sources of a packaged Stasis are.
    pub fn source(&self) -> &Path {
        &self.source
    }

    /// The front for an ABI.
    pub fn front(&self, abi: Abi) -> PathBuf {
        front_in(&self.lib, abi)
    }

    /// The lower halves that were built, those of the user first.
    pub fn lowers(&self) -> Vec<Lower> {
        let own = self.own.as_deref().filter(|own| self.has_fronts_in(own));
        let mut found = own.map(lowers::in_folder).unwrap_or_default();
        let installed = lowers::in_folder(&self.lib);
        for lower in installed {
            if found.iter().all(|other| other.name != lower.name) {
                found.push(lower);
            }
        }
        found
    }

    /// The lower half for this process: see [`lowers::choose`].
    pub fn choose(&self, wanted: Option<&str>, preferred: Preferred) -> Result<Lower> {
        lowers::choose(&self.lowers(), wanted, &Start::here(), preferred).cloned()
    }

    /// The folder into which a lower half can be put, made if need be: with the others if that can be
    /// written to, else the user's own.
    pub fn place_for_lowers(&self) -> Result<&Path> {
        let made = fs::create_dir_all(&self.lib);
        if made.is_ok() && access(&self.lib, AccessFlags::W_OK).is_ok() {
            return Ok(&self.lib);
        }
        let lib = self.lib.display();
        let own = self.own.as_deref().with_context(|| {
            format!("nothing can be written to {lib}, and you have no home directory: set HOME")
        })?;
        let made = self.furnish(own);
        made.with_context(|| format!("cannot make {}", own.display()))?;
        Ok(own)
    }

    /// A lower half takes the fronts from where it lies itself: so there are links to them in the user's
    /// own folder.
    fn furnish(&self, own: &Path) -> io::Result<()> {
        fs::create_dir_all(own)?;
        let mut fronts = Abi::ALL.into_iter();
        fronts.try_for_each(|abi| link(&self.front(abi), &front_in(own, abi)))
    }

    /// They may lead to another installation than this one.
    fn has_fronts_in(&self, own: &Path) -> bool {
        Abi::ALL.into_iter().all(|abi| {
            let here = self.front(abi).canonicalize();
            let there = front_in(own, abi).canonicalize();
            matches!((here, there), (Ok(here), Ok(there)) if here == there)
        })
    }
}

fn front_in(folder: &Path, abi: Abi) -> PathBuf {
    folder.join(format!("front-{}.so", abi.word()))
}

/// Has `link` lead to `file`.
fn link(file: &Path, link: &Path) -> io::Result<()> {
    let file = file.canonicalize()?;
    if fs::read_link(link).is_ok_and(|present| present == file) {
        return Ok(());
    }
    let new = link.with_extension(format!("new-{}", std::process::id()));
    symlink(file, &new)?;
    fs::rename(new, link)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(root: &Path) -> Layout {
        let lib = root.join("lib");
        fs::create_dir_all(&lib).unwrap();
        for abi in Abi::ALL {
            fs::write(front_in(&lib, abi), "").unwrap();
        }
        Layout {
            lib,
            source: root.join("source"),
            own: Some(root.join("own")),
        }
    }

    fn add(folder: &Path, name: &str) {
        let record = r#"{"library": "L", "kind": "mpich", "mpicc": "/m", "launchers": "/l"}"#;
        fs::write(folder.join(format!("lower-{name}")), "").unwrap();
        fs::write(folder.join(format!("lower-{name}.json")), record).unwrap();
    }

    fn paths(layout: &Layout) -> Vec<String> {
        let lowers = layout.lowers().into_iter();
        lowers
            .map(|lower| lower.path.display().to_string())
            .collect()
    }

    #[test]
    fn lower_halves_go_where_the_others_are() {
        let root = tempfile::tempdir().unwrap();
        let layout = layout(root.path());
        assert_eq!(layout.place_for_lowers().unwrap(), layout.lib);
    }

    #[test]
    fn what_users_build_for_themselves_comes_first() {
        let root = tempfile::tempdir().unwrap();
        let mut layout = layout(root.path());
        let own = root.path().join("own");
        layout.furnish(&own).unwrap();
        layout.furnish(&own).unwrap();
        add(&layout.lib, "a");
        add(&layout.lib, "b");
        add(&own, "b");
        let at = |name: &str| root.path().join(name).display().to_string();
        assert_eq!(paths(&layout), [at("own/lower-b"), at("lib/lower-a")]);

        // It is of no use to another installation.
        layout.lib = root.path().join("other");
        fs::rename(root.path().join("lib"), &layout.lib).unwrap();
        assert_eq!(paths(&layout), [at("other/lower-a"), at("other/lower-b")]);
    }
}
