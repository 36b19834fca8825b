//! Receives that are not posted in the lower half yet, because the candidates of one with MPI_ANY_SOURCE are held back.
//! A later receive that could take such a candidate waits behind it, so that messages go to receives in the order in
//! which MPI has it. `delivery.rs` gives them their messages.
//!
//! While there are any, no call that polls waits in the library ([`tools::begins_here`]).
//!
//! With several threads in MPI only receives in blocking calls are held back. So a thread that looks waits for each.

use crate::object::request::{Args, Kind, State};
use crate::object::unexpected::{Envelope, Queue};
use crate::object::{Comm, Request};
use crate::perturb::candidates::Seeker;
use crate::perturb::holds::{next_number, Taker};
use crate::perturb::{is_on, is_wild, others};
use crate::runtime::lock::{multiple, Lock};
use crate::tools;
use contract::abi::{ANY_SOURCE, ANY_TAG};

/// Such a receive.
pub(super) struct Open {
    pub(super) request: &'static Request,
    pub(super) comm: &'static Comm,
    pub(super) seeker: Seeker,
    /// Whether its candidates are held back. If not it waits behind such a one.
    holds_back: bool,
}

/// In the order in which the application has posted them.
pub(super) static OPEN: Lock<Vec<Open>> = Lock::new(Vec::new());

fn envelope(args: &Args) -> Envelope {
    Envelope {
        comm: args.comm.index(),
        source: args.peer,
        tag: args.tag,
    }
}

/// Whether some message is for both.
fn overlap(one: Envelope, other: Envelope) -> bool {
    let sources = [one.source, other.source];
    let tags = [one.tag, other.tag];
    one.comm == other.comm
        && (one.source == other.source || sources.contains(&ANY_SOURCE))
        && (one.tag == other.tag || tags.contains(&ANY_TAG))
}

impl Open {
    fn takes(&self, message: Envelope) -> bool {
        let Envelope { comm, source, tag } = self.seeker.wants;
        message.matches(comm, source, tag)
    }

    /// Whether nothing hinders that it is posted, behind those `before`.
    pub(super) fn may_be_posted(&self, before: &[Open]) -> bool {
        !self.holds_back && !is_behind(before, self.seeker.wants)
    }

    /// The position of the message that it takes now, if any. The candidate of a source is not for it if one `before`
    /// may take that.
    pub(super) fn choose(
        &mut self,
        queue: &Queue,
        before: &[Open],
        attempts: u32,
    ) -> Option<usize> {
        let messages = queue.entries.iter().map(|entry| entry.envelope);
        let is_for_another = |message| before.iter().any(|other| other.takes(message));
        let others = if self.holds_back {
            others(self.comm)
        } else {
            0
        };
        self.seeker
            .choose(messages, is_for_another, others, attempts)
    }
}

/// A receive is about to be posted; whether it is kept here. `waits` is whether the call that posts it also waits for
/// it.
pub(crate) fn keeps(request: &'static Request, args: Args, waits: bool) -> bool {
    if !is_on() {
        return false;
    }
    let is_wild = is_wild(args.peer, args.comm);
    // A checkpoint or another thread changes no later number.
    let number = if is_wild {
        next_number(Taker::Receive)
    } else {
        0
    };
    let wants = envelope(&args);
    let mut open = OPEN.lock();
    let holds_back = is_wild && (waits || !multiple());
    if !holds_back && !is_behind(&open, wants) {
        return false;
    }
    if request.body.kind.get() == Kind::Receive {
        // Persistent ones have their arguments.
        request.keep(args);
    }
    request.body.state.set(State::Upper);
    tools::begins_here();
    open.push(Open {
        request,
        comm: args.comm,
        seeker: Seeker::new(number, wants),
        holds_back,
    });
    true
}

fn is_behind(before: &[Open], wants: Envelope) -> bool {
    before
        .iter()
        .any(|other| overlap(other.seeker.wants, wants))
}
