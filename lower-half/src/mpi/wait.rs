//! Services that wait: each polls until it is done or a checkpoint is pending, so that no frame
//! stays below when the upper half is to stop.
//!
//! # Safety
//! As for the generated adapters (`adapter.rs`): called by their stubs alone, with pointers that
//! the upper half vouches for.
#![allow(unsafe_code)]

use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use contract::abi::{self, Status};
use contract::{gate, Phase, INTERRUPTED};
use mpi_sys::MPI_Request;

use super::handle::{handle, word};
use super::values::{self, NATIVE_SUCCESS};
use super::{array, error, status, turns};

/// Turns without success before a wait gives the processor away. Where the ranks have a core each that costs latency
/// and helps nobody; where a core is shared the message that is waited for may have to come from whoever waits for
/// it, or for a core that another job's rank keeps busy in the same way. Which of them holds is not to be known in
/// advance (there are other jobs, and masks of cores), so each wait that gives the processor away learns it.
static PATIENCE: AtomicU32 = AtomicU32::new(PATIENT);
const PATIENT: u32 = 100_000;
const IMPATIENT: u32 = 100;
/// The most that it may grow to.
static MOST: AtomicU32 = AtomicU32::new(PATIENT);

/// Tells how many ranks share this machine.
pub fn set_ranks_here(ranks: u32) {
    // SAFETY: no memory is involved.
    let cores = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    let crowded = u32::try_from(cores).is_ok_and(|cores| ranks > cores);
    let most = if crowded { IMPATIENT } else { PATIENT };
    MOST.store(most, Ordering::Relaxed);
    PATIENCE.store(most, Ordering::Relaxed);
}

/// Calls `test` until it has a result, or once more after a checkpoint has become pending.
#[inline(always)]
fn poll(mut test: impl FnMut() -> Option<i32>) -> i32 {
    let mut turns = 0;
    loop {
        let pending = gate().phase.load(Ordering::Acquire) != Phase::Run as u32;
        let turn = turns::turn();
        let result = test();
        drop(turn);
        if let Some(result) = result {
            return result;
        }
        if pending {
            return INTERRUPTED;
        }
        turns += 1;
        if turns >= PATIENCE.load(Ordering::Relaxed) {
            turns = give_way(turns);
        }
    }
}

/// Gives the processor away, and learns from what comes of it; the turns from which to count on.
///
/// Who takes it and soon gives it back waits as we do: then it is given away early, and at every turn, as it always is
/// where ranks outnumber the cores. Who keeps it for long may be a rank that has not learnt this yet, or a program that
/// computes: so it is given away early at first, and ever later while that does not help.
#[cold]
fn give_way(turns: u32) -> u32 {
    const TURNS_BETWEEN: u32 = 32;
    /// Less than any scheduler's time slice, and more than a rank needs for a message.
    const LONG: Duration = Duration::from_millis(1);
    let most = MOST.load(Ordering::Relaxed);
    if most == IMPATIENT {
        std::thread::yield_now();
        return turns - 1;
    }
    let patience = PATIENCE.load(Ordering::Relaxed);
    let longer = patience.saturating_mul(2).min(most);
    let (before, since) = (switches(), Instant::now());
    std::thread::yield_now();
    let (patience, turns) = if switches() == before {
        (longer, turns.saturating_sub(TURNS_BETWEEN))
    } else if since.elapsed() < LONG || patience == most {
        (IMPATIENT, IMPATIENT - 1)
    } else {
        (longer, 0)
    };
    PATIENCE.store(patience, Ordering::Relaxed);
    turns
}

/// How often this thread has lost its core to another one that wanted it. A yield that finds nobody does not count
/// (getrusage(2): ru_nivcsw).
fn switches() -> i64 {
    // SAFETY: a zeroed rusage is a valid one.
    let mut usage: libc::rusage = unsafe { core::mem::zeroed() };
    // SAFETY: the kernel fills it.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) };
    usage.ru_nivcsw
}

