//! Receives that a tool has kept back are posted, or get their early messages.

use crate::object::request::Kind;
use crate::object::unexpected::Entry;
use crate::object::{unexpected, Request};
use crate::pt2pt::{persistent_message, post};
use crate::quiesce::progress::Claim;
use contract::abi::Status;

/// Posts a receive, or gives it the early message that it matches.
pub(crate) fn post_kept(request: &'static Request) {
    let args = request.body.args.get();
    let mut queue = unexpected::queue();
    match queue.take(args.comm, args.peer, args.tag) {
        Some(entry) => {
            drop(queue);
            give_late(request, entry);
        }
        // The queue stays locked meanwhile.
        None => post_late(request),
    }
}

/// Posts a receive. The queue is locked meanwhile.
pub(crate) fn post_late(request: &'static Request) {
    let posted = match request.body.kind.get() {
        Kind::PersistentReceive => persistent_message::start_late(request),
        _ => post::post_late(request),
    };
    if let Err(error) = posted {
        request.complete(&Status::EMPTY, error);
    }
}

/// Gives a receive its early message.
pub(crate) fn give_late(request: &'static Request, entry: Box<Entry>) {
    // No sweep delivers the message, too.
    let _claim = Claim::new([request]);
    post::give(request, entry);
}
