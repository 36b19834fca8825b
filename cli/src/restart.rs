//! `stasis restart`: finds the set and the lower half, and becomes the latter.

use std::path::Path;
use std::process::Command;

use ::restart::Sections;
use anyhow::{anyhow, bail, Context, Result};
use ckpt_image::{any_finished, list_sets, named_whole, newest_whole, Key, Manifest, Set};
use coordinator::client::Client;
use launcher::message;
use nix::unistd::{access, AccessFlags};
use progress::{Bytes, TICK};
use serde_json::json;

use crate::arguments::{directory_and_set, Launch, Restart, Running};
use crate::exit::{self, Code, WithCode};
use crate::held::{self, Likeness};
use crate::layout::{Abi, Layout};
use crate::lowers::Preferred;
use crate::outlook::Files;
use crate::{ending, json, kernel, launch, text};

/// Runs the command; returns only if the job cannot be continued.
pub fn run(options: &Restart) -> exit::Result<()> {
    kernel::check_dispatch().code(Code::CannotServe)?;
    let (directory, named) = directory_and_set(&options.directory);
    let named = options.set.clone().or(named);
    let key = options.running.checkpoints.key.read().code(Code::Usage)?;
    let set = find(&directory, named.as_deref(), key.as_ref(), &options.running)?;
    if options.dry_run {
        return foretell(options, &directory, &set, key.as_ref());
    }
    go_on(&directory, &set, &options.running)
}

/// Tells whether the job of a set could be continued here, and what that would do to its files. Changes nothing.
fn foretell(options: &Restart, directory: &Path, set: &Set, key: Option<&Key>) -> exit::Result<()> {
    if !launcher::is_first() {
        // One that sees all images is enough.
        return Ok(());
    }
    if let Some(size) = launcher::size() {
        set.check_world_size(size).code(Code::Image)?;
    }
    Client::check_free(directory).code(Code::Directory)?;
    let writable = access(directory, AccessFlags::W_OK | AccessFlags::X_OK);
    let writable = writable.map_err(|why| ckpt_image::explained(directory, why.into()));
    let writable = writable.with_context(|| {
        format!(
            "nothing can be written to the checkpoint directory {}",
            directory.display()
        )
    });
    writable.code(Code::Directory)?;
    let preferred = preferred(set.manifest());
    let layout = Layout::find().code(Code::CannotServe)?;
    let lower = layout.choose(options.running.mpi.as_deref(), preferred);
    lower.code(Code::CannotServe)?;
    let running = &options.running;
    let how = running.checkpoints.files();
    let files = Files::new(directory, set, how, running.changed_files, false);
    let mut files = files.code(Code::Image)?;
    let ranks = set.manifest().world_size;
    let shown = Bytes::new((0..ranks).map(|rank| set.bytes_of(rank)).sum());
    let read = || {
        set.manifest().ranks.iter().try_for_each(|entry| {
            shown.at(format!("{}, rank {} of {ranks}", set.name(), entry.rank));
            let (set, counter) = (set.clone(), shown.counter());
            let opened = ::restart::open_in(directory, set, key, entry.rank, ranks, counter)?;
            files.add(entry.rank, &entry.host, &Sections::of(opened.image())?);
            Ok::<_, ::restart::RestartError>(())
        })
    };
    let verified = shown.during(TICK, |_| (), read);
    drop(shown);
    verified.code(Code::Image)?;
    let refusals = files.refusals();
    if options.json {
        let mut all = json!({ "set": set.name(), "would_go_ahead": refusals.is_empty(), "refusals": refusals });
        files.add_to(&mut all);
        json::print(all);
    } else {
        let verdict = match refusals.is_empty() {
            true => "a restart would go ahead",
            false => "a restart would be refused",
        };
        say!(
            "{} of {} ({ranks} ranks, taken {} under {}) is sound; {verdict}. Nothing was changed\n",
            set.name(),
            set.manifest().command.join(" "),
            text::ago(set.manifest().created),
            text::library(&set.manifest().library)
        );
        files.say_all();
        say!();
        files.say_sums();
    }
    match refusals.is_empty() {
        true => Ok(()),
        false => Err(anyhow!(
            "nothing would be restored:\n        {}",
            refusals.join("\n        ")
        ))
        .code(Code::Image),
    }
}

