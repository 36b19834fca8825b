//! Freeing communicators. The application's MPI_Comm_free is local in practice, and programs rely on that, so nothing
//! may wait here. But a communicator that one member has freed and another still uses must survive a restart on both.
//! So a freed one stays until barriers that every member starts, and that no member waits for, say that all have freed
//! it. A member starts its barrier when nothing of its own uses the communicator any more: a receive that is still
//! posted, or a persistent request that may be started again, needs it on every member after a restart.
//!
//! # Safety
//! Crossings pass lower handles of live objects, places for lower handles of requests, and locals.
#![allow(unsafe_code)]

use crate::attribute::callbacks;
use crate::comm::numbers::greatest;
use crate::crossing::stubs;
use crate::object::comm::closing::{farewell, CLOSING};
use crate::object::comm::internal::internal_world;
use crate::object::comm::NOT_STARTED;
use crate::object::lower_handle::named;
use crate::object::{Comm, Request};
use contract::abi::*;
use core::sync::atomic::Ordering;

/// Number of communicators that others have not freed and that are looked at when one is made or freed. All would be
/// too many where one rank frees a thousand while the others wait for it. Those that all have freed do not count.
const STAYING: usize = 8;

/// Number of times that MPI_Finalize looks whether the last members have freed. It is more than a barrier of any
/// library has steps. It is limited because a program that never frees on some rank is wrong but should not hang here.
const LAST_ROUNDS: u32 = 100;

/// MPI_Comm_free.
pub fn comm_free(comm: &mut &'static Comm) -> i32 {
    let given = *comm;
    if given.is_predefined() {
        return ERR_COMM;
    }
    let code = callbacks::delete(&given.body.attributes, given.handle());
    if code != SUCCESS {
        return code;
    }
    farewell(given);
    *comm = Comm::null();
    sweep();
    SUCCESS
}

/// MPI_Comm_disconnect: what it would wait for below is never left to the library there, so it is
/// the same as MPI_Comm_free.
pub fn comm_disconnect(comm: &mut &'static Comm) -> i32 {
    comm_free(comm)
}

/// Number of barriers that say that all members have freed. A member that is through one of an inter-communicator knows
/// that the other side has started it (in Open MPI only that the first member there has), and it knows nothing of its
/// own side. A member that is through a second knows that all members were through the first, which together they are
/// only when all have started it.
fn barriers(comm: &'static Comm) -> u32 {
    1 + u32::from(comm.body.inter)
}

/// Starts the barriers again after a restart, all of them for every member, if they were under way before.
pub(crate) fn continue_farewell(comm: &'static Comm) {
    comm.body.farewells.store(0, Ordering::Relaxed);
    if comm.body.farewell.load(Ordering::Relaxed) != NOT_STARTED {
        wave(comm);
    }
}

/// Starts a barrier.
fn wave(comm: &'static Comm) {
    let mut request = Request::null_lower();
    // If the barrier cannot start, the null request stays: it is complete, and the communicator goes at once.
    // SAFETY: a place for the request's lower handle.
    unsafe { named::MPI_Ibarrier(comm, &raw mut request) };
    comm.body.farewell.store(request, Ordering::Relaxed);
}

/// Ends communicators that all members have freed and on which nothing is pending here, until it has come
/// upon some that stay.
pub(crate) fn sweep() {
    sweep_until(STAYING);
}

/// The same, until it has met `enough` communicators that stay, or has looked at all.
fn sweep_until(enough: usize) {
    let mut staying = 0;
    let all = CLOSING.lock().len();
    for _ in 0..all {
        // The lock is not held while the barrier is asked for: other threads make and free communicators, too.
        let Some(comm) = CLOSING.lock().pop_front() else {
            return;
        };
        if comm.references() == 1 && all_have_freed(comm) {
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

fn all_have_freed(comm: &'static Comm) -> bool {
    if comm.body.farewell.load(Ordering::Relaxed) == NOT_STARTED {
        wave(comm);
    }
    let mut request = comm.body.farewell.load(Ordering::Relaxed);
    let (mut flag, mut status) = (0, Status::EMPTY);
    // SAFETY: the lower handle is that of the barrier, or null; only this thread has it, since it has taken the
    // communicator from those that stay.
    let code = unsafe { stubs::MPI_Test(&raw mut request, &raw mut flag, &raw mut status) };
    comm.body.farewell.store(request, Ordering::Relaxed);
    if code != SUCCESS {
        return true;
    }
    if flag == 0 {
        return false;
    }
    let through = comm.body.farewells.fetch_add(1, Ordering::Relaxed) + 1;
    if through < barriers(comm) {
        wave(comm);
        return false;
    }
    true
}

/// In MPI_Finalize: ends what can be ended, since a library complains about operations that are left.
/// In each round every rank has looked once, so a farewell that all take part in gets on, however
/// long the machine keeps some of them waiting. It is collective over all ranks, which have counted their MPI_Finalize.
pub(crate) fn last_sweeps() {
    for _ in 0..LAST_ROUNDS {
        sweep_until(usize::MAX);
        let mine = i64::from(!CLOSING.lock().is_empty());
        if matches!(greatest(internal_world(), [mine]), Err(_) | Ok([0])) {
            return;
        }
    }
}
