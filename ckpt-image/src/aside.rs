//! Putting a directory's sets aside, for a run that begins from the start: they stay as they are, under a name
//! at which no restart looks unless it is given, and no job removes them.

use std::path::{Path, PathBuf};

use crate::access;
use crate::disk::Disk;
use crate::error::{ImageError, Result};
use crate::list::{names, Name};

/// Where sets are put aside, with a number behind it: a checkpoint directory like any.
const ASIDE: &str = "aside-";
/// Until all sets are there: who is killed meanwhile must not leave an increment in one place and what it builds
/// upon in another.
const UNFINISHED: &str = ".partial";

/// Puts all finished sets in `dir` aside, with what has one of the names `beside` them, durably, and returns where
/// they are. No job may run with the directory, and no image may be in a local directory alone: it is known there by
/// the set's place.
pub fn put_aside(disk: &Disk, dir: &Path, beside: &[&str]) -> Result<PathBuf> {
    access::check_checkpoint_dir(dir)?;
    let (done, unfinished) = numbers(dir)?;
    let number = done.into_iter().max().unwrap_or(0) + 1;
    let place = dir.join(format!("{ASIDE}{number}"));
    let making = unfinished.map_or_else(
        || dir.join(format!("{ASIDE}{number}{UNFINISHED}")),
        |name| dir.join(name),
    );
    access::create_checkpoint_dir(&making)?;
    let renamed = |from: &Path, to: &Path| {
        disk.rename(from, to)
            .map_err(|e| ImageError::io("put aside", from, e))
    };
    let synced = |path: &Path| {
        disk.sync_dir(path)
            .map_err(|e| ImageError::io("sync the directory", path, e))
    };
    for name in beside.iter().filter(|name| dir.join(name).exists()) {
        renamed(&dir.join(name), &making.join(name))?;
    }
    for (name, kind) in names(dir)? {
        if let Name::Whole(_) = kind {
            renamed(&dir.join(&name), &making.join(&name))?;
        }
    }
    synced(&making)?;
    renamed(&making, &place)?;
    synced(dir)?;
    Ok(place)
}

/// Where sets of `dir` were put aside, the newest last.
pub fn put_aside_before(dir: &Path) -> Result<Vec<PathBuf>> {
    let (mut done, _) = numbers(dir)?;
    done.sort_unstable();
    let place = |number| dir.join(format!("{ASIDE}{number}"));
    Ok(done.into_iter().map(place).collect())
}

/// The numbers under which sets were put aside in `dir`, and the name of what was not finished.
fn numbers(dir: &Path) -> Result<(Vec<u64>, Option<String>)> {
    let io = |e| ImageError::io("list", dir, e);
    let (mut done, mut unfinished) = (Vec::new(), None);
    for entry in std::fs::read_dir(dir).map_err(io)? {
        let name = entry.map_err(io)?.file_name();
        let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(ASIDE)) else {
            continue;
        };
        match rest.strip_suffix(UNFINISHED) {
            Some(_) => unfinished = name.to_str().map(str::to_owned),
            None => done.extend(rest.parse::<u64>()),
        }
    }
    Ok((done, unfinished))
}
