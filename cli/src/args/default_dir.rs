//! Default checkpoint directory of a command line without one.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{anyhow, Context};
use nix::unistd::{geteuid, Uid, User};

use crate::ui::exit::{self, Code, WithCode};

/// Suffix of the names of default directories.
const SUFFIX: &str = ".ckpt";
/// Maximum length of each part of a name, in characters.
const LONGEST: usize = 64;

/// Directory for the checkpoints of a program. It is named after the program and its first argument that is not an
/// option, so that programs in one folder, and scripts of one interpreter, do not share a directory.
pub fn of_program(app: &[OsString]) -> PathBuf {
    let mut words = app.iter().map(|word| word.to_string_lossy());
    let program = words.next();
    let argument = words.find(|word| !word.starts_with('-'));
    let plain = |word: std::borrow::Cow<'_, str>| -> String {
        let name = word.trim_end_matches('/').rsplit('/').next();
        let fits = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
        let plain = name.unwrap_or_default().chars();
        plain
            .map(|c| if fits(c) { c } else { '_' })
            .take(LONGEST)
            .collect()
    };
    let name: Vec<String> = program.into_iter().chain(argument).map(plain).collect();
    let name = name.join("-");
    PathBuf::from(format!("./{}{SUFFIX}", name.trim_start_matches('.')))
}

/// The only default checkpoint directory in the current directory, for commands without one.
pub fn only_one_here() -> exit::Result<PathBuf> {
    let entries = std::fs::read_dir(".").context("cannot read the current directory");
    let entries = entries.code(Code::Usage)?.flatten();
    let ours = |path: &PathBuf| path.is_dir() && path.to_string_lossy().ends_with(SUFFIX);
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(ours).collect();
    found.sort();
    let why = match found.len() {
        1 => return Ok(found.remove(0)),
        0 => anyhow!(
            "no checkpoint directory (NAME{SUFFIX}) in the current directory: name the directory of the job"
        ),
        _ => {
            let names: Vec<String> = found.iter().map(|path| path.display().to_string()).collect();
            anyhow!("name one of the checkpoint directories here: {}", names.join(", "))
        }
    };
    Err(why).code(Code::Usage)
}

/// Checks that the directory is this user's, whose alone its job and its checkpoints are. Root may look after the jobs
/// of all users, and a job accepts its commands. A directory that does not exist is the command's to report.
pub fn check_owner(directory: &Path) -> exit::Result<()> {
    let mut at = directory.ancestors();
    // Another user's directory may not be looked into, and that which holds it may.
    let seen = at.find_map(|at| match at.metadata() {
        Err(why) if why.kind() == io::ErrorKind::PermissionDenied => None,
        looked => Some(looked),
    });
    let Some(Ok(seen)) = seen else {
        return Ok(());
    };
    let me = geteuid();
    if me.is_root() || seen.uid() == me.as_raw() {
        return Ok(());
    }
    let name = |user: Uid| {
        let known = User::from_uid(user).ok().flatten();
        known.map_or_else(|| format!("user {user}"), |known| known.name)
    };
    let owner = name(Uid::from_raw(seen.uid()));
    Err(anyhow!(
        "{} belongs to {owner}, and this command runs as {}: a job and its checkpoints are their owner's alone. Give \
         the command as {owner}",
        directory.display(),
        name(me)
    ))
    .code(Code::Directory)
}

/// Checks that a directory of a job exists, before a command says that the job has left nothing there.
pub fn check(directory: &Path) -> exit::Result<()> {
    let found = directory.read_dir();
    found
        .map(drop)
        .with_context(|| {
            format!(
                "cannot look at the checkpoint directory {}",
                directory.display()
            )
        })
        .code(Code::Directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_and_scripts_have_distinct_directories() {
        let of = |line: &str| {
            let line: Vec<OsString> = line.split('|').map(Into::into).collect();
            of_program(&line).to_string_lossy().into_owned()
        };
        assert_eq!(of("./app"), "./app.ckpt");
        assert_eq!(of("/usr/bin/lmp|-in|../in.melt|-v"), "./lmp-in.melt.ckpt");
        assert_eq!(of("python3|-u|a.py|1"), "./python3-a.py.ckpt");
        assert_eq!(of("bash|-c|module load x; ./app"), "./bash-app.ckpt");
        assert_eq!(of("./.hidden|a b"), "./hidden-a_b.ckpt");
        assert_eq!(of("x|/"), "./x-.ckpt");
    }
}
