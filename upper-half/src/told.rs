//! Calls of the application, as the debugging tools are told of them.

use crate::argument::Buffer;
use crate::object::{Comm, Datatype, Request};
use crate::perturb::delivery;
use crate::tools::{is_only, is_set, untold, RECORDED};
use crate::{breakpoint, record};
use contract::abi::IN_PLACE;
use contract::record::{Call, NO_COMM};

/// The application calls a function that records have. `polls` is whether the call never waits in the library while
/// [`crate::tools::POLLS`] is set. `sent` is the data that it sends, if they are known.
#[cold]
pub fn before_call(
    function: u32,
    polls: bool,
    comm: Option<&'static Comm>,
    (peer, tag): (i32, i32),
    count: i64,
    sent: Option<(Buffer<'_>, i32, &'static Datatype)>,
) {
    let call = Call {
        function,
        peer,
        comm: comm.map_or(NO_COMM, |comm| comm.body.id),
        tag,
        count,
    };
    tell(&call, polls, sent.zip(comm));
}

/// The application starts persistent operations.
#[cold]
pub fn before_start(function: u32, requests: &[&'static Request]) {
    let call = Call {
        function,
        comm: record::comm_of_starts(requests),
        ..Call::default()
    };
    tell(&call, true, None);
}

#[inline(always)]
fn tell(call: &Call, polls: bool, sent: Option<record::Sent<'_>>) {
    if is_only(RECORDED) && record::note_again(call) {
        return;
    }
    if !polls {
        delivery::release();
    }
    if untold() {
        return;
    }
    if breakpoint::is_on() {
        breakpoint::passes();
    }
    if is_set(RECORDED) {
        record::note_call(call, polls, sent);
    }
}

/// A blocking collective operation of the application has succeeded. `gets` is whether this process has a result, which
/// is `count` elements. Over an inter-communicator it has another number of them, and is not looked at.
#[cold]
pub fn received(
    comm: &'static Comm,
    gets: bool,
    buffer: Buffer<'_>,
    count: i64,
    datatype: &'static Datatype,
) {
    if is_set(RECORDED) && is_known(comm, gets, buffer) && !untold() {
        record::note_result(buffer, count, datatype, comm);
    }
}

/// The same of a non-blocking one that has been started: it will have that result when its request is complete.
#[cold]
pub fn will_receive(
    request: &'static Request,
    comm: &'static Comm,
    gets: bool,
    buffer: Buffer<'static>,
    count: i64,
    datatype: &'static Datatype,
) {
    if is_set(RECORDED) && is_known(comm, gets, buffer) && !untold() {
        record::note_result_of(request, buffer, count, datatype, comm);
    }
}

fn is_known(comm: &'static Comm, gets: bool, buffer: Buffer<'_>) -> bool {
    gets && !comm.body.inter && buffer.as_ptr() as usize != IN_PLACE
}

/// The application calls another function, which may wait in the library.
#[cold]
pub fn before_other_call() {
    delivery::release();
}
