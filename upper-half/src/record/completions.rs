//! Waits and tests: which operations they find complete, and how often tests find none.
//!
//! A replayed test that found its operation waits for it. One that found none answers so without a look: the run gets
//! on all the same, since it tests only as often as the recorded one did.

use crate::argument::{InOut, Out, Output};
use crate::breakpoint;
use crate::object::{Request, Win};
use crate::pt2pt::partitioned;
use crate::record::digests::{self, Places};
use crate::record::mode::{self, recording, replaying, sees_calls};
use crate::record::replay::{attempt, before_wait, Does};
use crate::record::{function, log, receives, replay, turns};
use crate::request::{test as tests, wait as waits};
use crate::rma;
use crate::stages::state::error_of_several;
use contract::abi::{Status, SUCCESS, UNDEFINED};
use contract::record::{Call, Outcome};
use contract::INTERRUPTED;
use record::Event;

/// A call for some requests, by their number.
fn call(function: u32, requests: usize) -> Call {
    Call {
        function,
        count: requests as i64,
        ..Call::default()
    }
}

/// Writes what a test has found, if anything.
fn note(call: &Call, found: Option<Event>) {
    if breakpoint::is_on() && found.is_some() {
        breakpoint::passes();
    }
    if !recording() {
        return;
    }
    match found {
        None => log::write_miss(),
        Some(event) => {
            log::write_call(call, Some(event));
        }
    }
}

/// The number that a wait of the replayed run finds.
fn told(what: Outcome) -> Option<i32> {
    replay::told(what).map(|[number, _]| number)
}

/// An index as it is written.
fn index_event(index: i32) -> Event {
    Event::Index(if index == UNDEFINED { -1 } else { index })
}

/// MPI_Wait
#[inline]
pub fn wait(request: &mut &'static Request, status: Option<&mut Status>) -> i32 {
    match sees_calls() {
        false => waits::wait(request, status),
        true => waited(request, status),
    }
}

/// Whether a wait for all of its requests has nothing to write: the run is recorded, without digests.
fn needs_no_outcome() -> bool {
    recording() && !digests::are_taken()
}

#[cold]
fn waited(request: &mut &'static Request, status: Option<&mut Status>) -> i32 {
    if needs_no_outcome() {
        turns::leave();
        return waits::wait(request, status);
    }
    let mut own = Status::EMPTY;
    let status = status.unwrap_or(&mut own);
    turns::leave();
    before_wait(&[*request]);
    let places = Places::of(&[*request]);
    let error = waits::one(request, status);
    places.complete(0, status);
    error
}

