//! node_exporter, which reads the metrics of a job in a test. Its package is only unpacked, into
//! `target/node-exporter`: installed, it would run as a service from then on.

use crate::build::succeed;
use crate::harness::paths;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const PACKAGE: &str = "prometheus-node-exporter";

fn folder() -> PathBuf {
    paths::target().join("node-exporter")
}

/// The program.
pub fn path() -> PathBuf {
    folder().join("usr/bin").join(PACKAGE)
}

/// Reason for skipping a case without it.
pub fn missing() -> Option<String> {
    let path = path();
    (!path.exists()).then(|| format!("{} is not there: `cargo xtask setup`", path.display()))
}

/// Gets it unless it is there.
pub fn install() -> Result<()> {
    if path().exists() {
        return Ok(());
    }
    println!(
        "To be unpacked from Debian into {}: {PACKAGE} (4 MB to download)",
        folder().display()
    );
    let packages = folder().with_extension("packages");
    if packages.exists() {
        fs::remove_dir_all(&packages)?;
    }
    fs::create_dir_all(&packages).with_context(|| format!("making {}", packages.display()))?;
    let mut download = Command::new("apt-get");
    // The folder need not be open to apt's own user.
    download.args(["-qq", "-o", "APT::Sandbox::User=root", "download", PACKAGE]);
    succeed(download.current_dir(&packages))?;
    let new = folder().with_extension("new");
    for file in fs::read_dir(&packages)? {
        unpack(&file?.path(), &new)?;
    }
    fs::remove_dir_all(&packages)?;
    fs::rename(&new, folder()).with_context(|| format!("making {}", folder().display()))
}

fn unpack(package: &Path, to: &Path) -> Result<()> {
    let mut unpack = Command::new("dpkg-deb");
    succeed(unpack.arg("--extract").arg(package).arg(to))
}
