//! Which communicator's error handler answers when a call that completes operations fails: that of
//! the first operation that failed, as MPI has it (§8.3), though the call names no communicator and
//! the request is gone when the front learns of the failure. So the failure is noted on the way, for
//! the calling thread, and the front asks for it.

use super::request;
use crate::error::raise_comm;
use crate::object::{Body, Comm, CommBody, Request};
use crate::sync::Lock;
use crate::wrapper::thread_id;
use contract::abi::SUCCESS;

/// Index of the communicator to blame, by thread.
static NOTED: Lock<Vec<(u32, u32)>> = Lock::new(Vec::new());

/// Passes on the `error` with which an operation ended; a failure is noted.
#[inline(always)]
pub(super) fn outcome(request: &'static Request, error: i32) -> i32 {
    if error != SUCCESS {
        note(request::comm_of(request));
    }
    error
}

/// The lower half completed an operation with `error` and left its request as `word`: one library
/// frees even a persistent request that failed, and the next start must make it anew.
#[inline(always)]
pub(super) fn answered(request: &'static Request, word: usize, error: i32) {
    if error != SUCCESS {
        note(request::comm_of(request));
        if request.body.kind.get().is_persistent_below() {
            request.set_lower(word);
        }
    }
}

/// The calling thread's first failure since it raised one is that of an operation on the
/// communicator with this index.
#[cold]
pub(super) fn note(comm: u32) {
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

/// What the front calls when a function that names requests or messages failed with `code`.
#[cold]
pub fn raise_request(code: i32, function: &str) -> i32 {
    let comm = take()
        .and_then(|index| CommBody::table().get(index))
        .unwrap_or_else(Comm::null);
    raise_comm(comm, code, function)
}
