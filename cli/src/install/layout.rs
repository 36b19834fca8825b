//! The folders of an installation, found from the path of this command, and the folder for lower halves of a user
//! without write permission there.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nix::unistd::{access, AccessFlags};

use crate::install::lower_registry::{self, Lower, Preferred, Start};
use linked::mpi::Abi;

/// Paths of the installed parts.
pub struct Layout {
    lib: PathBuf,
    source: PathBuf,
    /// The user's folder of lower halves; none without a home directory.
    own: Option<PathBuf>,
}

impl Layout {
    /// The installation of the running command.
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

    /// Directory of the sources in a package.
    pub fn source(&self) -> &Path {
        &self.source
    }

    /// Path of the front for an ABI.
    pub fn front(&self, abi: Abi) -> PathBuf {
        front_in(&self.lib, abi)
    }

    /// The installed lower halves, those of the user first.
    pub fn lowers(&self) -> Vec<Lower> {
        let own = self.own.as_deref().filter(|own| self.has_fronts_in(own));
        let mut found = own.map(lower_registry::in_folder).unwrap_or_default();
        let installed = lower_registry::in_folder(&self.lib);
        for lower in installed {
            if found.iter().all(|other| other.name != lower.name) {
                found.push(lower);
            }
        }
        found
    }

    /// The lower half for this process (see [`lower_registry::choose`]), checked to be of this version of Stasis.
    pub fn choose(&self, wanted: Option<&str>, preferred: Preferred) -> Result<Lower> {
        let lowers = self.lowers();
        let lower = lower_registry::choose(&lowers, wanted, &Start::here(), preferred)?;
        lower.check_version()?;
        Ok(lower)
    }

    /// The folder for a new lower half, created if need be: that of the installation if it is writable, otherwise the
    /// user's.
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

    /// Links the fronts into the user's folder, because a lower half loads fronts from its own folder.
    fn furnish(&self, own: &Path) -> io::Result<()> {
        fs::create_dir_all(own)?;
        let mut fronts = Abi::ALL.into_iter();
        fronts.try_for_each(|abi| link(&self.front(abi), &front_in(own, abi)))
    }

    /// Whether the links exist and lead to this installation.
    fn has_fronts_in(&self, own: &Path) -> bool {
        Abi::ALL.into_iter().all(|abi| {
            let here = self.front(abi).canonicalize();
            let there = front_in(own, abi).canonicalize();
            matches!((here, there), (Ok(here), Ok(there)) if here == there)
        })
    }
}

fn front_in(folder: &Path, abi: Abi) -> PathBuf {
    folder.join(abi.front())
}

/// Makes `link` a symbolic link to `file`.
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
    fn writable_installations_get_new_lower_halves() {
        let root = tempfile::tempdir().unwrap();
        let layout = layout(root.path());
        assert_eq!(layout.place_for_lowers().unwrap(), layout.lib);
    }

    #[test]
    fn lower_halves_of_the_user_come_first() {
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

        // Another installation cannot use it.
        layout.lib = root.path().join("other");
        fs::rename(root.path().join("lib"), &layout.lib).unwrap();
        assert_eq!(paths(&layout), [at("other/lower-a"), at("other/lower-b")]);
    }
}
