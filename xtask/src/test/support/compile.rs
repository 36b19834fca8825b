//! Compilation of the example programs, and the command lines that run them.

use crate::build::pypi;
use crate::harness::mpi::Mpi;
use crate::harness::{job, paths};
use crate::test::support::directives::Example;
use anyhow::{Context, Result};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

const COMPILE_LIMIT: Duration = Duration::from_secs(120);

type Cell = Arc<OnceLock<std::result::Result<(), String>>>;

/// Program and arguments of an example, compiled if need be. `front` is the MPI library of the build, `None` for a
/// program without MPI.
pub fn command_line(example: &Example, front: Option<Mpi>) -> Result<Vec<String>> {
    let source = example.source.to_string_lossy().into_owned();
    let extension = extension(&example.source);
    let bin = front.and_then(pypi::bin);
    let sdist = example.sdist.as_deref().map(pypi::sdist);
    let mut line = match (&example.command, extension) {
        (Some(command), _) => words(
            &command
                .replace("{source}", &source)
                .replace("{examples}", &paths::examples().to_string_lossy())
                .replace("{sdist}", &sdist.unwrap_or_default().to_string_lossy())
                .replace("{bin}", &bin.unwrap_or_default().to_string_lossy()),
        ),
        (None, "py") => vec!["/usr/bin/python3".into(), source],
        (None, _) => vec![compiled(example, front)?.to_string_lossy().into_owned()],
    };
    line.extend(example.variant.clone());
    Ok(line)
}

/// Sets the environment of the job that `command` starts: the example's settings, its library to preload, compiled for
/// `front`, and the libraries of a program that is installed with `front`.
pub fn set_environment(command: &mut Command, example: &Example, front: Mpi) -> Result<()> {
    command.envs(example.environment.clone());
    if let (Some(_), Some(bin)) = (&example.command, pypi::bin(front)) {
        command.env("LD_LIBRARY_PATH", bin.with_file_name("lib"));
    }
    if let Some(vendor) = &example.vendor {
        command.env("LD_LIBRARY_PATH", vendors_libraries(vendor)?);
    }
    if let Some(source) = &example.preload {
        let library = paths::compiled().join(front.name()).join(&example.name);
        let library = library.with_extension("so");
        // The name by which a program finds the library that it stands for.
        let stem = source.file_stem().unwrap_or_default().to_string_lossy();
        let soname = format!("-Wl,-soname,lib{stem}.so.1");
        let flags = ["-shared", "-fPIC", &soname].map(str::to_owned);
        once(&library, || compile(source, &flags, Some(front), &library))?;
        command.env("LD_PRELOAD", library);
    }
    Ok(())
}

fn extension(path: &Path) -> &str {
    path.extension().and_then(|e| e.to_str()).unwrap_or("")
}

/// Split at blanks, except within single quotes.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (i, part) in text.split('\'').enumerate() {
        if i % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}

fn compiled(example: &Example, front: Option<Mpi>) -> Result<PathBuf> {
    let folder = front.map_or("native", Mpi::name);
    let base = example.name.split('.').next().unwrap_or(&example.name);
    let binary = paths::compiled().join(folder).join(base);
    once(&binary, || {
        compile(&example.source, &example.flags, front, &binary)?;
        match &example.vendor {
            Some(vendor) => rename_needed(&binary, vendor),
            None => Ok(()),
        }
    })?;
    Ok(binary)
}

/// Debian's libraries of MPICH, each with the beginning of the name that HPE Cray gives it. The end is that of a build
/// by one compiler.
const LIBRARIES: [(&str, &str); 2] = [("libmpich", "libmpi"), ("libmpichfort", "libmpifort")];

fn vendors_name(start: &str, vendor: &str) -> String {
    format!("{start}_{vendor}.so.12")
}

