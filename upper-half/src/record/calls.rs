//! Calls of the application.

use crate::argument::Buffer;
use crate::object::request::collective_result::CollectiveResult;
use crate::object::request::Kind;
use crate::object::{Comm, Datatype, Request};
use crate::record::log::Place;
use crate::record::turns::{self, Begins};
use crate::record::{digests, log, replay};
use contract::record::{Call, EVERY_COMM, NO_COMM};

/// Data that a call sends, and its communicator.
pub(crate) type Sent<'a> = ((Buffer<'a>, i32, &'static Datatype), &'static Comm);

/// The application makes a call that it has made before. Whether all is noted that [`note_call`] would note.
#[inline(always)]
pub(crate) fn note_again(call: &Call) -> bool {
    log::write_again(call)
}

/// The application calls a function of MPI. `has_effect` is whether the thread keeps its turn until the call has had
/// its effect on the order of messages. `sent` is the data that the call sends, if it is known.
pub(crate) fn note_call(call: &Call, has_effect: bool, sent: Option<Sent<'_>>) {
    match turns::begin() {
        Begins::Write => log::write_call(call, None),
        Begins::Ask => match log::ask_call(call) {
            Place::Within => {}
            Place::Last => replay::in_last_call(),
            Place::Behind => replay::go_on_alone(),
        },
        Begins::Nothing => {}
    }
    if let Some(((buffer, count, datatype), comm)) = sent {
        if log::digests_of_sends() {
            digests::of_data(buffer, count.into(), datatype, comm);
        }
    }
    if !has_effect {
        turns::leave();
    }
}

/// The communicator among whose calls a start of these persistent operations has its order.
pub(crate) fn comm_of_starts(requests: &[&'static Request]) -> u64 {
    let comm = |request: &&'static Request| match request.body.kind.get() {
        Kind::PersistentSend | Kind::PersistentReceive => Some(request.body.args.get().comm),
        Kind::PersistentCollective => request.repeated_over(),
        // Those of partitioned communication have their order from the calls that made them.
        _ => None,
    };
    let mut ids = requests.iter().filter_map(comm).map(|comm| comm.body.id);
    let Some(first) = ids.next() else {
        return NO_COMM;
    };
    match ids.all(|id| id == first) {
        true => first,
        false => EVERY_COMM,
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
