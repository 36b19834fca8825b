//! The bookmarks: the numbers of messages that this rank sent to each world rank, and received from each. A send counts
//! when it starts, a receive once: when it completes, or when the drain or a matched probe takes its message. At the
//! cut both sides of every pair must agree; until then the difference is the number of messages under way.
//!
//! # Safety
//! The two arrays are made once, by [`init`], with one counter per world rank, and live for ever; world ranks come out
//! of communicators' descriptors and are below the world's size.
#![allow(unsafe_code)]

use crate::object::comm::{peer_of, NOBODY};
use crate::object::Comm;
use crate::runtime::lock::multiple;
use contract::abi::{Status, ANY_SOURCE};
use contract::gate;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

static SENT: AtomicPtr<AtomicU64> = AtomicPtr::new(core::ptr::null_mut());
static RECEIVED: AtomicPtr<AtomicU64> = AtomicPtr::new(core::ptr::null_mut());

/// Makes the counters, and shows them to the agent. Calls after the first do nothing: counts go on
/// over a restart, since nothing is under way at the cut.
pub(crate) fn init(size: usize) {
    if !SENT.load(Ordering::Acquire).is_null() {
        return;
    }
    let upper = &gate().upper;
    for (array, shown) in [(&SENT, &upper.sent), (&RECEIVED, &upper.received)] {
        let counters: Box<[AtomicU64]> = (0..size).map(|_| AtomicU64::new(0)).collect();
        let counters = Box::leak(counters).as_mut_ptr();
        array.store(counters, Ordering::Release);
        shown.store(counters as usize, Ordering::Release);
    }
}

/// All counts begin again, on all ranks. Nothing is under way.
pub(crate) fn count_anew() {
    let (sent, received) = totals();
    for counter in sent.iter().chain(received) {
        counter.store(0, Ordering::Relaxed);
    }
}

#[inline(always)]
fn add(array: &AtomicPtr<AtomicU64>, peer: u32, delta: u64) {
    if peer == NOBODY {
        return;
    }
    // SAFETY: see the module's head.
    let counter = unsafe { &*array.load(Ordering::Relaxed).add(peer as usize) };
    if multiple() {
        counter.fetch_add(delta, Ordering::Relaxed);
    } else {
        let now = counter.load(Ordering::Relaxed);
        counter.store(now.wrapping_add(delta), Ordering::Relaxed);
    }
}

/// A message to `peer` starts.
#[inline(always)]
pub(crate) fn sent(peer: u32) {
    add(&SENT, peer, 1);
}

/// A message that was counted as sent never left: its call failed, or it was cancelled.
#[inline(always)]
pub(crate) fn unsent(peer: u32) {
    add(&SENT, peer, u64::MAX);
}

/// A message of `peer` was received.
#[inline(always)]
pub(crate) fn received(peer: u32) {
    add(&RECEIVED, peer, 1);
}

/// A receive from `source` (as it was asked for) ended with `status`.
#[inline(always)]
pub(crate) fn received_by(comm: &'static Comm, source: i32, status: &Status) {
    let source = if source == ANY_SOURCE {
        status.source
    } else {
        source
    };
    received(peer_of(comm, source));
}

/// Messages counted so far, `(sent to, received from)` each world rank.
pub(crate) fn totals() -> (&'static [AtomicU64], &'static [AtomicU64]) {
    let size = gate().lower.size.load(Ordering::Relaxed) as usize;
    let array = |array: &AtomicPtr<AtomicU64>| {
        let counters = array.load(Ordering::Acquire);
        if counters.is_null() {
            return [].as_slice();
        }
        // SAFETY: see the module's head; the world never changes its size.
        unsafe { core::slice::from_raw_parts(counters, size) }
    };
    (array(&SENT), array(&RECEIVED))
}

/// What sweeps have found so far: messages pulled and operations finished.
static PROGRESS: AtomicU64 = AtomicU64::new(0);

/// Something was found; counts may have changed with it.
pub(crate) fn count_progress() {
    PROGRESS.fetch_add(1, Ordering::Relaxed);
}

/// How much was found so far.
pub(crate) fn progress_count() -> u64 {
    PROGRESS.load(Ordering::Relaxed)
}
