//! Waiting for requests, freeing and cancelling them.
//!
//! The usual wait is one call of a waiting service. Requests that are finished already (by a drain,
//! or from an early message) answer without a crossing. When a checkpoint interrupts a service the
//! wait goes on in `park.rs`, and every word is read again afterwards.
//!
//! # Safety
//! Handles and arrays are the application's, decoded by the front.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // the same for all: see above

use super::batch::{self, Answer};
use super::blame;
use super::park::{self, Look};
use super::request::{self, State};
use super::sweep::{self, Claim};
use super::{grequest, request::Kind};
use crate::lower::{self, service};
use crate::object::Request;
use contract::abi::{Status, ERR_COUNT, ERR_REQUEST, SUCCESS, UNDEFINED};
use contract::INTERRUPTED;

/// MPI_Wait
#[inline]
pub unsafe fn wait(request: *mut &'static Request, status: *mut Status) -> i32 {
    let mut own = Status::EMPTY;
    // SAFETY: the caller's request, and a place for a status if it is not null.
    unsafe { one(&mut *request, status.as_mut().unwrap_or(&mut own)) }
}

/// Waits for one request.
#[inline]
pub(super) unsafe fn one(handle: &mut &'static Request, status: &mut Status) -> i32 {
    let request = *handle;
    loop {
        let claimed = [request];
        // SAFETY: the array is there until the end of this function.
        let claim = unsafe { Claim::new(&claimed) };
        if request.body.state.get() == State::Active {
            let mut word = request.lower();
            // SAFETY: the word of an active request, which is in no other call.
            let error = unsafe { service::wait_one(&raw mut word, status) };
            if error != INTERRUPTED {
                blame::answered(request, word, error);
                batch::answered(handle, status);
                return error;
            }
            drop(claim);
        } else {
            drop(claim);
            if let Some(error) = request.result(status) {
                blame::outcome(request, error);
                request.collect(handle);
                return error;
            }
        }
        // SAFETY: the word is read again.
        unsafe { go_on_later(&[request], |found| found.all()) };
    }
}