/// [`contract::service::Recv`]
pub unsafe extern "C" fn recv(
    buf: *mut u8,
    count: i32,
    datatype: usize,
    source: i32,
    tag: i32,
    comm: usize,
    status: *mut Status,
    request: *mut usize,
) -> i32 {
    if source == abi::PROC_NULL {
        // SAFETY: as for this function.
        return unsafe { recv_from_nobody(buf, count, datatype, tag, comm, status) };
    }
    let mut native: MPI_Request = handle(0);
    let turn = turns::turn();
    // SAFETY: the application's arguments.
    let code = unsafe {
        mpi_sys::MPI_Irecv(
            buf.cast(),
            count,
            handle(datatype),
            values::rank_native(source),
            values::tag_native(tag),
            handle(comm),
            &mut native,
        )
    };
    drop(turn);
    if code != NATIVE_SUCCESS {
        return error::standard(code);
    }
    // SAFETY: the request was made just now; `status` is null or the caller's.
    let result = poll(|| unsafe { test(&mut native, status) });
    if result == INTERRUPTED {
        // SAFETY: the caller's, valid for a write.
        unsafe { *request = word(native) };
    }
    result
}

/// A receive from MPI_PROC_NULL does not wait, and MPICH 4.0 gives only a blocking one its status.
///
/// # Safety
/// As for [`recv`].
#[cold]
unsafe fn recv_from_nobody(
    buf: *mut u8,
    count: i32,
    datatype: usize,
    tag: i32,
    comm: usize,
    status: *mut Status,
) -> i32 {
    let mut filled = status::Out::new(status);
    // SAFETY: the application's arguments; `status` is null or the caller's.
    unsafe {
        let code = mpi_sys::MPI_Recv(
            buf.cast(),
            count,
            handle(datatype),
            mpi_sys::MPI_PROC_NULL,
            values::tag_native(tag),
            handle(comm),
            filled.pointer(),
        );
        filled.write_back();
        error::result(code)
    }
}

/// One MPI_Test: the result if the request is complete.
///
/// # Safety
/// `status` must be null or valid for a write.
#[inline(always)]
unsafe fn test(request: &mut MPI_Request, status: *mut Status) -> Option<i32> {
    let mut flag = 0;
    let mut filled = status::Out::new(status);
    // SAFETY: locals, and a request of this library.
    let code = unsafe { mpi_sys::MPI_Test(request, &mut flag, filled.pointer()) };
    if code == NATIVE_SUCCESS && flag == 0 {
        return None;
    }
    // SAFETY: this function's contract.
    unsafe { filled.write_back() };
    Some(error::result(code))
}

/// [`contract::service::WaitOne`]
pub unsafe extern "C" fn wait_one(request: *mut usize, status: *mut Status) -> i32 {
    // SAFETY: the caller's, valid for a read.
    let mut native = handle(unsafe { *request });
    // SAFETY: a request of this library; `status` is null or the caller's.
    let result = poll(|| unsafe { test(&mut native, status) });
    // SAFETY: the caller's, valid for a write.
    unsafe { *request = word(native) };
    result
}

/// [`contract::service::WaitAll`]
pub unsafe extern "C" fn wait_all(count: i32, requests: *mut usize, statuses: *mut Status) -> i32 {
    let n = array::length(count);
    let (mut natives_room, mut filled_room) = (array::Room::new(), array::Room::new());
    // SAFETY: n requests of the caller's.
    let mut natives = unsafe { array::Handles::read(&mut natives_room, requests, n) };
    let mut filled = array::Statuses::new(&mut filled_room, statuses, n);
    let result = poll(|| {
        let mut flag = 0;
        // SAFETY: n requests and room for n statuses.
        let code =
            unsafe { mpi_sys::MPI_Testall(count, natives.pointer(), &mut flag, filled.pointer()) };
        if code == NATIVE_SUCCESS && flag == 0 {
            return None;
        }
        // SAFETY: `statuses` is null or has n entries.
        unsafe { filled.write_back(n, code) };
        Some(error::result(code))
    });
    // SAFETY: the caller's n words.
    unsafe { natives.write_back() };
    result
}