/// Over which library a set is continued where nothing says another.
fn preferred(manifest: &Manifest) -> Preferred<'_> {
    Preferred {
        library: Some(&manifest.library),
        abi: Abi::ALL.into_iter().find(|abi| abi.word() == manifest.abi),
    }
}

/// Continues the job of a set; returns only if it cannot be continued.
fn go_on(directory: &Path, set: &Set, running: &Running) -> exit::Result<()> {
    check_size(set).code(Code::Image)?;
    let manifest = set.manifest();
    let preferred = preferred(manifest);
    let layout = Layout::find().code(Code::CannotServe)?;
    let lower = layout
        .choose(running.mpi.as_deref(), preferred)
        .code(Code::CannotServe)?;
    let directory = launch::prepare(directory).code(Code::Directory)?;
    launch::prepare_local(running, &directory)?;
    if launcher::is_first() {
        // Not yet verified: the lower half says that it is continued.
        message::say(format_args!(
            "reading {} of {} ({} ranks, taken {} under {})",
            set.name(),
            manifest.command.join(" "),
            manifest.world_size,
            text::ago(manifest.created),
            text::library(&manifest.library),
        ));
    }
    let schedule = launch::schedule(running)?;
    let mut command = Command::new(&lower.path);
    command
        .arg("restart")
        .arg("--ckpt-dir")
        .arg(directory)
        .arg("--set")
        .arg(set.name())
        .arg("--changed-files")
        .arg(running.changed_files.word());
    command.args(schedule);
    command.args(running.checkpoints.words());
    launch::become_it(command, &lower.path).code(Code::CannotServe)
}

/// Continues the job whose checkpoints are in the directory, as `launch --resume` asks for; returns
/// normally if none was ever finished there, so that the program is to be started. That there are
/// some and all are bad is an error: a fresh start would be a loss that nobody has agreed to.
pub fn resume(options: &Launch, directory: &Path) -> exit::Result<()> {
    let running = &options.running;
    let key = running.checkpoints.key.read().code(Code::Usage)?;
    if !directory.exists() || !any_finished(directory).code(Code::Image)? {
        return Ok(());
    }
    let set = find(directory, None, key.as_ref(), running)?;
    // Of a job of several programs the set names the first rank's.
    if launcher::is_first() {
        let same = check_program(options, directory, set.manifest());
        ending::for_all(same, Code::Image, running)?;
    }
    go_on(directory, &set, running)
}

/// Makes sure that a set is of the program that is to be continued, with its arguments.
fn check_program(options: &Launch, directory: &Path, manifest: &Manifest) -> Result<()> {
    let (asked, taken) = (held::asked(options), held::launched(manifest));
    let what = match Likeness::of(&asked, taken) {
        Likeness::Same => return Ok(()),
        Likeness::OtherArguments => "are of a run with other arguments",
        Likeness::OtherProgram => "are of another program",
    };
    bail!(
        "the checkpoints in {} {what}: they were taken of `{}`, and this is `{}`. Give the command line of the \
         first run to go on from them, or another --ckpt-dir to begin with this one",
        directory.display(),
        taken.join(" "),
        asked.join(" ")
    )
}

fn find(
    directory: &Path,
    named: Option<&str>,
    key: Option<&Key>,
    running: &Running,
) -> exit::Result<Set> {
    let chosen = choose(directory, named, key);
    let sets = chosen.is_err().then(|| list_sets(directory, key));
    let sets = sets.and_then(ckpt_image::Result::ok).unwrap_or_default();
    // Images in local directories may be out of reach here, and others' not from where these are.
    match sets.iter().any(|set| !set.undrained.is_empty()) {
        true => ending::for_all(chosen, Code::Image, running),
        false => chosen.code(Code::Image),
    }
}

fn choose(directory: &Path, named: Option<&str>, key: Option<&Key>) -> ckpt_image::Result<Set> {
    let Some(name) = named else {
        let newest = newest_whole(directory, key)?;
        for why in newest.passed_over.iter().filter(|_| launcher::is_first()) {
            message::say(format_args!("passing over {why}"));
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
