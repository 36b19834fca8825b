//! The number of threads that call MPI, and what follows for the locks (`runtime/lock.rs`). Below MPI_THREAD_MULTIPLE
//! one thread at a time may call, so no locks are taken. But in some programs two threads call at once, as long as that
//! does no harm in their library. From the first call of a second thread on, such a program is served like one that has
//! asked for MPI_THREAD_MULTIPLE.
//!
//! The guard of a call sees a thread's first call, at no cost for later ones. The first thread may be in the middle of
//! a call then: the second makes locks be taken, and waits until the other has left the calls that it began without
//! them. Calls that wait in the lower half last longer than that and must hold for several threads in any case: so
//! requests are always claimed (`quiesce/progress.rs`).
//!
//! # Safety
//! The one service that is called has no conditions.
#![allow(unsafe_code)]

use crate::crossing::report::{advise, has_lower_half};
use crate::crossing::stubs::service;
use crate::runtime::lock;
use contract::abi::{THREAD_FUNNELED, THREAD_MULTIPLE, THREAD_SERIALIZED, THREAD_SINGLE};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

/// Threads that have called MPI so far.
static CALLERS: AtomicU32 = AtomicU32::new(0);
/// The thread level that the application has.
static LEVEL: AtomicI32 = AtomicI32::new(THREAD_MULTIPLE);
/// There are several threads, and the library below takes no locks for them.
static TURNS: AtomicBool = AtomicBool::new(false);
/// All threads know that locks are to be taken.
static SYNCHRONIZED: AtomicBool = AtomicBool::new(true);

/// MPI is initialised, with this thread level. To be called by the thread that did it, holding no lock.
pub(crate) fn level_is(level: i32) {
    LEVEL.store(level, Ordering::Relaxed);
    lock::set_multiple(level == THREAD_MULTIPLE);
    // A thread that came meanwhile has seen the one or is seen here.
    if level != THREAD_MULTIPLE && CALLERS.load(Ordering::SeqCst) > 1 {
        begin();
    }
}

/// A thread makes its first call.
#[cfg_attr(test, allow(dead_code))] // wrappers do nothing in unit tests
pub(crate) fn another() {
    if CALLERS.fetch_add(1, Ordering::SeqCst) == 0 {
        return;
    }
    let begins = !lock::multiple();
    let served = !begins && SYNCHRONIZED.load(Ordering::SeqCst);
    if served || !has_lower_half() {
        return;
    }
    let inside = begin();
    if begins {
        warn(inside > 0);
    }
}

/// From now on there are several threads; how many others are in MPI.
fn begin() -> u32 {
    SYNCHRONIZED.store(false, Ordering::SeqCst);
    lock::set_multiple(true);
    TURNS.store(true, Ordering::SeqCst);
    let inside = service::synchronize();
    SYNCHRONIZED.store(true, Ordering::SeqCst);
    inside
}

/// Whether calls below must not wait there, since the library knows of one thread only: those that can ask again
/// and again take turns then (lower half's `turns.rs`).
#[inline(always)]
pub(crate) fn take_turns() -> bool {
    TURNS.load(Ordering::Relaxed)
}

/// The thread level that the application has.
pub(crate) fn level() -> i32 {
    LEVEL.load(Ordering::Relaxed)
}

/// From now on calls do not wait below, as where threads take turns.
pub(crate) fn never_wait_below() {
    TURNS.store(true, Ordering::SeqCst);
}

/// After a restart, for the fresh lower half: there are several threads still.
pub(crate) fn tell_again() {
    if take_turns() {
        service::synchronize();
    }
}

/// Says what the program does, if it is not what its thread level allows.
#[cfg_attr(test, allow(dead_code))] // as above
fn warn(at_once: bool) {
    let (level, allowed) = match LEVEL.load(Ordering::Relaxed) {
        THREAD_SINGLE => ("MPI_THREAD_SINGLE", "one thread"),
        THREAD_FUNNELED => ("MPI_THREAD_FUNNELED", "the main thread alone"),
        THREAD_SERIALIZED if at_once => ("MPI_THREAD_SERIALIZED", "one thread at a time"),
        _ => return,
    };
    advise(&format!(
        "warning: a second thread of the program calls MPI, which has the thread level {level}: {allowed}. \
         Stasis serves it, and takes locks from here on; the MPI library takes none, as without Stasis, and may \
         fail or hang. Where that happens, have the program ask for \
         MPI_THREAD_MULTIPLE (MPI_Init_thread), or set STASIS_THREADS=multiple"
    ));
}
