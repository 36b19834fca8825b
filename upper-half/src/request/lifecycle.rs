//! How a request passes through its states.
//!
//! A request is made without an allocation: finished ones wait on a list for their next use, with their place in the
//! table and their handle.
//!
//! # Safety
//! Bodies are changed through `Cell`s. MPI forbids two threads to complete one request at a time; what sweeps of other
//! threads do beside that goes through the lock of `quiesce/progress.rs`, which also keeps off requests that a thread
//! has claimed. Three atomics say what a sweep may touch, and their order is what makes it safe: a request that starts
//! gets its lower handle last, when everything else stands ([`Request::started`]); one that a sweep finds finished
//! loses its lower handle before it is called done ([`Request::complete`]); one that is given back loses its lower
//! handle and its state before its claim ([`Request::recycle`]). Entry pointers come from `Box::into_raw` and are owned
//! by one request.
#![allow(unsafe_code)]

use crate::crossing::stubs;
use crate::object::comm::closing::farewell;
use crate::object::comm::NOBODY;
use crate::object::request::pair::Pair;
use crate::object::request::partitioned::MATCHING;
use crate::object::request::persistent_collective::PersistentCollective;
use crate::object::request::{synchronous, Args, Kind, Posting, RequestBody, State};
use crate::object::table::Body;
use crate::object::{Comm, Request};
use crate::quiesce::bookmarks;
use crate::record::{bindings, mode};
use crate::request::grequest_callbacks;
use crate::runtime::lock::{multiple, Lock};
use contract::abi;
use contract::abi::{Status, SUCCESS};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A stack of requests, linked through themselves.
struct Stack(Option<&'static Request>);

static FREE: Lock<Stack> = Lock::new(Stack(None));
static ORPHANS: Lock<Stack> = Lock::new(Stack(None));
static SERIAL: AtomicU64 = AtomicU64::new(1);

impl Stack {
    #[inline(always)]
    fn push(&mut self, request: &'static Request) {
        request.body.next.set(self.0);
        self.0 = Some(request);
    }

    #[inline(always)]
    fn pop(&mut self) -> Option<&'static Request> {
        let request = self.0?;
        self.0 = request.body.next.get();
        Some(request)
    }
}

/// A request in state `Active` without a lower handle, whose remaining fields are those of a fresh one
/// except for the arguments, which only kinds that have some look at.
#[inline]
pub(crate) fn acquire(kind: Kind, peer: u32, comm: &'static Comm) -> Result<&'static Request, i32> {
    let reused = FREE.lock().pop();
    let request = match reused {
        Some(request) => request,
        None => fresh()?,
    };
    let body = &request.body;
    body.kind.set(kind);
    body.state.set(State::Active);
    body.peer.set(peer);
    body.comm.set(comm.index());
    Ok(request)
}

/// Index of the communicator whose error handler answers for an operation.
pub(crate) fn comm_of(request: &'static Request) -> u32 {
    request.body.comm.get()
}

#[cold]
fn fresh() -> Result<&'static Request, i32> {
    Request::make(Request::null_lower(), RequestBody::new())
}

/// The next serial number of a posted receive.
#[inline(always)]
fn next_serial() -> u64 {
    if multiple() {
        return SERIAL.fetch_add(1, Ordering::Relaxed);
    }
    let serial = SERIAL.load(Ordering::Relaxed);
    SERIAL.store(serial + 1, Ordering::Relaxed);
    serial
}

impl Request {
    /// Keeps the arguments, and with them the communicator and the datatype: the application may
    /// free both before the operation ends.
    #[inline(always)]
    pub(crate) fn keep(&'static self, args: Args) {
        args.comm.retain();
        args.datatype.retain();
        self.body.args.set(args);
    }

    /// Marks the moment at which a receive is posted.
    #[inline(always)]
    pub(crate) fn posted(&'static self) {
        self.body.serial.set(next_serial());
    }

    /// It is a send with this tag.
    #[inline(always)]
    pub(crate) fn has_tag(&'static self, tag: i32) {
        self.body.serial.set(tag as u64);
    }

    /// It is the collective operation with this number on its communicator.
    #[inline(always)]
    pub(crate) fn is_operation(&'static self, number: u64) {
        self.body.serial.set(number);
    }

    /// The operation is under way in the lower half under `lower handle`. Sweeps of other threads may find it
    /// finished from here on, so that whatever else belongs to it must stand already: calls that start
    /// an operation write its lower handle to a place of their own.
    #[inline(always)]
    pub(crate) fn started(&'static self, lower_handle: usize) {
        self.set_lower(lower_handle);
    }

    /// It is a collective operation on the file that has this communicator, started after those before.
    pub(crate) fn belongs_to_file(&'static self, comm: &'static Comm) {
        self.posted();
        self.body.args.set(Args {
            comm,
            ..Args::none()
        });
    }

