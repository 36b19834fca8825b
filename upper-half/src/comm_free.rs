//! Freeing communicators. The application's MPI_Comm_free is local in practice, and programs rely on
//! that, so nothing may wait here; but a communicator that one member has freed and another still
//! uses must survive a restart on both. So a freed one stays until barriers that every member
//! starts, and that nobody waits for, say that all have. A member starts it when nothing of its own
//! uses the communicator any more: a receive that is still posted, or a persistent request that may be
//! started again, needs it on every member after a restart.
//!
//! # Safety
//! Crossings pass words of live objects and pointers to locals.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // MPI's own contracts, see the head

use crate::environment::internal_world;
use crate::object::{Comm, Datatype, Op, Request};
use crate::sync::Lock;
use crate::{attribute, lower};
use contract::abi::*;
use core::sync::atomic::Ordering;
use std::collections::VecDeque;

/// Communicators that this process has freed and others perhaps not yet: first those that it has not
/// looked at yet, then the one that it has not looked at for longest.
static CLOSING: Lock<VecDeque<&'static Comm>> = Lock::new(VecDeque::new());

/// How many that others have not freed are looked at when a communicator is made or freed. All would be
/// too many where one rank frees a thousand while the others wait for it; but those that have gone are
/// as many as there are.
const STAYING: usize = 8;

/// The word of a farewell's barrier that this process has not started.
pub(crate) const NOT_STARTED: usize = usize::MAX;

/// How often MPI_Finalize looks whether the last members have freed: more often than a barrier of any
/// library has steps, and not for ever, since a program that never frees on some rank is wrong but
/// should not hang here.
const LAST_ROUNDS: u32 = 100;

/// MPI_Comm_free.
pub unsafe fn comm_free(comm: *mut &'static Comm) -> i32 {
    // SAFETY: MPI's contract for an inout parameter.
    let given = unsafe { *comm };
    if given.is_predefined() {
        return ERR_COMM;
    }
    let code = attribute::delete(&given.body.attributes, given.handle());
    if code != SUCCESS {
        return code;
    }
    // SAFETY: the application gives its handle up.
    unsafe {
        farewell(given);
        *comm = Comm::null();
        sweep();
    }
    SUCCESS
}

/// MPI_Comm_disconnect: what it would wait for below is never left to the library there, so it is
/// the same as MPI_Comm_free.
pub unsafe fn comm_disconnect(comm: *mut &'static Comm) -> i32 {
    // SAFETY: passed on.
    unsafe { comm_free(comm) }
}

/// Gives up the handle's reference, now or when all members have.
///
/// # Safety
/// Crosses; the handle must not be used any more.
pub(crate) unsafe fn farewell(comm: &'static Comm) {
    let body = &comm.body;
    body.freed.store(true, Ordering::Relaxed);
    if body.size == 1 && !body.inter {
        comm.release();
        return;
    }
    CLOSING.lock().push_front(comm);
}

/// How many barriers say that all members have freed. Who is through one of an inter-communicator knows
/// that the other side has started it, in Open MPI only that its first member has, and nothing of the own
/// side; but who is through a second knows that all members were through the first, which together they
/// are only when all have started it.
fn barriers(comm: &'static Comm) -> u32 {
    1 + u32::from(comm.body.inter)
}

/// Starts the barriers again after a restart, all of them for every member, if they were under way before.
///
/// # Safety
/// Crosses.
pub(crate) unsafe fn continue_farewell(comm: &'static Comm) {
    comm.body.farewells.store(0, Ordering::Relaxed);
    if comm.body.farewell.load(Ordering::Relaxed) != NOT_STARTED {
        // SAFETY: passed on.
        unsafe { wave(comm) };
    }
}

/// Starts a barrier.
unsafe fn wave(comm: &'static Comm) {
    let mut request = Request::null().lower();
    // SAFETY: a live communicator. If the barrier cannot start, the null request stays: it is
    // complete, and the communicator goes at once.
    unsafe { lower::MPI_Ibarrier(comm.lower(), &raw mut request) };
    comm.body.farewell.store(request, Ordering::Relaxed);
}

/// Ends communicators that all members have freed and on which nothing is pending here, until it has come
/// upon some that stay.
///
/// # Safety
/// Crosses.
pub(crate) unsafe fn sweep() {
    // SAFETY: passed on.
    unsafe { sweep_until(STAYING) };
}

/// The same, until it has come upon so many that stay, or has looked at all.
unsafe fn sweep_until(enough: usize) {
    let mut staying = 0;
    let all = CLOSING.lock().len();
    for _ in 0..all {
        // Not held while the barrier is asked for: other threads make and free communicators, too.
        let Some(comm) = CLOSING.lock().pop_front() else {
            return;
        };
        // SAFETY: passed on.
        if comm.references() == 1 && unsafe { all_have_freed(comm) } {
            comm.release();
            continue;
        }
        CLOSING.lock().push_back(comm);
        staying += 1;
        if staying == enough {
            return;
        }
    }
}

unsafe fn all_have_freed(comm: &'static Comm) -> bool {
    if comm.body.farewell.load(Ordering::Relaxed) == NOT_STARTED {
        // SAFETY: passed on.
        unsafe { wave(comm) };
    }
    let mut request = comm.body.farewell.load(Ordering::Relaxed);
    let (mut flag, mut status) = (0, Status::EMPTY);
    // SAFETY: the word is that of the barrier, or null.
    let code = unsafe { lower::MPI_Test(&raw mut request, &raw mut flag, &raw mut status) };
    comm.body.farewell.store(request, Ordering::Relaxed);
    if code != SUCCESS {
        return true;
    }
    if flag == 0 {
        return false;
    }
    let through = comm.body.farewells.fetch_add(1, Ordering::Relaxed) + 1;
    if through < barriers(comm) {
        // SAFETY: passed on.
        unsafe { wave(comm) };
        return false;
    }
    true
}

/// In MPI_Finalize: ends what can be ended, since a library complains about operations that are left.
/// In each round every rank has looked once, so a farewell that all take part in gets on, however
/// long the machine keeps some of them waiting.
///
/// # Safety
/// Crosses; collective over all ranks, which have counted their MPI_Finalize.
pub(crate) unsafe fn last_sweeps() {
    let int = Datatype::at(datatype::INT as u32).lower();
    let max = Op::at(op::MAX as u32).lower();
    for _ in 0..LAST_ROUNDS {
        // SAFETY: passed on.
        unsafe { sweep_until(usize::MAX) };
        let mine = i32::from(!CLOSING.lock().is_empty());
        let mut any = 0;
        // SAFETY: one number of each rank; every rank comes here as often.
        let code = unsafe {
            lower::MPI_Allreduce(
                (&raw const mine).cast(),
                (&raw mut any).cast(),
                1,
                int,
                max,
                internal_world(),
            )
        };
        if code != SUCCESS || any == 0 {
            return;
        }
    }
}

/// Forgets communicators that all members have freed, as a restart found out.
pub(crate) fn forget(gone: &[&'static Comm]) {
    CLOSING
        .lock()
        .retain(|comm| !gone.iter().any(|other| other.index() == comm.index()));
}
