//! Apptainer for the tests in its containers, in `target/apptainer`. Debian 12 has no package of it, and Debian sid
//! has. That one is unpacked with the libraries that it needs, and uses no others. It finds its settings by its own
//! place, so nothing is installed on the machine.

use crate::build::apt::Package;
use crate::build::succeed;
use crate::harness::paths;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The program and its libraries, from Debian sid.
const PACKAGES: [&str; 4] = ["apptainer", "libc6", "libseccomp2", "libsqlite3-0"];
/// Packages of this machine's own Debian that it needs.
pub const TOOLS: [Package; 4] = [
    ("squashfs-tools", "makes images of containers"),
    ("squashfuse", "mounts images of containers"),
    ("fuse3", "mounts images of containers"),
    ("patchelf", "gives programs of another Debian its libraries"),
];
const SOURCE: &str = "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] \
    http://deb.debian.org/debian sid main\n";
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";
const COMMAND: &str = "usr/bin/apptainer";
const STARTER: &str = "usr/lib/x86_64-linux-gnu/apptainer/bin/starter";
/// Folders that it mounts on. Its two programs each look for their own, from their own places.
const MOUNT_POINTS: [&str; 2] = [
    "usr/var/lib/apptainer/mnt/session",
    "usr/lib/var/lib/apptainer/mnt/session",
];

/// File of the rights that users have been given. Only root makes it where it is missing.
const RIGHTS: &str = "usr/lib/etc/apptainer/capability.json";

/// Folder of everything about it.
pub fn folder() -> PathBuf {
    paths::target().join("apptainer")
}

/// Its command.
pub fn path() -> PathBuf {
    folder().join("root").join(COMMAND)
}

/// Reason for skipping a case without it.
pub fn missing() -> Option<String> {
    let path = path();
    let missing = || {
        format!(
            "{} is not there: `cargo xtask setup --full`",
            path.display()
        )
    };
    (!path.exists()).then(missing)
}

/// Gets it unless it is there.
pub fn install() -> Result<()> {
    if path().exists() {
        return set_no_rights(&folder().join("root"));
    }
    let folder = folder();
    println!(
        "To be unpacked from Debian sid into {}: {}",
        folder.display(),
        PACKAGES.join(" ")
    );
    let (packages, root) = (folder.join("packages"), folder.join("new"));
    if root.exists() {
        fs::remove_dir_all(&root)?;
    }
    for made in [&packages, &root, &folder.join("lists/partial")] {
        fs::create_dir_all(made).with_context(|| format!("making {}", made.display()))?;
    }
    fs::write(folder.join("sid.list"), SOURCE)?;
    succeed(apt_get(&folder).arg("update"))?;
    succeed(
        apt_get(&folder)
            .arg("download")
            .args(PACKAGES)
            .current_dir(&packages),
    )?;
    for package in fs::read_dir(&packages)? {
        let mut unpack = Command::new("dpkg-deb");
        succeed(unpack.arg("--extract").arg(package?.path()).arg(&root))?;
    }
    let usr = root.join("usr");
    fs::rename(root.join("etc"), usr.join("etc"))?;
    for mount_point in MOUNT_POINTS {
        fs::create_dir_all(root.join(mount_point))?;
    }
    let place = folder.join("root");
    for program in [COMMAND, STARTER] {
        use_own_libraries(&root.join(program), &place.join(LIBRARIES))?;
    }
    set_no_rights(&root)?;
    for done in [packages, folder.join("lists"), folder.join("cache")] {
        if done.exists() {
            fs::remove_dir_all(done)?;
        }
    }
    Ok(fs::rename(root, place)?)
}

/// No user has any rights in it.
fn set_no_rights(root: &Path) -> Result<()> {
    let rights = root.join(RIGHTS);
    fs::create_dir_all(rights.parent().unwrap_or(root))?;
    fs::write(&rights, "{}").with_context(|| format!("writing {}", rights.display()))
}

/// apt-get with the packages of Debian sid, and nothing of this machine's lists.
fn apt_get(folder: &Path) -> Command {
    let mut apt = Command::new("apt-get");
    let own = |name: &str| folder.join(name).display().to_string();
    for setting in [
        format!("Dir::Etc::SourceList={}", own("sid.list")),
        "Dir::Etc::SourceParts=-".to_owned(),
        format!("Dir::State::Lists={}", own("lists")),
        format!("Dir::Cache={}", own("cache")),
        // The folder need not be open to apt's own user.
        "APT::Sandbox::User=root".to_owned(),
    ] {
        apt.args(["-q", "-o", &setting]);
    }
    apt.stdout(Stdio::null());
    apt
}

/// Has a program use the C library and the others of this folder, and its dynamic linker.
fn use_own_libraries(program: &Path, libraries: &Path) -> Result<()> {
    // One change at a time: patchelf 0.14 confuses the names of several.
    let mut patch = Command::new("patchelf");
    patch
        .arg("--set-interpreter")
        .arg(libraries.join("ld-linux-x86-64.so.2"));
    succeed(patch.arg(program))?;
    let mut patch = Command::new("patchelf");
    patch.args(["--force-rpath", "--set-rpath"]).arg(libraries);
    succeed(patch.arg(program))
}
