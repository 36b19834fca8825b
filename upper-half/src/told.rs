//! Calls of the application, as the debugging tools are told of them.

use crate::argument::Buffer;
use crate::object::{Comm, Datatype};
use crate::perturb::delivery;
use crate::tools::{is_only, is_set, untold, RECORDED};
use crate::{breakpoint, record};

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

/// The application calls another function, which may wait in the library.
#[cold]
pub fn before_other_call() {
    delivery::release();
}
