//! The restart of an upper half from its image, in a new MPI program.
//!
//! # Safety
//! The only unsafe operation calls an entry point of the upper half, on a thread with the upper thread pointer, as
//! `contract::UpperEntry` requires.
#![allow(unsafe_code)]

mod copy;
mod fetch_image;
mod read_report;
pub mod refusal;
mod restore_shared;
pub mod standby;
pub mod survivor;
mod truncate_files;

use std::convert::Infallible;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ::restart::{cut_of, JobState, Opened, Sections};
use anyhow::{anyhow, bail, ensure, Context, Result};
use ckpt_image::{set_name, Set};
use contract::{abi, gate, MpiState};
use coordinator::claim;
use history::event::{shortened, Entry, Event, MOST_LISTED};
use job_spec::{shell, Checkpoints, ExitCode, FilePolicy, RestartSpec};
use launcher::message;
use loader::{
    Checks, ClosedFileList, HeldNumbers, OpenedFiles, ProcessState, SavedRegisters, ThreadNumbers,
};
use progress::Bytes;
use undo::Plan;

use crate::exit_code;
use crate::mpi::world::{self, World};
use crate::options;
use crate::start::{bootstrap, job_state, keeper, launch, library_env, program_wrapper};
use crate::{agent, clocks, console, mpi, record, recorder};
use fetch_image::Choices;
use read_report::{slowest_rank_line, slowness, EVERY};
use truncate_files::RestartedRank;

/// This rank's part of the set. It is verified; nothing of it is restored yet.
struct Part {
    opened: Opened,
    process: ProcessState,
    registers: Option<SavedRegisters>,
    numbers: ThreadNumbers,
    closed: ClosedFileList,
    files: OpenedFiles,
    job: JobState,
    /// The changes of all ranks to files since the checkpoint that are to be undone.
    plan: Plan,
    /// What is done with the record of the run.
    record: record::Plan,
    /// The use of the recorded clocks.
    clocks: clocks::Plan,
    /// Files that it shares with the first job, if this one is a copy.
    copied: Option<copy::Copied>,
}

/// MPI in a rank that has initialised it before it reads its image.
struct Initialised {
    world: World,
    /// Thread level that was requested.
    level: i32,
    /// The numbers of descriptors that its image may need.
    held: Option<HeldNumbers>,
    /// An image that was verified and mapped in advance.
    early: Option<Opened>,
}

/// Restarts the rank. Returns only after a failure.
pub fn restart(options: RestartSpec) -> Result<Infallible> {
    library_env::load(options.checkpoints.mpi_library.as_deref())?;
    loader::check_address_space()?;
    loader::start_own_fd_table().context(agent::NO_TABLE)?;
    keeper::connect(&options.checkpoints)?;
    go_on(&options, None)
}

