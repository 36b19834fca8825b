//! Programs of `examples/tools` and `examples/bugs` that are compiled for one case.

use crate::harness::{job, paths, stasis};
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

pub fn compile(dir: &Path, compiler: &str, source: &str, flags: &[&str]) -> Result<PathBuf> {
    compile_of("tools", dir, compiler, source, flags)
}

/// Compiles a program or a library with a bug.
pub fn planted(dir: &Path, compiler: &str, source: &str, flags: &[&str]) -> Result<PathBuf> {
    compile_of("bugs", dir, compiler, source, flags)
}

fn compile_of(
    folder: &str,
    dir: &Path,
    compiler: &str,
    source: &str,
    flags: &[&str],
) -> Result<PathBuf> {
    let binary = dir.join(source.trim_end_matches(".c"));
    let mut command = Command::new(compiler);
    command.args(flags).arg("-o").arg(&binary);
    // Intel MPI's compilers find their library there.
    if let Some(root) = Path::new(compiler).parent().and_then(Path::parent) {
        command.env("I_MPI_ROOT", root);
    }
    command.arg(paths::examples().join(folder).join(source));
    job::run(command, dir, "compile", LIMIT)?.expect_success(compiler)?;
    Ok(binary)
}

/// The command on an emulated kernel that lacks a feature named in `examples/tools/older_kernel.c`.
pub fn on_older_kernel(without: &str, command: &Command, dir: &Path) -> Result<Command> {
    let mut older = Command::new(compile(dir, "gcc", "older_kernel.c", &[])?);
    older.arg(without);
    Ok(stasis::before(older, command))
}

/// The command where no process may open the memory of another one, as with Yama's `ptrace_scope` at 2.
pub fn under_yama(command: &Command, dir: &Path) -> Result<Command> {
    let yama = Command::new(compile(dir, "gcc", "yama.c", &[])?);
    Ok(stasis::before(yama, command))
}
