//! Communicators that this process has freed and other members perhaps not yet. `comm/free.rs` ends them.

use crate::object::comm::Comm;
use crate::runtime::lock::Lock;
use core::sync::atomic::Ordering;
use std::collections::VecDeque;

/// Communicators that this process has freed and others perhaps not yet: first those that it has not
/// looked at yet, then the one that it has not looked at for longest.
pub(crate) static CLOSING: Lock<VecDeque<&'static Comm>> = Lock::new(VecDeque::new());

/// Gives up the handle's reference, now or when all members have. The caller has no use for the handle any more.
pub(crate) fn farewell(comm: &'static Comm) {
    let body = &comm.body;
    body.freed.store(true, Ordering::Relaxed);
    if body.size == 1 && !body.inter {
        comm.release();
        return;
    }
    CLOSING.lock().push_front(comm);
}

/// Forgets communicators that all members have freed, as a restart found out.
pub(crate) fn forget(gone: &[&'static Comm]) {
    CLOSING
        .lock()
        .retain(|comm| !gone.iter().any(|other| other.index() == comm.index()));
}
