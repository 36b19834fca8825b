//! Programs that begin with `#!`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Largest number of scripts between the file that is executed and a program, as in the kernel (`exec_binprm` in
/// `fs/exec.c`).
const DEPTH: usize = 5;

/// The first line of a script.
#[derive(Debug, PartialEq, Eq)]
pub struct Script {
    /// The interpreter; empty if the line names none.
    pub interpreter: OsString,
    /// Everything after the interpreter, which gets it as one argument.
    pub argument: Option<OsString>,
}

impl Script {
    /// The script that begins with these bytes; none if they are no script.
    pub fn read(start: &[u8]) -> Option<Script> {
        let line = start.strip_prefix(b"#!")?.split(|&b| b == b'\n').next()?;
        let mut words = line.trim_ascii().splitn(2, u8::is_ascii_whitespace);
        let mut word = || {
            words
                .next()
                .map(|word| OsStr::from_bytes(word.trim_ascii_start()).to_owned())
        };
        Some(Script {
            interpreter: word()?,
            argument: word(),
        })
    }
}

/// Result of reading a file, for [`follow`].
pub enum Step<T> {
    /// The program.
    Program(T),
    /// A script with the interpreter at this path.
    Script(PathBuf),
}

/// The program that is executed for the file at `path`: `read` is called with the file, then with its interpreter if
/// it is a script, and so on. None if the kernel would refuse that number of scripts.
///
/// # Errors
/// The first error of `read`.
pub fn follow<T, E>(
    path: &Path,
    mut read: impl FnMut(&Path) -> Result<Step<T>, E>,
) -> Result<Option<T>, E> {
    let mut path = path.to_owned();
    for _ in 0..=DEPTH {
        match read(&path)? {
            Step::Program(program) => return Ok(Some(program)),
            Step::Script(interpreter) => path = interpreter,
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    #[test]
    fn the_first_line_is_split_once() {
        let script = |interpreter: &str, argument: Option<&str>| {
            Some(Script {
                interpreter: interpreter.into(),
                argument: argument.map(Into::into),
            })
        };
        for (start, expected) in [
            ("#!/bin/sh\necho\n", script("/bin/sh", None)),
            ("#! /bin/sh -e  -x \n", script("/bin/sh", Some("-e  -x"))),
            ("#!/bin/sh\t -e", script("/bin/sh", Some("-e"))),
            ("#!\n/bin/sh", script("", None)),
            ("#!", script("", None)),
            ("# !/bin/sh", None),
            ("", None),
        ] {
            assert_eq!(Script::read(start.as_bytes()), expected, "{start:?}");
        }
    }

    #[test]
    fn as_many_scripts_are_followed_as_the_kernel_follows() {
        let directory = tempfile::tempdir().unwrap();
        let mut path = PathBuf::from("/bin/true");
        for scripts in 0..=DEPTH + 1 {
            let found = follow(&path, |path| {
                let start = fs::read(path)?;
                Ok::<_, std::io::Error>(match Script::read(&start) {
                    Some(script) => Step::Script(script.interpreter.into()),
                    None => Step::Program(path.to_owned()),
                })
            });
            let found = found.unwrap();
            let started = Command::new(&path).status();
            assert_eq!(found.is_some(), scripts <= DEPTH, "{scripts}");
            assert_eq!(started.is_ok(), scripts <= DEPTH, "{scripts}: {started:?}");
            assert!(found.is_none_or(|found| found == Path::new("/bin/true")));

            let next = directory.path().join(scripts.to_string());
            fs::write(&next, format!("#!{}\n", path.display())).unwrap();
            fs::set_permissions(&next, fs::Permissions::from_mode(0o755)).unwrap();
            path = next;
        }
    }
}
