//! `stasis launch`: finds the lower half and becomes it, after everything that can be found wrong
//! before the run.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use coordinator::client::Client;
use launcher::preload;

use crate::arguments::{Launch, Running};
use crate::exit::{self, Code, WithCode};
use crate::layout::Layout;
use crate::lowers::Preferred;
use crate::{ending, held, kernel, order, program, restart};

/// Runs the command; returns only if the program cannot be started.
pub fn run(options: &Launch) -> exit::Result<()> {
    kernel::check_dispatch().code(Code::CannotServe)?;
    order::check(&options.app).code(Code::Usage)?;
    let directory = options.directory();
    if options.resume && options.anew {
        let why = anyhow::anyhow!(
            "--resume goes on from a checkpoint and --anew does not: give one of them"
        );
        return Err(why).code(Code::Usage);
    }
    if options.resume {
        restart::resume(options, &directory)?;
    }
    let layout = Layout::find().code(Code::CannotServe)?;
    let [app, arguments @ ..] = options.app.as_slice() else {
        return Err(anyhow::anyhow!("no program was named")).code(Code::Usage);
    };
    let (path, findings) = program::inspect(app, &layout).code(Code::CannotServe)?;
    findings.accept(&path).code(Code::CannotServe)?;
    let preferred = Preferred {
        library: None,
        abi: findings.front,
    };
    let lower = layout
        .choose(options.running.mpi.as_deref(), preferred)
        .code(Code::CannotServe)?
        .path;
    // It is the lower half that uses it; here it is known to be there before anything is started.
    let key = options.running.checkpoints.key.read().code(Code::Usage)?;
    let directory = prepare(&directory).code(Code::Directory)?;
    prepare_local(&options.running, &directory)?;
    // Only the first rank can tell: for the others it may be their own job, and what it has put aside.
    if launcher::is_first() {
        let free = Client::check_free(&directory).map_err(Into::into);
        let free = free.and_then(|()| held::make_free(&directory, options, key.as_ref()));
        ending::for_all(free, Code::Directory, &options.running)?;
    }

    let schedule = schedule(&options.running)?;
    let mut command = Command::new(&lower);
    command.arg("launch").arg("--ckpt-dir").arg(directory);
    command.args(schedule);
    command.args(options.running.checkpoints.words());
    command.arg("--").arg(&path).args(arguments);
    // The program sees the name by which it was called.
    command.env("STASIS_ARGV0", app);
    become_it(command, &lower).code(Code::CannotServe)
}

/// Replaces this process by the lower half.
pub fn become_it(mut command: Command, lower: &Path) -> Result<()> {
    preload::put_aside(&mut command);
    let error = command.exec();
    Err(error).with_context(|| format!("cannot start the lower half {}", lower.display()))
}

/// Makes sure that checkpoints can be written to the directory. Returns its absolute path, since the program may change its working directory.
pub fn prepare(directory: &Path) -> Result<PathBuf> {
    ckpt_image::create_checkpoint_dir(directory)?;
    let directory = directory
        .canonicalize()
        .with_context(|| format!("the checkpoint directory {}", directory.display()))?;
    // Each rank tries for itself: it may be on another machine.
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

/// Makes sure that images can be written to the local directory, where there is to be one.
pub fn prepare_local(running: &Running, directory: &Path) -> exit::Result<()> {
    let checkpoints = &running.checkpoints;
    match &checkpoints.local_dir {
        Some(local) => local
            .prepare(directory)
            .context("--local-dir cannot be used")
            .code(Code::Directory),
        None if checkpoints.partner => {
            let why = "--partner wants --local-dir: copies are kept of images that lie there";
            Err(anyhow::anyhow!(why)).code(Code::Usage)
        }
        None => Ok(()),
    }
}

/// When checkpoints are taken that no command asks for, as the lower half is told.
pub fn schedule(running: &Running) -> exit::Result<Vec<OsString>> {
    let words = running.checkpoints.schedule.words();
    ending::for_all(words, Code::Usage, running)
}
