//! Calls of the application, as the debugging tools are told of them.

use crate::argument::Buffer;
use crate::object::{Comm, Datatype};
use crate::perturb::delivery;
use crate::tools::{is_only, is_set, untold, RECORDED};
use crate::{breakpoint, record};
use contract::abi::IN_PLACE;

/// The application calls a function that records have. `polls` is whether the call never waits in the library while
/// [`crate::tools::POLLS`] is set. `sent` is the data that it sends, if they are known.
#[cold]
pub fn before_call(
    function: u32,
    polls: bool,
    comm: Option<&'static Comm>,
    peer_and_tag: (i32, i32),
    count: i64,
    sent: Option<(Buffer<'_>, i32, &'static Datatype)>,
) {
    if is_only(RECORDED) && record::note_again(function, comm, peer_and_tag, count) {
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
        record::note_call(function, polls, comm, peer_and_tag, count, sent);
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
    let is_known = gets && !comm.body.inter && buffer.as_ptr() as usize != IN_PLACE;
    if is_set(RECORDED) && is_known && !untold() {
        record::note_result(buffer, count, datatype, comm);
    }
}

/// The application calls another function, which may wait in the library.
#[cold]
pub fn before_other_call() {
    delivery::release();
}