    /// Whether an older collective operation on the same file is under way. MPICH's have collective
    /// operations inside them, which being asked for makes begin, so that every rank must ask in the same
    /// order; and MPI gives none but that in which they were started.
    pub(crate) fn has_older_on_file(&self) -> bool {
        let of_file = |body: &RequestBody| {
            (body.kind.get() == Kind::FileCollective).then(|| body.args.get().comm.index())
        };
        let Some(own) = of_file(&self.body) else {
            return false;
        };
        pending().any(|other| {
            of_file(&other.body) == Some(own) && other.body.serial.get() < self.body.serial.get()
        })
    }

    /// The operation ended in the lower half: bookkeeping that is due in any case.
    #[inline]
    pub(crate) fn ended(&'static self, status: &Status) {
        let body = &self.body;
        let cancelled = body.cancelling.get() && status.cancelled != 0;
        match body.kind.get() {
            Kind::Receive | Kind::PersistentReceive => {
                if mode::is_on() {
                    bindings::ended(self, status, cancelled);
                }
                if !cancelled {
                    match body.peer.get() {
                        NOBODY => {
                            let args = body.args.get();
                            bookmarks::received_by(args.comm, args.peer, status);
                        }
                        peer => bookmarks::received(peer),
                    }
                }
            }
            Kind::Send | Kind::PersistentSend => {
                if synchronous::any_under_way() {
                    synchronous::ended(self);
                }
                if cancelled {
                    bookmarks::unsent(body.peer.get());
                }
            }
            Kind::Collective
            | Kind::PersistentCollective
            | Kind::Access
            | Kind::File
            | Kind::FileCollective => {
                drop(body.scratch.take());
                if let Some((duplicate, lower_handle)) = body.duplicate.take() {
                    duplicate.set_lower(lower_handle);
                    duplicated();
                }
            }
            Kind::Matched | Kind::Generalized | Kind::Pair | Kind::Partitioned => {}
        }
    }

    /// The operation is finished, and nobody has asked for its result yet. Once it is called done its
    /// thread may collect it and give the entry its next use, so that comes last.
    pub(crate) fn complete(&'static self, status: &Status, error: i32) {
        self.finished(status, error, State::Done);
    }

    /// A synchronous send is finished in the library. [`finish_send`] makes it complete for the application.
    pub(crate) fn finished_below(&'static self, status: &Status) {
        self.finished(status, SUCCESS, State::Upper);
    }

    /// Nothing of the operation is left below. The state comes last.
    #[inline]
    fn finished(&'static self, status: &Status, error: i32, state: State) {
        let body = &self.body;
        body.status.set(*status);
        body.error.set(error);
        if !body.kind.get().is_persistent_below() {
            self.clear_lower();
        }
        body.state.set(state);
    }

    /// Status and error of a request of which nothing is under way, `None` while something is.
    #[inline]
    pub(crate) fn result(&'static self, status: &mut Status) -> Option<i32> {
        let body = &self.body;
        match body.state.get() {
            State::Active | State::Upper => None,
            State::Inactive => {
                *status = Status::EMPTY;
                Some(SUCCESS)
            }
            State::Done if body.kind.get() == Kind::Generalized => {
                Some(grequest_callbacks::query(self, status))
            }
            State::Done => {
                *status = body.status.get();
                Some(body.error.get())
            }
            State::Free => Some(abi::ERR_REQUEST),
        }
    }

    /// The application has the result: the request becomes inactive, or its entry free and the
    /// application's handle null.
    #[inline(always)]
    pub(crate) fn collect(&'static self, handle: &mut &'static Request) {
        let body = &self.body;
        if body.state.get() == State::Inactive {
            return;
        }
        if body.kind.get().is_persistent() {
            if !body.kind.get().is_persistent_below() {
                self.clear_lower();
            }
            body.state.set(State::Inactive);
            body.cancelling.set(false);
        } else {
            self.recycle();
            *handle = Request::null();
        }
    }

    /// Gives the entry back for its next use, and what the request kept alive.
    #[inline(always)]
    pub(crate) fn recycle(&'static self) {
        let body = &self.body;
        match body.kind.get() {
            Kind::Send | Kind::Access | Kind::File | Kind::FileCollective => {}
            Kind::Collective => drop(body.collective_result.take()),
            Kind::Pair => drop(body.pair.take()),
            Kind::Partitioned => free_partitioned(self),
            Kind::Generalized => grequest_callbacks::free(self),
            Kind::PersistentCollective => drop(body.persistent_collective.take()),
            Kind::Receive | Kind::Matched | Kind::PersistentSend | Kind::PersistentReceive => {
                let args = body.args.get();
                args.comm.release();
                args.datatype.release();
            }
        }
        body.cancelling.set(false);
        body.orphan.set(false);
        body.posting.set(Posting::None);
        // The next use has no lower handle until the lower half has made one: sweeps go by that.
        self.clear_lower();
        body.state.set(State::Free);
        // Only now, or a sweep would look for the operation that has ended.
        body.claimed.store(0, Ordering::Release);
        FREE.lock().push(self);
    }