/// Restarts the rank, whose MPI may be initialised.
fn go_on(options: &RestartSpec, mut before: Option<Initialised>) -> Result<Infallible> {
    recorder::start(&options.checkpoints);
    let own = std::env::current_exe().context("cannot find the lower half's own path")?;
    let (rank, size) = (launcher::rank().unwrap_or(0), launcher::size().unwrap_or(1));
    let started = Instant::now();
    tracing::info!(rank, size, dir = %options.checkpoints.dir.display(), "restart begins");
    let begun = Instant::now();
    let (set, part) = match chosen(options, rank, size) {
        Ok(set) => {
            let before = before.as_mut().filter(|_| set.reaches(rank));
            let (held, early) = before.map_or((None, None), |before| {
                (before.held.take(), before.early.take())
            });
            let part = part(options, &set, rank, held, early);
            (Some(set), part)
        }
        Err(why) => (None, Err(why)),
    };
    let took = begun.elapsed();
    match &part {
        Ok(_) => tracing::info!(?took, "image read"),
        Err(why) => tracing::warn!(?took, %why, "image not usable by this rank yet"),
    }
    let needs_mpi = part.as_ref().map_or(size > 1, |part| {
        part.job.mpi_state != MpiState::NotInitialised as u32
    });
    let needs_mpi = needs_mpi || before.is_some();
    let (world, part) = match needs_mpi {
        true => {
            let (world, part) = join(options, before, set.as_ref(), part, rank, size)?;
            tell_the_slowest(took, rank, size)?;
            (Some(world), part)
        }
        false => {
            if let (Some(set), Err(why)) = (&set, &part) {
                fetch_image::tell_damage(set, why);
            }
            (None, part?)
        }
    };
    let Part {
        mut opened,
        process,
        registers,
        numbers,
        closed,
        mut files,
        job,
        plan,
        record,
        clocks,
        copied,
    } = part;
    if let (Some(copied), Some(first)) = (copied, &options.copy_of) {
        copy::agree(copied, first, rank, world.as_ref())?;
    }
    program_wrapper::tell_lost(&opened);
    if rank == 0 {
        // All ranks have chosen the same set by now, and have verified their images.
        let library = world::library();
        message::say(format_args!(
            "continuing {} from {} under {}",
            job.command.join(" "),
            opened.set().name(),
            library.split(',').next().unwrap_or_default()
        ));
        if options.copy_of.is_none() {
            opened.set().restart_begun()?;
        }
    }
    let others = world.as_ref().map(|world| world.size);
    let cut = cut_of(opened.set());
    let dir = &options.checkpoints.dir;
    let name = opened.set().name().to_owned();
    // The first rank notes them for all.
    let newer = match rank {
        0 if undoes(options) => {
            ::restart::newer_sets(dir, options::key(&options.checkpoints)?.as_ref(), &cut)?
        }
        _ => Vec::new(),
    };
    let restarted = RestartedRank {
        dir,
        set: &name,
        rank,
        newer: &newer,
    };
    let begun = Instant::now();
    truncate_files::undo(&plan, &cut, &restarted, others)?;
    if !plan.is_empty() {
        opened.check_undone_files()?;
        process.check_workdir(None)?;
    }
    for warning in files.open_undone(&process, options.changed_files)? {
        warn(rank, dir, &warning);
    }
    tracing::info!(took = ?begun.elapsed(), "changes of files undone");
    let begun = Instant::now();
    // The next checkpoint is for the same processor.
    let checkpoints = Checkpoints {
        for_cpu: opened.set().manifest().for_cpu.clone(),
        ..options.checkpoints.clone()
    };
    launch::show_processor(&checkpoints);
    let shared = restore_shared::restore(&opened, world.as_ref())?;
    tracing::info!(took = ?begun.elapsed(), "shared memory restored");
    restore_shared::map(&mut opened, &shared)?;
    let grown = options.checkpoints.files.into();
    let begun = Instant::now();
    truncate_files::truncate(&files, &process, &closed, grown, &restarted, others)?;
    tracing::info!(took = ?begun.elapsed(), "files truncated");
    clocks.begin()?;
    let restored = loader::restore(process, registers.as_ref(), numbers, files, &|object| {
        shared.descriptor(object)
    })?;
    tracing::info!("descriptors, timers and handlers restored");
    for warning in restored.warnings() {
        warn(rank, dir, warning);
    }
    drop(shared);
    let set = opened.set().clone();
    agent::set_restored_abi(opened.header().abi.clone());
    if world.is_some() {
        // No rank goes on before all ranks have restored their memory and descriptors.
        world::minimum(0)?;
    }
    fill_gate(world.as_ref());
    launch::redirect(&own);
    job_state::set_command(job.command);
    let lineage = set.manifest().continued()?;
    bootstrap::start(&checkpoints, lineage, Some(set.name().to_owned()))?;
    if world.is_some() {
        record.keep();
        bootstrap::connected(rank, size);
    }
    tracing::info!(took = ?started.elapsed(), "restart: threads resume next");
    if options.copy_of.is_none() {
        // A copy has no set of its own yet to which it could go back.
        restored.note_changes_since(cut);
    }
    if job.mpi_state == MpiState::Finalised as u32 {
        // MPI was only initialised so that the ranks could agree.
        world::finalize();
    }
    if rank == 0 && options.copy_of.is_none() {
        let covered = job.mpi_state == MpiState::Initialised as u32;
        loader::spawn_lower("ckpt-back", move || {
            loader::wait_until_running();
            set.restart_worked();
            if covered {
                keeper::covered(set.number());
            }
        })
        .context("cannot start a thread")?;
    }
    let is_copy = options.copy_of.is_some();
    agent::gpu::thaw();
    restored.go(move || {
        if job.mpi_state == MpiState::Initialised as u32 {
            mpi::share_files(is_copy);
            rebuild();
            mpi::share_files(false);
        }
    })
}

