//! Bringing an upper half back from its image, as a fresh MPI program.
//!
//! # Safety
//! The one unsafe call is that of the upper half's own entry point, on a thread that has the upper
//! thread pointer, as `contract::UpperEntry` demands.
#![allow(unsafe_code)]

use std::convert::Infallible;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ::restart::{JobState, Opened, Sections};
use anyhow::{anyhow, bail, ensure, Context, Result};
use ckpt_image::{Lineage, Set};
use contract::{abi, gate, MpiState};
use coordinator::client::Client;
use launcher::message;
use loader::{Checks, ClosedFiles, GrownFiles, HeldNumbers, OpenedFiles, ProcessState};
use progress::Bytes;
use undo::{Cut, Plan};

use crate::grown::{self, Place};
use crate::mpi::world::{self, World};
use crate::options::{Files, Restart};
use crate::slowest::{of_the_slowest, slowness, EVERY};
use crate::{agent, environment, fetch, job, launch, mpi, share, wire_up, wrapper, BAD_IMAGE};

/// This rank's part of the set: verified, and nothing of it used yet.
struct Part {
    opened: Opened,
    process: ProcessState,
    closed: ClosedFiles,
    files: OpenedFiles,
    job: JobState,
    /// What all ranks have changed in files since, as far as it is to be undone.
    plan: Plan,
}

/// Brings the rank back; returns only if that cannot be done.
pub fn resume(options: Restart) -> Result<Infallible> {
    environment::settle()?;
    loader::check_address_space()?;
    loader::start_aside().context(agent::NO_TABLE)?;
    let own = std::env::current_exe().context("cannot find the lower half's own path")?;
    let (rank, size) = (launcher::rank().unwrap_or(0), launcher::size().unwrap_or(1));
    let begun = Instant::now();
    let (set, part) = match chosen(&options, rank, size) {
        Ok(set) => {
            let part = part(&options, &set, rank, None);
            (Some(set), part)
        }
        Err(why) => (None, Err(why)),
    };
    let took = begun.elapsed();
    let needs_mpi = part.as_ref().map_or(size > 1, |part| {
        part.job.mpi_state != MpiState::NotInitialised as u32
    });
    let (world, part) = match needs_mpi {
        true => {
            let (world, part) = join(&options, set.as_ref(), part, rank, size)?;
            tell_the_slowest(took, rank, size)?;
            (Some(world), part)
        }
        false => (None, part?),
    };
    let Part {
        opened,
        process,
        closed,
        mut files,
        job,
        plan,
    } = part;
    wrapper::tell_lost(&opened);
    if rank == 0 {
        // All have chosen their set by now, and could be brought back.
        let library = world::library();
        message::say(format_args!(
            "continuing {} from {} under {}",
            job.command.join(" "),
            opened.set().name(),
            library.split(',').next().unwrap_or_default()
        ));
        opened.set().restart_begun()?;
    }
    let others = world.as_ref().map(|world| world.size);
    let cut = cut_of(opened.set());
    let dir = &options.checkpoints.dir;
    let name = opened.set().name().to_owned();
    let place = Place {
        dir,
        set: &name,
        rank,
    };
    grown::undo(&plan, &cut, &place, others)?;
    for warning in files.open_undone(&process, options.changed_files)? {
        crate::say(rank, warning);
    }
    let shared = share::restore(&opened, world.as_ref())?;
    opened.map(&shared)?;
    loader::set_shm_ids(shared.segments().to_vec());
    let grown = match options.checkpoints.files {
        Files::Undo | Files::Cut => GrownFiles::Cut,
        Files::Leave => GrownFiles::Leave,
    };
    grown::cut_back(&files, &process, &closed, grown, &place, others)?;
    let restored = loader::restore(process, files, &|object| shared.descriptor(object))?;
    drop(shared);
    let set = opened.set().clone();
    agent::set_restored_abi(opened.header().abi.clone());
    if world.is_some() {
        // No rank goes on before all can.
        world::minimum(0)?;
    }
    fill_gate(world.as_ref());
    launch::redirect(&own);
    job::set_command(job.command);
    wire_up::start(&options.checkpoints, Lineage::continuing(set.manifest())?)?;
    if world.is_some() {
        wire_up::connected(rank, size);
    }
    restored.note_changes_since(cut);
    if job.mpi_state == MpiState::Finalised as u32 {
        // It was only needed for the ranks to find each other.
        world::finalize();
    }
    if rank == 0 {
        loader::spawn_lower("ckpt-back", move || {
            loader::wait_until_running();
            set.restart_worked();
        })
        .context("a thread cannot be started")?;
    }
    restored.go(move || {
        if job.mpi_state == MpiState::Initialised as u32 {
            rebuild();
        }
    })
}

/// The set from which the job is brought back, as far as this rank can tell.
fn chosen(options: &Restart, rank: u32, size: u32) -> Result<Set> {
    let dir = &options.checkpoints.dir;
    if rank == 0 {
        Client::check_free(dir)?;
    }
    let key = options.checkpoints.key()?;
    let set = ::restart::choose(dir, options.set.as_deref(), key.as_ref(), size)?;
    Ok(set)
}

/// Verifies the rank's image and opens its files, whose numbers the fresh MPI library must not take: they are
/// held where that is there already.
fn part(options: &Restart, set: &Set, rank: u32, held: Option<HeldNumbers>) -> Result<Part> {
    let (begun, shown) = (Instant::now(), Bytes::new(0));
    let tell = |read| {
        let seconds = begun.elapsed().as_secs_f64();
        if rank == 0 {
            let mib = read >> 20;
            let said = format_args!("{mib} MiB of its image read and verified in {seconds:.0} s");
            crate::say(rank, said);
        }
    };
    shown.during(EVERY, tell, || verified(options, set, rank, &shown, held))
}