/// [`contract::service::WaitAny`]
pub unsafe extern "C" fn wait_any(
    count: i32,
    requests: *mut usize,
    index: *mut i32,
    status: *mut Status,
) -> i32 {
    let mut room = array::Room::new();
    // SAFETY: `count` requests of the caller's.
    let mut natives = unsafe { array::Handles::read(&mut room, requests, array::length(count)) };
    let result = poll(|| {
        let mut flag = 0;
        let mut filled = status::Out::new(status);
        // SAFETY: `count` requests, and pointers to locals or the caller's.
        let code = unsafe {
            mpi_sys::MPI_Testany(count, natives.pointer(), index, &mut flag, filled.pointer())
        };
        if code == NATIVE_SUCCESS && flag == 0 {
            return None;
        }
        // SAFETY: `status` is null or the caller's.
        unsafe { filled.write_back() };
        Some(error::result(code))
    });
    // SAFETY: the caller's words.
    unsafe { natives.write_back() };
    result
}

/// [`contract::service::WaitSome`]
pub unsafe extern "C" fn wait_some(
    count: i32,
    requests: *mut usize,
    outcount: *mut i32,
    indices: *mut i32,
    statuses: *mut Status,
) -> i32 {
    let n = array::length(count);
    let (mut natives_room, mut filled_room) = (array::Room::new(), array::Room::new());
    // SAFETY: n requests of the caller's.
    let mut natives = unsafe { array::Handles::read(&mut natives_room, requests, n) };
    let mut filled = array::Statuses::new(&mut filled_room, statuses, n);
    let result = poll(|| {
        let mut done: c_int = 0;
        // SAFETY: n requests, room for n indices and n statuses.
        let code = unsafe {
            mpi_sys::MPI_Testsome(
                count,
                natives.pointer(),
                &mut done,
                indices,
                filled.pointer(),
            )
        };
        if code == NATIVE_SUCCESS && done == 0 {
            return None;
        }
        // SAFETY: the caller's; at most n requests are done (none if the count is undefined).
        unsafe {
            *outcount = done;
            filled.write_back(array::length(done), code);
        }
        Some(error::result(code))
    });
    // SAFETY: the caller's n words.
    unsafe { natives.write_back() };
    result
}

/// [`contract::service::Probe`]
pub unsafe extern "C" fn probe(source: i32, tag: i32, comm: usize, status: *mut Status) -> i32 {
    let (source, tag) = (values::rank_native(source), values::tag_native(tag));
    poll(|| {
        let mut flag = 0;
        let mut filled = status::Out::new(status);
        // SAFETY: the application's arguments and locals.
        let code =
            unsafe { mpi_sys::MPI_Iprobe(source, tag, handle(comm), &mut flag, filled.pointer()) };
        if code == NATIVE_SUCCESS && flag == 0 {
            return None;
        }
        // SAFETY: `status` is null or the caller's.
        unsafe { filled.write_back() };
        Some(error::result(code))
    })
}

/// [`contract::service::Mprobe`]
pub unsafe extern "C" fn mprobe(
    source: i32,
    tag: i32,
    comm: usize,
    message: *mut usize,
    status: *mut Status,
) -> i32 {
    let (source, tag) = (values::rank_native(source), values::tag_native(tag));
    poll(|| {
        let mut flag = 0;
        let mut native = handle(0);
        let mut filled = status::Out::new(status);
        // SAFETY: the application's arguments and locals.
        let code = unsafe {
            mpi_sys::MPI_Improbe(
                source,
                tag,
                handle(comm),
                &mut flag,
                &mut native,
                filled.pointer(),
            )
        };
        match error::result(code) {
            abi::SUCCESS if flag == 0 => None,
            abi::SUCCESS => {
                // SAFETY: the caller's; `status` may be null.
                unsafe {
                    *message = word(native);
                    filled.write_back();
                }
                Some(abi::SUCCESS)
            }
            class => Some(class),
        }
    })
}
