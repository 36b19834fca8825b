//! Arrays of requests, as MPI_Waitall and its relatives have them: which of them are finished, which are in the lower
//! half, and what happens to them when the lower half answers.
//!
//! # Safety
//! Scratch arrays are on the stack, or on the heap when they are long, and are written before they are read.
//! LowerHandles of requests are void once the thread may park: they are read for the next crossing.
#![allow(unsafe_code)]

use crate::argument::Output;
use crate::object::request::{Kind, State};
use crate::object::{Comm, Request};
use crate::quiesce::wait_loop::WaitState;
use crate::quiesce::waits::Waits;
use crate::request::error_origin;
use crate::stages::state::error_of_several;
use contract::abi::{Status, ERR_IN_STATUS, ERR_PENDING, SUCCESS};
use contract::waits::SOME_AMOUNT;
use core::mem::MaybeUninit;

/// Room for an array that is not written yet.
pub(crate) type Room<T> = [MaybeUninit<T>];

/// Calls `f` with room for `n` lower handles and `n` statuses.
#[inline(always)]
pub(crate) fn with_arrays<R>(
    n: usize,
    f: impl FnOnce(&mut Room<usize>, &mut Room<Status>) -> R,
) -> R {
    const SMALL: usize = 32;
    if n <= SMALL {
        let mut lower_handles = [const { MaybeUninit::uninit() }; SMALL];
        let mut statuses = [const { MaybeUninit::uninit() }; SMALL];
        f(&mut lower_handles[..n], &mut statuses[..n])
    } else {
        f(&mut Box::new_uninit_slice(n), &mut Box::new_uninit_slice(n))
    }
}

/// Writes `values` into `room`, as many as there is room for. The result is what was written.
#[inline(always)]
fn write<T>(room: &mut Room<T>, values: impl Iterator<Item = T>) -> &mut [T] {
    let mut written = 0;
    for (place, value) in room.iter_mut().zip(values) {
        place.write(value);
        written += 1;
    }
    let written = core::ptr::from_mut(&mut room[..written]) as *mut [T];
    // SAFETY: these entries were written above. `MaybeUninit` does not change the layout.
    unsafe { &mut *written }
}

/// Empty statuses for an application that wants none.
#[inline(always)]
pub(crate) fn empty(room: &mut Room<Status>) -> &mut [Status] {
    write(room, core::iter::repeat(Status::EMPTY))
}

/// The place of the wanted statuses for a crossing.
#[inline(always)]
pub(crate) fn place(statuses: &mut Option<&mut [Status]>) -> *mut Status {
    match statuses {
        Some(statuses) => statuses.as_mut_ptr(),
        None => core::ptr::null_mut(),
    }
}

/// The lower handles of an array of requests, for the crossing that comes next.
pub(crate) struct LowerHandles<'a>(&'a mut [usize]);

impl LowerHandles<'_> {
    /// How many there are: one for each request.
    #[inline(always)]
    pub(crate) fn count(&self) -> i32 {
        self.0.len() as i32
    }

    /// The pointer, for the crossing.
    #[inline(always)]
    pub(crate) fn as_ptr(&mut self) -> *mut usize {
        self.0.as_mut_ptr()
    }
}

/// What there is in an array of requests.
pub(crate) struct ArrayState {
    /// Some are under way in the lower half.
    pub(crate) below: bool,
    /// Some must be looked for in the upper half, or one by one.
    pub(crate) here: bool,
    /// Some are done and wait to be collected.
    pub(crate) done: bool,
    /// Of some that are under way the counts need the status, whether the application wants it or
    /// not.
    pub(crate) told_by_status: bool,
}

impl ArrayState {
    /// What a wait for any one of them sees.
    pub(crate) fn any(&self) -> WaitState {
        if self.done || !(self.below || self.here) {
            WaitState::Ready
        } else if self.here {
            WaitState::PollHere
        } else {
            WaitState::InLibrary
        }
    }

    /// What a wait for all of them sees.
    pub(crate) fn all(&self) -> WaitState {
        if self.here {
            WaitState::PollHere
        } else if self.below {
            WaitState::InLibrary
        } else {
            WaitState::Ready
        }
    }

    /// Where the lower half is to put the statuses: where the application wants them, in `own` if
    /// it wants none but we do, else nowhere.
    #[inline(always)]
    pub(crate) fn statuses<'a>(
        &self,
        wanted: Option<&'a mut [Status]>,
        own: &'a mut Room<Status>,
    ) -> Option<&'a mut [Status]> {
        match wanted {
            None if self.told_by_status => Some(empty(own)),
            wanted => wanted,
        }
    }
}