/// The set from which this rank expects to restart. [`same_set`] compares the choices of the ranks.
fn chosen(options: &RestartSpec, rank: u32, size: u32) -> Result<Set> {
    if rank == 0 {
        claim::check_free(&options.checkpoints.dir)?;
    }
    set_named(options, size)
}

/// The set that the options name, or the newest one.
fn set_named(options: &RestartSpec, size: u32) -> Result<Set> {
    let (dir, key) = (
        copy::directory(options),
        options::key(&options.checkpoints)?,
    );
    let mut left_out = keeper::left_out(&options.checkpoints)?;
    if options.set.is_none() && undoes(options) {
        let left_behind = ::restart::left_behind(dir, key.as_ref())?;
        left_out.extend(left_behind.iter().map(|left| left.cut.number));
    }
    let set = ::restart::choose(dir, options.set.as_deref(), &left_out, key.as_ref(), size)?;
    Ok(set)
}

/// Whether changes of files are undone. The journals in the directory of a copy are the first job's.
fn undoes(options: &RestartSpec) -> bool {
    options.checkpoints.files == FilePolicy::Undo && options.copy_of.is_none()
}

/// Verifies the rank's image and opens its files, before the new MPI library can take the numbers of their descriptors.
/// If MPI is initialised already, `held` has reserved these numbers.
/// `early` is an image that was mapped in advance, perhaps that of an older set.
fn part(
    options: &RestartSpec,
    set: &Set,
    rank: u32,
    held: Option<HeldNumbers>,
    early: Option<Opened>,
) -> Result<Part> {
    let (begun, shown) = (Instant::now(), Bytes::new(0));
    let tell = |read| {
        let seconds = begun.elapsed().as_secs_f64();
        if rank == 0 {
            let mib = read >> 20;
            let said = format_args!("{mib} MiB of its image read and verified in {seconds:.0} s");
            console::say(rank, said);
        }
    };
    shown.during(EVERY, tell, || {
        verified(options, set, rank, &shown, held, early)
    })
}

