//! MPI for the lower half's own use: initialising it, and agreeing among all ranks.
//!
//! # Safety
//! Plain calls of MPI functions with locals and slices that live as long as the call.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{bail, Context};
use contract::{abi, Gate};
use serde::de::DeserializeOwned;
use serde::Serialize;

use super::backoff;
use super::convert::value_map::{self, NATIVE_SUCCESS};
use super::convert::{error, native};
use super::{hooks, progress_turn, registration_caches};

/// The job, as MPI describes it after initialisation.
#[derive(Clone, Copy, Debug)]
pub struct World {
    /// This process's rank in MPI_COMM_WORLD.
    pub rank: u32,
    /// Number of ranks.
    pub size: u32,
    /// Thread level that the library provides, as a standard value.
    pub thread_level: i32,
    /// The largest tag.
    pub tag_ub: i32,
}

impl World {
    /// Writes rank and size into the gate.
    pub fn publish(&self, gate: &Gate) {
        gate.lower.rank.store(self.rank, Ordering::Relaxed);
        gate.lower.size.store(self.size, Ordering::Release);
    }
}

/// The rank, for messages; `u32::MAX` before initialisation.
static RANK: AtomicU32 = AtomicU32::new(u32::MAX);

/// This process's rank, once MPI is initialised.
pub fn rank() -> Option<u32> {
    Some(RANK.load(Ordering::Relaxed)).filter(|rank| *rank != u32::MAX)
}

/// The job of a rank that runs alone, in the place of the one that the library sees.
static STANDS_FOR: OnceLock<World> = OnceLock::new();

/// This process is to be a rank of a job that does not run.
pub fn stand_for(world: World) {
    STANDS_FOR.get_or_init(|| world);
}

/// The thread level that the library provides, as a standard value.
static THREAD_LEVEL: AtomicI32 = AtomicI32::new(abi::THREAD_SINGLE);

/// The thread level that the library provides, once MPI is initialised.
pub fn thread_level() -> i32 {
    THREAD_LEVEL.load(Ordering::Relaxed)
}

