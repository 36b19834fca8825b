//! Grid Engine for the tests of job scripts, in `target/gridengine`: Debian's packages, unpacked with the libraries
//! that few machines have. Their installation would start daemons and bring a mail server. Its programs look for a
//! library at a fixed place, so they are used in a mount namespace with an overlay over /usr/lib.

use crate::build::succeed;
use crate::harness::paths;
use anyhow::{Context, Result};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const PACKAGES: [&str; 9] = [
    "gridengine-master",
    "gridengine-exec",
    "gridengine-client",
    "gridengine-common",
    "libdb5.3",
    "libhwloc15",
    "libjemalloc2",
    "libmunge2",
    "libtirpc3",
];

/// Root of the unpacked packages.
pub fn root() -> PathBuf {
    paths::target().join("gridengine/root")
}

/// Reason for skipping a case without it.
pub fn missing() -> Option<String> {
    let root = root();
    let why = format!(
        "{} is not there: `cargo xtask setup --full`",
        root.display()
    );
    (!root.exists()).then_some(why)
}

/// Gets it unless it is there.
pub fn install() -> Result<()> {
    let root = root();
    if root.exists() {
        return Ok(());
    }
    println!(
        "To be unpacked from Debian into {}: {}",
        root.display(),
        PACKAGES.join(" ")
    );
    let new = root.with_file_name("new");
    if new.exists() {
        fs::remove_dir_all(&new)?;
    }
    let packages = new.join("packages");
    fs::create_dir_all(&packages).with_context(|| format!("making {}", packages.display()))?;
    let mut download = Command::new("apt-get");
    download
        // The folder need not be open to apt's own user.
        .args(["-q", "-o", "APT::Sandbox::User=root", "download"])
        .args(PACKAGES)
        .current_dir(&packages)
        .stdout(Stdio::null());
    succeed(&mut download)?;
    for package in fs::read_dir(&packages)? {
        let mut unpack = Command::new("dpkg-deb");
        succeed(unpack.arg("--extract").arg(package?.path()).arg(&new))?;
    }
    fs::remove_dir_all(packages)?;
    Ok(fs::rename(new, root)?)
}
