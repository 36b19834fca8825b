//! `stasis restart`: chooses the checkpoint and the lower half, and executes the lower half.

use std::path::{Path, PathBuf};
use std::process::Command;

use ::restart::Sections;
use anyhow::{anyhow, bail, Context, Result};
use ckpt_image::{
    any_finished, list_sets, named_whole, newest_whole_without, Manifest, SealKey, Set,
};
use coordinator::claim;
use job_spec::{shell, CopyOf, FilePolicy, RestartSpec};
use launcher::message;
use nix::unistd::{access, AccessFlags};
use progress::{Bytes, TICK};
use serde_json::json;
use supervisor::rank;

use crate::args::{directory_and_set, Launch, Restart, Running};
use crate::check::file_preview::Files;
use crate::check::kernel;
use crate::install::layout::Layout;
use crate::install::lower_registry::Preferred;
use crate::start::existing_checkpoints::{self, Likeness};
use crate::start::{announce, copy, end_job, exec_lower, for_cpu, kept, recording, refusal};
use crate::ui::exit::{self, Code, WithCode};
use crate::ui::{json, text};
use linked::mpi::Abi;

/// Runs the command; returns only if the job cannot be continued.
pub fn run(options: &Restart) -> exit::Result<()> {
    kernel::check_trap().code(Code::CannotServe)?;
    launcher::check_size().code(Code::Usage)?;
    let source = options.copy_of.as_ref().or(options.directory.as_ref());
    let (directory, named) = directory_and_set(source.map_or(Path::new("."), PathBuf::as_path));
    let named = options.set.clone().or(named);
    if !options.dry_run && options.copy_of.is_none() {
        refusal::begins_restart(&directory);
    }
    let key = options.running.checkpoints.key.read().code(Code::Usage)?;
    let set = find(
        &directory,
        named.as_deref(),
        &[],
        key.as_ref(),
        &options.running,
    )?;
    if options.dry_run {
        return dry_run(options, &directory, &set, key.as_ref());
    }
    let (directory, first) = match copy::prepare(options, &directory, &set)? {
        Some((own, first)) => (own, Some(first)),
        None => (directory, None),
    };
    kept::check_start(&directory, &options.running)?;
    restart_set(&directory, &set, &options.running, false, first)
}

/// Reports whether a restart from a set is possible here, and its effect on the job's files. Changes nothing.
fn dry_run(
    options: &Restart,
    directory: &Path,
    set: &Set,
    key: Option<&SealKey>,
) -> exit::Result<()> {
    if !launcher::is_first() {
        // One rank that can read all images is enough.
        return Ok(());
    }
    if let Some(size) = launcher::size() {
        set.check_world_size(size).code(Code::Image)?;
    }
    kept::check(directory).code(Code::Directory)?;
    claim::check_free(directory).code(Code::Directory)?;
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
            opened.check_files(files.undo())?;
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
            "{} of {} ({}, taken {} under {}) is sound; {verdict}. Nothing was changed\n",
            set.name(),
            set.manifest().command.join(" "),
            text::ranks(ranks),
            text::when(set.manifest().created),
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

/// Default library for the restart of a set.
fn preferred(manifest: &Manifest) -> Preferred<'_> {
    Preferred {
        library: Some(&manifest.library),
        abi: Abi::ALL.into_iter().find(|abi| abi.key() == manifest.abi),
    }
}

/// Continues the job of a set; returns only if it cannot be continued. With `asleep` its ranks wait until they are let
/// go. `copy_of` names the first job, if this one is a copy in another directory.
fn restart_set(
    directory: &Path,
    set: &Set,
    running: &Running,
    asleep: bool,
    copy_of: Option<CopyOf>,
) -> exit::Result<()> {
    check_size(set).code(Code::Image)?;
    let manifest = set.manifest();
    let preferred = preferred(manifest);
    let layout = Layout::find().code(Code::CannotServe)?;
    let lower = layout
        .choose(running.mpi.as_deref(), preferred)
        .code(Code::CannotServe)?;
    let directory = exec_lower::prepare(directory).code(Code::Directory)?;
    exec_lower::prepare_local(running, &directory)?;
    recording::prepare(running).code(Code::Directory)?;
    if launcher::is_first() && !asleep {
        // The set is not verified yet. The lower half reports the restart.
        message::say(format_args!(
            "reading {} of {} ({}, taken {} under {})",
            set.name(),
            manifest.command.join(" "),
            text::ranks(manifest.world_size),
            text::when(manifest.created),
            text::library(&manifest.library),
        ));
        let detail = &running.detail;
        detail.tell(format_args!("the job runs over {lower}"));
        detail.tell(format_args!("checkpoints go to {}", directory.display()));
    }
    let schedule = exec_lower::schedule(running)?;
    let spec = RestartSpec {
        checkpoints: job_spec::Checkpoints {
            mpi_library: lower.mpi_library,
            announced: announce::inherited(),
            ..running.spec(directory, schedule)
        },
        set: Some(set.name().to_owned()),
        changed_files: running.changed_files,
        copy_of,
    };
    let spec = job_spec::to_argument(&spec).code(Code::CannotServe)?;
    let mut command = Command::new(&lower.path);
    command.arg(if asleep { "standby" } else { "restart" });
    command.arg(spec);
    exec_lower::exec_lower(command, &lower.path).code(Code::CannotServe)
}

