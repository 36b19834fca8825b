//! Waiting for requests, freeing and cancelling them.
//!
//! The usual wait is one call of a waiting service. Requests that are finished already (by a drain, or from an early
//! message) answer without a crossing. When a checkpoint interrupts a service the wait goes on in
//! `quiesce/wait_loop.rs`, and every lower handle is read again afterwards.
//!
//! # Safety
//! A crossing takes lower handles of active requests that the thread has claimed, so that they are in no other call.
//! Each is read after the last place at which the thread may have parked.
#![allow(unsafe_code)]

use crate::argument::{InOut, Output};
use crate::crossing::stubs;
use crate::crossing::stubs::service;
use crate::object::request::{Kind, State};
use crate::object::Request;
use crate::perturb::delivery;
use crate::quiesce::progress::Claim;
use crate::quiesce::wait_loop::WaitState;
use crate::quiesce::{progress, wait_loop};
use crate::record::mode;
use crate::request::request_array::{Answer, ArrayState, Room};
use crate::request::{error_origin, grequest_callbacks, lifecycle, request_array};
use crate::tools;
use contract::abi::{Status, ERR_ARG, ERR_COUNT, ERR_REQUEST, SUCCESS, UNDEFINED};
use contract::{gate, FREED_RECEIVE, INTERRUPTED, TOOL_CONTENTS};
use core::sync::atomic::Ordering;

/// MPI_Wait
#[inline]
pub fn wait(request: &mut &'static Request, status: Option<&mut Status>) -> i32 {
    let mut own = Status::EMPTY;
    one(request, status.unwrap_or(&mut own))
}

/// Waits for one request.
#[inline]
pub(crate) fn one(handle: &mut &'static Request, status: &mut Status) -> i32 {
    let request = *handle;
    loop {
        let claim = Claim::new([request]);
        if request.body.state.get() == State::Active && !progress::polls() {
            let mut lower_handle;
            // SAFETY: see the head.
            let error = unsafe {
                lower_handle = request.lower();
                service::wait_one(&raw mut lower_handle, status)
            };
            if error != INTERRUPTED {
                error_origin::answered(request, lower_handle, error);
                request_array::answered(handle, status);
                return error;
            }
            drop(claim);
        } else {
            drop(claim);
            if let Some(error) = request.result(status) {
                error_origin::outcome(request, error);
                request.collect(handle);
                return error;
            }
        }
        go_on_later(&[request]);
    }
}

