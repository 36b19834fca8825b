//! A survivor of another rank's death goes on in its memory, in a new incarnation of a job of MPI Stages. Nothing of
//! MPI is restored here: the program's calls fail until it asks for the reload, which initialises MPI.
//!
//! Files are left as they are: they are the program's own affair, as its checkpoints are.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result};
use contract::gate;
use job_spec::{ChangedFilePolicy, Checkpoints, FilePolicy, RestartSpec};

use super::{fill_gate, part, restore_shared, Part};
use crate::start::{bootstrap, job_state, keeper, launch};
use crate::{agent, mpi, recorder};

/// Goes on in the memory that is in `directory`. Returns only after a failure.
pub fn go_on(checkpoints: &Checkpoints, directory: PathBuf) -> Result<Infallible> {
    loader::check_address_space()?;
    loader::start_own_fd_table().context(agent::NO_TABLE)?;
    keeper::connect(checkpoints)?;
    recorder::start(checkpoints);
    let own = std::env::current_exe().context("cannot find the lower half's own path")?;
    let set = ::restart::choose(&directory, None, &[], None, 1)?;
    let spec = RestartSpec {
        checkpoints: Checkpoints {
            dir: directory,
            key_file: None,
            files: FilePolicy::Leave,
            ..checkpoints.clone()
        },
        set: None,
        changed_files: ChangedFilePolicy::Ignore,
        copy_of: None,
    };
    let Part {
        mut opened,
        process,
        registers,
        numbers,
        files,
        job,
        ..
    } = part(&spec, &set, 0, None, None)?;
    launch::show_processor(checkpoints);
    let shared = restore_shared::restore(&opened, None)?;
    restore_shared::map(&mut opened, &shared)?;
    let restored = loader::restore(process, registers.as_ref(), numbers, files, &|object| {
        shared.descriptor(object)
    })?;
    drop(shared);
    agent::set_restored_abi(opened.header().abi.clone());
    fill_gate(None);
    mpi::break_off(gate());
    launch::redirect(&own);
    job_state::set_command(job.command);
    let lineage = set.manifest().continued()?;
    bootstrap::start(checkpoints, lineage, Some(set.name().to_owned()))?;
    tracing::info!(
        epoch = gate().lower.epoch.load(Ordering::Relaxed),
        "survivor goes on"
    );
    restored.go(|| {})
}