fn verified(
    options: &Restart,
    set: &Set,
    rank: u32,
    shown: &Bytes,
    held: Option<HeldNumbers>,
) -> Result<Part> {
    let key = options.checkpoints.key()?;
    let (name, size) = (set.name(), set.manifest().world_size);
    shown.of(set.bytes_of(rank));
    shown.at(format!("{name}, rank {rank} of {size}"));
    let dir = &options.checkpoints.dir;
    let opened = ::restart::open_in(dir, set.clone(), key.as_ref(), rank, size, shown.counter())?;
    let Sections {
        process,
        closed,
        job,
    } = Sections::of(opened.image())?;
    job::suits(&job).with_context(|| format!("{name}: the image of rank {rank} cannot be used"))?;
    let plan = match options.checkpoints.files {
        Files::Undo => Plan::read(dir, &cut_of(set))
            .with_context(|| format!("the undo journals in {} cannot be read", dir.display()))?,
        Files::Cut | Files::Leave => Plan::default(),
    };
    let host = coordinator::addresses::host();
    let checks = Checks {
        changed: options.changed_files,
        undo: Some((&plan, &host)),
    };
    let files = loader::open_files(&process, &checks, held)?;
    for warning in &files.warnings {
        crate::say(rank, warning);
    }
    Ok(Part {
        opened,
        process,
        closed,
        files,
        job,
        plan,
    })
}

/// The cut at which a set was made.
fn cut_of(set: &Set) -> Cut {
    Cut {
        number: set.number(),
        id: set.manifest().set_id.0,
    }
}

/// Initialises MPI, and makes sure that every rank can be brought back before any is: one that
/// just ended here would leave the others waiting for it.
fn join(
    options: &Restart,
    set: Option<&Set>,
    part: Result<Part>,
    rank: u32,
    size: u32,
) -> Result<(World, Part)> {
    let away = set.is_some_and(|set| !set.reaches(rank));
    let held = away.then(HeldNumbers::take).transpose()?;
    let told = set.and_then(|set| set.manifest().thread_level);
    let level = match &part {
        Ok(part) => part.job.thread_level,
        Err(_) => told.unwrap_or(abi::THREAD_SINGLE),
    };
    let world = world::initialise(level)?;
    let fetched = fetch::images(set, away, &world)?;
    let part = match set.filter(|_| fetched && away) {
        Some(set) => self::part(options, set, rank, held).and_then(|part| {
            ensure!(
                part.job.thread_level <= level,
                "rank {rank} needs more of MPI's thread levels than rank 0; its image is in the checkpoint \
                 directory now: start the restart again"
            );
            Ok(part)
        }),
        None => part,
    };
    if let Err(why) = &part {
        // Before any rank knows of it: when the first of them ends, its launcher ends the others.
        crate::tell(why);
    }
    // What the job ends with is the same in all: launchers take the one rank's or another's.
    let code = part.as_ref().err().map_or(0, crate::restart_code);
    let code = -world::minimum(-i64::from(code))?;
    // The image was chosen by the launcher's word; MPI has the last.
    let agreed = world::minimum(i64::from((world.rank, world.size) == (rank, size)))? == 1;
    match part {
        Ok(part) if code == 0 && agreed => {
            same_set(set, &options.checkpoints.dir)?;
            return Ok((world, part));
        }
        _ => world::finalize(),
    };
    if !agreed {
        bail!(
            "MPI says rank {} of {}, the launcher's environment rank {rank} of {size}; nothing was \
             restored. Start the restart with the mpirun that belongs to this MPI library \
             (`stasis restart --mpi` names another)",
            world.rank,
            world.size
        );
    }
    // The rank that cannot has said why.
    std::process::exit(i32::try_from(code).unwrap_or(BAD_IMAGE));
}

/// All ranks have read their images.
fn tell_the_slowest(took: Duration, rank: u32, size: u32) -> Result<()> {
    let slowest = -world::minimum(-slowness(rank, took))?;
    if let (0, Some(line)) = (rank, of_the_slowest(slowest, size)) {
        message::say(line);
    }
    Ok(())
}

/// Makes sure that all ranks have chosen the same set: of the newest, one may not reach its image, because
/// that is in a local directory of another machine.
fn same_set(set: Option<&Set>, dir: &Path) -> Result<()> {
    let number = set.map_or(0, Set::number);
    let number = i64::try_from(number).context("the set has too high a number")?;
    let (oldest, newest) = world::extremes(number)?;
    if oldest == newest {
        return Ok(());
    }
    if number < newest {
        crate::tell(&anyhow!(
            "this rank cannot reach its image of ckpt-{newest}, which other ranks can use: it lies in a \
             local directory (`stasis list {0}` says where) and was not drained yet. Nothing was restored. \
             Restart on the same machines, or from an older checkpoint: stasis restart {0}/ckpt-{oldest}",
            dir.display()
        ));
    }
    // All have said so before the first of them ends.
    world::minimum(0)?;
    world::finalize();
    std::process::exit(BAD_IMAGE);
}

fn fill_gate(world: Option<&World>) {
    let gate = gate();
    mpi::fill(gate);
    gate.phase
        .store(contract::Phase::Run as u32, Ordering::Relaxed);
    gate.lower.epoch.fetch_add(1, Ordering::Relaxed);
    if let Some(world) = world {
        world.publish(gate);
    }
}

/// Has the upper half make its MPI objects anew. Runs with the upper thread pointer.
fn rebuild() {
    let entry = gate().upper.rebuild.load(Ordering::Acquire);
    if entry == 0 {
        return;
    }
    // SAFETY: see the head of this file; the type is the contract's.
    unsafe { std::mem::transmute::<usize, extern "C" fn()>(entry)() };
}
