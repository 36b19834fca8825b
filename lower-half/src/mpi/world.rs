//! MPI for the lower half's own use: initialising it, and agreeing among all ranks.
//!
//! # Safety
//! Plain calls of MPI functions with locals and slices that live as long as the call.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::ptr::null_mut;
use std::time::Duration;

use anyhow::{bail, Context};
use contract::{abi, Gate};
use serde::de::DeserializeOwned;
use serde::Serialize;

use super::values::{self, NATIVE_SUCCESS};
use super::{error, native, wait};

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
    /// Tells the upper half.
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

/// The thread level that the library provides, as a standard value.
static THREAD_LEVEL: AtomicI32 = AtomicI32::new(abi::THREAD_SINGLE);

/// The thread level that the library provides, once MPI is initialised.
pub fn thread_level() -> i32 {
    THREAD_LEVEL.load(Ordering::Relaxed)
}

/// Name and version of the library, for people: the first line of what it says of itself.
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

/// Set to `multiple`: the library is asked for MPI_THREAD_MULTIPLE, whatever the program asks for. For programs
/// that call MPI from several threads without asking for that.
const THREADS: &str = "STASIS_THREADS";

/// The level that the library is asked for where the program asks for `required`.
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
        let required = values::thread_level_native(required);
        // The application's signals are for its own threads, not for those that the library makes.
        let code = loader::holding_signals(|| {
            mpi_sys::MPI_Init_thread(null_mut(), null_mut(), required, &mut provided)
        });
        check(code, "MPI_Init_thread")?;
        let world = mpi_sys::RSMPI_COMM_WORLD;
        error::return_errors_of_comm(world);
        error::return_errors_of_comm(mpi_sys::RSMPI_COMM_SELF);
        check(mpi_sys::MPI_Comm_rank(world, &mut rank), "MPI_Comm_rank")?;
        check(mpi_sys::MPI_Comm_size(world, &mut size), "MPI_Comm_size")?;
    }
    let rank = u32::try_from(rank).context("MPI gave this process a negative rank")?;
    RANK.store(rank, Ordering::Relaxed);
    let size = u32::try_from(size).context("MPI gave the job a negative size")?;
    wait::set_ranks_here(launcher::ranks_here().unwrap_or(size));
    let thread_level = values::thread_level_standard(provided);
    THREAD_LEVEL.store(thread_level, Ordering::Relaxed);
    Ok(World {
        rank,
        size,
        thread_level,
        tag_ub: tag_ub(),
    })
}

/// The largest tag; what the standard guarantees where the library does not tell.
fn tag_ub() -> i32 {
    const GUARANTEED: i32 = 32767;
    let mut value: *mut c_int = null_mut();
    let mut flag = 0;
    // SAFETY: the attribute's value is a pointer to an int that lives as long as MPI.
    unsafe {
        let key = values::keyval_native(abi::TAG_UB);
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

/// Tag of [`send`]. Which one it is does not matter: what two ranks send each other before MPI_Init
/// returns to the application is received before what the application sends.
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

/// Hands `bytes` of every rank to all ranks, in the order of their ranks.
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

/// Hands a value of every rank to all ranks, in the order of their ranks.
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

/// The smallest of all ranks' values: ranks agree on something by it.
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

/// Ends the process if MPI was finalised, through the lower half's exit handlers: MPICH 5 takes its
/// leave of the launcher in one, without which the launcher takes the end for a crash. One that has
/// not finalised MPI must not seem to have done so.
pub fn leave(status: i32) {
    if FINALIZED.load(Ordering::Relaxed) {
        std::process::exit(status);
    }
}

/// Waits, a second at most, until standard error, where that is a pipe, has been read. MPICH's launcher
/// ends a job at the word of MPI_Abort and drops what is still in its pipes, the reason with it.
fn until_heard() {
    const ATTEMPTS: u32 = 1000;
    for _ in 0..ATTEMPTS {
        let mut unread = 0;
        // SAFETY: the kernel writes an int to the local; for what is no pipe it answers with an error.
        let asked = unsafe { libc::ioctl(libc::STDERR_FILENO, libc::FIONREAD, &mut unread) };
        if asked != 0 || unread == 0 {
            return;
        }
        // Nothing tells a writer that its pipe is empty.
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Ends the job with MPI_Abort if MPI is up, and this process in any case; not before the launcher has
/// taken in what was said.
pub fn abort(exit_code: i32) -> ! {
    until_heard();
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
