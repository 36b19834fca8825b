//! The libraries that programs and libraries are linked with, read from their files. Nothing is loaded for
//! it.

pub mod elf;
pub mod mpi;
pub mod script;
pub mod search;

use std::collections::HashSet;
use std::path::Path;

use elf::Kind;
use search::Libraries;

/// Whether a program, or a library that it needs, is linked with an MPI library. Libraries loaded at run
/// time are not included. A script is linked with nothing.
pub fn with_mpi(program: &Path, libraries: &Libraries) -> bool {
    needs(program, libraries, mpi::is_mpi)
}

/// Whether a program or library, or a library that it needs, is linked with a library of a wanted name. Libraries
/// loaded at run time are not included.
pub fn needs(program: &Path, libraries: &Libraries, wanted: impl Fn(&str) -> bool) -> bool {
    let mut seen = HashSet::new();
    let mut todo = vec![program.to_owned()];
    while let Some(path) = todo.pop() {
        let Ok(Kind::Elf(elf)) = elf::read(&path, |_| false) else {
            continue;
        };
        if elf.needed.iter().any(|name| wanted(name)) {
            return true;
        }
        let origin = path.canonicalize().unwrap_or(path);
        let origin = origin.parent().unwrap_or(Path::new("/"));
        for name in elf.needed {
            if let Some(found) = libraries.find(&name, &elf.paths, origin) {
                if seen.insert(name) {
                    todo.push(found);
                }
            }
        }
    }
    false
}

/// Whether a program may execute others: a script, or a program that calls an exec function of the C
/// library.
///
/// # Examples
/// ```
/// use std::path::Path;
///
/// assert!(stasis_linked::executes_others(Path::new("/usr/bin/env")));
/// assert!(!stasis_linked::executes_others(Path::new("/bin/ls")));
/// ```
pub fn executes_others(program: &Path) -> bool {
    let function = |name: &str| name.starts_with("exec") || name.starts_with("posix_spawn");
    match elf::read(program, function) {
        Ok(Kind::Elf(elf)) => !elf.wants.is_empty(),
        Ok(Kind::Script(_)) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_execute_others_are_recognised_by_their_calls() {
        for (path, does) in [
            ("/usr/bin/env", true),
            ("/usr/bin/timeout", true),
            ("/usr/bin/ldd", true),
            ("/bin/ls", false),
            ("/etc/passwd", false),
        ] {
            assert_eq!(executes_others(Path::new(path)), does, "{path}");
        }
    }

    #[test]
    fn a_program_without_mpi_has_none() {
        let libraries = Libraries::here();
        for path in ["/bin/sh", "/bin/ls", "/etc/passwd", "/nonexistent"] {
            assert!(!with_mpi(Path::new(path), &libraries), "{path}");
        }
    }
}
