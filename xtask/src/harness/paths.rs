//! The folders of the repository and of its builds.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// The repository's root.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the repository")
}

/// Cargo's target directory, regardless of CARGO_TARGET_DIR: the product is always installed here.
pub fn target() -> PathBuf {
    root().join("target")
}

/// The installed product.
pub fn product() -> PathBuf {
    target().join("stasis")
}

/// The `stasis` command.
pub fn stasis() -> PathBuf {
    product().join("bin/stasis")
}

/// All Rust files below a folder, sorted.
pub fn rust_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            match path.extension() {
                _ if path.is_dir() => folders.push(path),
                Some(end) if end == "rs" => files.push(path),
                _ => {}
            }
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// The example programs' sources.
pub fn examples() -> PathBuf {
    root().join("examples")
}

/// The example programs, compiled.
pub fn compiled() -> PathBuf {
    target().join("examples")
}

/// Directory for temporary images of a job in `dir`: in memory if possible, because syncing would take most of the
/// time.
pub fn for_images(dir: &Path) -> PathBuf {
    let memory = Path::new("/dev/shm");
    if !memory.is_dir() {
        return dir.join("ck");
    }
    let of = |path: Option<&Path>| {
        let name = path.and_then(Path::file_name).unwrap_or_default();
        name.to_string_lossy().into_owned()
    };
    let (outer, name) = (of(dir.parent()), of(Some(dir)));
    memory.join(format!("stasis-{}-{outer}-{name}", std::process::id()))
}