/// Waits in the upper half until all requests are done, or until a service may be asked again.
#[cold]
pub(crate) fn go_on_later(requests: &[&'static Request]) {
    wait_loop::until(
        || request_array::look(requests).all(),
        |waits| request_array::waits_for(requests, waits),
    );
}

/// The same for a call that ends when one of the requests is done. Returns whether the run has another record now.
#[cold]
fn go_on_later_with_one(requests: &[&'static Request]) -> bool {
    let restarts = mode::restarts();
    wait_loop::until(
        || request_array::look(requests).any(),
        |waits| {
            waits.one_is_enough();
            request_array::waits_for(requests, waits);
        },
    );
    mode::has_another_record(restarts)
}

/// MPI_Waitall
#[inline]
pub fn waitall(
    count: i32,
    requests: &mut [&'static Request],
    statuses: Option<&mut [Status]>,
) -> i32 {
    if count < 0 {
        return ERR_COUNT;
    }
    let n = requests.len();
    let statuses = statuses.map(|statuses| &mut statuses[..n]);
    request_array::with_arrays(n, |lower_handles, own| {
        all(requests, lower_handles, statuses, own)
    })
}

/// Waits for all, with room for the lower handles and for statuses that the application does not want. There are as
/// many `wanted` statuses as requests.
#[inline(always)]
fn all(
    requests: &mut [&'static Request],
    lower_handles: &mut Room<usize>,
    mut wanted: Option<&mut [Status]>,
    own: &mut Room<Status>,
) -> i32 {
    loop {
        let claim = Claim::new(&mut *requests);
        let (found, mut lower_handles) = request_array::gather(claim.requests, lower_handles);
        if !found.here {
            let mut statuses = found.statuses(wanted.as_deref_mut(), own);
            let error = if found.below {
                let place = request_array::place(&mut statuses);
                // SAFETY: see the head; there is a status for each lower handle, or none.
                unsafe { service::wait_all(lower_handles.count(), lower_handles.as_ptr(), place) }
            } else {
                SUCCESS
            };
            if error != INTERRUPTED {
                let answer = Answer {
                    mixed: found.done,
                    statuses,
                    lower_handles,
                    error,
                };
                return request_array::finish(claim.requests, answer);
            }
        }
        drop(claim);
        go_on_later(requests);
    }
}

/// MPI_Waitany. Returns `INTERRUPTED` where [`mode::has_another_record`].
pub fn waitany(
    count: i32,
    requests: &mut [&'static Request],
    mut index: InOut<'_, i32>,
    status: Option<&mut Status>,
) -> i32 {
    if count < 0 {
        return ERR_COUNT;
    }
    let mut own = Status::EMPTY;
    let status = status.unwrap_or(&mut own);
    request_array::with_arrays(requests.len(), |lower_handles, _| loop {
        let claim = Claim::new(&mut *requests);
        let (found, mut lower_handles) = request_array::gather(claim.requests, lower_handles);
        match found.any() {
            WaitState::InLibrary => {
                let place = index.as_ptr();
                // SAFETY: see the head.
                let error = unsafe {
                    service::wait_any(lower_handles.count(), lower_handles.as_ptr(), place, status)
                };
                if error != INTERRUPTED {
                    let index = index.get();
                    request_array::one_answered(
                        claim.requests,
                        &lower_handles,
                        index,
                        status,
                        error,
                    );
                    return error;
                }
                drop(claim);
            }
            WaitState::Ready => {
                drop(claim);
                return take_done(requests, &mut index, status);
            }
            WaitState::PollHere => drop(claim),
        }
        if go_on_later_with_one(requests) {
            return INTERRUPTED;
        }
    })
}

/// Collects a done request of several, or says that none is active.
pub(crate) fn take_done(
    requests: &mut [&'static Request],
    index: &mut InOut<'_, i32>,
    status: &mut Status,
) -> i32 {
    match request_array::first_done(requests, status) {
        Some((i, error)) => {
            index.set(i as i32);
            error
        }
        None => {
            index.set(UNDEFINED);
            *status = Status::EMPTY;
            SUCCESS
        }
    }
}

/// MPI_Waitsome. Returns `INTERRUPTED` where [`mode::has_another_record`].
pub fn waitsome(
    incount: i32,
    requests: &mut [&'static Request],
    mut outcount: InOut<'_, i32>,
    mut indices: Output<'_, i32>,
    statuses: Option<&mut [Status]>,
) -> i32 {
    if incount < 0 {
        return ERR_COUNT;
    }
    let n = requests.len();
    request_array::with_arrays(n, |lower_handles, own| {
        let statuses = match statuses {
            Some(statuses) => &mut statuses[..n],
            None => request_array::empty(own),
        };
        loop {
            let claim = Claim::new(&mut *requests);
            let (found, mut lower_handles) = request_array::gather(claim.requests, lower_handles);
            match found.any() {
                // As a library says to a null pointer.
                WaitState::InLibrary if indices.len() < n => return ERR_ARG,
                WaitState::InLibrary => {
                    // SAFETY: see the head; there are an index and a status for each lower handle.
                    let error = unsafe {
                        service::wait_some(
                            lower_handles.count(),
                            lower_handles.as_ptr(),
                            outcount.as_ptr(),
                            indices.as_ptr(),
                            statuses.as_mut_ptr(),
                        )
                    };
                    if error != INTERRUPTED {
                        let count = outcount.get();
                        request_array::some_answered(
                            claim.requests,
                            &lower_handles,
                            count,
                            &indices,
                            statuses,
                            error,
                        );
                        return error;
                    }
                    drop(claim);
                }
                WaitState::Ready => {
                    drop(claim);
                    return take_all_done(requests, &found, &mut outcount, &mut indices, statuses);
                }
                WaitState::PollHere => drop(claim),
            }
            if go_on_later_with_one(requests) {
                return INTERRUPTED;
            }
        }
    })
}

/// Collects the done requests of several, or says that none is active. Indices and statuses have an entry for each
/// request.
pub(crate) fn take_all_done(
    requests: &mut [&'static Request],
    found: &ArrayState,
    outcount: &mut InOut<'_, i32>,
    indices: &mut Output<'_, i32>,
    statuses: &mut [Status],
) -> i32 {
    if !found.done {
        outcount.set(UNDEFINED);
        return SUCCESS;
    }
    let (count, error) = request_array::all_done(requests, indices, statuses);
    outcount.set(count as i32);
    error
}

/// MPI_Request_free
///
/// An active operation goes on as an orphan: it is looked at now and then, and finished at the cut.
pub fn request_free(handle: &mut &'static Request) -> i32 {
    let request = *handle;
    if request.is_null() {
        return ERR_REQUEST;
    }
    delivery::release();
    match request.body.state.get() {
        State::Free => return ERR_REQUEST,
        State::Active | State::Upper => {
            let sends = [Kind::Send, Kind::PersistentSend, Kind::Generalized];
            if tools::is_set(TOOL_CONTENTS) && !sends.contains(&request.body.kind.get()) {
                let features = &gate().lower.features;
                features.fetch_or(FREED_RECEIVE, Ordering::Relaxed);
            }
            lifecycle::orphan(request);
        }
        State::Inactive | State::Done => {
            lifecycle::release_below(request);
            request.recycle();
        }
    }
    *handle = Request::null();
    progress::orphans();
    SUCCESS
}

/// MPI_Cancel
///
/// An operation that is finished or has its message already is not cancelled, as MPI has it.
pub fn cancel(request: &mut &'static Request) -> i32 {
    let request = *request;
    let body = &request.body;
    delivery::release();
    match body.state.get() {
        State::Free | State::Inactive => ERR_REQUEST,
        State::Upper | State::Done if body.kind.get() == Kind::Generalized => {
            grequest_callbacks::cancel(request)
        }
        State::Upper | State::Done => SUCCESS,
        State::Active => cancel_below(request),
    }
}

/// Cancels an operation that was under way when it was last looked at.
fn cancel_below(request: &'static Request) -> i32 {
    let _claim = Claim::new([request]);
    if request.body.state.get() != State::Active {
        return SUCCESS;
    }
    request.body.cancelling.set(true);
    // SAFETY: see the head.
    unsafe {
        let mut lower_handle = request.lower();
        stubs::MPI_Cancel(&raw mut lower_handle)
    }
}