/// Waits in the upper half until `look` finds what is waited for, or until a service may be asked
/// again.
#[cold]
unsafe fn go_on_later(requests: &[&'static Request], look: impl Fn(&batch::Found) -> Look) {
    // SAFETY: our callers read words and states again.
    unsafe {
        park::until(
            || look(&batch::look(requests)),
            |set| batch::waits_for(requests, set),
        );
    }
}

/// MPI_Waitall
#[inline]
pub unsafe fn waitall(count: i32, requests: *mut &'static Request, statuses: *mut Status) -> i32 {
    let Ok(n) = usize::try_from(count) else {
        return ERR_COUNT;
    };
    batch::with_arrays(n, |words, own| {
        // SAFETY: arrays of `n` entries, or null for the wanted statuses.
        unsafe { all(batch::handles(requests, n), words, statuses, own) }
    })
}

/// Waits for all, with room for the words and for statuses that the application does not want.
#[inline(always)]
unsafe fn all(
    requests: &mut [&'static Request],
    words: *mut usize,
    wanted: *mut Status,
    own: *mut Status,
) -> i32 {
    loop {
        // SAFETY: the array is there until the end of this function.
        let claim = unsafe { Claim::new(requests) };
        // SAFETY: room for the words of all.
        let found = unsafe { batch::gather(requests, words) };
        if !found.here {
            let statuses = found.statuses(wanted, own);
            let error = if found.below {
                // SAFETY: words of active requests, and room for their statuses.
                unsafe { service::wait_all(requests.len() as i32, words, statuses) }
            } else {
                SUCCESS
            };
            if error != INTERRUPTED {
                let answer = Answer {
                    mixed: found.done,
                    statuses,
                    words,
                    error,
                };
                // SAFETY: the entries of active requests were written.
                return unsafe { batch::finish(requests, &answer) };
            }
        }
        drop(claim);
        // SAFETY: the words are gathered again.
        unsafe { go_on_later(requests, |found| found.all()) };
    }
}

/// MPI_Waitany
pub unsafe fn waitany(
    count: i32,
    requests: *mut &'static Request,
    index: *mut i32,
    status: *mut Status,
) -> i32 {
    let Ok(n) = usize::try_from(count) else {
        return ERR_COUNT;
    };
    let mut own = Status::EMPTY;
    // SAFETY: a place for a status if it is not null, one for an index, `n` requests.
    let (status, index, requests) = unsafe {
        (
            status.as_mut().unwrap_or(&mut own),
            &mut *index,
            batch::handles(requests, n),
        )
    };
    batch::with_arrays(n, |words, _| loop {
        // SAFETY: the array is there until the end of this function.
        let claim = unsafe { Claim::new(requests) };
        // SAFETY: room for the words of all.
        let found = unsafe { batch::gather(requests, words) };
        match found.any() {
            Look::Below => {
                // SAFETY: words of active requests.
                let error = unsafe { service::wait_any(count, words, index, status) };
                if error != INTERRUPTED {
                    // SAFETY: all words were gathered.
                    return unsafe { one_answered(requests, words, *index, status, error) };
                }
                drop(claim);
            }
            Look::Ready => {
                drop(claim);
                return take_done(requests, index, status);
            }
            Look::Here => drop(claim),
        }
        // SAFETY: the words are gathered again.
        unsafe { go_on_later(requests, |found| found.any()) };
    })
}

/// Collects a done request of several, or says that none is active.
pub(super) fn take_done(
    requests: &mut [&'static Request],
    index: &mut i32,
    status: &mut Status,
) -> i32 {
    match batch::first_done(requests, status) {
        Some((i, error)) => {
            *index = i as i32;
            error
        }
        None => {
            *index = UNDEFINED;
            *status = Status::EMPTY;
            SUCCESS
        }
    }
}

/// The lower half completed the request at `index`, with an `error` that is passed on.
///
/// # Safety
/// There is a word for each request, as the lower half left it.
pub(super) unsafe fn one_answered(
    requests: &mut [&'static Request],
    words: *const usize,
    index: i32,
    status: &Status,
    error: i32,
) -> i32 {
    let index = usize::try_from(index).unwrap_or(usize::MAX);
    if let Some(handle) = requests.get_mut(index) {
        // SAFETY: as the caller promises.
        blame::answered(handle, unsafe { *words.add(index) }, error);
        batch::answered(handle, status);
    }
    error
}

/// MPI_Waitsome
pub unsafe fn waitsome(
    incount: i32,
    requests: *mut &'static Request,
    outcount: *mut i32,
    indices: *mut i32,
    statuses: *mut Status,
) -> i32 {
    let Ok(n) = usize::try_from(incount) else {
        return ERR_COUNT;
    };
    // SAFETY: the caller's places.
    let (outcount, requests) = unsafe { (&mut *outcount, batch::handles(requests, n)) };
    batch::with_arrays(n, |words, own| loop {
        let statuses = if statuses.is_null() { own } else { statuses };
        // SAFETY: the array is there until the end of this function.
        let claim = unsafe { Claim::new(requests) };
        // SAFETY: room for the words of all.
        let found = unsafe { batch::gather(requests, words) };
        match found.any() {
            Look::Below => {
                // SAFETY: words of active requests; arrays of `n` entries.
                unsafe {
                    let error = service::wait_some(incount, words, outcount, indices, statuses);
                    if error != INTERRUPTED {
                        batch::some_answered(requests, words, *outcount, indices, statuses, error);
                        return error;
                    }
                    drop(claim);
                }
            }
            Look::Ready => {
                drop(claim);
                // SAFETY: arrays of `n` entries.
                return unsafe { take_all_done(requests, &found, outcount, indices, statuses) };
            }
            Look::Here => drop(claim),
        }
        // SAFETY: the words are gathered again.
        unsafe { go_on_later(requests, |found| found.any()) };
    })
}

/// Collects the done requests of several, or says that none is active.
///
/// # Safety
/// Indices and statuses have an entry for each request.
pub(super) unsafe fn take_all_done(
    requests: &mut [&'static Request],
    found: &batch::Found,
    outcount: &mut i32,
    indices: *mut i32,
    statuses: *mut Status,
) -> i32 {
    if !found.done {
        *outcount = UNDEFINED;
        return SUCCESS;
    }
    // SAFETY: passed on to the caller.
    let (count, error) = unsafe { batch::all_done(requests, indices, statuses) };
    *outcount = count as i32;
    error
}

/// MPI_Request_free
///
/// An active operation goes on as an orphan: it is looked at now and then, and finished at the cut.
pub unsafe fn request_free(request: *mut &'static Request) -> i32 {
    // SAFETY: the caller's request.
    let handle = unsafe { &mut *request };
    let request = *handle;
    if request.is_null() {
        return ERR_REQUEST;
    }
    match request.body.state.get() {
        State::Free => return ERR_REQUEST,
        State::Active | State::Upper => request::orphan(request),
        State::Inactive | State::Done => {
            // SAFETY: nothing of the request is under way.
            unsafe { request::release_below(request) };
            request.recycle();
        }
    }
    *handle = Request::null();
    // SAFETY: looking crosses.
    unsafe { sweep::orphans() };
    SUCCESS
}

/// MPI_Cancel
///
/// An operation that is finished or has its message already is not cancelled, as MPI has it.
pub unsafe fn cancel(request: *mut &'static Request) -> i32 {
    // SAFETY: the caller's request.
    let request = unsafe { *request };
    let body = &request.body;
    match body.state.get() {
        State::Free | State::Inactive => ERR_REQUEST,
        State::Upper | State::Done if body.kind.get() == Kind::Generalized => {
            grequest::cancel(request)
        }
        State::Upper | State::Done => SUCCESS,
        // SAFETY: an active request of the caller's.
        State::Active => unsafe { cancel_below(request) },
    }
}

/// Cancels an operation that was under way when it was last looked at.
///
/// # Safety
/// Crosses.
unsafe fn cancel_below(request: &'static Request) -> i32 {
    let claimed = [request];
    // SAFETY: the array is there until the end of this function.
    let _claim = unsafe { Claim::new(&claimed) };
    if request.body.state.get() != State::Active {
        return SUCCESS;
    }
    request.body.cancelling.set(true);
    let mut word = request.lower();
    // SAFETY: the word of an active request, which is in no other call.
    unsafe { lower::MPI_Cancel(&raw mut word) }
}
