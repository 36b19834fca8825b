//! Copies of one set, and ways to damage them.

use super::LIMIT;
use crate::harness::job::{self, Finished};
use crate::harness::mpi::Mpi;
use crate::harness::stasis;
use crate::test::support::held_job::{start_held, take_checkpoint};
use anyhow::{ensure, Context, Result};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Copies the complete set of a killed job of two ranks to the case's folder.
pub fn copy_of_set(dir: &Path) -> Result<PathBuf> {
    static MADE: OnceLock<std::result::Result<PathBuf, String>> = OnceLock::new();
    let original = MADE
        .get_or_init(|| make_set().map_err(|error| format!("{error:#}")))
        .clone()
        .map_err(anyhow::Error::msg)?;
    let copy = dir.join("ck");
    let output = Command::new("cp")
        .arg("-a")
        .args([&original, &copy])
        .output()?;
    ensure!(
        output.status.success(),
        "cp: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(copy)
}

fn make_set() -> Result<PathBuf> {
    let dir = crate::test::folder("bad-input/set")?;
    let ckpt = dir.join("ck");
    let mut job = start_held(&dir, &ckpt, Mpi::OpenMpi)?;
    take_checkpoint(&mut job, &dir, &ckpt)?;
    Ok(ckpt)
}

/// The only set in a checkpoint directory.
pub fn newest_set(ckpt: &Path) -> Result<PathBuf> {
    let mut sets: Vec<PathBuf> = fs::read_dir(ckpt)?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect();
    sets.sort();
    sets.pop()
        .with_context(|| format!("there is no set in {}", ckpt.display()))
}

pub fn restart(dir: &Path, ckpt: &Path, ranks: usize) -> Result<Finished> {
    job::run(
        stasis::restart(Mpi::OpenMpi, ranks, ckpt, dir),
        dir,
        "restart",
        LIMIT,
    )
}

pub fn truncate(set: &Path) -> Result<()> {
    let path = set.join("rank-1.img");
    let length = fs::metadata(&path)?.len();
    fs::OpenOptions::new()
        .write(true)
        .open(&path)?
        .set_len(length * 2 / 3)?;
    Ok(())
}

/// Memory starts at 4096 in an image (docs/image-format.md).
pub fn flip_at(set: &Path, at: usize) -> Result<()> {
    let path = set.join("rank-1.img");
    let mut bytes = fs::read(&path)?;
    bytes[at] ^= 0x10;
    fs::write(&path, bytes)?;
    Ok(())
}

pub fn flip(set: &Path, place: f64) -> Result<()> {
    let length = fs::metadata(set.join("rank-1.img"))?.len();
    flip_at(set, ((length - 1) as f64 * place) as usize)
}

pub fn swap(set: &Path) -> Result<()> {
    fs::rename(set.join("rank-0.img"), set.join("rank-x"))?;
    fs::rename(set.join("rank-1.img"), set.join("rank-0.img"))?;
    fs::rename(set.join("rank-x"), set.join("rank-1.img"))?;
    Ok(())
}

/// Files of a set other than images: its manifest.
fn manifests(set: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(set)? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "img") {
            found.push(path);
        }
    }
    ensure!(!found.is_empty(), "{} has no manifest", set.display());
    Ok(found)
}

pub fn no_manifest(set: &Path) -> Result<()> {
    for path in manifests(set)? {
        fs::remove_file(path)?;
    }
    Ok(())
}

pub fn damage_manifest(set: &Path) -> Result<()> {
    for path in manifests(set)? {
        let text = fs::read_to_string(&path)?;
        // Another digit in a number: still well-formed, but wrong.
        let at = text.rfind(|c: char| c.is_ascii_digit()).unwrap_or(0);
        let mut bytes = text.into_bytes();
        bytes[at] = if bytes[at] == b'1' { b'2' } else { b'1' };
        fs::write(&path, bytes)?;
    }
    Ok(())
}

pub fn open_image(set: &Path) -> Result<()> {
    fs::set_permissions(set.join("rank-1.img"), Permissions::from_mode(0o666))?;
    Ok(())
}
