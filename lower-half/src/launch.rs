//! Starting a program as the upper half.

use std::convert::Infallible;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::agent::cut;
use crate::options::Launch;
use crate::{environment, job, mpi, wire_up};

/// The SONAMEs under which applications ask for their MPI library, and the front that each gets.
/// To add a front: its crate under `fronts/`, a line here, and `xtask setup` to build it.
/// Names with one front are one library: the dynamic linker sees that the file is the same.
const FRONTS: [(&str, &str); 6] = [
    ("libmpi.so.40", "front-openmpi.so"),
    ("libmpi_mpifh.so.40", "front-openmpi.so"),
    ("libmpich.so.12", "front-mpich.so"),
    ("libmpi.so.12", "front-mpich.so"),
    ("libmpi_abi.so.1", "front-standard.so"),
    ("libmpi_abi.so.0", "front-standard.so"),
];

/// Runs the program; returns only if it cannot be started.
pub fn launch(options: Launch) -> Result<Infallible> {
    environment::settle()?;
    cut::arm()?;
    loader::check_address_space()?;
    let own = std::env::current_exe().context("cannot find the lower half's own path")?;
    let env = environment::of_application();
    let program = loader::prepare(&options.program, &options.args, &env)?;
    mpi::fill(contract::gate());
    redirect(&own);
    loader::set_exec_hook(exec_prefix(&own, &options)?);
    let words = std::iter::once(&options.program).chain(&options.args);
    job::set_command(
        words
            .map(|word| word.to_string_lossy().into_owned())
            .collect(),
    );
    wire_up::start(&options.checkpoints)?;
    program.run()
}

/// Gives the application our fronts in the place of its MPI library.
pub fn redirect(own: &Path) {
    let fronts: Vec<(&str, PathBuf)> = FRONTS
        .iter()
        .map(|(soname, file)| (*soname, own.with_file_name(file)))
        .collect();
    let fronts: Vec<(&str, &Path)> = fronts
        .iter()
        .map(|(soname, path)| (*soname, path.as_path()))
        .collect();
    loader::set_redirects(&fronts);
}

/// What `execve` by the rank's own process puts before the new program, so that it is an upper
/// half again.
fn exec_prefix(own: &Path, options: &Launch) -> Result<Vec<CString>> {
    let mut words: Vec<OsString> = vec![own.into(), "launch".into()];
    words.extend(options.checkpoints.words());
    words.push("--".into());
    words.iter().map(|word| c_string(word)).collect()
}

fn c_string(word: &OsStr) -> Result<CString> {
    CString::new(word.as_bytes())
        .with_context(|| format!("{} has a NUL byte in it", word.display()))
}
