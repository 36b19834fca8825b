//! The messages of receives are written under the numbers of these (`receives.rs`).

use crate::object::request::{Args, Posting};
use crate::object::Request;
use crate::record::{log, mode};
use contract::abi::{Status, ANY_SOURCE, ANY_TAG};
use record::Event;

/// Whether it has wildcards.
pub(crate) fn is_wild(args: &Args) -> bool {
    args.peer == ANY_SOURCE || args.tag == ANY_TAG
}

/// A receive is over.
pub(crate) fn ended(request: &'static Request, status: &Status, cancelled: bool) {
    let Posting::Number(posting) = request.body.posting.get() else {
        return;
    };
    if !mode::recording() {
        return;
    }
    if cancelled {
        log::write_keyed(Event::Cancelled { posting });
    } else if is_wild(&request.body.args.get()) {
        got(posting, status);
    }
}

/// A receive is given an early message of this source with this tag.
pub(crate) fn given(request: &'static Request, source: i32, tag: i32) {
    if let Posting::Number(posting) = request.body.posting.get() {
        if mode::recording() && is_wild(&request.body.args.get()) {
            bound(posting, source, tag);
        }
    }
}

/// The receive with this number got a message.
pub(crate) fn got(posting: u64, status: &Status) {
    bound(posting, status.source, status.tag);
}

fn bound(posting: u64, source: i32, tag: i32) {
    log::write_keyed(Event::Bound {
        posting,
        source,
        tag,
    });
}
