//! File systems of their own: in memory, with little space or few inodes, and one whose files can be cloned.

use crate::test::Outcome;
use anyhow::Result;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Runs a case whose checkpoint directory, `ck` in its folder, is a file system without room for an image.
pub fn in_full_directory(dir: &Path, body: fn(&Path, &Path) -> Result<()>) -> Outcome {
    in_small_directory(dir, "size=256k", body)
}

/// The same with a file system in memory that is limited so.
pub fn in_small_directory(
    dir: &Path,
    limit: &str,
    body: impl FnOnce(&Path, &Path) -> Result<()>,
) -> Outcome {
    let ckpt = dir.join("ck");
    match mount_small(&ckpt, limit) {
        Ok(true) => {
            let result = body(dir, &ckpt);
            let unmounted = Command::new("umount").arg("-l").arg(&ckpt).output();
            result.and(unmounted.map(drop).map_err(Into::into)).into()
        }
        Ok(false) => Outcome::Skipped("cannot mount a small file system here".into()),
        Err(error) => Err(error).into(),
    }
}

/// Runs a case in a file system whose files can be cloned.
pub fn in_btrfs(dir: &Path, body: fn(&Path) -> Result<()>) -> Outcome {
    on_disk(dir, "btrfs", body)
}

/// Runs a case in a file system that can be frozen (`fsfreeze`): a write to it waits, and no signal ends the wait.
pub fn in_ext4(dir: &Path, body: fn(&Path) -> Result<()>) -> Outcome {
    on_disk(dir, "ext4", body)
}

fn on_disk(dir: &Path, kind: &str, body: fn(&Path) -> Result<()>) -> Outcome {
    let place = dir.join(kind);
    match mount_disk(kind, &dir.join("disk"), &place) {
        Ok(true) => {
            let result = body(&place);
            let unmounted = Command::new("umount").arg("-l").arg(&place).output();
            result.and(unmounted.map(drop).map_err(Into::into)).into()
        }
        Ok(false) => Outcome::Skipped(format!("cannot make and mount a disk with {kind} here")),
        Err(error) => Err(error).into(),
    }
}

/// Returns whether that was possible.
fn mount_disk(kind: &str, disk: &Path, place: &Path) -> Result<bool> {
    const SIZE: u64 = 1 << 29;
    fs::create_dir(place)?;
    fs::File::create(disk)?.set_len(SIZE)?;
    let made = Command::new(format!("mkfs.{kind}"))
        .arg("-q")
        .arg(disk)
        .output();
    if !made.is_ok_and(|made| made.status.success()) {
        return Ok(false);
    }
    let mut mount = Command::new("mount");
    mount.args(["-o", "loop"]).arg(disk).arg(place);
    Ok(mount.output()?.status.success())
}

/// Returns whether that was possible.
fn mount_small(ckpt: &Path, limit: &str) -> Result<bool> {
    fs::create_dir(ckpt)?;
    fs::set_permissions(ckpt, Permissions::from_mode(0o700))?;
    let mount = Command::new("mount")
        .args(["-t", "tmpfs", "-o", &format!("{limit},mode=0700"), "tmpfs"])
        .arg(ckpt)
        .output()?;
    Ok(mount.status.success())
}
