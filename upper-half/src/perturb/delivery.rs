//! The open receives (`open_receives.rs`) get their messages, or are posted. Every look at what is under way is an
//! attempt of each. They are posted as they are, which is what happens without the tool, before a call that may wait in
//! the library, and when a checkpoint is pending: no image holds one.

use crate::object::unexpected;
use crate::perturb::open_receives::{Open, OPEN};
use crate::perturb::{is_on, take_in_hand};
use crate::pt2pt::kept;
use crate::quiesce::progress::phase;
use crate::tools;
use contract::Phase;

/// Gives receives their messages, as far as these are held back no longer. The look counts as this number of
/// attempts.
pub(crate) fn look(attempts: u32) {
    if !is_on() {
        return;
    }
    if phase() != Phase::Run {
        return release();
    }
    let mut open = OPEN.lock();
    let mut queue = unexpected::queue();
    for (at, Open { comm, .. }) in open.iter().enumerate() {
        let is_new = open[..at]
            .iter()
            .all(|before| before.comm.index() != comm.index());
        if is_new && take_in_hand(&mut queue, comm).is_err() {
            // The library tells a receive that is posted what is wrong.
            drop((queue, open));
            return release();
        }
    }
    let mut given = Vec::new();
    let mut at = 0;
    while let Some((one, before)) = open.get_mut(..=at).and_then(|some| some.split_last_mut()) {
        let is_posted = one.may_be_posted(before);
        let found = match is_posted {
            true => queue.first(one.seeker.wants),
            false => one.choose(&queue, before, attempts),
        };
        if found.is_none() && !is_posted {
            at += 1;
            continue;
        }
        let request = open.remove(at).request;
        match found.and_then(|position| queue.take_at(position)) {
            Some(entry) => given.push((request, entry)),
            None => {
                // The queue stays locked meanwhile.
                kept::post_late(request);
                tools::ends_here();
            }
        }
    }
    drop(queue);
    for (request, entry) in given {
        kept::give_late(request, entry);
        tools::ends_here();
    }
}

/// Posts all of them as they are. To be called before a call that may wait in the library or asks for one of them.
#[inline]
pub(crate) fn release() {
    if is_on() {
        release_all();
    }
}

#[cold]
fn release_all() {
    for Open { request, .. } in OPEN.lock().drain(..) {
        kept::post_kept(request);
        tools::ends_here();
    }
}

/// The requests are over.
pub(crate) fn forget() {
    for _ in OPEN.lock().drain(..) {
        tools::ends_here();
    }
}
