//! `stasis restart`: finds the set and the lower half, and becomes the latter.

use std::process::Command;

use anyhow::{bail, Result};
use ckpt_image::{explain, newest_whole, Set};

use crate::arguments::{directory_and_set, Restart};
use crate::exit::{self, Code, WithCode};
use crate::layout::{Abi, Layout};
use crate::{kernel, launch, text};

/// Runs the command; returns only if the job cannot be continued.
pub fn run(options: &Restart) -> exit::Result<()> {
    kernel::check_dispatch().code(Code::CannotServe)?;
    let (directory, named) = directory_and_set(&options.directory);
    let named = options.set.clone().or(named);
    let set = choose(&directory, named.as_deref()).code(Code::Image)?;
    check_size(&set).code(Code::Image)?;
    let manifest = set.manifest();
    let preferred = Abi::ALL.into_iter().find(|abi| abi.word() == manifest.abi);
    let layout = Layout::find().code(Code::CannotServe)?;
    let lower = layout
        .choose(options.mpi.as_deref(), preferred)
        .code(Code::CannotServe)?;
    let directory = launch::prepare(&directory).code(Code::Directory)?;
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
    let mut command = Command::new(&lower.path);
    command
        .arg("restart")
        .arg("--ckpt-dir")
        .arg(directory)
        .arg("--set")
        .arg(set.name())
        .arg("--changed-files")
        .arg(options.changed_files.word());
    command.args(options.checkpoints.words());
    launch::become_it(command, &lower.path).code(Code::CannotServe)
}

fn choose(directory: &std::path::Path, named: Option<&str>) -> ckpt_image::Result<Set> {
    let Some(name) = named else {
        let newest = newest_whole(directory)?;
        for why in newest.passed_over.iter().filter(|_| launcher::is_first()) {
            eprintln!("stasis: passing over {why}");
        }
        return Ok(newest.set);
    };
    let checked = Set::open(directory, name).and_then(|set| set.check_images().map(|()| set));
    checked.map_err(|reason| explain(directory, name, reason))
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
