//! Receives: which message a receive with wildcards gets, and whether one was cancelled.
//!
//! The receives that each thread of the application posts have numbers, in their order. What a receive gets is known
//! when it is complete, maybe long after others were posted, so it is written under its number. A replay asks for it
//! when the receive is posted, and posts the receive for that very message. One that got none in the recorded run is
//! *held*: it is not posted at all, so that it takes nobody else's message.

use crate::crossing::call_guard::thread_number;
use crate::object::comm::internal::sync_comm;
use crate::object::comm::{peer_of, NOBODY};
use crate::object::request::{Args, Kind, Posting, State};
use crate::object::Request;
use crate::record::bindings::is_wild;
use crate::record::log::{self, Got};
use crate::record::mode::{self, is_on, replaying};
use crate::request::lifecycle;
use crate::runtime::lock::Lock;
use crate::tools::{self, RECORDED};
use contract::abi::{Status, PROC_NULL, SUCCESS};
use core::sync::atomic::{AtomicU64, Ordering};
use record::receive_number::{number_of, INITIAL};
use std::collections::BTreeMap;

/// Number of the last receive of the initial thread. Images hold it, and the next ones.
static POSTED: AtomicU64 = AtomicU64::new(0);
/// How many receives each other thread has posted.
static POSTED_BY_OTHERS: Lock<BTreeMap<u32, u64>> = Lock::new(BTreeMap::new());

/// The number of the next receive of the calling thread. The order in which threads post is another one in each run.
fn next() -> u64 {
    match thread_number() {
        INITIAL => next_of_initial(),
        thread => {
            let mut posted = POSTED_BY_OTHERS.lock();
            let number = posted.entry(thread).or_default();
            *number += 1;
            number_of(thread, *number)
        }
    }
}

fn next_of_initial() -> u64 {
    POSTED.fetch_add(1, Ordering::Relaxed) + 1
}

/// Whether the application knows the communicator.
fn is_of_application(args: &Args) -> bool {
    args.comm.index() != sync_comm().index()
}

/// Arguments with the source and the tag of a message.
fn exactly(args: Args, (peer, tag): (i32, i32)) -> Args {
    Args { peer, tag, ..args }
}

/// The fate of a receive that is to be posted.
enum Fate {
    /// It is posted as the application asks.
    Open,
    /// It gets the message of this source with this tag.
    Message(i32, i32),
    /// It is not posted.
    Held,
}

fn fate(number: u64, args: &Args) -> Fate {
    let wild = is_wild(args);
    if !replaying() || !(wild || log::has_cancels()) {
        return Fate::Open;
    }
    match log::ask_binding(number) {
        Got::Message(source, tag) => Fate::Message(source, tag),
        Got::Nothing if !wild => Fate::Open,
        Got::Nothing | Got::Cancelled => Fate::Held,
    }
}

/// A receive is about to be posted with these arguments. The result are those with which it is to be posted; `None` if
/// it is held.
pub(crate) fn posting(request: &'static Request, args: Args) -> Option<Args> {
    if !is_of_application(&args) {
        return Some(args);
    }
    let number = next();
    request.body.posting.set(Posting::Number(number));
    match fate(number, &args) {
        Fate::Open => Some(args),
        Fate::Message(source, tag) => {
            request.body.peer.set(peer_of(args.comm, source));
            Some(exactly(args, (source, tag)))
        }
        Fate::Held => {
            hold(request, number);
            None
        }
    }
}

/// A call waits for a receive with these arguments, and no other thread is in MPI. The result is what the record has of
/// the receive if the call may wait in the library: in a run that is recorded, without other tools.
#[inline]
pub(crate) fn posting_below(args: &Args) -> Option<Posting> {
    if !tools::is_only(RECORDED) || !mode::recording() {
        return None;
    }
    Some(match is_wild(args) && args.peer != PROC_NULL {
        true => Posting::Number(next()),
        false => Posting::Unnumbered,
    })
}

fn hold(request: &'static Request, number: u64) {
    request.body.posting.set(Posting::Held(number));
    request.posted();
    request.body.state.set(State::Upper);
}

/// A persistent receive is about to be started; whether it is to be posted.
pub(crate) fn starting(request: &'static Request) -> bool {
    let body = &request.body;
    let args = body.args.get();
    if let Posting::Bound(..) = body.posting.get() {
        // The request below is for the message of the last start.
        lifecycle::release_below(request);
    }
    body.peer.set(match args.peer {
        ..0 => NOBODY,
        rank => peer_of(args.comm, rank),
    });
    body.posting.set(Posting::None);
    if !is_on() || !is_of_application(&args) {
        return true;
    }
    let number = next();
    body.posting.set(Posting::Number(number));
    match fate(number, &args) {
        Fate::Open => true,
        Fate::Message(source, tag) => {
            body.peer.set(peer_of(args.comm, source));
            body.posting.set(Posting::Bound(number, source, tag));
            lifecycle::release_below(request);
            true
        }
        Fate::Held => {
            hold(request, number);
            false
        }
    }
}

/// The arguments with which a receive is posted, which may be those of one message.
pub(crate) fn posted_args(request: &'static Request) -> Args {
    let args = request.body.args.get();
    match request.body.posting.get() {
        Posting::Bound(_, source, tag) => exactly(args, (source, tag)),
        _ => args,
    }
}

/// Whether it is not posted.
pub(crate) fn is_held(request: &'static Request) -> bool {
    matches!(request.body.posting.get(), Posting::Held(_))
}

/// MPI_Cancel of a receive of a replayed run, if the record decides about it.
pub(super) fn cancel(request: &'static Request) -> Option<i32> {
    if is_held(request) {
        let status = Status {
            cancelled: 1,
            ..Status::EMPTY
        };
        request.body.posting.set(Posting::None);
        request.complete(&status, SUCCESS);
        return Some(SUCCESS);
    }
    let under_way = request.body.state.get() == State::Active;
    // The cancel came too late.
    (under_way && request.body.posting.get() != Posting::None).then_some(SUCCESS)
}

/// After a restart, before receives are posted again: brings those under way in line with the record that there is now.
pub(crate) fn restored() {
    mode::restarted();
    log::begin();
    for request in lifecycle::pending_as_posted(is_open) {
        restore(request);
    }
}

/// Whether it is a receive of the application without a message: without a record, one that is held.
fn is_open(request: &'static Request) -> bool {
    let body = &request.body;
    let is_posted = body.kind.get().is_receive() && body.state.get() == State::Active;
    is_held(request) || is_on() && is_posted && is_of_application(&body.args.get())
}

fn restore(request: &'static Request) {
    let body = &request.body;
    let number = match body.posting.get() {
        Posting::Number(number) | Posting::Held(number) => number,
        // The thread that restores is not the one that has posted it.
        Posting::None if is_on() => next_of_initial(),
        Posting::None | Posting::Unnumbered | Posting::Bound(..) => return,
    };
    body.posting.set(Posting::Number(number));
    body.state.set(State::Active);
    let args = body.args.get();
    match fate(number, &args) {
        Fate::Open => {}
        Fate::Message(source, tag) => {
            body.peer.set(peer_of(args.comm, source));
            match body.kind.get() {
                Kind::PersistentReceive => {
                    body.posting.set(Posting::Bound(number, source, tag));
                }
                _ => body.args.set(exactly(args, (source, tag))),
            }
        }
        Fate::Held => hold(request, number),
    }
}
