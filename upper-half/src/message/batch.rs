//! Several requests at once, as MPI_Waitall and its relatives have them: which of them are finished,
//! which are in the lower half, and what becomes of them when the lower half answers.
//!
//! # Safety
//! Arrays come from the application with the length that it says; scratch arrays are on the stack,
//! or on the heap when they are long, and are written before they are read.
#![allow(unsafe_code)]

use super::activity::WaitSet;
use super::blame;
use super::counts::NOBODY;
use super::park::Look;
use super::request::State;
use crate::object::{Comm, Request};
use contract::abi::{Status, ERR_IN_STATUS, ERR_PENDING, SUCCESS};
use core::mem::MaybeUninit;

/// Calls `f` with scratch space for `n` words and `n` statuses, neither initialised.
#[inline(always)]
pub(super) fn with_arrays<R>(n: usize, f: impl FnOnce(*mut usize, *mut Status) -> R) -> R {
    const SMALL: usize = 32;
    if n <= SMALL {
        let mut words = [const { MaybeUninit::<usize>::uninit() }; SMALL];
        let mut statuses = [const { MaybeUninit::<Status>::uninit() }; SMALL];
        f(words.as_mut_ptr().cast(), statuses.as_mut_ptr().cast())
    } else {
        let mut words = Vec::<usize>::with_capacity(n);
        let mut statuses = Vec::<Status>::with_capacity(n);
        f(words.as_mut_ptr(), statuses.as_mut_ptr())
    }
}

/// The application's array of requests.
///
/// # Safety
/// `requests` points to `n` of them (or to anything if there are none).
#[inline(always)]
pub(super) unsafe fn handles<'a>(
    requests: *mut &'static Request,
    n: usize,
) -> &'a mut [&'static Request] {
    if n == 0 {
        return &mut [];
    }
    // SAFETY: passed on to the caller.
    unsafe { core::slice::from_raw_parts_mut(requests, n) }
}

/// What there is in an array of requests.
pub(super) struct Found {
    /// Some are under way in the lower half.
    pub(super) below: bool,
    /// Some must be looked for in the upper half, or one by one.
    pub(super) here: bool,
    /// Some are done and wait to be collected.
    pub(super) done: bool,
    /// Of some that are under way the counts need the status, whether the application wants it or
    /// not.
    pub(super) told_by_status: bool,
}

impl Found {
    /// What a wait for any one of them sees.
    pub(super) fn any(&self) -> Look {
        if self.done || !(self.below || self.here) {
            Look::Ready
        } else if self.here {
            Look::Here
        } else {
            Look::Below
        }
    }

    /// What a wait for all of them sees.
    pub(super) fn all(&self) -> Look {
        if self.here {
            Look::Here
        } else if self.below {
            Look::Below
        } else {
            Look::Ready
        }
    }

    /// Where the lower half is to put the statuses: where the application wants them, in `own` if
    /// it wants none but we do, else nowhere.
    #[inline(always)]
    pub(super) fn statuses(&self, wanted: *mut Status, own: *mut Status) -> *mut Status {
        match wanted.is_null() && self.told_by_status {
            true => own,
            false => wanted,
        }
    }
}

