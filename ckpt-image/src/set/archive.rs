//! Moving a directory's sets to a subdirectory, for a run that begins from the start. The sets stay as they
//! are. Restarts use the subdirectory only if it is named, and no job removes sets from it.

use std::path::{Path, PathBuf};

use crate::error::{ImageError, Result};
use crate::fs::file_system::FileSystem;
use crate::fs::permissions;
use crate::set::names::{names, SetName};

/// Prefix of the subdirectory, followed by a number. It is an ordinary checkpoint directory.
const PREFIX: &str = "aside-";
/// Suffix until all sets are moved. A process that is killed meanwhile must not leave an increment in one
/// place and its parent in another.
const UNFINISHED: &str = ".partial";

/// Moves all finished sets in `dir`, and the entries with one of the names `beside`, to a subdirectory,
/// durably. Returns its path. No job may run with the directory. No image may be in a local directory only,
/// because the local directory identifies it by the path of the checkpoint directory.
///
/// # Errors
/// [`ImageError::Access`] and [`ImageError::Io`]. If it fails in the middle, the next call goes on.
pub fn archive(fs: &FileSystem, dir: &Path, beside: &[&str]) -> Result<PathBuf> {
    permissions::check_checkpoint_dir(dir)?;
    let (done, unfinished) = numbers(dir)?;
    let number = done.into_iter().max().unwrap_or(0) + 1;
    let place = dir.join(format!("{PREFIX}{number}"));
    let making = unfinished.map_or_else(
        || dir.join(format!("{PREFIX}{number}{UNFINISHED}")),
        |name| dir.join(name),
    );
    permissions::create_checkpoint_dir(&making)?;
    let renamed = |from: &Path, to: &Path| {
        fs.rename(from, to)
            .map_err(|e| ImageError::io("move", from, e))
    };
    let synced = |path: &Path| {
        fs.sync_dir(path)
            .map_err(|e| ImageError::io("sync the directory", path, e))
    };
    for name in beside.iter().filter(|name| dir.join(name).exists()) {
        renamed(&dir.join(name), &making.join(name))?;
    }
    for (name, kind) in names(dir)? {
        if let SetName::Whole(_) = kind {
            renamed(&dir.join(&name), &making.join(&name))?;
        }
    }
    synced(&making)?;
    renamed(&making, &place)?;
    synced(dir)?;
    Ok(place)
}

/// The subdirectories of `dir` with moved sets, the newest last.
///
/// # Errors
/// [`ImageError::Io`] if the directory cannot be listed.
pub fn archives(dir: &Path) -> Result<Vec<PathBuf>> {
    let (mut done, _) = numbers(dir)?;
    done.sort_unstable();
    let place = |number| dir.join(format!("{PREFIX}{number}"));
    Ok(done.into_iter().map(place).collect())
}

/// The numbers of the subdirectories of `dir`, and the name of an unfinished one.
fn numbers(dir: &Path) -> Result<(Vec<u64>, Option<String>)> {
    let io = |e| ImageError::io("list", dir, e);
    let (mut done, mut unfinished) = (Vec::new(), None);
    for entry in std::fs::read_dir(dir).map_err(io)? {
        let name = entry.map_err(io)?.file_name();
        let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else {
            continue;
        };
        match rest.strip_suffix(UNFINISHED) {
            Some(_) => unfinished = name.to_str().map(str::to_owned),
            None => done.extend(rest.parse::<u64>()),
        }
    }
    Ok((done, unfinished))
}