/// Name and version of the library, for people: the first line of its version string.
pub fn library() -> String {
    let mut text = [0_u8; mpi_sys::MPI_MAX_LIBRARY_VERSION_STRING as usize];
    let mut length = 0;
    // SAFETY: allowed before MPI_Init; a buffer of the size that the library asks for.
    unsafe { mpi_sys::MPI_Get_library_version(text.as_mut_ptr().cast(), &mut length) };
    let text =
        String::from_utf8_lossy(&text[..usize::try_from(length).unwrap_or(0).min(text.len())]);
    let line = text.lines().next().unwrap_or_default();
    line.trim_end_matches('\0')
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

fn check(code: c_int, what: &str) -> anyhow::Result<()> {
    if code == NATIVE_SUCCESS {
        return Ok(());
    }
    let class = error::standard(code);
    let text = error::last_text();
    bail!(
        "{what} failed with error class {class}: {}",
        String::from_utf8_lossy(&text)
    )
}

/// Variable that, with the value `multiple`, makes the lower half request MPI_THREAD_MULTIPLE, whatever the program
/// requests. It is for programs that call MPI from several threads without a request for that level.
const THREADS: &str = "STASIS_THREADS";

/// Thread level to request from the library if the program requests `required`.
fn level_for(required: i32) -> anyhow::Result<i32> {
    match std::env::var(THREADS).as_deref() {
        Err(std::env::VarError::NotPresent) => Ok(required),
        Ok("multiple") => Ok(abi::THREAD_MULTIPLE),
        other => {
            bail!("{THREADS} is {other:?}, and can only be 'multiple': set it so, or unset it")
        }
    }
}

/// MPI_Init_thread with a standard thread level. Errors on the predefined communicators are
/// returned from then on.
pub fn initialise(required: i32) -> anyhow::Result<World> {
    let required = level_for(required)?;
    let (mut provided, mut rank, mut size) = (0, 0, 0);
    // SAFETY: locals and the library's constants; the error handler is set as soon as can be.
    unsafe {
        let required = value_map::thread_level_native(required);
        // The application's signals are for its own threads, not for threads of the library.
        let code = loader::holding_signals(|| {
            mpi_sys::MPI_Init_thread(null_mut(), null_mut(), required, &mut provided)
        });
        check(code, "MPI_Init_thread")?;
        progress_turn::start();
        registration_caches::watch();
        let world = mpi_sys::RSMPI_COMM_WORLD;
        error::return_errors_of_comm(world);
        error::return_errors_of_comm(mpi_sys::RSMPI_COMM_SELF);
        check(mpi_sys::MPI_Comm_rank(world, &mut rank), "MPI_Comm_rank")?;
        check(mpi_sys::MPI_Comm_size(world, &mut size), "MPI_Comm_size")?;
    }
    if let Some(world) = STANDS_FOR.get() {
        RANK.store(world.rank, Ordering::Relaxed);
        return Ok(*world);
    }
    let rank = u32::try_from(rank).context("MPI gave this process a negative rank")?;
    RANK.store(rank, Ordering::Relaxed);
    let size = u32::try_from(size).context("MPI gave the job a negative size")?;
    backoff::set_ranks_here(launcher::ranks_here().unwrap_or(size));
    let thread_level = value_map::thread_level_standard(provided);
    THREAD_LEVEL.store(thread_level, Ordering::Relaxed);
    Ok(World {
        rank,
        size,
        thread_level,
        tag_ub: tag_ub(),
    })
}

/// The largest tag; the value that the standard guarantees if the library has no attribute.
pub fn tag_ub() -> i32 {
    const GUARANTEED: i32 = 32767;
    let mut value: *mut c_int = null_mut();
    let mut flag = 0;
    // SAFETY: the attribute's value is a pointer to an int that lives as long as MPI.
    unsafe {
        let key = value_map::keyval_native(abi::TAG_UB);
        let to: *mut c_void = (&raw mut value).cast();
        let world = mpi_sys::RSMPI_COMM_WORLD;
        let code = mpi_sys::MPI_Comm_get_attr(world, key, to, &mut flag);
        match code == NATIVE_SUCCESS && flag != 0 && !value.is_null() {
            true => *value,
            false => GUARANTEED,
        }
    }
}

/// Sends `bytes` of rank `root` to all ranks.
pub fn broadcast(bytes: &mut [u8], root: u32) -> anyhow::Result<()> {
    let count = c_int::try_from(bytes.len()).context("a broadcast of over 2 GiB")?;
    let root = c_int::try_from(root).context("a rank above the largest int")?;
    // SAFETY: a buffer of `count` bytes.
    let code = unsafe {
        mpi_sys::MPI_Bcast(
            bytes.as_mut_ptr().cast(),
            count,
            mpi_sys::RSMPI_UINT8_T,
            root,
            mpi_sys::RSMPI_COMM_WORLD,
        )
    };
    check(code, "MPI_Bcast")
}

/// Tag of [`send`]. Any tag will do, since messages of two ranks before MPI_Init returns to the application are
/// received before the application sends any.
const TAG: c_int = 0;

/// Sends `bytes` to a rank that will [`receive`] as many, before MPI_Init has returned in either.
pub fn send(bytes: &[u8], to: u32) -> anyhow::Result<()> {
    let count = c_int::try_from(bytes.len()).context("a message of over 2 GiB")?;
    let to = c_int::try_from(to).context("a rank above the largest int")?;
    // SAFETY: `count` bytes to send.
    let code = unsafe {
        mpi_sys::MPI_Send(
            bytes.as_ptr().cast(),
            count,
            mpi_sys::RSMPI_UINT8_T,
            to,
            TAG,
            mpi_sys::RSMPI_COMM_WORLD,
        )
    };
    check(code, "MPI_Send")
}

/// Fills `bytes` with what rank `from` [`send`]s.
pub fn receive(bytes: &mut [u8], from: u32) -> anyhow::Result<()> {
    let count = c_int::try_from(bytes.len()).context("a message of over 2 GiB")?;
    let from = c_int::try_from(from).context("a rank above the largest int")?;
    // SAFETY: a buffer of `count` bytes; the status is not wanted.
    let code = unsafe {
        mpi_sys::MPI_Recv(
            bytes.as_mut_ptr().cast(),
            count,
            mpi_sys::RSMPI_UINT8_T,
            from,
            TAG,
            mpi_sys::RSMPI_COMM_WORLD,
            native::STATUS_IGNORE as *mut mpi_sys::MPI_Status,
        )
    };
    check(code, "MPI_Recv")
}

/// Collects `bytes` of every rank in all ranks, in rank order.
fn gather(bytes: &[u8], size: u32) -> anyhow::Result<Vec<Vec<u8>>> {
    let own = c_int::try_from(bytes.len()).context("gathering over 2 GiB from a rank")?;
    let mut lengths: Vec<c_int> = vec![0; size as usize];
    // SAFETY: one int to send, one of each rank to receive.
    let code = unsafe {
        mpi_sys::MPI_Allgather(
            (&raw const own).cast(),
            1,
            mpi_sys::RSMPI_INT32_T,
            lengths.as_mut_ptr().cast(),
            1,
            mpi_sys::RSMPI_INT32_T,
            mpi_sys::RSMPI_COMM_WORLD,
        )
    };
    check(code, "MPI_Allgather")?;
    let mut places: Vec<c_int> = Vec::with_capacity(lengths.len());
    let mut total: c_int = 0;
    for length in &lengths {
        places.push(total);
        let sum = total.checked_add(*length);
        total = sum.context("gathering over 2 GiB from all ranks")?;
    }
    let mut all = vec![0_u8; total as usize];
    // SAFETY: `own` bytes to send; room for those of each rank at its place.
    let code = unsafe {
        mpi_sys::MPI_Allgatherv(
            bytes.as_ptr().cast(),
            own,
            mpi_sys::RSMPI_UINT8_T,
            all.as_mut_ptr().cast(),
            lengths.as_ptr(),
            places.as_ptr(),
            mpi_sys::RSMPI_UINT8_T,
            mpi_sys::RSMPI_COMM_WORLD,
        )
    };
    check(code, "MPI_Allgatherv")?;
    let parts = lengths.iter().map(|length| *length as usize);
    let mut rest = &all[..];
    Ok(parts
        .map(|length| {
            let (part, after) = rest.split_at(length);
            rest = after;
            part.to_vec()
        })
        .collect())
}

/// Collects a value of every rank in all ranks, in rank order.
pub fn gather_values<T: DeserializeOwned>(
    value: &impl Serialize,
    size: u32,
) -> anyhow::Result<Vec<T>> {
    let all = gather(&postcard::to_stdvec(value)?, size)?;
    all.iter()
        .map(|told| postcard::from_bytes(told).context("another rank sent what cannot be read"))
        .collect()
}

/// The smallest and the largest of all ranks' values.
pub fn extremes(value: i64) -> anyhow::Result<(i64, i64)> {
    Ok((minimum(value)?, -minimum(-value)?))
}

/// The smallest of all ranks' values. Ranks use it to agree.
pub fn minimum(value: i64) -> anyhow::Result<i64> {
    let mut smallest = value;
    // SAFETY: one integer to read and one to write.
    let code = unsafe {
        mpi_sys::MPI_Allreduce(
            (&raw const value).cast(),
            (&raw mut smallest).cast(),
            1,
            mpi_sys::RSMPI_INT64_T,
            mpi_sys::RSMPI_MIN,
            mpi_sys::RSMPI_COMM_WORLD,
        )
    };
    check(code, "MPI_Allreduce")?;
    Ok(smallest)
}

/// Whether [`finalize`] was called.
static FINALIZED: AtomicBool = AtomicBool::new(false);

/// MPI_Finalize.
pub fn finalize() -> i32 {
    FINALIZED.store(true, Ordering::Relaxed);
    // SAFETY: called once, by the upper half's MPI_Finalize.
    error::result(unsafe { mpi_sys::MPI_Finalize() })
}

/// If MPI was finalised, ends the process through the lower half's exit handlers. MPICH 5 disconnects from the launcher
/// in such a handler. Otherwise the launcher takes the end for a crash. A process that has not finalised MPI must not
/// appear to have done so.
pub fn leave(status: i32) {
    if FINALIZED.load(Ordering::Relaxed) {
        std::process::exit(status);
    }
}

/// Ends the process, and nothing but the process.
pub fn leave_at_once(status: i32) -> ! {
    // SAFETY: takes a number.
    unsafe { libc::_exit(status) }
}

/// Waits at most a second until standard error has been read, if that is a pipe. MPICH's launcher ends a job on
/// MPI_Abort and drops the contents of its pipes, including the message with the reason.
fn wait_until_read() {
    const ATTEMPTS: u32 = 1000;
    for _ in 0..ATTEMPTS {
        let mut unread = 0;
        // SAFETY: the kernel writes an int to the local. It returns an error if this is no pipe.
        let asked = unsafe { libc::ioctl(libc::STDERR_FILENO, libc::FIONREAD, &mut unread) };
        if asked != 0 || unread == 0 {
            return;
        }
        // There is no notification of a writer when its pipe is empty.
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Ends the job with MPI_Abort if MPI is initialised, and this process in any case. First waits until the launcher has
/// read the messages.
pub fn abort(exit_code: i32) -> ! {
    if hooks::is_broken_off() {
        // Ranks that wait in MPI_Init do not notice the end of this one under every launcher.
        (hooks::hooks().ending)(exit_code);
    } else {
        hooks::failing();
    }
    wait_until_read();
    let (mut up, mut down) = (0, 0);
    // SAFETY: allowed at any time; MPI_Abort only where MPI is up.
    unsafe {
        mpi_sys::MPI_Initialized(&mut up);
        mpi_sys::MPI_Finalized(&mut down);
        if up != 0 && down == 0 {
            mpi_sys::MPI_Abort(mpi_sys::RSMPI_COMM_WORLD, exit_code);
        }
        libc::_exit(exit_code)
    }
}
