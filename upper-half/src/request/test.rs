//! Testing requests. While no checkpoint is pending a test is the lower half's test. Otherwise the test looks at
//! everything under way, so that a program that only polls lets others go on too, and the answer comes from the
//! requests' states. Tests that would find nothing again soon after one are left out (`vain_tests.rs`).
//!
//! # Safety
//! As for `wait.rs`.
#![allow(unsafe_code)]

use crate::argument::{InOut, Out, Output};
use crate::crossing::stubs;
use crate::object::request::State;
use crate::object::Request;
use crate::perturb::{delivery, BY_THE_APPLICATION};
use crate::quiesce::progress::{phase, polls, Claim};
use crate::quiesce::wait_loop;
use crate::quiesce::wait_loop::WaitState;
use crate::request::request_array::{Answer, ArrayState};
use crate::request::{error_origin, request_array, vain_tests, wait};
use contract::abi::{Status, ERR_ARG, ERR_COUNT, ERR_REQUEST, SUCCESS, UNDEFINED};
use contract::Phase;

/// Looks at everything, then at the requests: whether what is tested for is there.
#[cold]
pub(crate) fn look_here(
    requests: &[&'static Request],
    look: impl Fn(&ArrayState) -> WaitState,
) -> bool {
    let phase = phase();
    delivery::look(BY_THE_APPLICATION);
    wait_loop::look_around(phase);
    let ready = look(&request_array::look(requests)) == WaitState::Ready;
    if ready {
        wait_loop::moving();
    } else if phase != Phase::Run {
        wait_loop::polled(|waits| request_array::waits_for(requests, waits));
    }
    ready
}

/// MPI_Test
#[inline]
pub fn test(
    handle: &mut &'static Request,
    mut flag: InOut<'_, i32>,
    status: Option<&mut Status>,
) -> i32 {
    let mut own = Status::EMPTY;
    let status = status.unwrap_or(&mut own);
    let request = *handle;
    flag.set(0);
    let Some(looking) = vain_tests::look(&[request]) else {
        return SUCCESS;
    };
    let claim = Claim::new([request]);
    if request.body.state.get() == State::Active && phase() == Phase::Run && !polls() {
        let mut lower_handle;
        // SAFETY: see the head.
        let error = unsafe {
            lower_handle = request.lower();
            stubs::MPI_Test(&raw mut lower_handle, flag.as_ptr(), status)
        };
        if flag.get() != 0 || error != SUCCESS {
            flag.set(1);
            error_origin::answered(request, lower_handle, error);
            request_array::answered(handle, status);
        } else {
            looking.was_in_vain(&claim.requests);
        }
        return error;
    }
    drop(claim);
    // Each look at a generalized request calls its query function.
    let found = match request.result(status) {
        None if look_here(&[request], ArrayState::all) => request.result(status),
        found => found,
    };
    match found {
        Some(error) => {
            flag.set(1);
            error_origin::outcome(request, error);
            request.collect(handle);
            error
        }
        None => SUCCESS,
    }
}

/// MPI_Testall
pub fn testall(
    count: i32,
    requests: &mut [&'static Request],
    mut flag: InOut<'_, i32>,
    statuses: Option<&mut [Status]>,
) -> i32 {
    if count < 0 {
        return ERR_COUNT;
    }
    let n = requests.len();
    let statuses = statuses.map(|statuses| &mut statuses[..n]);
    flag.set(0);
    let Some(looking) = vain_tests::look(requests) else {
        return SUCCESS;
    };
    request_array::with_arrays(n, |lower_handles, own| {
        let claim = Claim::new(&mut *requests);
        let (found, lower_handles) = request_array::gather(claim.requests, lower_handles);
        let mut answer = Answer {
            mixed: found.done,
            statuses: found.statuses(statuses, own),
            lower_handles,
            error: SUCCESS,
        };
        if found.here || (found.below && phase() != Phase::Run) {
            drop(claim);
            if !look_here(requests, ArrayState::all) {
                return SUCCESS;
            }
            flag.set(1);
            return request_array::finish(requests, answer);
        }
        if found.below {
            let lower_handles = &mut answer.lower_handles;
            let place = request_array::place(&mut answer.statuses);
            // SAFETY: see the head; there is a status for each lower handle, or none.
            answer.error = unsafe {
                stubs::MPI_Testall(
                    lower_handles.count(),
                    lower_handles.as_ptr(),
                    flag.as_ptr(),
                    place,
                )
            };
            if flag.get() == 0 && answer.error == SUCCESS {
                looking.was_in_vain(claim.requests);
                return SUCCESS;
            }
        }
        flag.set(1);
        request_array::finish(claim.requests, answer)
    })
}

/// MPI_Testany
pub fn testany(
    count: i32,
    requests: &mut [&'static Request],
    mut index: InOut<'_, i32>,
    mut flag: InOut<'_, i32>,
    status: Option<&mut Status>,
) -> i32 {
    if count < 0 {
        return ERR_COUNT;
    }
    let mut own = Status::EMPTY;
    let status = status.unwrap_or(&mut own);
    flag.set(0);
    index.set(UNDEFINED);
    let Some(looking) = vain_tests::look(requests) else {
        return SUCCESS;
    };
    request_array::with_arrays(requests.len(), |lower_handles, _| {
        let claim = Claim::new(&mut *requests);
        let (found, mut lower_handles) = request_array::gather(claim.requests, lower_handles);
        let look = found.any();
        if look == WaitState::InLibrary && phase() == Phase::Run {
            // SAFETY: see the head.
            let error = unsafe {
                stubs::MPI_Testany(
                    lower_handles.count(),
                    lower_handles.as_ptr(),
                    index.as_ptr(),
                    flag.as_ptr(),
                    status,
                )
            };
            if flag.get() != 0 || error != SUCCESS {
                flag.set(1);
                request_array::one_answered(
                    claim.requests,
                    &lower_handles,
                    index.get(),
                    status,
                    error,
                );
            } else {
                looking.was_in_vain(claim.requests);
            }
            return error;
        }
        drop(claim);
        if look != WaitState::Ready && !look_here(requests, ArrayState::any) {
            return SUCCESS;
        }
        flag.set(1);
        wait::take_done(requests, &mut index, status)
    })
}

/// MPI_Testsome
pub fn testsome(
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
    outcount.set(0);
    let Some(looking) = vain_tests::look(requests) else {
        return SUCCESS;
    };
    request_array::with_arrays(n, |lower_handles, own| {
        let statuses = match statuses {
            Some(statuses) => &mut statuses[..n],
            None => request_array::empty(own),
        };
        let claim = Claim::new(&mut *requests);
        let (mut found, mut lower_handles) = request_array::gather(claim.requests, lower_handles);
        if found.any() == WaitState::InLibrary && phase() == Phase::Run {
            if indices.len() < n {
                // As a library says to a null pointer.
                return ERR_ARG;
            }
            // SAFETY: see the head; there are an index and a status for each lower handle.
            let error = unsafe {
                stubs::MPI_Testsome(
                    lower_handles.count(),
                    lower_handles.as_ptr(),
                    outcount.as_ptr(),
                    indices.as_ptr(),
                    statuses.as_mut_ptr(),
                )
            };
            let count = outcount.get();
            if count == 0 && error == SUCCESS {
                looking.was_in_vain(claim.requests);
                return SUCCESS;
            }
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
        if found.any() != WaitState::Ready {
            if !look_here(requests, ArrayState::any) {
                return SUCCESS;
            }
            found = request_array::look(requests);
        }
        wait::take_all_done(requests, &found, &mut outcount, &mut indices, statuses)
    })
}

/// MPI_Request_get_status
pub fn request_get_status(
    request: &'static Request,
    mut flag: Out<'_, i32>,
    status: Option<&mut Status>,
) -> i32 {
    let mut own = Status::EMPTY;
    let status = status.unwrap_or(&mut own);
    flag.set(0);
    let result = request.result(status).or_else(|| {
        look_here(&[request], ArrayState::all);
        request.result(status)
    });
    match result {
        Some(ERR_REQUEST) if request.body.state.get() == State::Free => ERR_REQUEST,
        Some(error) => {
            flag.set(1);
            error_origin::outcome(request, error)
        }
        None => SUCCESS,
    }
}
