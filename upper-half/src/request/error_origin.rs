//! The communicator whose error handler runs when a call that completes operations fails: that of the first operation
//! that failed (MPI 3.1, §8.3). The call names no communicator, and the request is gone when the front learns of the
//! failure. So the failure is noted on the way, for the calling thread, and the front asks for it.

use crate::crossing::call_guard::thread_id;
use crate::object::Request;
use crate::request::lifecycle;
use crate::runtime::lock::Lock;
use contract::abi::SUCCESS;

/// Index of the communicator to blame, by thread.
static NOTED: Lock<Vec<(u32, u32)>> = Lock::new(Vec::new());

/// Passes on the `error` with which an operation ended; a failure is noted.
#[inline(always)]
pub(crate) fn outcome(request: &'static Request, error: i32) -> i32 {
    if error != SUCCESS {
        note(lifecycle::comm_of(request));
    }
    error
}

/// The lower half completed an operation with `error` and left its request as `lower handle`: one library
/// frees even a persistent request that failed, and the next start must make it anew.
#[inline(always)]
pub(crate) fn answered(request: &'static Request, lower_handle: usize, error: i32) {
    if error != SUCCESS {
        note(lifecycle::comm_of(request));
        if request.body.kind.get().is_persistent_below() {
            request.set_lower(lower_handle);
        }
    }
}

/// The calling thread's first failure since it raised one is that of an operation on the
/// communicator with this index.
#[cold]
pub(crate) fn note(comm: u32) {
    let thread = thread_id();
    let mut noted = NOTED.lock();
    if !noted.iter().any(|(by, _)| *by == thread) {
        noted.push((thread, comm));
    }
}

/// Takes the calling thread's note away.
pub(crate) fn take() -> Option<u32> {
    let thread = thread_id();
    let mut noted = NOTED.lock();
    let place = noted.iter().position(|(by, _)| *by == thread)?;
    Some(noted.swap_remove(place).1)
}