    /// Takes a request back whose operation never started; nothing was kept yet.
    #[cold]
    pub(crate) fn abandon(&'static self) {
        self.body.kind.set(Kind::Send);
        self.recycle();
    }
}

/// Gives back those of our own requests that are done, and drops what they have used.
pub(crate) fn recycle_done<T>(requests: &mut Vec<(&'static Request, T)>) {
    requests.retain(|(request, _)| {
        let is_over = request.body.state.get() == State::Done;
        if is_over {
            request.recycle();
        }
        !is_over
    });
}

/// A synchronous send, which [`Request::finished_below`] has left in state `Upper`, is complete.
pub(crate) fn finish_send(request: &'static Request) {
    let body = &request.body;
    request.complete(&body.status.get(), body.error.get());
}

/// Whom the application freed while it was active: its operation goes on, and its entry is given
/// back when that ends.
pub(crate) fn orphan(request: &'static Request) {
    request.body.orphan.set(true);
    ORPHANS.lock().push(request);
}

/// Gives back the entries of orphans that are done, and frees those that are persistent below.
pub(crate) fn reap() {
    let mut waiting = core::mem::replace(&mut *ORPHANS.lock(), Stack(None));
    while let Some(request) = waiting.pop() {
        if request.body.state.get() != State::Done {
            ORPHANS.lock().push(request);
            continue;
        }
        release_below(request);
        request.recycle();
    }
}

/// Frees the lower half's request of an inactive persistent request.
pub(crate) fn release_below(request: &'static Request) {
    if request.body.kind.get().is_persistent_below() && request.is_below() {
        // SAFETY: an inactive persistent request of ours; a failure would leak its entry below.
        unsafe {
            let mut lower_handle = request.lower();
            stubs::MPI_Request_free(&raw mut lower_handle);
        }
        request.clear_lower();
    }
}

/// Up to `MOST` orphans, for a look at them now and then.
pub(crate) fn some_orphans<const MOST: usize>() -> impl Iterator<Item = &'static Request> {
    let orphans = ORPHANS.lock();
    let mut next = orphans.0;
    let found: [_; MOST] = core::array::from_fn(|_| {
        let request = next?;
        next = request.body.next.get();
        Some(request)
    });
    found.into_iter().flatten()
}

/// All entries, for a restart that takes their lower handles away.
pub(crate) fn all() -> impl Iterator<Item = &'static Request> {
    RequestBody::table().dynamic()
}

/// All requests whose operation is not yet known to be finished.
pub(crate) fn pending() -> impl Iterator<Item = &'static Request> {
    RequestBody::table()
        .dynamic()
        .filter(|request| matches!(request.body.state.get(), State::Active | State::Upper))
}

/// Those of them that are wanted, in the order in which they were posted.
pub(crate) fn pending_as_posted(
    wanted: impl Fn(&'static Request) -> bool,
) -> Vec<&'static Request> {
    let mut posted: Vec<_> = pending().filter(|request| wanted(request)).collect();
    posted.sort_by_key(|request| request.body.serial.get());
    posted
}

/// All persistent requests that are such in the lower half.
pub(crate) fn persistent_below() -> impl Iterator<Item = &'static Request> {
    RequestBody::table().dynamic().filter(|request| {
        request.body.kind.get().is_persistent_below() && request.body.state.get() != State::Free
    })
}

impl Drop for Pair {
    fn drop(&mut self) {
        for part in self.parts() {
            part.recycle();
        }
    }
}

impl Drop for PersistentCollective {
    fn drop(&mut self) {
        // The request is over, and nobody else has the communicator.
        farewell(self.comm);
    }
}

/// Gives up what a request holds.
fn free_partitioned(request: &'static Request) {
    let mut matching = MATCHING.lock();
    let is_it = |entry: &(&'static Request, u64, Args)| entry.0.index() == request.index();
    if let Some(place) = matching.waiting.iter().position(is_it) {
        matching.waiting.remove(place).2.datatype.release();
    }
    drop(matching);
    let held = request.body.partitioned.take();
    if let Some(whole) = held.and_then(|held| held.whole.get()) {
        // Nothing of it is under way, since nothing of the application's request is.
        release_below(whole);
        whole.recycle();
    }
}

/// Non-blocking duplications that this process has under way.
pub(crate) static DUPLICATIONS: AtomicU32 = AtomicU32::new(0);

/// A non-blocking duplication is complete.
fn duplicated() {
    DUPLICATIONS.fetch_sub(1, Ordering::Relaxed);
}
