//! `stasis restart`: finds the set and the lower half, and becomes the latter.

use std::borrow::Cow;
use std::path::Path;
use std::process::Command;

use anyhow::{anyhow, bail, Result};
use ckpt_image::{any_finished, list_sets, named_whole, newest_whole, Key, Set};

use crate::arguments::{directory_and_set, Launch, Restart, Running};
use crate::exit::{self, Code, WithCode};
use crate::layout::{Abi, Layout};
use crate::lowers::Preferred;
use crate::{kernel, launch, text};

/// Runs the command; returns only if the job cannot be continued.
pub fn run(options: &Restart) -> exit::Result<()> {
    kernel::check_dispatch().code(Code::CannotServe)?;
    let (directory, named) = directory_and_set(&options.directory);
    let named = options.set.clone().or(named);
    let key = options.running.checkpoints.key.read().code(Code::Usage)?;
    let set = find(&directory, named.as_deref(), key.as_ref()).code(Code::Image)?;
    go_on(&directory, &set, &options.running)
}

/// Continues the job of a set; returns only if it cannot be continued.
fn go_on(directory: &Path, set: &Set, running: &Running) -> exit::Result<()> {
    check_size(set).code(Code::Image)?;
    let manifest = set.manifest();
    let preferred = Preferred {
        library: Some(&manifest.library),
        abi: Abi::ALL.into_iter().find(|abi| abi.word() == manifest.abi),
    };
    let layout = Layout::find().code(Code::CannotServe)?;
    let lower = layout
        .choose(running.mpi.as_deref(), preferred)
        .code(Code::CannotServe)?;
    let directory = launch::prepare(directory).code(Code::Directory)?;
    launch::prepare_local(running, &directory)?;
    if launcher::is_first() {
        eprintln!(
            "stasis: continuing {} from {} ({} ranks, taken {} under {}) under {}",
            manifest.command.join(" "),
            set.name(),
            manifest.world_size,
            text::ago(manifest.created),
            text::library(&manifest.library),
            text::library(&lower.record.library),
        );
    }
    let schedule = launch::schedule(running).code(Code::Usage)?;
    let mut command = Command::new(&lower.path);
    command
        .arg("restart")
        .arg("--ckpt-dir")
        .arg(directory)
        .arg("--set")
        .arg(set.name())
        .arg("--changed-files")
        .arg(running.changed_files.word())
        .arg("--closed-files")
        .arg(running.closed_files.word());
    command.args(schedule);
    command.args(running.checkpoints.words());
    launch::become_it(command, &lower.path).code(Code::CannotServe)
}

/// Continues the job whose checkpoints are in the directory, as `launch --resume` asks for; returns
/// normally if none was ever finished there, so that the program is to be started. That there are
/// some and all are bad is an error: a fresh start would be a loss that nobody has agreed to.
pub fn resume(options: &Launch) -> exit::Result<()> {
    let directory = &options.ckpt_dir;
    let key = options.running.checkpoints.key.read().code(Code::Usage)?;
    let key = key.as_ref();
    if !directory.exists() || !any_finished(directory).code(Code::Image)? {
        return Ok(());
    }
    let set = find(directory, None, key).code(Code::Image)?;
    let manifest = set.manifest();
    let asked = options.app.iter().map(|word| word.to_string_lossy());
    if !same_program(asked, &manifest.command) {
        return Err(anyhow!(
            "the checkpoints in {} are of another program, `{}`: give this one its own --ckpt-dir",
            directory.display(),
            manifest.command.join(" ")
        ))
        .code(Code::Image);
    }
    go_on(directory, &set, &options.running)
}

/// Whether two command lines are of one program, which may have been named by another path.
fn same_program<'a>(asked: impl Iterator<Item = Cow<'a, str>>, taken: &[String]) -> bool {
    let name = |(place, word): (usize, Cow<'_, str>)| match place {
        0 => word.rsplit('/').next().unwrap_or_default().to_owned(),
        _ => word.into_owned(),
    };
    let taken = taken.iter().map(|word| Cow::from(word.as_str()));
    asked.enumerate().map(name).eq(taken.enumerate().map(name))
}

fn find(directory: &Path, named: Option<&str>, key: Option<&Key>) -> Result<Set> {
    let chosen = choose(directory, named, key);
    let sets = chosen.is_err().then(|| list_sets(directory, key));
    let sets = sets.and_then(ckpt_image::Result::ok).unwrap_or_default();
    // Images in local directories may be out of reach here, and others' not from where these are.
    match sets.iter().any(|set| !set.undrained.is_empty()) {
        true => launch::for_all(chosen),
        false => Ok(chosen?),
    }
}

fn choose(directory: &Path, named: Option<&str>, key: Option<&Key>) -> ckpt_image::Result<Set> {
    let Some(name) = named else {
        let newest = newest_whole(directory, key)?;
        for why in newest.passed_over.iter().filter(|_| launcher::is_first()) {
            eprintln!("stasis: passing over {why}");
        }
        return Ok(newest.set);
    };
    named_whole(directory, name, key)
}

/// The number of ranks is known before MPI is started, where the launcher tells it.
fn check_size(set: &Set) -> Result<()> {
    let taken = set.manifest().world_size;
    match launcher::size() {
        Some(size) => Ok(set.check_world_size(size)?),
        None if taken == 1 || launcher::library().is_some() => Ok(()),
        None => bail!(
            "{} was taken with {taken} ranks: start it with `mpirun -n {taken} stasis restart {}`",
            set.name(),
            set.path().display()
        ),
    }
}