/// Looks at the requests' states.
pub(super) fn look(requests: &[&'static Request]) -> Found {
    let mut found = Found {
        below: false,
        here: false,
        done: false,
        told_by_status: false,
    };
    for request in requests {
        match request.body.state.get() {
            State::Active => {
                found.below = true;
                found.here |= request.is_asked_alone();
            }
            State::Upper => found.here = true,
            State::Done => found.done = true,
            State::Inactive | State::Free => {}
        }
    }
    found
}

/// Looks at the requests' states and writes the words for a call of the lower half: the null word
/// for whatever is not under way there.
///
/// # Safety
/// `words` has room for as many as there are requests.
#[inline(always)]
pub(super) unsafe fn gather(requests: &[&'static Request], words: *mut usize) -> Found {
    let mut found = Found {
        below: false,
        here: false,
        done: false,
        told_by_status: false,
    };
    for (i, request) in requests.iter().enumerate() {
        let word = match request.body.state.get() {
            State::Active => {
                found.below = true;
                found.here |= request.is_asked_alone();
                found.told_by_status |= request.is_told_by_status();
                request.lower()
            }
            state => {
                found.here |= state == State::Upper;
                found.done |= state == State::Done;
                Request::null().lower()
            }
        };
        // SAFETY: within the room that the caller promises.
        unsafe { words.add(i).write(word) };
    }
    found
}

/// One request for which the lower half has answered with `status`: its handle is given up.
#[inline(always)]
pub(super) fn answered(handle: &mut &'static Request, status: &Status) {
    let request = *handle;
    request.ended(status);
    request.collect(handle);
}

/// What the lower half answered for several requests.
pub(super) struct Answer {
    /// Some of them were done before, without it.
    pub(super) mixed: bool,
    /// One for each request, or null: then nobody wants them.
    pub(super) statuses: *mut Status,
    /// The requests' words as it left them.
    pub(super) words: *const usize,
    pub(super) error: i32,
}

impl Answer {
    /// Whether it says that request `i` goes on while others failed.
    #[cold]
    unsafe fn leaves(&self, i: usize) -> bool {
        // SAFETY: a word for each request, and a status unless there are none.
        unsafe {
            match self.statuses.as_ref() {
                Some(_) => (*self.statuses.add(i)).error == ERR_PENDING,
                None => *self.words.add(i) != Request::null().lower(),
            }
        }
    }
}

/// Has the requests that were in the lower half hold its `answer`, as if a sweep had found them done.
///
/// # Safety
/// As for [`finish`].
#[cold]
unsafe fn settle(requests: &[&'static Request], answer: &Answer) {
    for (i, request) in requests.iter().enumerate() {
        if request.body.state.get() != State::Active {
            continue;
        }
        let status = match answer.statuses.is_null() {
            true => Status::EMPTY,
            // SAFETY: as the caller promises.
            false => unsafe { *answer.statuses.add(i) },
        };
        let error = match answer.error {
            // SAFETY: as the caller promises.
            ERR_IN_STATUS if unsafe { answer.leaves(i) } => continue,
            ERR_IN_STATUS => status.error,
            other => other,
        };
        if error != SUCCESS && request.body.kind.get().is_persistent_below() {
            // One library frees even a persistent request that failed.
            // SAFETY: as the caller promises.
            request.set_lower(unsafe { *answer.words.add(i) });
        }
        request.ended(&status);
        request.settle(&status, error);
    }
}

/// All requests are finished, those that were in the lower half by its `answer`: gives up the
/// handles and fills the statuses.
///
/// # Safety
/// The answer has an entry for each request, written by the lower half for those that were there.
pub(super) unsafe fn finish(requests: &mut [&'static Request], answer: &Answer) -> i32 {
    if answer.mixed {
        // One that was done before may be a generalized request, whose callbacks can be stopped in: the
        // cut must not find another active whose word is used up.
        // SAFETY: passed on to the caller.
        unsafe { settle(requests, answer) };
    }
    let mut failed = false;
    for (i, handle) in requests.iter_mut().enumerate() {
        let mut unwanted = Status::EMPTY;
        let status = match answer.statuses.is_null() {
            true => &mut unwanted,
            // SAFETY: as the caller promises.
            false => unsafe { &mut *answer.statuses.add(i) },
        };
        if handle.body.state.get() == State::Active {
            match answer.error {
                SUCCESS => status.error = SUCCESS,
                // SAFETY: as the caller promises.
                ERR_IN_STATUS if unsafe { answer.leaves(i) } => continue,
                ERR_IN_STATUS => {}
                other => status.error = other,
            }
            // SAFETY: as the caller promises.
            blame::answered(handle, unsafe { *answer.words.add(i) }, status.error);
            answered(handle, status);
        } else if let Some(own) = handle.result(status) {
            status.error = own;
            failed |= blame::outcome(handle, own) != SUCCESS;
            let request = *handle;
            request.collect(handle);
        }
    }
    match answer.error {
        SUCCESS if failed => ERR_IN_STATUS,
        other => other,
    }
}

/// Collects the first request that is done: its index and error.
pub(super) fn first_done(
    requests: &mut [&'static Request],
    status: &mut Status,
) -> Option<(usize, i32)> {
    let (i, handle) = requests
        .iter_mut()
        .enumerate()
        .find(|(_, request)| request.body.state.get() == State::Done)?;
    let request = *handle;
    let error = blame::outcome(request, request.result(status)?);
    request.collect(handle);
    Some((i, error))
}

/// Collects all requests that are done, in the manner of MPI_Waitsome: `(count, error)`.
///
/// # Safety
/// Indices and statuses have an entry for each request.
pub(super) unsafe fn all_done(
    requests: &mut [&'static Request],
    indices: *mut i32,
    statuses: *mut Status,
) -> (usize, i32) {
    let mut count = 0;
    let mut failed = false;
    for (i, handle) in requests.iter_mut().enumerate() {
        if handle.body.state.get() != State::Done {
            continue;
        }
        // SAFETY: `count` does not exceed `i`.
        let (index, status) = unsafe { (&mut *indices.add(count), &mut *statuses.add(count)) };
        let request = *handle;
        if let Some(error) = request.result(status) {
            status.error = blame::outcome(request, error);
            failed |= error != SUCCESS;
            *index = i as i32;
            count += 1;
            request.collect(handle);
        }
    }
    (count, if failed { ERR_IN_STATUS } else { SUCCESS })
}

/// The lower half completed some of the requests: gives up their handles.
///
/// # Safety
/// `indices` and `statuses` have `count` entries written by the lower half, which left `words`.
pub(super) unsafe fn some_answered(
    requests: &mut [&'static Request],
    words: *const usize,
    count: i32,
    indices: *const i32,
    statuses: *mut Status,
    error: i32,
) {
    for i in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: as the caller promises.
        let (index, status) = unsafe { (*indices.add(i), &mut *statuses.add(i)) };
        if error != ERR_IN_STATUS {
            status.error = error;
        }
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        if let Some(handle) = requests.get_mut(index) {
            // SAFETY: there is a word for each request.
            blame::answered(handle, unsafe { *words.add(index) }, status.error);
            answered(handle, status);
        }
    }
}

/// The ranks whose message would help requests that are not finished.
pub(super) fn waits_for(requests: &[&'static Request], set: &mut WaitSet) {
    for request in requests {
        let body = &request.body;
        if let (State::Upper, Some(pair)) = (body.state.get(), request.pair()) {
            waits_for(&[pair.receive], set);
        }
        if let (State::Upper, Some(partitioned)) = (body.state.get(), request.partitioned()) {
            partitioned.waits_for(set);
        }
        if body.kind.get().is_receive() && body.state.get() == State::Active {
            match body.peer.get() {
                NOBODY => {
                    let args = body.args.get();
                    receive_waits_for(args.comm, args.peer, set);
                }
                peer => set.add(peer),
            }
        }
    }
}

/// The ranks whose message would help a receive or probe from `source`.
pub(super) fn receive_waits_for(comm: &'static Comm, source: i32, set: &mut WaitSet) {
    match source {
        contract::abi::ANY_SOURCE => comm.body.peers().iter().for_each(|&peer| set.add(peer)),
        rank => set.add(super::counts::peer_of(comm, rank)),
    }
}
