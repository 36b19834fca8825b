//! The MPI library of the standard ABI that a job gets, if the lower half for that ABI serves it: it is found by name
//! where its launcher is, and for a process without a launcher where programs of that ABI would find it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use linked::search;

/// Its SONAME.
pub const NAME: &str = "libmpi_abi.so.1";

/// Folders of libraries in an installation with a folder `bin`.
const FOLDERS: [&str; 2] = ["lib", "lib64"];

/// The library of the installation whose programs are in the folder.
pub fn beside(bin: &Path) -> Option<PathBuf> {
    let root = bin.parent()?;
    in_folders(FOLDERS.map(|folder| root.join(folder)))
}

/// The library that this process finds: in LD_LIBRARY_PATH, else in the installation whose mpiexec is first in PATH.
pub fn here() -> Option<PathBuf> {
    let named = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let named = in_folders(std::env::split_paths(&named));
    named.or_else(|| {
        let mpiexec = search::program(OsStr::new("mpiexec")).ok()?;
        beside(mpiexec.canonicalize().ok()?.parent()?)
    })
}

fn in_folders(folders: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    let mut files = folders.into_iter().map(|folder| folder.join(NAME));
    let found = files.find(|file| file.is_file())?;
    std::path::absolute(found).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn libraries_are_found_beside_their_launcher() {
        let root = tempfile::tempdir().unwrap();
        let bin = root.path().join("bin");
        assert_eq!(beside(&bin), None);
        let file = root.path().join("lib64").join(NAME);
        fs::create_dir(file.parent().unwrap()).unwrap();
        fs::write(&file, "").unwrap();
        assert_eq!(beside(&bin), Some(file));
    }
}