fn verified(
    options: &RestartSpec,
    set: &Set,
    rank: u32,
    shown: &Bytes,
    held: Option<HeldNumbers>,
    early: Option<Opened>,
) -> Result<Part> {
    let key = options::key(&options.checkpoints)?;
    let (name, size) = (set.name(), set.manifest().world_size);
    shown.of(set.bytes_of(rank));
    shown.at(format!("{name}, rank {rank} of {size}"));
    let dir = copy::directory(options);
    let id = set.manifest().set_id;
    let opened = match early.filter(|early| early.manifest().set_id == id) {
        Some(early) => early,
        None => ::restart::open_in(dir, set.clone(), key.as_ref(), rank, size, shown.counter())?,
    };
    let Sections {
        mut process,
        registers,
        numbers,
        mut closed,
        job,
        record,
        clocks,
    } = Sections::of(opened.image())?;
    job_state::check_table(&job)
        .with_context(|| format!("{name}: the image of rank {rank} cannot be used"))?;
    let tools = &options.checkpoints.tools;
    let clocks = clocks::Plan::of_restart(tools.record.as_ref(), id, clocks.as_ref(), rank)?;
    // A record of calls begins in MPI_Init, and ends before MPI_Finalize.
    let record = match job.mpi_state == MpiState::Initialised as u32 {
        true => record::Plan::of_restart(tools, id, record.as_ref(), rank, size)?,
        false => record::Plan::default(),
    };
    let first = options.copy_of.as_ref();
    let copied = first.map(|first| copy::files(first, &opened, &mut process, &mut closed));
    let copied = copied.transpose().with_context(|| {
        format!("rank {rank} of {name} cannot be copied, and nothing of the first job was changed")
    })?;
    let plan = match undoes(options) {
        true => {
            ::restart::check_not_left_behind(dir, set)?;
            Plan::read(dir, &cut_of(set))
                .with_context(|| format!("the undo journals in {} cannot be read", dir.display()))?
        }
        false => Plan::default(),
    };
    let host = coordinator::net::addresses::host();
    let checks = Checks {
        changed: options.changed_files,
        undo: Some((&plan, &host)),
    };
    opened.check_files(checks.undo)?;
    process.check_workdir(checks.undo)?;
    let files = loader::open_files(&process, &checks, held)?;
    for warning in &files.warnings {
        warn(rank, dir, warning);
    }
    Ok(Part {
        opened,
        process,
        registers,
        numbers,
        closed,
        files,
        job,
        plan,
        record,
        clocks,
        copied,
    })
}

/// Initialises MPI, if it was not before, and checks that every rank can be restored before any rank is. A rank that
/// cannot must not simply end here: the others would wait for it.
fn join(
    options: &RestartSpec,
    before: Option<Initialised>,
    set: Option<&Set>,
    part: Result<Part>,
    rank: u32,
    size: u32,
) -> Result<(World, Part)> {
    let away = set.is_some_and(|set| !set.reaches(rank));
    let told = set.and_then(|set| set.manifest().thread_level);
    let was_before = before.is_some();
    let Initialised {
        world, level, held, ..
    } = match before {
        Some(before) => before,
        None => {
            let held = away.then(HeldNumbers::take).transpose()?;
            let level = match &part {
                Ok(part) => part.job.thread_level,
                Err(_) => told.unwrap_or(abi::THREAD_SINGLE),
            };
            let world = world::initialise(level)?;
            Initialised {
                world,
                level,
                held,
                early: None,
            }
        }
    };
    let choices = Choices::gather(set, away)?;
    let fetched = choices.fetch(set, away, &world)?;
    if away {
        tracing::info!(fetched, "image was on another machine");
    }
    let part = match set.filter(|_| fetched && away) {
        Some(set) => self::part(options, set, rank, held, None).and_then(|part| {
            ensure!(
                part.job.thread_level <= level,
                "rank {rank} needs a higher MPI thread level than was requested before its image was readable. \
                 The image is in the checkpoint directory now: start the restart again"
            );
            Ok(part)
        }),
        None => part,
    };
    let part = part.and_then(|part| {
        ensure!(
            !was_before || part.job.mpi_state != MpiState::NotInitialised as u32 && part.job.thread_level <= level,
            "rank {rank} has called MPI_Init otherwise than its standby world: the job is started anew"
        );
        Ok(part)
    });
    let left_out = choices.leave_out(set, part.as_ref().err(), rank, options)?;
    let code = part.as_ref().err().map_or(0, exit_code::of_restart);
    // `stasis run` says it then, once for all ranks.
    if let Some(why) = part.as_ref().err().filter(|_| !left_out) {
        // The message comes before the ranks agree: when the first rank ends, its launcher kills the others.
        refusal::tell(&options.checkpoints.dir, why, code);
    }
    // All ranks end with the same exit code, since a launcher may report that of any rank.
    let code = -world::minimum(-i64::from(code))?;
    // The image was chosen by the rank in the launcher's environment. The rank in MPI must be the same.
    let agreed = world::minimum(i64::from((world.rank, world.size) == (rank, size)))? == 1;
    if code != 0 && part.is_ok() && !left_out {
        keeper::refuses(None, i32::try_from(code)?);
    }
    match part {
        Ok(part) if code == 0 && agreed => {
            same_set(set, &choices, left_out, options)?;
            return Ok((world, part));
        }
        _ => world::finalize(),
    };
    if !agreed {
        bail!(
            "MPI says rank {} of {}, but the launcher's environment says rank {rank} of {size}; nothing was \
             restored. Start the restart with the mpirun that belongs to this MPI library, or choose another \
             library with `stasis restart --mpi`",
            world.rank,
            world.size
        );
    }
    // The rank that failed has printed the reason.
    std::process::exit(i32::try_from(code).unwrap_or(ExitCode::Image.number()));
}