/// Continues the job with checkpoints in the directory, for `launch --resume`. Returns normally if the directory has no
/// finished checkpoint, so that the program is started. If all finished checkpoints are damaged, that is an error: a
/// fresh start would lose work without the user's consent.
pub fn resume(options: &Launch, directory: &Path) -> exit::Result<()> {
    let running = &options.running;
    let key = running.checkpoints.key.read().code(Code::Usage)?;
    if !directory.exists() || !any_finished(directory).code(Code::Image)? {
        return Ok(());
    }
    refusal::begins_restart(directory);
    let left_out = rank::left_out(directory, running.checkpoints.incarnation());
    let left_out = left_out.code(Code::CannotServe)?;
    let set = find(directory, None, &left_out, key.as_ref(), running)?;
    // For a job of several programs (MPMD) the set names the program of the first rank.
    if launcher::is_first() {
        let same = check_program(options, directory, set.manifest());
        end_job::on_error(same, Code::Image, running)?;
        let shown = options.for_cpu.as_deref().map(for_cpu::read);
        let shown = shown.transpose().code(Code::Usage)?;
        if shown.is_some() && shown != set.manifest().for_cpu {
            message::say(
                "--for-cpu has an effect at the start of a program: this one goes on for the processors of its \
                 checkpoint, which `stasis inspect` shows",
            );
        }
    }
    restart_set(directory, &set, running, options.asleep, None)
}

/// Checks that a set was taken of this program with these arguments.
fn check_program(options: &Launch, directory: &Path, manifest: &Manifest) -> Result<()> {
    let (asked, taken) = (
        existing_checkpoints::asked(options),
        existing_checkpoints::launched(manifest),
    );
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
    left_out: &[u64],
    key: Option<&SealKey>,
    running: &Running,
) -> exit::Result<Set> {
    let chosen = choose(directory, named, left_out, running.checkpoints.files(), key);
    let sets = chosen.is_err().then(|| list_sets(directory, key));
    let sets = sets.and_then(ckpt_image::Result::ok).unwrap_or_default();
    // Images in local directories may be readable on some nodes only, so that only some ranks fail.
    match sets.iter().any(|set| !set.undrained.is_empty()) {
        true => end_job::on_error(chosen, Code::Image, running),
        false => chosen.code(Code::Image),
    }
}

fn choose(
    directory: &Path,
    named: Option<&str>,
    left_out: &[u64],
    files: FilePolicy,
    key: Option<&SealKey>,
) -> Result<Set> {
    let Some(name) = named else {
        let left_behind = match files {
            FilePolicy::Undo => ::restart::left_behind(directory, key).with_context(|| {
                format!("cannot read the undo journals in {}", directory.display())
            })?,
            FilePolicy::Cut | FilePolicy::Leave => Vec::new(),
        };
        let behind = left_behind.iter().map(|left| left.cut.number);
        let left_out: Vec<u64> = behind.chain(left_out.iter().copied()).collect();
        let newest = newest_whole_without(directory, key, &left_out)?;
        for left in &left_behind {
            let (number, by) = (left.cut.number, left.by);
            if number > newest.set.number() && launcher::is_first() {
                message::say(format_args!(
                    "skipping ckpt-{number}: the job has gone on from ckpt-{by} since, and its files are those of that run"
                ));
            }
        }
        for why in newest.skipped.iter().filter(|_| launcher::is_first()) {
            message::say(format_args!("skipping {why}"));
        }
        return Ok(newest.set);
    };
    Ok(named_whole(directory, name, key)?)
}

/// Checks the number of ranks before MPI starts, if the launcher's environment gives it.
fn check_size(set: &Set) -> Result<()> {
    let taken = set.manifest().world_size;
    match launcher::size() {
        Some(size) => Ok(set.check_world_size(size)?),
        None if taken == 1 || launcher::library().is_some() => Ok(()),
        None => bail!(
            "{} was taken with {}: start it with `mpirun -n {taken} stasis restart {}`",
            set.name(),
            text::ranks(taken),
            shell::word(set.path())
        ),
    }
}
