//! Calls of a generalized request's callbacks. They run as if outside of any MPI call, with no lock held.
//!
//! # Safety
//! The callbacks are the application's, with the signatures that MPI prescribes.
#![allow(unsafe_code)]

use crate::crossing::app_abi::abi;
use crate::crossing::call_guard::outside;
use crate::object::request::generalized::Generalized;
use crate::object::request::State;
use crate::object::Request;
use contract::abi::{Status, ERR_REQUEST};

/// Bytes that hold a status of any ABI.
const STATUS_BYTES: usize = 64;

/// Looks at the application's part without keeping it.
fn with<R>(request: &'static Request, f: impl FnOnce(&Generalized) -> R) -> Option<R> {
    let generalized = request.body.generalized.take()?;
    let copy = Generalized { ..*generalized };
    request.body.generalized.set(Some(generalized));
    Some(f(&copy))
}

/// Asks the application for the status of a complete request.
pub(crate) fn query(request: &'static Request, status: &mut Status) -> i32 {
    with(request, |generalized| {
        let mut theirs = [0_u64; STATUS_BYTES / 8];
        let place = theirs.as_mut_ptr().cast::<u8>();
        debug_assert!(abi().status_size <= STATUS_BYTES);
        // SAFETY: room for a status of the application's ABI; its callback with its data.
        unsafe {
            (abi().status_out)(&Status::EMPTY, place);
            let code = outside(|| generalized.query(place));
            *status = (abi().status_in)(place);
            (abi().error_in)(code)
        }
    })
    .unwrap_or(ERR_REQUEST)
}

/// Tells the application that a cancel is asked for.
pub(crate) fn cancel(request: &'static Request) -> i32 {
    let complete = i32::from(request.body.state.get() == State::Done);
    with(request, |generalized| {
        // SAFETY: the application's callback with its data.
        let code = outside(|| unsafe { generalized.cancel(complete) });
        (abi().error_in)(code)
    })
    .unwrap_or(ERR_REQUEST)
}

/// Lets the application free its data; the request is about to go.
#[cold]
pub(crate) fn free(request: &'static Request) {
    if let Some(generalized) = request.body.generalized.take() {
        // SAFETY: the application's callback with its data, for the last time.
        outside(|| unsafe { generalized.free() });
    }
}
