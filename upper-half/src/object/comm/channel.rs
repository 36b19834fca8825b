//! The part of a communicator for collective operations that are reduced to messages: a duplicate of its own, in which
//! no message can meet a receive of the application, and numbers on which all members agree.

use crate::crossing::namespace::Namespace;
use crate::object::comm::Comm;
use crate::runtime::lock::Lock;
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use reduction::{Function, Selection};
use std::sync::Arc;

/// Tags are numbers below this, which every library has.
const TAGS: u32 = 1 << 15;

/// A selection that holds up to a call.
pub(crate) struct Era {
    /// The last call for which it holds.
    pub(crate) until: u64,
    pub(crate) selection: Arc<Selection>,
}

/// Where the messages of a communicator's reduced operations go, and which operations are reduced.
pub(crate) struct Channel {
    /// The duplicate; none of MPI_COMM_SELF, whose operations need no messages.
    pub(crate) comm: Option<&'static Comm>,
    /// Collective calls over the communicator since the tool is on, reduced or not.
    pub(crate) calls: AtomicU64,
    /// Reduced operations that have been started.
    started: AtomicU32,
    /// The library serves calls as long as it has begun fewer operations than this.
    pub(crate) library_until: AtomicU64,
    /// Selections of earlier starts of the job that still hold.
    pub(crate) eras: Lock<Vec<Era>>,
    /// A profiler has seen that the duplicate was made.
    is_shown: AtomicBool,
}

thread_local! {
    /// A communicator that exists already. The thread's next MPI_Comm_dup returns it instead of a new one.
    static SHOWN: Cell<Option<&'static Comm>> = const { Cell::new(None) };
}

/// The duplicate that a call of MPI_Comm_dup shows to a profiler, if it is such a call.
pub(crate) fn shown() -> Option<&'static Comm> {
    SHOWN.take()
}

/// The present selection.
static SELECTION: Lock<Option<Arc<Selection>>> = Lock::new(None);

/// Takes a selection for the present one.
pub(crate) fn select(selection: Arc<Selection>) {
    *SELECTION.lock() = Some(selection);
}

/// The present selection, which selects nothing before there is one.
pub(crate) fn selection() -> Arc<Selection> {
    SELECTION.lock().clone().unwrap_or_default()
}

impl Channel {
    pub(crate) fn new(comm: Option<&'static Comm>) -> Channel {
        Channel {
            comm,
            calls: AtomicU64::new(0),
            started: AtomicU32::new(0),
            library_until: AtomicU64::new(0),
            eras: Lock::new(Vec::new()),
            is_shown: AtomicBool::new(false),
        }
    }

    /// Shows a profiler that the duplicate was made, once: as one of `of`, which it knows.
    pub(crate) fn show(&self, of: &'static Comm, namespace: &Namespace) {
        let Some(comm) = self.comm else {
            return;
        };
        if !self.is_shown.swap(true, Ordering::Relaxed) {
            SHOWN.set(Some(comm));
            namespace.duplicate(of.handle());
            SHOWN.set(None);
        }
    }

    /// The tag of the next reduced operation. More than there are tags are not under way at a time.
    pub(crate) fn next_tag(&self) -> i32 {
        (self.started.fetch_add(1, Ordering::Relaxed) % TAGS) as i32
    }

    /// Counts a call over the communicator `of`; the selection that has to do with it, if it is reduced.
    pub(crate) fn selects(&self, function: Function, of: &'static Comm) -> Option<Arc<Selection>> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let clock = of.body.clock()?.seq.load(Ordering::Relaxed);
        if clock < self.library_until.load(Ordering::Relaxed) {
            return None;
        }
        let selection = self.selection_for(call);
        let named = |name: &str| of.body.name.lock().to_bytes() == name.as_bytes();
        selection
            .selects(function, named, call)
            .then_some(selection)
    }

    fn selection_for(&self, call: u64) -> Arc<Selection> {
        let mut eras = self.eras.lock();
        eras.retain(|era| call <= era.until);
        match eras.first() {
            Some(era) => era.selection.clone(),
            None => selection(),
        }
    }
}
