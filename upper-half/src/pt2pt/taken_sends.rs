//! Sends in standard mode of a replayed run. The library of the recorded run may have taken a message at once that the
//! one of the replay keeps until it is received, and the recorded outcomes may depend on that: a send was found
//! complete, or a receiver first got another message. So the replay takes every such message at once: it sends a copy.

use crate::object::comm::peer_of;
use crate::object::request::pair::SendCopy;
use crate::object::request::{Args, Kind, Mode};
use crate::object::Request;
use crate::pt2pt::send_below;
use crate::quiesce::progress;
use crate::record::mode::replaying;
use crate::request::lifecycle;
use crate::runtime::lock::Lock;
use crate::tools::{self, RECORDED};
use contract::abi::{Status, PROC_NULL, SUCCESS};
use core::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of the largest message that a library may have taken.
const MOST: u64 = 4 << 20;

/// Copies under way, and their sends.
static UNDER_WAY: Lock<Vec<(&'static Request, SendCopy)>> = Lock::new(Vec::new());
/// Number of copies at which it is looked which are received, since nobody waits for them. It grows with those that are
/// not, so that a look at all of them costs little for each send.
static LOOK_AT: AtomicUsize = AtomicUsize::new(LEAST);
const LEAST: usize = 64;

/// Gives back the copies that are received, if there are many.
fn tidy() {
    let mut all = {
        let mut all = UNDER_WAY.lock();
        if all.len() < LOOK_AT.load(Ordering::Relaxed) {
            return;
        }
        core::mem::take(&mut *all)
    };
    progress::look_at(all.iter().map(|(request, _)| *request));
    lifecycle::recycle_done(&mut all);
    LOOK_AT.store(LEAST.max(2 * all.len()), Ordering::Relaxed);
    UNDER_WAY.lock().append(&mut all);
}

/// Whether sends in this mode are taken.
#[inline(always)]
pub(crate) fn are_taken(mode: Mode) -> bool {
    mode == Mode::Standard && tools::is_set(RECORDED) && replaying()
}

/// Sends a copy of the message. `None` if it is one that no library takes, or has a fault that the library names.
#[cold]
pub(crate) fn take(message: Args) -> Option<Result<(), i32>> {
    if message.peer == PROC_NULL || message.bytes() > MOST {
        return None;
    }
    let copy = SendCopy::of(&message).ok()?;
    let sent = copy.message(message.peer, message.tag, message.comm);
    let started = send_below::start(Mode::Standard, sent);
    tidy();
    Some(started.map(|request| UNDER_WAY.lock().push((request, copy))))
}

/// The request of a send that is taken, which is complete.
#[cold]
pub(crate) fn taken(message: Args) -> Option<Result<&'static Request, i32>> {
    let done = || {
        let peer = peer_of(message.comm, message.peer);
        let request = lifecycle::acquire(Kind::Send, peer, message.comm)?;
        request.complete(&Status::EMPTY, SUCCESS);
        Ok(request)
    };
    Some(take(message)?.and_then(|()| done()))
}
