//! What a virtual request holds, and how it passes through its states.
//!
//! A request is made without an allocation: finished ones wait on a list for their next use, with
//! their place in the table and their handle. While it is *active* its operation lives in the lower
//! half under the request's word. It becomes *done* without the application's doing when the drain,
//! or a sweep while a checkpoint is pending, finds it finished: status and error wait here then, and
//! nothing is left below. What a restart needs to post a receive again stands in [`Args`].
//!
//! # Safety
//! Bodies are changed through `Cell`s. MPI forbids two threads to complete one request at a time;
//! what sweeps of other threads do beside that goes through the lock of `sweep.rs`, which also keeps
//! off requests that a thread has claimed. What a sweep may touch is told by three atomics, and their
//! order is what makes it safe: a request that starts gets its word last, when everything else stands
//! ([`Request::started`]); one that a sweep finds finished loses its word before it is called done
//! ([`Request::settle`]); one that is given back loses its word and its state before its claim
//! ([`Request::recycle`]). Entry pointers come from `Box::into_raw` and are owned by one request.
#![allow(unsafe_code)]

use super::counts::{self, NOBODY};
use super::grequest::{self, Generalized};
use super::isendrecv::Pair;
use super::partitioned::{self, Partitioned};
use super::repeated::Repeated;
use super::unexpected::Entry;
use crate::object::{Body, Comm, Datatype, Request};
use crate::sync::{multiple, Lock};
use crate::{comm_create, lower};
use contract::abi::{self, Status, SUCCESS};
use contract::HandleKind;
use core::cell::Cell;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicU8, Ordering};

/// What kind of operation a request stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// MPI_Isend and its modes.
    Send,
    /// MPI_Irecv, and a blocking receive that a checkpoint interrupted.
    Receive,
    /// MPI_Imrecv: matched and counted already, so it is finished at the cut like a send.
    Matched,
    /// A non-blocking collective operation.
    Collective,
    /// An operation on a window: finished at the cut, like a send.
    Access,
    /// An operation of one process on a file: finished at the cut, like a send.
    File,
    /// A collective operation on a file: the same. Those of one file are asked for one after the other.
    FileCollective,
    /// MPI_Grequest_start; nothing lies below.
    Generalized,
    /// MPI_Send_init and its modes.
    PersistentSend,
    /// MPI_Recv_init.
    PersistentReceive,
    /// MPI_Bcast_init and its like: every start is a non-blocking collective operation of its own.
    PersistentCollective,
    /// MPI_Psend_init and MPI_Precv_init: a persistent request that the application does not know moves
    /// all partitions at once.
    Partitioned,
    /// MPI_Isendrecv: two operations, each with a request that the application does not know.
    SendReceive,
}

impl Kind {
    /// Whether the request outlives its operation.
    #[inline(always)]
    pub(super) fn is_persistent(self) -> bool {
        self.is_persistent_below() || matches!(self, Kind::PersistentCollective | Kind::Partitioned)
    }

    /// Whether it is a persistent request of the lower half too.
    #[inline(always)]
    pub(super) fn is_persistent_below(self) -> bool {
        matches!(self, Kind::PersistentSend | Kind::PersistentReceive)
    }

    /// Whether it is a collective operation while it is under way.
    pub(super) fn is_collective(self) -> bool {
        matches!(self, Kind::Collective | Kind::PersistentCollective)
    }

    /// Whether it is a receive that matches a message when it is posted or later.
    #[inline(always)]
    pub(super) fn is_receive(self) -> bool {
        matches!(self, Kind::Receive | Kind::PersistentReceive)
    }
}

/// Where a request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum State {
    /// On the list of entries for the next use.
    Free,
    /// A persistent request that is not started, and the null request: complete with the empty
    /// status whenever asked.
    Inactive,
    /// Under way in the lower half, under the request's word.
    Active,
    /// A receive that has an early message which is still arriving, a generalized request, or one that
    /// stands for others.
    Upper,
    /// Finished, not yet collected by the application.
    Done,
}

/// A state that another thread may change: MPI_Grequest_complete, or a sweep.
pub(super) struct StateCell(AtomicU8);

impl StateCell {
    const fn new(state: State) -> Self {
        StateCell(AtomicU8::new(state as u8))
    }

