//! What the application is doing, as far as that can be seen without its telling: nothing is noted for
//! it when an MPI function is called.
//!
//! # Safety
//! Blocks of threads lie in slots that are never unmapped; their words are read as they happen to be
//! while the thread runs, and believed only as far as they make sense.
#![allow(unsafe_code)]

use crate::thread::{self, Thread, JOB, PARKED, RUNNING};
use crate::{cpu, raw};
use contract::ThreadBlock;
use core::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Where a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// In code of its own.
    Computing,
    /// In an MPI function, on this side of the MPI library.
    InMpi,
    /// In the MPI library, which will come back to this address.
    Below(usize),
}

/// Where the initial thread is; if it is in no MPI function, where another is that is in one.
pub fn doing() -> Doing {
    // The blocks of others are not ready yet, or no more.
    let lives = |t: &&Thread| matches!(t.state.load(Ordering::Acquire), RUNNING | PARKED | JOB);
    let threads = thread::main().into_iter().chain(thread::all());
    let mut places = threads.filter(lives).map(place);
    let in_mpi = places.find(|place| *place != Doing::Computing);
    in_mpi.unwrap_or(Doing::Computing)
}

/// Returns when every other thread that was in the upper half's MPI library has come out of it, has parked, or is
/// in a call below that waits; how many were in it. A thread that comes back from below afterwards sees
/// whatever the caller has written before.
///
/// Must be called from a crossing, so that two callers do not wait for each other.
pub fn settle() -> u32 {
    /// Longer than a call below that does not wait takes. One that waits cannot be told from it otherwise.
    const MOMENT: Duration = Duration::from_millis(1);
    // Or a thread that has entered a wrapper might be seen outside of it. The first call only makes the second
    // possible, which kernels since Linux 4.14 serve: the agent has seen to that.
    for command in [
        libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED,
        libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED,
    ] {
        raw::plain(libc::SYS_membarrier, [command as usize, 0, 0, 0, 0, 0]);
    }
    let own = Thread::current().map(core::ptr::from_ref);
    let others = thread::all().filter(|t| Some(core::ptr::from_ref(*t)) != own);
    others
        .map(|thread| u32::from(wait_for(thread, MOMENT)))
        .sum()
}

/// What tells the calling thread from all others of the application: 0 for one of the lower half's own, of which
/// none calls MPI.
pub fn thread_address() -> usize {
    cpu::gs()
}

/// Waits until a thread is out of the upper half's MPI library; whether it was in it. Below it must have been
/// for a `moment`.
fn wait_for(thread: &Thread, moment: Duration) -> bool {
    let begun = Instant::now();
    let mut was_inside = false;
    while thread.state.load(Ordering::Acquire) == RUNNING {
        match place(thread) {
            Doing::Computing => break,
            Doing::Below(_) if begun.elapsed() >= moment => return true,
            Doing::Below(_) | Doing::InMpi => was_inside = true,
        }
        raw::sched_yield();
    }
    was_inside
}

fn place(thread: &Thread) -> Doing {
    let block: *mut ThreadBlock = thread.block.get();
    // SAFETY: see the head of this file. An entry below the top is a return address, or was one.
    let back = unsafe {
        let side = &raw const (*block).side;
        let top = (&raw const (*block).side_top).read_volatile();
        let depth = top.wrapping_sub(side as usize) / size_of::<usize>();
        let innermost = (1..=contract::SIDE_STACK_DEPTH).contains(&depth);
        innermost.then(|| side.cast::<usize>().add(depth - 1).read_volatile())
    };
    match back {
        Some(back) => Doing::Below(back),
        None if thread.in_lower() => Doing::InMpi,
        None => Doing::Computing,
    }
}
