//! Waits and tests: which operations they find complete, and how often tests find none.
//!
//! A replayed test that found its operation waits for it. One that found none answers so without a look: the run gets
//! on all the same, since it tests only as often as the recorded one did.

use crate::argument::{InOut, Out, Output};
use crate::object::Request;
use crate::record::digests::Places;
use crate::record::mode::{is_on, recording, replaying};
use crate::record::replay::{before_wait, Does};
use crate::record::{function, log, receives, replay};
use crate::request::request_array::ArrayState;
use crate::request::{test as tests, wait as waits};
use crate::stages::state::error_of_several;
use contract::abi::{Status, SUCCESS, UNDEFINED};
use contract::record::{Call, Outcome};
use record::Event;

/// What a test of requests does, by their number.
fn does(function: u32, requests: usize, what: Outcome) -> Does {
    replay::does(&call(function, requests), what)
}

fn call(function: u32, requests: usize) -> Call {
    Call {
        function,
        count: requests as i64,
        ..Call::default()
    }
}

/// Writes what a test has found, if anything.
fn note(function: u32, requests: usize, found: Option<Event>) {
    if !recording() {
        return;
    }
    match found {
        None => log::write_miss(),
        Some(event) => {
            log::write_call(&call(function, requests));
            log::write(event);
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
    match is_on() {
        false => waits::wait(request, status),
        true => waited(request, status),
    }
}

#[cold]
fn waited(request: &mut &'static Request, status: Option<&mut Status>) -> i32 {
    let mut own = Status::EMPTY;
    let status = status.unwrap_or(&mut own);
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
    match is_on() {
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
    before_wait(requests);
    let places = Places::of(requests);
    let mut own = vec![Status::EMPTY; requests.len()];
    let statuses = statuses.unwrap_or(&mut own);
    let error = waits::waitall(count, requests, Some(&mut *statuses));
    for (index, status) in statuses.iter().enumerate() {
        places.complete(index, status);
    }
    error
}

/// MPI_Waitany
#[inline]
pub fn waitany(
    count: i32,
    requests: &mut [&'static Request],
    index: InOut<'_, i32>,
    status: Option<&mut Status>,
) -> i32 {
    match is_on() {
        false => waits::waitany(count, requests, index, status),
        true => any_waited(count, requests, index, status),
    }
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
    let places = Places::of(requests);
    let mut found = UNDEFINED;
    let chosen = told(Outcome::Index);
    let error = match chosen.and_then(|number| chosen_of(requests, number)) {
        Some((number, request)) => {
            found = number;
            waits::one(request, status)
        }
        None => {
            let error = waits::waitany(count, requests, (&mut found).into(), Some(status));
            if recording() {
                log::write(index_event(found));
            }
            error
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
    statuses: Option<&mut [Status]>,
) -> i32 {
    if !is_on() {
        return waits::waitsome(incount, requests, outcount, indices, statuses);
    }
    let mut own = vec![Status::EMPTY; requests.len()];
    let statuses = statuses.unwrap_or(&mut own);
    let places = Places::of(requests);
    let mut found = UNDEFINED;
    let error = match told(Outcome::Some).filter(|number| *number >= 0) {
        Some(number) => {
            found = number;
            some_chosen(number, requests, &mut indices, statuses)
        }
        None => {
            let again = indices.again();
            let place = (&mut found).into();
            let error = waits::waitsome(incount, requests, place, again, Some(&mut *statuses));
            if recording() {
                log::write(some_event(found));
                note_indices(found, &indices);
            }
            error
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
    match is_on() {
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
    let does = does(function::TEST, 1, Outcome::Index);
    let places = Places::of(&[*request]);
    let mut here = 0;
    let error = match does {
        Does::Miss => SUCCESS,
        Does::Wait(_) => {
            here = 1;
            waits::one(request, status)
        }
        Does::Look => {
            let error = tests::test(request, (&mut here).into(), Some(status));
            note(function::TEST, 1, (here != 0).then_some(Event::Index(0)));
            error
        }
    };
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
    if !is_on() {
        return tests::testall(count, requests, flag, statuses);
    }
    let n = requests.len();
    let does = does(function::TESTALL, n, Outcome::Index);
    let places = Places::of(requests);
    let mut own = vec![Status::EMPTY; n];
    let statuses = statuses.unwrap_or(&mut own);
    let mut here = 0;
    let error = match does {
        Does::Miss => SUCCESS,
        Does::Wait(_) => {
            here = 1;
            waits::waitall(count, requests, Some(&mut *statuses))
        }
        Does::Look => {
            let place = (&mut here).into();
            let error = tests::testall(count, requests, place, Some(&mut *statuses));
            let found = (here != 0).then_some(Event::Index(0));
            note(function::TESTALL, n, found);
            error
        }
    };
    flag.set(here);
    if here != 0 {
        for (index, status) in statuses.iter().enumerate() {
            places.complete(index, status);
        }
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
    if !is_on() {
        return tests::testany(count, requests, index, flag, status);
    }
    let n = requests.len();
    let does = does(function::TESTANY, n, Outcome::Index);
    let places = Places::of(requests);
    let mut own = Status::EMPTY;
    let status = status.unwrap_or(&mut own);
    let (mut found, mut here) = (UNDEFINED, 0);
    let chosen = match does {
        Does::Miss => {
            index.set(UNDEFINED);
            flag.set(0);
            return SUCCESS;
        }
        Does::Wait([number, _]) => chosen_of(requests, number),
        Does::Look => None,
    };
    let error = match chosen {
        Some((number, request)) => {
            (found, here) = (number, 1);
            waits::one(request, status)
        }
        None => {
            let (place, flag) = ((&mut found).into(), (&mut here).into());
            let error = tests::testany(count, requests, place, flag, Some(status));
            note(
                function::TESTANY,
                n,
                (here != 0).then(|| index_event(found)),
            );
            error
        }
    };
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
    if !is_on() {
        return tests::testsome(incount, requests, outcount, indices, statuses);
    }
    let n = requests.len();
    let does = does(function::TESTSOME, n, Outcome::Some);
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
            note(
                function::TESTSOME,
                n,
                (found != 0).then(|| some_event(found)),
            );
            if recording() {
                note_indices(found, &indices);
            }
            error
        }
    };
    outcount.set(found);
    complete_some(&places, found, &indices, statuses);
    error
}

/// MPI_Request_get_status
pub fn request_get_status(
    request: &'static Request,
    mut flag: Out<'_, i32>,
    status: Option<&mut Status>,
) -> i32 {
    if !is_on() {
        return tests::request_get_status(request, flag, status);
    }
    let mut own = Status::EMPTY;
    let status = status.unwrap_or(&mut own);
    let does = does(function::REQUEST_GET_STATUS, 1, Outcome::Index);
    let mut here = 0;
    let error = match does {
        Does::Miss => SUCCESS,
        Does::Wait(_) => loop {
            let error = tests::request_get_status(request, (&mut here).into(), Some(status));
            if here != 0 || error != SUCCESS {
                break error;
            }
            waits::go_on_later(&[request], ArrayState::all);
        },
        Does::Look => {
            let error = tests::request_get_status(request, (&mut here).into(), Some(status));
            let found = (here != 0).then_some(Event::Index(0));
            note(function::REQUEST_GET_STATUS, 1, found);
            error
        }
    };
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