    #[inline(always)]
    pub(super) fn get(&self) -> State {
        match self.0.load(Ordering::Acquire) {
            0 => State::Free,
            1 => State::Inactive,
            2 => State::Active,
            3 => State::Upper,
            _ => State::Done,
        }
    }

    #[inline(always)]
    pub(super) fn set(&self, state: State) {
        self.0.store(state as u8, Ordering::Release);
    }
}

/// How a persistent send sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Standard,
    Synchronous,
    Buffered,
}

/// Arguments of a receive or a persistent request, kept to post it again after a restart.
#[derive(Clone, Copy)]
pub(super) struct Args {
    pub(super) buffer: usize,
    pub(super) count: i32,
    pub(super) peer: i32,
    pub(super) tag: i32,
    pub(super) datatype: &'static Datatype,
    pub(super) comm: &'static Comm,
}

impl Args {
    fn none() -> Args {
        Args {
            buffer: 0,
            count: 0,
            peer: abi::PROC_NULL,
            tag: 0,
            datatype: Datatype::null(),
            comm: Comm::null(),
        }
    }
}

/// Memory that the lower half uses until the operation ends (converted argument arrays).
pub type Scratch = Option<Box<[usize]>>;

/// What a request adds to an object.
pub struct RequestBody {
    pub(super) kind: Cell<Kind>,
    pub(super) state: StateCell,
    pub(super) mode: Cell<Mode>,
    /// MPI_Cancel was called: the status must be asked whether it came in time.
    pub(super) cancelling: Cell<bool>,
    /// Freed by the application while active; nobody will collect it.
    pub(super) orphan: Cell<bool>,
    /// A thread is in a call of the lower half with this request's word.
    pub(super) claimed: AtomicU32,
    /// World rank of the peer; [`NOBODY`] for a wildcard or MPI_PROC_NULL.
    pub(super) peer: Cell<u32>,
    /// Index of the communicator whose error handler answers for it, if it still exists.
    comm: Cell<u32>,
    /// Error class of a done operation.
    pub(super) error: Cell<i32>,
    /// Order in which receives were posted.
    pub(super) serial: Cell<u64>,
    pub(super) args: Cell<Args>,
    /// Status of a done operation.
    pub(super) status: Cell<Status>,
    /// The early message of a receive in state `Upper`.
    pub(super) entry: Cell<Option<*mut Entry>>,
    pub(super) generalized: Cell<Option<Box<Generalized>>>,
    pub(super) repeated: Cell<Option<Box<Repeated>>>,
    pub(super) pair: Cell<Option<Box<Pair>>>,
    pub(super) partitioned: Cell<Option<Box<Partitioned>>>,
    scratch: Cell<Scratch>,
    /// Of MPI_Comm_idup: the duplicate, and the word that it gets when the operation is complete.
    duplicate: Cell<Option<(&'static Comm, usize)>>,
    /// Next in the list of free entries, or of orphans.
    next: Cell<Option<&'static Request>>,
}

impl Body for RequestBody {
    const KIND: HandleKind = HandleKind::Request;
    const CAPACITY: u32 = 1 << 22;
    const NULL: usize = abi::request::REQUEST_NULL;
    const PREDEFINED: &'static [(&'static str, usize)] = abi::request::ALL;

    crate::object_table!(RequestBody);

    fn predefined(_index: u32) -> Self {
        let body = RequestBody::new();
        body.state.set(State::Inactive);
        body
    }
}

impl RequestBody {
    fn new() -> Self {
        RequestBody {
            kind: Cell::new(Kind::Send),
            state: StateCell::new(State::Free),
            mode: Cell::new(Mode::Standard),
            cancelling: Cell::new(false),
            orphan: Cell::new(false),
            claimed: AtomicU32::new(0),
            peer: Cell::new(NOBODY),
            comm: Cell::new(Comm::null().index()),
            error: Cell::new(SUCCESS),
            serial: Cell::new(0),
            args: Cell::new(Args::none()),
            status: Cell::new(Status::EMPTY),
            entry: Cell::new(None),
            generalized: Cell::new(None),
            repeated: Cell::new(None),
            pair: Cell::new(None),
            partitioned: Cell::new(None),
            scratch: Cell::new(None),
            duplicate: Cell::new(None),
            next: Cell::new(None),
        }
    }
}

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

