//! Looking at everything that is under way: what ranks that wait do while a checkpoint is pending,
//! and what the drain does until nothing is left. Operations that are found finished are settled in
//! their requests, where waits and tests find them without a crossing.
//!
//! Receives are looked at even if nobody waits for them, because the counts must tell the
//! coordinator truly whether a message is under way.
//!
//! # Safety
//! One sweep runs at a time, under a lock, and leaves out requests that a thread has claimed for a
//! call of its own; so no word is in two calls at once.
#![allow(unsafe_code)]

use super::request::{self, State};
use super::unexpected;
use crate::lower;
use crate::object::{live_comms, Request};
use crate::sync::{multiple, Lock};
use crate::wrapper;
use contract::abi::{Status, SUCCESS};
use contract::{gate, Phase};
use core::sync::atomic::{AtomicU64, Ordering};

static SWEEP: Lock<()> = Lock::new(());

/// What sweeps have found so far: messages pulled and operations finished.
static NEWS: AtomicU64 = AtomicU64::new(0);

/// Something was found; counts may have changed with it.
pub(super) fn news() {
    NEWS.fetch_add(1, Ordering::Relaxed);
}

/// How much was found so far.
pub(super) fn found() -> u64 {
    NEWS.load(Ordering::Relaxed)
}

/// What the agent wants.
#[inline(always)]
pub(super) fn phase() -> Phase {
    match gate().phase.load(Ordering::Relaxed) {
        0 => Phase::Run,
        1 => Phase::Approach,
        _ => Phase::Stop,
    }
}

/// Requests whose words a thread takes into a call of the lower half that completes them. To be
/// dropped only when their states say what that call did: a sweep before would ask for a word that
/// is no more.
pub(super) struct Claim {
    requests: *const &'static Request,
    n: usize,
}

impl Claim {
    /// Keeps sweeps off the requests. What a sweep did before shows in their states from now on.
    ///
    /// # Safety
    /// The array outlives the claim.
    #[inline(always)]
    pub(super) unsafe fn new(requests: &[&'static Request]) -> Self {
        let (n, requests) = (requests.len(), requests.as_ptr());
        let claim = Claim { requests, n };
        claim.set(0, claimer());
        claim
    }

    #[inline(always)]
    fn set(&self, from: u32, to: u32) {
        match multiple() {
            true => self.set_alone(from, to),
            // Nobody sweeps now, but a thread that comes while this one is below may: so the mark must stand.
            false => self.mark(from, to),
        }
    }

    #[cold]
    fn set_alone(&self, from: u32, to: u32) {
        let _alone = SWEEP.lock();
        self.mark(from, to);
    }

    /// Changes the mark where it is `from`. A request that was given back meanwhile has none, or
    /// that of another thread.
    #[inline(always)]
    fn mark(&self, from: u32, to: u32) {
        // SAFETY: the promise given to `new`; the array's owner is the thread that we are on.
        let requests = unsafe { core::slice::from_raw_parts(self.requests, self.n) };
        for request in requests.iter().filter(|request| !request.is_predefined()) {
            let mark = &request.body.claimed;
            if mark.load(Ordering::Relaxed) == from {
                mark.store(to, Ordering::Release);
            }
        }
    }
}

impl Drop for Claim {
    #[inline(always)]
    fn drop(&mut self) {
        self.set(claimer(), 0);
    }
}

/// The calling thread's mark.
fn claimer() -> u32 {
    wrapper::thread_id().max(1)
}

/// Looks at every operation under way.
///
/// # Safety
/// Crosses.
pub(super) unsafe fn requests() {
    let alone = SWEEP.lock();
    for request in request::pending().filter(|request| !request.has_older_on_file()) {
        // SAFETY: passed on to the caller; the lock is held.
        unsafe { one(request) };
    }
    drop(alone);
    // SAFETY: passed on to the caller.
    unsafe { request::reap() };
}

/// Looks at a few orphans, so that they do not pile up in a program that makes many.
///
/// # Safety
/// Crosses.
pub(super) unsafe fn orphans() {
    const AT_A_TIME: usize = 4;
    let alone = SWEEP.lock();
    for request in request::some_orphans::<AT_A_TIME>() {
        // SAFETY: as above.
        unsafe { one(request) };
    }
    drop(alone);
    // SAFETY: passed on to the caller.
    unsafe { request::reap() };
}

/// Looks at one operation; the caller holds the lock.
///
/// # Safety
/// Crosses.
unsafe fn one(request: &'static Request) {
    let body = &request.body;
    if body.claimed.load(Ordering::Acquire) != 0 {
        return;
    }
    match body.state.get() {
        State::Active => {
            let (mut word, mut flag, mut status) = (request.lower(), 0, Status::EMPTY);
            if word == Request::null().lower() {
                // Its thread is still starting it.
                return;
            }
            // SAFETY: an active request's word, in no other call.
            let error = unsafe { lower::MPI_Test(&raw mut word, &raw mut flag, &raw mut status) };
            if flag != 0 || error != SUCCESS {
                news();
                request.ended(&status);
                if error != SUCCESS && body.kind.get().is_persistent_below() {
                    // One library frees even a persistent request that failed.
                    request.set_lower(word);
                }
                request.settle(&status, error);
            }
        }
        State::Upper => {
            // A generalized request has no entry: the application says when it is done.
            if let Some(entry) = body.entry.get() {
                // SAFETY: the entry is the request's own, and crossing is the caller's promise.
                unsafe {
                    if (*entry).look() {
                        deliver(request);
                    }
                }
            } else if let Some(pair) = request.pair() {
                for part in pair.parts() {
                    // SAFETY: passed on to the caller.
                    unsafe { one(part) };
                }
                if let Some((status, error)) = pair.outcome() {
                    request.settle(&status, error);
                }
            } else if let Some(partitioned) = request.partitioned() {
                if let Some(whole) = partitioned.whole() {
                    // SAFETY: passed on to the caller.
                    unsafe { one(whole) };
                }
                if let Some((status, error)) = partitioned.outcome() {
                    request.settle(&status, error);
                }
            }
        }
        State::Free | State::Inactive | State::Done => {}
    }
}

/// Puts the early message of a receive, which has arrived, into its buffer.
///
/// # Safety
/// Crosses. The request has an entry, and the application's buffer for it is valid.
pub(super) unsafe fn deliver(request: &'static Request) {
    let Some(entry) = request.body.entry.take() else {
        return;
    };
    let args = request.body.args.get();
    let mut status = Status::EMPTY;
    // SAFETY: the entry came from `Box::into_raw` and was taken out of its only place.
    let error = unsafe {
        Box::from_raw(entry).deliver(
            args.buffer as *mut _,
            args.count,
            args.datatype,
            &mut status,
        )
    };
    request.settle(&status, error);
}

/// Pulls messages for which no receive is posted, so that whoever sends them gets free; whether all
/// that were pulled have arrived.
///
/// # Safety
/// Crosses.
pub(super) unsafe fn messages() -> Result<bool, i32> {
    let mut queue = unexpected::queue();
    for comm in live_comms() {
        // SAFETY: passed on to the caller.
        unsafe { queue.pull(comm)? };
    }
    // SAFETY: passed on to the caller.
    Ok(unsafe { queue.look() })
}
