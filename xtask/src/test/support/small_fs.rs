//! File systems in memory with little space or few inodes.

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
    body: fn(&Path, &Path) -> Result<()>,
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