/// A request in state `Active` without a word, whose remaining fields are those of a fresh one
/// except for the arguments, which only kinds that have some look at.
#[inline]
pub(super) fn acquire(kind: Kind, peer: u32, comm: &'static Comm) -> Result<&'static Request, i32> {
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
pub(super) fn comm_of(request: &'static Request) -> u32 {
    request.body.comm.get()
}

#[cold]
fn fresh() -> Result<&'static Request, i32> {
    Request::make(Request::null_word(), RequestBody::new())
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
    pub(super) fn keep(&'static self, args: Args) {
        args.comm.retain();
        args.datatype.retain();
        self.body.args.set(args);
    }

    /// Marks the moment at which a receive is posted.
    #[inline(always)]
    pub(super) fn posted(&'static self) {
        self.body.serial.set(next_serial());
    }

    /// The operation is under way in the lower half under `word`. Sweeps of other threads may find it
    /// finished from here on, so that whatever else belongs to it must stand already: calls that start
    /// an operation write its word to a place of their own.
    #[inline(always)]
    pub(super) fn started(&'static self, word: usize) {
        self.set_lower(word);
    }

    /// Keeps memory until the operation ends.
    pub(super) fn keep_scratch(&'static self, scratch: Scratch) {
        self.body.scratch.set(scratch);
    }

    /// The operation makes a communicator, which may be used under that word once it is complete.
    pub(super) fn completes_duplicate(&'static self, duplicate: (&'static Comm, usize)) {
        self.body.duplicate.set(Some(duplicate));
    }

    /// Whether [`Request::ended`] learns from the status whom it has to count, or whether to count
    /// at all.
    #[inline(always)]
    pub(super) fn is_told_by_status(&self) -> bool {
        let body = &self.body;
        body.cancelling.get() || (body.kind.get().is_receive() && body.peer.get() == NOBODY)
    }

    /// Whether it must be asked for alone: MPI_Testall of MPICH 4.0 ends the process when an
    /// operation on a file is one of several.
    #[inline(always)]
    pub(super) fn is_asked_alone(&self) -> bool {
        matches!(self.body.kind.get(), Kind::File | Kind::FileCollective)
    }

    /// It is a collective operation on the file that has this communicator, started after those before.
    pub(super) fn belongs_to_file(&'static self, comm: &'static Comm) {
        self.posted();
        self.body.args.set(Args {
            comm,
            ..Args::none()
        });
    }

    /// Whether an older collective operation on the same file is under way. MPICH's have collective
    /// operations inside them, which being asked for makes begin, so that every rank must ask in the same
    /// order; and MPI gives none but that in which they were started.
    pub(super) fn has_older_on_file(&self) -> bool {
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
    pub(super) fn ended(&'static self, status: &Status) {
        let body = &self.body;
        let cancelled = body.cancelling.get() && status.cancelled != 0;
        match body.kind.get() {
            Kind::Receive | Kind::PersistentReceive => {
                if !cancelled {
                    match body.peer.get() {
                        NOBODY => {
                            let args = body.args.get();
                            counts::received_by(args.comm, args.peer, status);
                        }
                        peer => counts::received(peer),
                    }
                }
            }
            Kind::Send | Kind::PersistentSend => {
                if cancelled {
                    counts::unsent(body.peer.get());
                }
            }
            Kind::Collective
            | Kind::PersistentCollective
            | Kind::Access
            | Kind::File
            | Kind::FileCollective => {
                drop(body.scratch.take());
                if let Some((duplicate, word)) = body.duplicate.take() {
                    duplicate.set_lower(word);
                    comm_create::duplicated();
                }
            }
            Kind::Matched | Kind::Generalized | Kind::SendReceive | Kind::Partitioned => {}
        }
    }

    /// The operation is finished, and nobody has asked for its result yet. Once it is called done its
    /// thread may collect it and give the entry its next use, so that comes last.
    pub(super) fn settle(&'static self, status: &Status, error: i32) {
        let body = &self.body;
        body.status.set(*status);
        body.error.set(error);
        if !body.kind.get().is_persistent_below() {
            self.clear_lower();
        }
        body.state.set(State::Done);
    }

    /// Status and error of a request of which nothing is under way, `None` while something is.
    #[inline]
    pub(super) fn result(&'static self, status: &mut Status) -> Option<i32> {
        let body = &self.body;
        match body.state.get() {
            State::Active | State::Upper => None,
            State::Inactive => {
                *status = Status::EMPTY;
                Some(SUCCESS)
            }
            State::Done if body.kind.get() == Kind::Generalized => {
                Some(grequest::query(self, status))
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
    pub(super) fn collect(&'static self, handle: &mut &'static Request) {
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

    /// What a request that stands for two stands for.
    pub(super) fn pair(&self) -> Option<&Pair> {
        // SAFETY: it is set before the request is in the state in which anyone looks for it, and taken
        // when the request is given back.
        unsafe { (*self.body.pair.as_ptr()).as_deref() }
    }

    /// What a request of partitioned communication holds.
    pub(super) fn partitioned(&self) -> Option<&Partitioned> {
        // SAFETY: as for a pair.
        unsafe { (*self.body.partitioned.as_ptr()).as_deref() }
    }

    /// Gives the entry back for its next use, and what the request kept alive.
    #[inline(always)]
    pub(super) fn recycle(&'static self) {
        let body = &self.body;
        match body.kind.get() {
            Kind::Send
            | Kind::Collective
            | Kind::Access
            | Kind::File
            | Kind::FileCollective
            | Kind::Matched => {}
            Kind::SendReceive => drop(body.pair.take()),
            Kind::Partitioned => partitioned::free(self),
            Kind::Generalized => grequest::free(self),
            Kind::PersistentCollective => drop(body.repeated.take()),
            Kind::Receive | Kind::PersistentSend | Kind::PersistentReceive => {
                let args = body.args.get();
                args.comm.release();
                args.datatype.release();
            }
        }
        body.cancelling.set(false);
        body.orphan.set(false);
        // The next use has no word until the lower half has made one: sweeps go by that.
        self.clear_lower();
        body.state.set(State::Free);
        // Only now, or a sweep would look for the operation that has ended.
        body.claimed.store(0, Ordering::Release);
        FREE.lock().push(self);
    }

    /// Takes a request back whose operation never started; nothing was kept yet.
    #[cold]
    pub(super) fn abandon(&'static self) {
        self.body.kind.set(Kind::Send);
        self.recycle();
    }
}

/// Whom the application freed while it was active: its operation goes on, and its entry is given
/// back when that ends.
pub(super) fn orphan(request: &'static Request) {
    request.body.orphan.set(true);
    ORPHANS.lock().push(request);
}

/// Gives back the entries of orphans that are done.
///
/// # Safety
/// Crosses (frees persistent requests below).
pub(super) unsafe fn reap() {
    let mut waiting = core::mem::replace(&mut *ORPHANS.lock(), Stack(None));
    while let Some(request) = waiting.pop() {
        if request.body.state.get() != State::Done {
            ORPHANS.lock().push(request);
            continue;
        }
        // SAFETY: the request is done, so its word is inactive.
        unsafe { release_below(request) };
        request.recycle();
    }
}

/// Frees what an inactive persistent request has in the lower half.
///
/// # Safety
/// Crosses; the word must be inactive.
pub(super) unsafe fn release_below(request: &'static Request) {
    let null = Request::null_word();
    if request.body.kind.get().is_persistent_below() && request.lower() != null {
        let mut word = request.lower();
        // SAFETY: an inactive persistent request of ours; a failure would leak its entry below.
        unsafe { lower::MPI_Request_free(&raw mut word) };
        request.set_lower(Request::null_word());
    }
}

/// Up to `MOST` orphans, for a look at them now and then.
pub(super) fn some_orphans<const MOST: usize>() -> impl Iterator<Item = &'static Request> {
    let orphans = ORPHANS.lock();
    let mut next = orphans.0;
    let found: [_; MOST] = core::array::from_fn(|_| {
        let request = next?;
        next = request.body.next.get();
        Some(request)
    });
    found.into_iter().flatten()
}

/// All entries, for a restart that takes their words away.
pub(super) fn all() -> impl Iterator<Item = &'static Request> {
    RequestBody::table().dynamic()
}

/// All requests whose operation is not yet known to be finished.
pub(super) fn pending() -> impl Iterator<Item = &'static Request> {
    RequestBody::table()
        .dynamic()
        .filter(|request| matches!(request.body.state.get(), State::Active | State::Upper))
}

/// All persistent requests that are such in the lower half.
pub(super) fn persistent() -> impl Iterator<Item = &'static Request> {
    RequestBody::table().dynamic().filter(|request| {
        request.body.kind.get().is_persistent_below() && request.body.state.get() != State::Free
    })
}
