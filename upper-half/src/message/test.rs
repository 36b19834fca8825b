//! Testing requests. While no checkpoint is pending a test is the lower half's test; otherwise
//! everything under way is looked at, so that a program that only polls lets others go on too, and
//! the answer comes from the requests' states.
//!
//! # Safety
//! Handles and arrays are the application's, decoded by the front.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // the same for all: see above

use super::park::{self, Look};
use super::request::State;
use super::sweep::{phase, Claim};
use super::{batch, blame, wait};
use crate::lower;
use crate::object::Request;
use contract::abi::{Status, ERR_COUNT, ERR_REQUEST, SUCCESS, UNDEFINED};
use contract::Phase;

/// Looks at everything, then at the requests: whether what is tested for is there.
#[cold]
pub(super) unsafe fn look_here(
    requests: &[&'static Request],
    look: impl Fn(&batch::Found) -> Look,
) -> bool {
    let phase = phase();
    // SAFETY: no word is in the caller's hands.
    unsafe {
        park::look_around(phase);
        let ready = look(&batch::look(requests)) == Look::Ready;
        if ready {
            park::moving();
        } else if phase != Phase::Run {
            park::polled(|set| batch::waits_for(requests, set));
        }
        ready
    }
}

/// MPI_Test
#[inline]
pub unsafe fn test(request: *mut &'static Request, flag: *mut i32, status: *mut Status) -> i32 {
    let mut own = Status::EMPTY;
    // SAFETY: the caller's places.
    let (handle, flag, status) = unsafe {
        (
            &mut *request,
            &mut *flag,
            status.as_mut().unwrap_or(&mut own),
        )
    };
    let request = *handle;
    *flag = 0;
    let claimed = [request];
    // SAFETY: the array is there until the end of this function.
    let claim = unsafe { Claim::new(&claimed) };
    if request.body.state.get() == State::Active && phase() == Phase::Run {
        let mut word = request.lower();
        // SAFETY: the word of an active request, which is in no other call.
        let error = unsafe { lower::MPI_Test(&raw mut word, flag, status) };
        if *flag != 0 || error != SUCCESS {
            *flag = 1;
            blame::answered(request, word, error);
            batch::answered(handle, status);
        }
        return error;
    }
    drop(claim);
    // SAFETY: the words are read again.
    if request.result(status).is_none() && !unsafe { look_here(&claimed, batch::Found::all) } {
        return SUCCESS;
    }
    match request.result(status) {
        Some(error) => {
            *flag = 1;
            blame::outcome(request, error);
            request.collect(handle);
            error
        }
        None => SUCCESS,
    }
}

/// MPI_Testall
pub unsafe fn testall(
    count: i32,
    requests: *mut &'static Request,
    flag: *mut i32,
    statuses: *mut Status,
) -> i32 {
    let Ok(n) = usize::try_from(count) else {
        return ERR_COUNT;
    };
    // SAFETY: the caller's places.
    let (requests, flag) = unsafe { (batch::handles(requests, n), &mut *flag) };
    *flag = 0;
    batch::with_arrays(n, |words, own| {
        // SAFETY: the array is there until the end of this function.
        let claim = unsafe { Claim::new(requests) };
        // SAFETY: room for the words of all.
        let found = unsafe { batch::gather(requests, words) };
        let statuses = found.statuses(statuses, own);
        let mut error = SUCCESS;
        if found.here || (found.below && phase() != Phase::Run) {
            drop(claim);
            // SAFETY: the words are not used after this.
            if !unsafe { look_here(requests, batch::Found::all) } {
                return SUCCESS;
            }
        } else if found.below {
            // SAFETY: words of active requests, and room for their statuses.
            error = unsafe { lower::MPI_Testall(count, words, flag, statuses) };
            if *flag == 0 && error == SUCCESS {
                return SUCCESS;
            }
        }
        *flag = 1;
        let answer = batch::Answer {
            mixed: found.done,
            statuses,
            words,
            error,
        };
        // SAFETY: the entries of active requests were written.
        unsafe { batch::finish(requests, &answer) }
    })
}

/// MPI_Testany
pub unsafe fn testany(
    count: i32,
    requests: *mut &'static Request,
    index: *mut i32,
    flag: *mut i32,
    status: *mut Status,
) -> i32 {
    let Ok(n) = usize::try_from(count) else {
        return ERR_COUNT;
    };
    let mut own = Status::EMPTY;
    // SAFETY: the caller's places.
    let (requests, index, flag, status) = unsafe {
        (
            batch::handles(requests, n),
            &mut *index,
            &mut *flag,
            status.as_mut().unwrap_or(&mut own),
        )
    };
    (*flag, *index) = (0, UNDEFINED);
    batch::with_arrays(n, |words, _| {
        // SAFETY: the array is there until the end of this function.
        let claim = unsafe { Claim::new(requests) };
        // SAFETY: room for the words of all.
        let look = unsafe { batch::gather(requests, words) }.any();
        if look == Look::Below && phase() == Phase::Run {
            // SAFETY: words of active requests.
            let error = unsafe { lower::MPI_Testany(count, words, index, flag, status) };
            if *flag != 0 || error != SUCCESS {
                *flag = 1;
                // SAFETY: all words were gathered.
                unsafe { wait::one_answered(requests, words, *index, status, error) };
            }
            return error;
        }
        drop(claim);
        // SAFETY: the words are not used after this.
        if look != Look::Ready && !unsafe { look_here(requests, batch::Found::any) } {
            return SUCCESS;
        }
        *flag = 1;
        wait::take_done(requests, index, status)
    })
}

/// MPI_Testsome
pub unsafe fn testsome(
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
    let (requests, outcount) = unsafe { (batch::handles(requests, n), &mut *outcount) };
    *outcount = 0;
    batch::with_arrays(n, |words, own| {
        let statuses = if statuses.is_null() { own } else { statuses };
        // SAFETY: the array is there until the end of this function.
        let claim = unsafe { Claim::new(requests) };
        // SAFETY: room for the words of all.
        let mut found = unsafe { batch::gather(requests, words) };
        if found.any() == Look::Below && phase() == Phase::Run {
            // SAFETY: words of active requests; arrays of `n` entries.
            unsafe {
                let error = lower::MPI_Testsome(incount, words, outcount, indices, statuses);
                batch::some_answered(requests, words, *outcount, indices, statuses, error);
                return error;
            }
        }
        drop(claim);
        if found.any() != Look::Ready {
            // SAFETY: the words are not used after this.
            if !unsafe { look_here(requests, batch::Found::any) } {
                return SUCCESS;
            }
            found = batch::look(requests);
        }
        // SAFETY: arrays of `n` entries.
        unsafe { wait::take_all_done(requests, &found, outcount, indices, statuses) }
    })
}

/// MPI_Request_get_status
pub unsafe fn request_get_status(
    request: &'static Request,
    flag: *mut i32,
    status: *mut Status,
) -> i32 {
    let mut own = Status::EMPTY;
    // SAFETY: the caller's places.
    let (flag, status) = unsafe { (&mut *flag, status.as_mut().unwrap_or(&mut own)) };
    *flag = 0;
    let result = request.result(status).or_else(|| {
        // SAFETY: no word is in our hands.
        unsafe { look_here(&[request], batch::Found::all) };
        request.result(status)
    });
    match result {
        Some(ERR_REQUEST) if request.body.state.get() == State::Free => ERR_REQUEST,
        Some(error) => {
            *flag = 1;
            blame::outcome(request, error)
        }
        None => SUCCESS,
    }
}
