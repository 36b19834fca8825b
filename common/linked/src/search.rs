//! Search for programs and libraries, as the system does it.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{bail, Result};

fn executable(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// The first executable file of this name in the directories of a PATH; relative directories start at
/// `here`.
pub fn in_path(name: &OsStr, list: &OsStr, here: &Path) -> Option<PathBuf> {
    let mut all = std::env::split_paths(list).map(|dir| here.join(dir).join(name));
    all.find(|path| executable(path))
}

/// The program that `name` refers to: a path, or a name in PATH.
///
/// # Errors
/// If there is no such file, or it cannot be executed. The message is for the user.
pub fn program(name: &OsStr) -> Result<PathBuf> {
    let path = Path::new(name);
    if name.as_encoded_bytes().contains(&b'/') {
        if let Err(error) = path.metadata() {
            bail!(
                "cannot find the program {}: {}",
                path.display(),
                words(&error)
            );
        }
        if !executable(path) {
            bail!(
                "{} is not an executable file: name a program, or make it executable with chmod +x",
                path.display()
            );
        }
        return Ok(path.to_owned());
    }
    let list = std::env::var_os("PATH").unwrap_or_default();
    match in_path(name, &list, Path::new("")) {
        Some(path) => Ok(path),
        None => bail!(
            "the program {} was not found in any directory of PATH; write ./{} if it is in this one",
            path.display(),
            path.display()
        ),
    }
}

fn words(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "no such file".into(),
        _ => error.to_string(),
    }
}

/// The dynamic linker's search directories for libraries.
pub struct Libraries {
    before: Vec<PathBuf>,
    after: Vec<PathBuf>,
}

impl Libraries {
    /// The directories of this environment and this system.
    pub fn here() -> Libraries {
        Libraries::of(&std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default())
    }

    /// The directories for a process with this LD_LIBRARY_PATH.
    pub fn of(before: &OsStr) -> Libraries {
        let mut after = Vec::new();
        configured(
            Path::new("/etc/ld.so.conf"),
            &mut after,
            &mut HashSet::new(),
        );
        let usual = [
            "/lib/x86_64-linux-gnu",
            "/usr/lib/x86_64-linux-gnu",
            "/lib64",
            "/usr/lib64",
        ];
        after.extend(usual.iter().chain(&["/lib", "/usr/lib"]).map(PathBuf::from));
        Libraries {
            before: std::env::split_paths(&before).collect(),
            after,
        }
    }

    /// The path of a library that a file in `origin` with the search paths `paths` needs.
    pub fn find(&self, name: &str, paths: &[String], origin: &Path) -> Option<PathBuf> {
        if name.contains('/') {
            return Some(PathBuf::from(name)).filter(|path| path.exists());
        }
        let origin = origin.to_string_lossy();
        let own = paths.iter().filter(|p| !p.is_empty());
        let own = own.map(|p| p.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin));
        let all = own
            .map(PathBuf::from)
            .chain(self.before.iter().cloned())
            .chain(self.after.iter().cloned());
        all.map(|dir| dir.join(name)).find(|path| path.exists())
    }
}

/// Adds the directories in ld.so.conf and in the files that it includes.
fn configured(file: &Path, found: &mut Vec<PathBuf>, seen: &mut HashSet<PathBuf>) {
    if !seen.insert(file.to_owned()) {
        return;
    }
    for line in fs::read_to_string(file).unwrap_or_default().lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        match line.strip_prefix("include ") {
            // Only `directory/*.conf` occurs in practice.
            Some(pattern) => {
                let directory = Path::new(pattern.trim()).parent().unwrap_or(Path::new("/"));
                let mut files: Vec<PathBuf> = fs::read_dir(directory)
                    .into_iter()
                    .flatten()
                    .flatten()
                    .map(|e| e.path())
                    .collect();
                files.retain(|f| f.extension() == Some(OsStr::new("conf")));
                files.sort();
                files.iter().for_each(|f| configured(f, found, seen));
            }
            None if line.starts_with('/') => found.push(PathBuf::from(line)),
            None => {}
        }
    }
}
