//! Starting a program as the upper half.

use std::convert::Infallible;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use ckpt_image::Lineage;

use crate::agent::{self, cut};
use crate::options::{lineage_word, Launch};
use crate::{environment, job, mpi, wire_up, wrapper};

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
    loader::start_aside().context(agent::NO_TABLE)?;
    let own = std::env::current_exe().context("cannot find the lower half's own path")?;
    let env = environment::of_application();
    let program = loader::prepare(&options.program, &options.args, &env)?;
    if let Some(without) = program.without.as_ref().filter(|_| launcher::is_first()) {
        launcher::message::say(without);
    }
    mpi::fill(contract::gate());
    redirect(&own);
    let words = std::iter::once(&options.program).chain(&options.args);
    let words = words.map(|word| word.to_string_lossy().into_owned());
    let words: Vec<String> = words.collect();
    job::set_command(words.clone());
    let lineage = match &options.lineage {
        Some(lineage) => lineage.clone(),
        None => Lineage::begin(words).context("the run cannot be given an id")?,
    };
    loader::set_exec_hook(exec_prefix(&own, &options, &lineage)?);
    wire_up::start(&options.checkpoints, lineage)?;
    wrapper::start()?;
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
fn exec_prefix(own: &Path, options: &Launch, lineage: &Lineage) -> Result<Vec<CString>> {
    let mut words: Vec<OsString> = vec![own.into(), "launch".into()];
    words.extend(options.checkpoints.words());
    words.extend(["--lineage".into(), lineage_word(lineage)?]);
    words.push("--".into());
    words.iter().map(|word| c_string(word)).collect()
}

fn c_string(word: &OsStr) -> Result<CString> {
    CString::new(word.as_bytes())
        .with_context(|| format!("{} has a NUL byte in it", word.display()))
}
