//! Calls of the application.

use crate::argument::Buffer;
use crate::object::request::collective_result::CollectiveResult;
use crate::object::{Comm, Datatype, Request};
use crate::record::log::Place;
use crate::record::turns::{self, Begins};
use crate::record::{digests, log, replay};
use contract::record::Call;

#[inline(always)]
fn call(function: u32, comm: Option<&'static Comm>, (peer, tag): (i32, i32), count: i64) -> Call {
    Call {
        function,
        peer,
        comm: comm.map_or(0, |comm| comm.body.id),
        tag,
        count,
    }
}

/// The application makes a call that it has made before. Whether all is noted that [`note_call`] would note.
#[inline(always)]
pub(crate) fn note_again(
    function: u32,
    comm: Option<&'static Comm>,
    peer_and_tag: (i32, i32),
    count: i64,
) -> bool {
    log::write_again(&call(function, comm, peer_and_tag, count))
}

/// The application calls a function of MPI. `has_effect` is whether the thread keeps its turn until the call has had
/// its effect on the order of messages. `sent` is the data that the call sends, if it is known.
pub(crate) fn note_call(
    function: u32,
    has_effect: bool,
    comm: Option<&'static Comm>,
    (peer, tag): (i32, i32),
    count: i64,
    sent: Option<(Buffer<'_>, i32, &'static Datatype)>,
) {
    let call = call(function, comm, (peer, tag), count);
    match turns::begin() {
        Begins::Write => log::write_call(&call, None),
        Begins::Ask => match log::ask_call(&call) {
            Place::Within => {}
            Place::Last => replay::in_last_call(),
            Place::Behind => replay::go_on_alone(),
        },
        Begins::Nothing => {}
    }
    if let (Some((buffer, count, datatype)), Some(comm)) = (sent, comm) {
        if log::digests_of_sends() {
            digests::of_data(buffer, count.into(), datatype, comm);
        }
    }
    if !has_effect {
        turns::leave();
    }
}

/// A collective operation of the application has this result.
pub(crate) fn note_result(
    buffer: Buffer<'_>,
    count: i64,
    datatype: &'static Datatype,
    comm: &'static Comm,
) {
    if digests::are_taken() {
        digests::of_data(buffer, count, datatype, comm);
    }
}

/// A collective operation of the application will have this result when its request is complete.
pub(crate) fn note_result_of(
    request: &'static Request,
    buffer: Buffer<'static>,
    count: i64,
    datatype: &'static Datatype,
    comm: &'static Comm,
) {
    if digests::are_taken() {
        request.keep_result(CollectiveResult::new(buffer, count, datatype, comm));
    }
}
