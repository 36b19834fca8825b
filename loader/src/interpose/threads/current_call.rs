//! Location of a thread: in application code, in an MPI function, or in the MPI library. It is found by sampling the
//! thread's block; a call of an MPI function records nothing for it.
//! The block is read while the thread runs, so each value is checked before use.

use crate::interpose::threads::{self, Thread, JOB, PARKED, RUNNING};
use crate::sys::{cpu, syscall};
use core::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Location of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CurrentCall {
    /// In application code.
    Computing,
    /// In an MPI function, outside the MPI library.
    InMpi,
    /// In the MPI library, which will return to this address.
    InLibrary(usize),
}

/// Location of the initial thread; if that is in no MPI function, of another thread that is in one.
pub fn current_call() -> CurrentCall {
    // Blocks of threads in other states are not ready yet, or no longer valid.
    let lives = |t: &&Thread| matches!(t.state.load(Ordering::Acquire), RUNNING | PARKED | JOB);
    let threads = threads::main().into_iter().chain(threads::all());
    let mut places = threads.filter(lives).map(place);
    let in_mpi = places.find(|place| *place != CurrentCall::Computing);
    in_mpi.unwrap_or(CurrentCall::Computing)
}

/// Waits until every other thread that was in the upper half's MPI library has left it, has parked, or is in a blocking
/// lower-half call. Returns the number of threads that were in it. A thread that returns from the lower half afterwards
/// sees all earlier writes of the caller.
///
/// Call it from a crossing, so that two callers do not wait for each other.
pub fn synchronize() -> u32 {
    /// Upper bound of a lower-half call that does not block. A longer one counts as blocking.
    const MOMENT: Duration = Duration::from_millis(1);
    // Without the barrier, a thread that has entered a wrapper might be seen outside of it. The process has registered
    // for it at its start (`sites::register`). Kernels since Linux 4.14 support it: the agent has checked that.
    syscall::membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    let own = Thread::current().map(core::ptr::from_ref);
    let others = threads::all().filter(|t| Some(core::ptr::from_ref(*t)) != own);
    others
        .map(|thread| u32::from(wait_for(thread, MOMENT)))
        .sum()
}

/// Unique address of the calling application thread; 0 for a thread of the lower half, none of which calls MPI.
pub fn thread_address() -> usize {
    cpu::gs()
}

/// Waits until a thread has left the upper half's MPI library, or has been in a lower-half call for a `moment`. Returns
/// whether it was in it.
fn wait_for(thread: &Thread, moment: Duration) -> bool {
    let begun = Instant::now();
    let mut was_inside = false;
    while thread.state.load(Ordering::Acquire) == RUNNING {
        match place(thread) {
            CurrentCall::Computing => break,
            CurrentCall::InLibrary(_) if begun.elapsed() >= moment => return true,
            CurrentCall::InLibrary(_) | CurrentCall::InMpi => was_inside = true,
        }
        syscall::sched_yield();
    }
    was_inside
}

fn place(thread: &Thread) -> CurrentCall {
    // An entry below the top is or was a return address.
    let innermost = thread.crossings().checked_sub(1);
    match innermost.and_then(|entry| thread.block.side.get(entry)) {
        Some(back) => CurrentCall::InLibrary(back.load(Ordering::Acquire)),
        None if thread.in_lower() => CurrentCall::InMpi,
        None => CurrentCall::Computing,
    }
}