/// Looks at the requests' states.
pub(crate) fn look(requests: &[&'static Request]) -> ArrayState {
    let mut found = ArrayState {
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

/// Looks at the requests' states and writes the lower handles for a call of the lower half: the null lower handle
/// for whatever is not under way there.
#[inline(always)]
pub(crate) fn gather<'a>(
    requests: &[&'static Request],
    room: &'a mut Room<usize>,
) -> (ArrayState, LowerHandles<'a>) {
    let mut found = ArrayState {
        below: false,
        here: false,
        done: false,
        told_by_status: false,
    };
    let lower_handles = requests
        .iter()
        .map(|request| match request.body.state.get() {
            State::Active => {
                found.below = true;
                found.here |= request.is_asked_alone();
                found.told_by_status |= request.is_told_by_status();
                // SAFETY: the crossing follows. A thread that parks before it gathers the lower handles again.
                unsafe { request.lower() }
            }
            state => {
                found.here |= state == State::Upper;
                found.done |= state == State::Done;
                Request::null_lower()
            }
        });
    let lower_handles = LowerHandles(write(room, lower_handles));
    (found, lower_handles)
}

/// One request for which the lower half has answered with `status`: its handle is given up.
#[inline(always)]
pub(crate) fn answered(handle: &mut &'static Request, status: &Status) {
    let request = *handle;
    request.ended(status);
    request.collect(handle);
}

/// Answer of the lower half for several requests. Statuses and lower handles have one entry for each request.
pub(crate) struct Answer<'a> {
    /// Some of them were done before, without it.
    pub(crate) mixed: bool,
    /// `None` if nobody wants them.
    pub(crate) statuses: Option<&'a mut [Status]>,
    /// The requests' lower handles as it left them.
    pub(crate) lower_handles: LowerHandles<'a>,
    pub(crate) error: i32,
}

/// Whether a request goes on while others failed, by its status, if there is one, or the lower handle that the lower
/// half left.
#[cold]
fn goes_on(status: Option<&Status>, lower_handle: usize) -> bool {
    match status {
        Some(status) => status.error == ERR_PENDING,
        None => lower_handle != Request::null_lower(),
    }
}

/// Has the requests that were in the lower half hold its `answer`, as if a sweep had found them done.
#[cold]
fn store_outcomes(requests: &[&'static Request], answer: &Answer<'_>) {
    for (i, request) in requests.iter().enumerate() {
        if request.body.state.get() != State::Active {
            continue;
        }
        let told = answer.statuses.as_deref().map(|statuses| &statuses[i]);
        let lower_handle = answer.lower_handles.0[i];
        let status = told.copied().unwrap_or(Status::EMPTY);
        let error = match answer.error {
            ERR_IN_STATUS if goes_on(told, lower_handle) => continue,
            ERR_IN_STATUS => status.error,
            other => other,
        };
        if error != SUCCESS && request.body.kind.get().is_persistent_below() {
            // One library frees even a persistent request that failed.
            request.set_lower(lower_handle);
        }
        request.ended(&status);
        request.complete(&status, error);
    }
}

/// All requests are finished, those that were in the lower half by its `answer`: gives up the
/// handles and fills the statuses.
pub(crate) fn finish(requests: &mut [&'static Request], mut answer: Answer<'_>) -> i32 {
    if answer.mixed {
        // One that was done before may be a generalized request, whose callbacks can be stopped in: the
        // cut must not find another active whose lower handle is used up.
        store_outcomes(requests, &answer);
    }
    let mut failed = false;
    for (i, handle) in requests.iter_mut().enumerate() {
        let mut unwanted = Status::EMPTY;
        let (told, status) = match &mut answer.statuses {
            Some(statuses) => (true, &mut statuses[i]),
            None => (false, &mut unwanted),
        };
        if handle.body.state.get() == State::Active {
            match answer.error {
                SUCCESS => status.error = SUCCESS,
                ERR_IN_STATUS if goes_on(told.then_some(&*status), answer.lower_handles.0[i]) => {
                    continue
                }
                ERR_IN_STATUS => {}
                other => status.error = other,
            }
            error_origin::answered(handle, answer.lower_handles.0[i], status.error);
            answered(handle, status);
        } else if let Some(own) = handle.result(status) {
            status.error = own;
            failed |= error_origin::outcome(handle, own) != SUCCESS;
            let request = *handle;
            request.collect(handle);
        }
    }
    match answer.error {
        SUCCESS if failed => error_of_several(),
        other => other,
    }
}

/// Collects the first request that is done: its index and error.
pub(crate) fn first_done(
    requests: &mut [&'static Request],
    status: &mut Status,
) -> Option<(usize, i32)> {
    let (i, handle) = requests
        .iter_mut()
        .enumerate()
        .find(|(_, request)| request.body.state.get() == State::Done)?;
    let request = *handle;
    let error = error_origin::outcome(request, request.result(status)?);
    request.collect(handle);
    Some((i, error))
}

/// Collects all requests that are done, in the manner of MPI_Waitsome: `(count, error)`.
/// Indices and statuses have an entry for each request.
pub(crate) fn all_done(
    requests: &mut [&'static Request],
    indices: &mut Output<'_, i32>,
    statuses: &mut [Status],
) -> (usize, i32) {
    let mut count = 0;
    let mut failed = false;
    for (i, handle) in requests.iter_mut().enumerate() {
        if handle.body.state.get() != State::Done {
            continue;
        }
        let status = &mut statuses[count];
        let request = *handle;
        if let Some(error) = request.result(status) {
            status.error = error_origin::outcome(request, error);
            failed |= error != SUCCESS;
            indices.set(count, i as i32);
            count += 1;
            request.collect(handle);
        }
    }
    (count, if failed { error_of_several() } else { SUCCESS })
}

/// The lower half completed one of several requests, if there is one with that `index`, with `status` and an `error`
/// that may be to blame on it: its handle is given up.
pub(crate) fn one_answered(
    requests: &mut [&'static Request],
    lower_handles: &LowerHandles<'_>,
    index: i32,
    status: &Status,
    error: i32,
) {
    let index = usize::try_from(index).unwrap_or(usize::MAX);
    if let (Some(handle), Some(lower_handle)) =
        (requests.get_mut(index), lower_handles.0.get(index))
    {
        error_origin::answered(handle, *lower_handle, error);
        answered(handle, status);
    }
}

/// The lower half completed `count` of the requests, and wrote as many `indices` and `statuses`: gives up their
/// handles.
pub(crate) fn some_answered(
    requests: &mut [&'static Request],
    lower_handles: &LowerHandles<'_>,
    count: i32,
    indices: &Output<'_, i32>,
    statuses: &mut [Status],
    error: i32,
) {
    let count = usize::try_from(count).unwrap_or(0);
    for (i, status) in statuses.iter_mut().enumerate().take(count) {
        if error != ERR_IN_STATUS {
            status.error = error;
        }
        if let Some(index) = indices.get(i) {
            one_answered(requests, lower_handles, index, status, status.error);
        }
    }
}

/// What requests that are not finished wait for.
pub(crate) fn waits_for(requests: &[&'static Request], waits: &mut Waits) {
    for request in requests {
        if let Some(schedule) = &*request.body.schedule.lock() {
            waits_for(&schedule.under_way, waits);
            continue;
        }
        match request.body.state.get() {
            State::Active => active_waits_for(request, waits),
            State::Upper => match (request.pair(), request.partitioned()) {
                (Some(pair), _) => waits_for(&pair.parts(), waits),
                (_, Some(partitioned)) => partitioned.waits_for(waits),
                // An early message that arrives, or an operation that the application completes.
                _ => waits.something(),
            },
            State::Free | State::Inactive | State::Done => {}
        }
    }
}

fn active_waits_for(request: &'static Request, waits: &mut Waits) {
    let body = &request.body;
    let comm = Comm::at(body.comm.get());
    match body.kind.get() {
        Kind::Receive | Kind::PersistentReceive => {
            let args = body.args.get();
            waits.message(args.comm, args.peer, args.tag, args.bytes());
        }
        Kind::PersistentSend => {
            let args = body.args.get();
            waits.receiver(args.comm, body.peer.get(), args.tag, args.bytes());
        }
        Kind::Send => waits.receiver(comm, body.peer.get(), body.serial.get() as i32, SOME_AMOUNT),
        Kind::Collective => waits.members(comm, body.serial.get()),
        Kind::PersistentCollective => match request.repeated_over() {
            Some(own) => waits.members(own, body.serial.get()),
            None => waits.something(),
        },
        _ => waits.something(),
    }
}