/// MPI_Waitall
#[inline]
pub fn waitall(
    count: i32,
    requests: &mut [&'static Request],
    statuses: Option<&mut [Status]>,
) -> i32 {
    match sees_calls() {
        false => waits::waitall(count, requests, statuses),
        true => all_waited(count, requests, statuses),
    }
}

#[cold]
fn all_waited(
    count: i32,
    requests: &mut [&'static Request],
    statuses: Option<&mut [Status]>,
) -> i32 {
    turns::leave();
    if needs_no_outcome() {
        return waits::waitall(count, requests, statuses);
    }
    before_wait(requests);
    let places = Places::of(requests);
    let mut own = Vec::new();
    let statuses = statuses.unwrap_or_else(|| {
        own.resize(requests.len(), Status::EMPTY);
        &mut own
    });
    let error = waits::waitall(count, requests, Some(&mut *statuses));
    complete_all(&places, statuses);
    error
}

fn complete_all(places: &Places, statuses: &[Status]) {
    for (index, status) in statuses.iter().enumerate() {
        places.complete(index, status);
    }
}

/// MPI_Waitany
#[inline]
pub fn waitany(
    count: i32,
    requests: &mut [&'static Request],
    mut index: InOut<'_, i32>,
    mut status: Option<&mut Status>,
) -> i32 {
    if !sees_calls() {
        let place = index.again();
        let error = waits::waitany(count, requests, place, status.as_deref_mut());
        if error != INTERRUPTED {
            return error;
        }
    }
    any_waited(count, requests, index, status)
}

#[cold]
fn any_waited(
    count: i32,
    requests: &mut [&'static Request],
    mut index: InOut<'_, i32>,
    status: Option<&mut Status>,
) -> i32 {
    let mut own = Status::EMPTY;
    let status = status.unwrap_or(&mut own);
    turns::leave();
    let places = Places::of(requests);
    let mut found = UNDEFINED;
    let error = loop {
        let chosen = told(Outcome::Index);
        if let Some((number, request)) = chosen.and_then(|number| chosen_of(requests, number)) {
            found = number;
            break waits::one(request, status);
        }
        let error = waits::waitany(count, requests, (&mut found).into(), Some(status));
        if error != INTERRUPTED {
            if recording() {
                log::write(index_event(found));
            }
            break error;
        }
    };
    index.set(found);
    complete_one(&places, found, status);
    error
}

/// The request with a recorded index.
fn chosen_of<'a>(
    requests: &'a mut [&'static Request],
    number: i32,
) -> Option<(i32, &'a mut &'static Request)> {
    let request = requests.get_mut(usize::try_from(number).ok()?)?;
    Some((number, request))
}

fn complete_one(places: &Places, index: i32, status: &Status) {
    if let Ok(index) = usize::try_from(index) {
        places.complete(index, status);
    }
}

/// MPI_Waitsome
pub fn waitsome(
    incount: i32,
    requests: &mut [&'static Request],
    mut outcount: InOut<'_, i32>,
    mut indices: Output<'_, i32>,
    mut statuses: Option<&mut [Status]>,
) -> i32 {
    if !sees_calls() {
        let (place, again) = (outcount.again(), indices.again());
        let error = waits::waitsome(incount, requests, place, again, statuses.as_deref_mut());
        if error != INTERRUPTED {
            return error;
        }
    }
    let mut own = vec![Status::EMPTY; requests.len()];
    let statuses = statuses.unwrap_or(&mut own);
    turns::leave();
    let places = Places::of(requests);
    let mut found = UNDEFINED;
    let error = loop {
        if let Some(number) = told(Outcome::Some).filter(|number| *number >= 0) {
            found = number;
            break some_chosen(number, requests, &mut indices, statuses);
        }
        let again = indices.again();
        let place = (&mut found).into();
        let error = waits::waitsome(incount, requests, place, again, Some(&mut *statuses));
        if error != INTERRUPTED {
            if recording() {
                log::write(some_event(found));
                note_indices(found, &indices);
            }
            break error;
        }
    };
    outcount.set(found);
    complete_some(&places, found, &indices, statuses);
    error
}

fn some_event(number: i32) -> Event {
    Event::Some(if number == UNDEFINED { -1 } else { number })
}

fn note_indices(number: i32, indices: &Output<'_, i32>) {
    for index in (0..number.max(0)).filter_map(|at| indices.get(at as usize)) {
        log::write(Event::Index(index));
    }
}

fn complete_some(places: &Places, number: i32, indices: &Output<'_, i32>, statuses: &[Status]) {
    for (at, status) in statuses.iter().enumerate().take(number.max(0) as usize) {
        if let Some(index) = indices.get(at) {
            complete_one(places, index, status);
        }
    }
}

/// Waits for as many operations as were complete in the recorded run, whose indices follow there.
fn some_chosen(
    number: i32,
    requests: &mut [&'static Request],
    indices: &mut Output<'_, i32>,
    statuses: &mut [Status],
) -> i32 {
    let mut failed = false;
    for (at, status) in statuses.iter_mut().enumerate().take(number as usize) {
        let Some(index) = told(Outcome::Index) else {
            break;
        };
        indices.set(at, index);
        if let Some((_, request)) = chosen_of(requests, index) {
            status.error = waits::one(request, status);
            failed |= status.error != SUCCESS;
        }
    }
    match failed {
        true => error_of_several(),
        false => SUCCESS,
    }
}

/// MPI_Test
#[inline]
pub fn test(
    request: &mut &'static Request,
    flag: InOut<'_, i32>,
    status: Option<&mut Status>,
) -> i32 {
    match sees_calls() {
        false => tests::test(request, flag, status),
        true => tested(request, flag, status),
    }
}

#[cold]
fn tested(
    request: &mut &'static Request,
    mut flag: InOut<'_, i32>,
    status: Option<&mut Status>,
) -> i32 {
    let mut own = Status::EMPTY;
    let status = status.unwrap_or(&mut own);
    let places = Places::of(&[*request]);
    let call = call(function::TEST, 1);
    let (error, here) = attempt(&call, Outcome::Index, |wait, flag| match wait {
        Some(_) => waits::one(request, status),
        None => tests::test(request, flag.into(), Some(&mut *status)),
    });
    note(&call, (here != 0).then_some(Event::Index(0)));
    flag.set(here);
    if here != 0 {
        places.complete(0, status);
    }
    error
}

/// MPI_Testall
pub fn testall(
    count: i32,
    requests: &mut [&'static Request],
    mut flag: InOut<'_, i32>,
    statuses: Option<&mut [Status]>,
) -> i32 {
    if !sees_calls() {
        return tests::testall(count, requests, flag, statuses);
    }
    let places = Places::of(requests);
    let call = call(function::TESTALL, requests.len());
    let mut own = vec![Status::EMPTY; requests.len()];
    let statuses = statuses.unwrap_or(&mut own);
    let (error, here) = attempt(&call, Outcome::Index, |wait, flag| match wait {
        Some(_) => waits::waitall(count, requests, Some(&mut *statuses)),
        None => tests::testall(count, requests, flag.into(), Some(&mut *statuses)),
    });
    note(&call, (here != 0).then_some(Event::Index(0)));
    flag.set(here);
    if here != 0 {
        complete_all(&places, statuses);
    }
    error
}

/// MPI_Testany
pub fn testany(
    count: i32,
    requests: &mut [&'static Request],
    mut index: InOut<'_, i32>,
    mut flag: InOut<'_, i32>,
    status: Option<&mut Status>,
) -> i32 {
    if !sees_calls() {
        return tests::testany(count, requests, index, flag, status);
    }
    let places = Places::of(requests);
    let call = call(function::TESTANY, requests.len());
    let mut own = Status::EMPTY;
    let status = status.unwrap_or(&mut own);
    let mut found = UNDEFINED;
    let (error, here) = attempt(&call, Outcome::Index, |wait, flag| {
        match wait.and_then(|[number, _]| chosen_of(requests, number)) {
            Some((number, request)) => {
                found = number;
                waits::one(request, status)
            }
            None => {
                let place = (&mut found).into();
                tests::testany(count, requests, place, flag.into(), Some(&mut *status))
            }
        }
    });
    note(&call, (here != 0).then(|| index_event(found)));
    index.set(found);
    flag.set(here);
    complete_one(&places, found, status);
    error
}

/// MPI_Testsome
pub fn testsome(
    incount: i32,
    requests: &mut [&'static Request],
    mut outcount: InOut<'_, i32>,
    mut indices: Output<'_, i32>,
    statuses: Option<&mut [Status]>,
) -> i32 {
    if !sees_calls() {
        return tests::testsome(incount, requests, outcount, indices, statuses);
    }
    let n = requests.len();
    let call = call(function::TESTSOME, n);
    let restarts = mode::restarts();
    let does = replay::does(&call, Outcome::Some);
    let places = Places::of(requests);
    let mut own = vec![Status::EMPTY; n];
    let statuses = statuses.unwrap_or(&mut own);
    let mut found = 0;
    let error = match does {
        Does::Miss => SUCCESS,
        Does::Wait([number, _]) if number >= 0 => {
            found = number;
            some_chosen(number, requests, &mut indices, statuses)
        }
        Does::Look | Does::Wait(_) => {
            let (place, again) = ((&mut found).into(), indices.again());
            let error = tests::testsome(incount, requests, place, again, Some(&mut *statuses));
            note(&call, (found != 0).then(|| some_event(found)));
            if recording() {
                note_indices(found, &indices);
            }
            match replay::does_again(&call, Outcome::Some, restarts) {
                Some(Does::Wait([number, _])) if found == 0 && number > 0 => {
                    found = number;
                    some_chosen(number, requests, &mut indices, statuses)
                }
                // The look has completed the operations already. The record must go on behind their indices.
                Some(Does::Wait([number, _])) => {
                    for _ in 0..number {
                        told(Outcome::Index);
                    }
                    error
                }
                _ => error,
            }
        }
    };
    outcount.set(found);
    complete_some(&places, found, &indices, statuses);
    error
}

/// MPI_Request_get_status
pub fn request_get_status(
    request: &'static Request,
    flag: Out<'_, i32>,
    status: Option<&mut Status>,
) -> i32 {
    if !sees_calls() {
        return tests::request_get_status(request, flag, status);
    }
    let mut own = Status::EMPTY;
    let status = status.unwrap_or(&mut own);
    let call = call(function::REQUEST_GET_STATUS, 1);
    looked(&call, request, flag, |flag| {
        tests::request_get_status(request, flag, Some(status))
    })
}

/// MPI_Parrived
pub fn parrived(request: &'static Request, partition: i32, flag: Out<'_, i32>) -> i32 {
    if !sees_calls() {
        return partitioned::parrived(request, partition, flag);
    }
    let call = call(function::PARRIVED, 1);
    looked(&call, request, flag, |flag| {
        partitioned::parrived(request, partition, flag)
    })
}

/// A look at an operation that is not completed by it: `look` is repeated until it finds what the recorded one found.
fn looked(
    call: &Call,
    request: &'static Request,
    mut flag: Out<'_, i32>,
    mut look: impl FnMut(Out<'_, i32>) -> i32,
) -> i32 {
    let (error, here) = attempt(call, Outcome::Index, |wait, flag| loop {
        let error = look((&mut *flag).into());
        if wait.is_none() || *flag != 0 || error != SUCCESS {
            break error;
        }
        waits::go_on_later(&[request]);
    });
    note(call, (here != 0).then_some(Event::Index(0)));
    flag.set(here);
    error
}

/// MPI_Win_test
pub fn win_test(win: &'static Win, mut flag: Out<'_, i32>) -> i32 {
    if !sees_calls() {
        return rma::win_test(win, flag);
    }
    let call = call(function::WIN_TEST, 0);
    let (error, here) = attempt(&call, Outcome::Index, |wait, flag| match wait {
        Some(_) => rma::win_wait(win),
        None => rma::win_test(win, flag.into()),
    });
    note(&call, (here != 0).then_some(Event::Index(0)));
    flag.set(here);
    error
}

/// MPI_Cancel
pub fn cancel(request: &mut &'static Request) -> i32 {
    let replayed = match replaying() {
        true => receives::cancel(request),
        false => None,
    };
    replayed.unwrap_or_else(|| waits::cancel(request))
}
