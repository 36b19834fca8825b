//! The profile of this rank's calls (`--profile`). The upper half counts them (`contract::profile`). The rank's file in
//! the checkpoint directory is written when a checkpoint is committed, when `stasis status` asks, and at the end. In
//! MPI_Finalize rank 0 prints the sum.
//!
//! # Safety
//! The address in the gate is that of the upper half's counters, which live as long as the process and are atomics.
#![allow(unsafe_code)]

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ::profile::file::{Communicator, Datatype, Function, SizeClass};
use ::profile::{Job, Rank};
use anyhow::{Context, Result};
use contract::abi::datatype;
use contract::profile::{Counts, FunctionCounts, Profile, FIRST_COMBINER, OTHER_COMMS};
use contract::{gate, MpiState};
use job_spec::shell;
use launcher::message;

use crate::mpi::{self, world};
use crate::{agent, console, tools};

/// Functions that make derived datatypes, in the order of their combiners.
const COMBINERS: [&str; 17] = [
    "",
    "MPI_Type_dup",
    "MPI_Type_contiguous",
    "MPI_Type_vector",
    "MPI_Type_create_hvector",
    "MPI_Type_indexed",
    "MPI_Type_create_hindexed",
    "MPI_Type_create_indexed_block",
    "MPI_Type_create_hindexed_block",
    "MPI_Type_create_struct",
    "MPI_Type_create_subarray",
    "MPI_Type_create_darray",
    "MPI_Type_create_f90_real",
    "MPI_Type_create_f90_complex",
    "MPI_Type_create_f90_integer",
    "MPI_Type_create_resized",
    "MPI_Type_get_value_index",
];

const _: () = assert!(contract::abi::COMBINER_NAMED == FIRST_COMBINER);
const _: () = assert!(
    contract::abi::COMBINER_VALUE_INDEX as usize == FIRST_COMBINER as usize + COMBINERS.len() - 1
);

/// The counters, if calls are counted.
fn counters() -> Option<&'static Profile> {
    let address = gate().profile.load(Ordering::Acquire) as *const Profile;
    // SAFETY: see the module's head.
    unsafe { address.as_ref() }
}

/// MPI is initialised, and the job begins: rank 0 removes the files of an older one, and makes the folder of this one
/// if its calls are counted.
pub fn begin(rank: u32) -> Result<()> {
    if rank != 0 {
        return Ok(());
    }
    let directory = agent::directory()?;
    let removed = || ::profile::file::remove(directory);
    outside(removed)?.context("the profile of an older job cannot be removed")?;
    if !tools::agreed().profile {
        return Ok(());
    }
    let made = || ::profile::file::make_folder(directory);
    outside(made)?.context("the profile's folder cannot be made")
}

/// Writes the rank's file, if calls are counted and MPI is in use. Returns whether both are so.
pub fn write() -> bool {
    let _one = one_at_a_time();
    let counters = counters().filter(|_| gate().mpi_is(MpiState::Initialised));
    if let Some(counters) = counters {
        write_file(&rank(counters));
    }
    counters.is_some()
}

/// The program ends. If it has not called MPI_Finalize, nobody has added up the ranks' numbers: rank 0 says where they
/// are.
pub fn program_ends() {
    let is_first = gate().lower.rank.load(Ordering::Acquire) == 0;
    if let (true, true, Ok(directory)) = (write(), is_first, agent::directory()) {
        message::say(format_args!(
            "the program ends without MPI_Finalize, so its MPI calls are not added up here; see `stasis profile {}`",
            shell::word(directory)
        ));
    }
}

/// Held from the look at the counters until the file is there: the agent may be asked for it while the program ends,
/// and the file has the last numbers then.
fn one_at_a_time() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn write_file(rank: &Rank) {
    let write = |directory: &Path| {
        outside(|| rank.write(directory))?.context("the profile cannot be written")
    };
    tell_failure(agent::directory().and_then(write));
}

/// MPI is about to be finalised: writes the file, and prints the sum in rank 0.
pub fn finish() {
    let Some(counters) = counters() else {
        return;
    };
    let own = {
        let _one = one_at_a_time();
        let own = rank(counters);
        write_file(&own);
        own
    };
    match world::gather_values(&own, own.size) {
        Ok(ranks) if own.rank == 0 => {
            if let Some(job) = Job::of(ranks) {
                message::say(::profile::text::of(&job));
            }
        }
        gathered => tell_failure(gathered.map(drop)),
    }
}

fn tell_failure(result: Result<()>) {
    if let Err(why) = result {
        console::tell(&why);
    }
}

/// Runs `work` where files that it opens take no numbers of the application's descriptors.
fn outside<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T> {
    loader::on_own_fd_table(work).context("no thread could be made")
}

/// The rank's numbers.
fn rank(counters: &Profile) -> Rank {
    let lower = &gate().lower;
    let begun = load(&counters.begun);
    let named = datatype::ALL.iter().filter_map(|(name, value)| {
        let counts = counters.named_types.get(*value)?;
        datatype_of(name, counts)
    });
    let derived = COMBINERS.iter().zip(&counters.derived_types);
    let derived = derived.filter_map(|(name, counts)| datatype_of(name, counts));
    Rank {
        rank: lower.rank.load(Ordering::Acquire),
        size: lower.size.load(Ordering::Acquire),
        elapsed_seconds: seconds(load(&counters.last).saturating_sub(begun)),
        mpi_seconds: seconds(load(&counters.time)),
        threads: counters.threads.load(Ordering::Relaxed),
        functions: functions(counters),
        communicators: communicators(counters),
        datatypes: named.chain(derived).collect(),
    }
}

fn functions(counters: &Profile) -> Vec<Function> {
    let function = |(slot, counts): (usize, &FunctionCounts)| {
        let calls = load(&counts.all.calls);
        let name = mpi::name_of(slot).filter(|_| calls > 0)?;
        let class = |(class, calls): (usize, &AtomicU64)| SizeClass {
            from_bytes: match class {
                0 => 0,
                class => 1 << (class - 1),
            },
            calls: load(calls),
        };
        let sizes = counts.sizes.iter().enumerate().map(class);
        Some(Function {
            function: name.to_owned(),
            calls,
            bytes: load(&counts.all.bytes),
            seconds: seconds(load(&counts.time)),
            sizes: sizes.filter(|size| size.calls > 0).collect(),
        })
    };
    let all = counters.functions.iter().enumerate();
    all.filter_map(function).collect()
}

fn communicators(counters: &Profile) -> Vec<Communicator> {
    let used = counters.comms.iter().filter(|comm| load(&comm.id) != 0);
    used.map(|comm| {
        let id = load(&comm.id);
        let name: Vec<u8> = comm
            .name
            .iter()
            .flat_map(|word| load(word).to_le_bytes())
            .take_while(|byte| *byte != 0)
            .collect();
        Communicator {
            id: (id != OTHER_COMMS).then(|| format!("{id:x}")),
            name: String::from_utf8_lossy(&name).into_owned(),
            processes: comm.size.load(Ordering::Relaxed),
            calls: load(&comm.all.calls),
            bytes: load(&comm.all.bytes),
            seconds: seconds(load(&comm.time)),
        }
    })
    .collect()
}

fn datatype_of(name: &str, counts: &Counts) -> Option<Datatype> {
    let calls = load(&counts.calls);
    (calls > 0).then(|| Datatype {
        datatype: name.to_owned(),
        calls,
        bytes: load(&counts.bytes),
    })
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 * 1e-9
}