/// A folder with MPICH's libraries under the vendor's names.
fn vendors_libraries(vendor: &str) -> Result<PathBuf> {
    let folder = paths::compiled().join("vendor").join(vendor);
    once(&folder, || {
        fs::create_dir_all(&folder)?;
        for (debian, start) in LIBRARIES {
            let from = Path::new("/usr/lib/x86_64-linux-gnu").join(format!("{debian}.so.12"));
            let name = vendors_name(start, vendor);
            let to = folder.join(&name);
            fs::copy(&from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
            patchelf(&to, &["--set-soname", &name])?;
            rename_needed(&to, vendor)?;
        }
        Ok(())
    })?;
    Ok(folder)
}

/// Has a file need the libraries under the vendor's names.
fn rename_needed(file: &Path, vendor: &str) -> Result<()> {
    LIBRARIES.iter().try_for_each(|(debian, start)| {
        let (old, new) = (format!("{debian}.so.12"), vendors_name(start, vendor));
        patchelf(file, &["--replace-needed", &old, &new])
    })
}

/// Changes a program or a library. One change at a time: patchelf 0.14 confuses the names of several.
pub fn patchelf(file: &Path, arguments: &[&str]) -> Result<()> {
    let mut command = Command::new("patchelf");
    command.args(arguments).arg(file);
    let folder = file.parent().context("a file lies in a folder")?;
    job::run(command, folder, "patchelf", COMPILE_LIMIT)?
        .expect_success(&format!("patchelf {}", file.display()))?;
    Ok(())
}

/// Make a file once per run of the harness.
fn once(file: &Path, make: impl FnOnce() -> Result<()>) -> Result<()> {
    static DONE: OnceLock<Mutex<HashMap<PathBuf, Cell>>> = OnceLock::new();
    let cell = DONE
        .get_or_init(Mutex::default)
        .lock()
        .expect("nothing panics under it")
        .entry(file.to_owned())
        .or_default()
        .clone();
    cell.get_or_init(|| make().map_err(|e| format!("{e:#}")))
        .clone()
        .map_err(anyhow::Error::msg)
}

/// Compile if a source is newer than the program.
fn compile(source: &Path, flags: &[String], front: Option<Mpi>, binary: &Path) -> Result<()> {
    let mut sources = headers(&paths::examples())?;
    sources.extend(headers(
        source.parent().context("a source lies in a folder")?,
    )?);
    sources.push(source.to_owned());
    if is_newer(binary, &sources) {
        return Ok(());
    }
    let extension = extension(source);
    let compiler = match (front, extension) {
        (Some(mpi), _) => mpi.compiler(extension),
        (None, "cpp") => "g++".into(),
        (None, "f90") => "gfortran".into(),
        (None, _) => "gcc".into(),
    };
    let dir = binary.parent().context("a binary lies in a folder")?;
    fs::create_dir_all(dir)?;
    let mut command = Command::new(&compiler);
    command.args(["-O1", "-g", "-Wall"]);
    // MPICH's headers declare MPI_STATUSES_IGNORE as an array of no statuses.
    command.args(["-Wno-stringop-overflow", "-Wno-stringop-overread"]);
    if extension == "f90" {
        // Folder for its modules, which would go to the current directory otherwise.
        command.arg("-J").arg(dir);
    }
    command.args(flags).arg("-o").arg(binary);
    command.arg(source).arg("-lm");
    let name = format!(
        "{}.compile",
        binary.file_name().unwrap_or_default().to_string_lossy()
    );
    job::run(command, dir, &name, COMPILE_LIMIT)?
        .expect_success(&format!("{compiler} {}", source.display()))?;
    Ok(())
}

/// Headers for the examples of a folder.
fn headers(folder: &Path) -> Result<Vec<PathBuf>> {
    let files = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let mut files = files.collect::<Result<Vec<_>>>()?;
    files.retain(|file| matches!(extension(file), "h" | "inc"));
    Ok(files)
}

fn is_newer(binary: &Path, sources: &[PathBuf]) -> bool {
    let time = |path: &Path| fs::metadata(path).and_then(|m| m.modified()).ok();
    let Some(made) = time(binary) else {
        return false;
    };
    sources
        .iter()
        .all(|source| time(source).is_some_and(|changed| changed < made))
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn quotes_keep_words_together() {
        assert_eq!(words("a -c 'b c' d"), ["a", "-c", "b c", "d"]);
    }
}
