//! The start of a program as the upper half.

use std::convert::Infallible;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::{Context, Result};
use ckpt_image::Lineage;
use job_spec::{Checkpoints, LaunchSpec};
use linked::mpi::{self as mpi_names, Abi};

use super::{bootstrap, job_state, keeper, library_env, program_wrapper};
use crate::agent::debug::kill_at_call;
use crate::options::Launch;
use crate::{agent, clocks, mpi, recorder, solo};

/// Runs the program, in a process with the variables of [`library_env`]; returns only if it cannot be started.
pub fn launch(options: Launch) -> Result<Infallible> {
    kill_at_call::arm()?;
    loader::check_address_space()?;
    loader::start_own_fd_table().context(agent::NO_TABLE)?;
    let is_solo = solo::open(&options.spec.checkpoints.tools)?;
    keeper::connect(&options.spec.checkpoints)?;
    let own = std::env::current_exe().context("cannot find the lower half's own path")?;
    let env = library_env::of_application();
    if !is_solo {
        recorder::start(&options.spec.checkpoints);
    }
    show_processor(&options.spec.checkpoints);
    clocks::Plan::of_launch(options.spec.checkpoints.tools.record.as_ref())?.begin()?;
    let program = loader::prepare(&options.program, &options.args, &env)?;
    recorder::attach();
    if let Some(without) = program.without.as_ref().filter(|_| launcher::is_first()) {
        launcher::message::say(without);
    }
    mpi::fill(contract::gate());
    redirect(&own);
    solo::know_program(&options, &own);
    let words = std::iter::once(&options.program).chain(&options.args);
    let words = words.map(|word| word.to_string_lossy().into_owned());
    let words: Vec<String> = words.collect();
    job_state::set_command(words.clone());
    let lineage = match &options.spec.lineage {
        Some(lineage) => lineage.clone(),
        None => Lineage::begin(words).context("the run cannot be given an id")?,
    };
    loader::set_exec_hook(exec_prefix(&own, &options.spec.checkpoints, &lineage)?);
    match is_solo {
        true => solo::start(),
        false => bootstrap::start(&options.spec.checkpoints, lineage, None)?,
    }
    program_wrapper::start()?;
    program.run()
}

/// Hides features of the processor that the program is not to see.
pub fn show_processor(checkpoints: &Checkpoints) {
    if let Some(shown) = &checkpoints.for_cpu {
        loader::show_processor(&shown.features);
    }
}

/// Redirects the application's MPI library to the fronts. The dynamic linker loads a front once, because the file is
/// the same under all names of its library.
pub fn redirect(own: &Path) {
    let fronts = Abi::ALL.map(|abi| own.with_file_name(abi.front()));
    let position = |abi| Abi::ALL.iter().position(|one| *one == abi);
    loader::set_redirects(move |name| mpi_names::abi(name).and_then(position), &fronts);
}

/// Arguments that an `execve` in the rank's process puts before the new program, so that it runs as an upper half
/// again.
fn exec_prefix(own: &Path, checkpoints: &Checkpoints, lineage: &Lineage) -> Result<Vec<CString>> {
    let spec = LaunchSpec {
        checkpoints: Checkpoints {
            announced: None,
            ..checkpoints.clone()
        },
        lineage: Some(lineage.clone()),
    };
    let spec = job_spec::to_argument(&spec)?;
    let words: [OsString; 4] = [own.into(), "launch".into(), spec.into(), "--".into()];
    words.iter().map(|word| c_string(word)).collect()
}

fn c_string(word: &OsStr) -> Result<CString> {
    CString::new(word.as_bytes())
        .with_context(|| format!("{} has a NUL byte in it", word.display()))
}
