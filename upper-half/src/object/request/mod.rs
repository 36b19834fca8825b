//! The body of a request: the operation that it stands for, its state, and what a restart needs to start it again.
//!
//! While a request is *active* its operation lives in the lower half under the request's lower handle. It becomes
//! *done* without a call of the application when the drain, or a sweep while a checkpoint is pending, finds it
//! finished: status and error wait here then, and nothing is left below. `Args` has what a restart needs to post a
//! receive again. `request/lifecycle.rs` has the transitions.
//!
//! # Safety
//! Bodies are changed through `Cell`s; `request/lifecycle.rs` says why that is sound.
#![allow(unsafe_code)]

pub(crate) mod collective_result;
pub(crate) mod generalized;
pub(crate) mod in_vain;
mod operation;
pub(crate) mod pair;
pub(crate) mod partitioned;
pub(crate) mod persistent_collective;
pub mod schedule;
pub(crate) mod synchronous;

pub use operation::Scratch;
pub(crate) use operation::{Args, Kind, Mode, Posting, State, StateCell};

use crate::object::comm::Comm;
use crate::object::comm::NOBODY;
use crate::object::request::collective_result::CollectiveResult;
use crate::object::request::generalized::Generalized;
use crate::object::request::in_vain::InVain;
use crate::object::request::pair::Pair;
use crate::object::request::partitioned::Partitioned;
use crate::object::request::persistent_collective::PersistentCollective;
use crate::object::request::schedule::Schedule;
use crate::object::table::Body;
use crate::object::table::Object;
use crate::object::unexpected::Entry;
use crate::object_table;
use crate::runtime::lock::Lock;
use crate::tools::{is_set, POLLS};
use contract::abi::{Status, SUCCESS};
use contract::{abi, HandleKind};
use core::cell::Cell;
use core::sync::atomic::AtomicU32;
use std::rc::Rc;

/// A request.
pub type Request = Object<RequestBody>;

/// What a request adds to an object.
pub struct RequestBody {
    pub(crate) kind: Cell<Kind>,
    pub(crate) state: StateCell,
    pub(crate) mode: Cell<Mode>,
    /// MPI_Cancel was called: the status must be asked whether it came in time.
    pub(crate) cancelling: Cell<bool>,
    /// Freed by the application while active; nobody will collect it.
    pub(crate) orphan: Cell<bool>,
    /// A thread is in a call of the lower half with this request's lower handle.
    pub(crate) claimed: AtomicU32,
    /// Tests that have found nothing.
    pub(crate) in_vain: Cell<InVain>,
    /// World rank of the peer; [`NOBODY`] for a wildcard or MPI_PROC_NULL.
    pub(crate) peer: Cell<u32>,
    /// Index of the communicator whose error handler answers for it, if it still exists.
    pub(crate) comm: Cell<u32>,
    /// Error class of a done operation.
    pub(crate) error: Cell<i32>,
    /// Order in which receives were posted; number of a collective operation on its communicator; tag of a send.
    pub(crate) serial: Cell<u64>,
    /// What the record of the run has of a receive.
    pub(crate) posting: Cell<Posting>,
    pub(crate) args: Cell<Args>,
    /// Status of a done operation.
    pub(crate) status: Cell<Status>,
    /// The early message of a receive in state `Upper`.
    pub(crate) entry: Cell<Option<Box<Entry>>>,
    pub(crate) generalized: Cell<Option<Box<Generalized>>>,
    pub(crate) persistent_collective: Cell<Option<Box<PersistentCollective>>>,
    pub(crate) pair: Cell<Option<Box<Pair>>>,
    pub(crate) partitioned: Cell<Option<Box<Partitioned>>>,
    /// A collective operation that is reduced to messages, in state `Upper`.
    pub(crate) schedule: Lock<Option<Box<Schedule>>>,
    pub(crate) scratch: Cell<Scratch>,
    /// Of a non-blocking collective operation of a run that is recorded with digests.
    pub(crate) collective_result: Cell<Option<Rc<CollectiveResult>>>,
    /// Of MPI_Comm_idup: the duplicate, and the lower handle that it gets when the operation is complete.
    pub(crate) duplicate: Cell<Option<(&'static Comm, usize)>>,
    /// Next in the list of free entries, or of orphans.
    pub(crate) next: Cell<Option<&'static Request>>,
}

impl Body for RequestBody {
    const KIND: HandleKind = HandleKind::Request;
    const CAPACITY: u32 = 1 << 22;
    const NULL: usize = abi::request::REQUEST_NULL;
    const PREDEFINED: &'static [(&'static str, usize)] = abi::request::ALL;

    object_table!(RequestBody);

    fn predefined(_index: u32) -> Self {
        let body = RequestBody::new();
        body.state.set(State::Inactive);
        body
    }
}

