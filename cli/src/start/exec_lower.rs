//! The last steps of `launch` and `restart`: directories are created and tested, then this process executes the lower
//! half.

use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{anyhow, Context, Result};
use job_spec::Schedule;
use launcher::preload;

use crate::args::Running;
use crate::start::end_job;
use crate::ui::exit::{self, Code, WithCode};

/// Executes the lower half in this process.
pub fn exec_lower(mut command: Command, lower: &Path) -> Result<()> {
    preload::stash(&mut command);
    tracing::info!(?command, "starting the lower half");
    let error = command.exec();
    Err(error).with_context(|| format!("cannot start the lower half {}", lower.display()))
}

/// Checks that checkpoints can be written to the directory. Returns its absolute path, since the program may change its
/// working directory.
pub fn prepare(directory: &Path) -> Result<PathBuf> {
    ckpt_image::create_checkpoint_dir(directory)?;
    let directory = directory
        .canonicalize()
        .with_context(|| format!("the checkpoint directory {}", directory.display()))?;
    // Every rank tests, because it may be on another node.
    let trial = directory.join(format!(
        ".trial-{}-{}",
        launcher::rank().unwrap_or(0),
        std::process::id()
    ));
    let written = fs::File::create_new(&trial).and_then(|mut file| file.write_all(&[0; 4096]));
    let written = written.map_err(|error| ckpt_image::explained(&directory, error));
    let _ = fs::remove_file(&trial);
    written.with_context(|| {
        format!(
            "nothing can be written to the checkpoint directory {}: make room there, make it \
             writable, or give another --ckpt-dir",
            directory.display()
        )
    })?;
    Ok(directory)
}

/// Checks that images can be written to the local directory, if one is given.
pub fn prepare_local(running: &Running, directory: &Path) -> exit::Result<()> {
    let checkpoints = &running.checkpoints;
    match &checkpoints.local_dir {
        Some(local) => local
            .prepare(directory)
            .context("--local-dir cannot be used")
            .code(Code::Directory),
        None if checkpoints.partner => {
            let why =
                "--partner needs --local-dir: it keeps copies of the images in that directory";
            Err(anyhow!(why)).code(Code::Usage)
        }
        None => Ok(()),
    }
}

/// The schedule for the lower half. An error ends all ranks, because only the first one queries Slurm.
pub fn schedule(running: &Running) -> exit::Result<Schedule> {
    let checkpoints = &running.checkpoints;
    let schedule = match checkpoints.schedule.in_memory() && checkpoints.incarnation().is_none() {
        true => Err(anyhow!(
            "--memory-interval: only `stasis run` keeps checkpoints in memory when a rank has died, and goes on from \
             them. Put `stasis run --` in front of the line, or leave the option out (--interval writes checkpoints)"
        )),
        false => checkpoints.schedule.spec(),
    };
    end_job::on_error(schedule, Code::Usage, running)
}