/// Prints which rank was the slowest to read its image, if that took long.
fn tell_the_slowest(took: Duration, rank: u32, size: u32) -> Result<()> {
    let slowest = -world::minimum(-slowness(rank, took))?;
    if let (0, Some(line)) = (rank, slowest_rank_line(slowest, size)) {
        message::say(line);
    }
    Ok(())
}

/// Checks that all ranks have chosen the same set. A rank has chosen an older set if it cannot read its image of the
/// newest, because that image is in a local directory of another machine.
/// `left_out` tells that `stasis run` knows, and that the job goes on from an older one.
fn same_set(
    set: Option<&Set>,
    choices: &Choices,
    left_out: bool,
    options: &RestartSpec,
) -> Result<()> {
    if choices.agree() {
        return Ok(());
    }
    let Choices { oldest, newest, .. } = choices;
    if set.map_or(0, Set::number) < *newest && !left_out {
        let dir = copy::directory(options);
        let why = anyhow!(
            "this rank cannot reach its image of ckpt-{newest}, which other ranks can use: it is in a \
             local directory (`stasis list {}` says where) and was not drained yet. Nothing was restored. \
             Restart on the same machines, or from an older checkpoint: stasis restart {}",
            shell::word(dir),
            shell::word(dir.join(set_name(*oldest)))
        );
        refusal::tell(&options.checkpoints.dir, &why, ExitCode::Image.number());
    } else if !left_out {
        keeper::refuses(None, ExitCode::Image.number());
    }
    // All ranks have printed their messages before the first one ends.
    world::minimum(0)?;
    world::finalize();
    std::process::exit(ExitCode::Image.number());
}

fn fill_gate(world: Option<&World>) {
    let gate = gate();
    recorder::attach();
    mpi::fill(gate);
    gate.phase
        .store(contract::Phase::Run as u32, Ordering::Relaxed);
    gate.lower.epoch.fetch_add(1, Ordering::Relaxed);
    gate.record.store(0, Ordering::Relaxed);
    if let Some(world) = world {
        world.publish(gate);
    }
}

/// Calls the upper half to rebuild its MPI objects. Runs with the upper thread pointer.
fn rebuild() {
    let entry = gate().upper.rebuild.load(Ordering::Acquire);
    if entry == 0 {
        return;
    }
    // SAFETY: see the head of this file. The type is that of `contract::UpperEntry`.
    unsafe { std::mem::transmute::<usize, extern "C" fn()>(entry)() };
}

/// Tells the user and the job's history what the rank has to say about its restart.
fn warn(rank: u32, directory: &Path, warning: &str) {
    tracing::warn!(warning, "restart");
    console::say(rank, warning);
    if (rank as usize) < MOST_LISTED {
        let text = shortened(warning);
        let entry = Entry::now(Event::Warning { rank, text });
        if let Err(why) = history::file::append(directory, &entry) {
            tracing::warn!(%why, "warning not noted");
        }
    }
}