impl RequestBody {
    pub(crate) fn new() -> Self {
        RequestBody {
            kind: Cell::new(Kind::Send),
            state: StateCell::new(State::Free),
            mode: Cell::new(Mode::Standard),
            cancelling: Cell::new(false),
            orphan: Cell::new(false),
            claimed: AtomicU32::new(0),
            in_vain: Cell::new(InVain::NEVER),
            peer: Cell::new(NOBODY),
            comm: Cell::new(Comm::null().index()),
            error: Cell::new(SUCCESS),
            serial: Cell::new(0),
            posting: Cell::new(Posting::None),
            args: Cell::new(Args::none()),
            status: Cell::new(Status::EMPTY),
            entry: Cell::new(None),
            generalized: Cell::new(None),
            persistent_collective: Cell::new(None),
            pair: Cell::new(None),
            partitioned: Cell::new(None),
            schedule: Lock::new(None),
            scratch: Cell::new(None),
            collective_result: Cell::new(None),
            duplicate: Cell::new(None),
            next: Cell::new(None),
        }
    }
}

impl Request {
    /// Keeps memory until the operation ends.
    pub(crate) fn keep_scratch(&'static self, scratch: Scratch) {
        self.body.scratch.set(scratch);
    }

    /// The operation makes a communicator, which may be used under that lower handle once it is complete.
    pub(crate) fn completes_duplicate(&'static self, duplicate: (&'static Comm, usize)) {
        self.body.duplicate.set(Some(duplicate));
    }

    /// Whether [`Request::ended`] learns from the status whom it has to count, or whether to count
    /// at all.
    #[inline(always)]
    pub(crate) fn is_told_by_status(&self) -> bool {
        let body = &self.body;
        body.cancelling.get() || (body.kind.get().is_receive() && body.peer.get() == NOBODY)
    }

    /// Whether it must be asked for alone: MPI_Testall of MPICH 4.0 ends the process when an
    /// operation on a file is one of several. So it must be while others need the upper half.
    #[inline(always)]
    pub(crate) fn is_asked_alone(&self) -> bool {
        matches!(self.body.kind.get(), Kind::File | Kind::FileCollective) || is_set(POLLS)
    }

    /// What a request that stands for two stands for.
    pub(crate) fn pair(&self) -> Option<&Pair> {
        // SAFETY: it is set before the request is in the state in which anyone looks for it, and taken
        // when the request is given back.
        unsafe { (*self.body.pair.as_ptr()).as_deref() }
    }

    /// The communicator over which a persistent collective is started.
    pub(crate) fn repeated_over(&self) -> Option<&'static Comm> {
        // SAFETY: as for a pair; a start takes it and gives it back.
        let repeated = unsafe { (*self.body.persistent_collective.as_ptr()).as_deref() };
        repeated.map(|repeated| repeated.comm)
    }

    /// What a request of partitioned communication holds.
    pub(crate) fn partitioned(&self) -> Option<&Partitioned> {
        // SAFETY: as for a pair.
        unsafe { (*self.body.partitioned.as_ptr()).as_deref() }
    }
}
