//! The replayed run asks for outcomes, and goes on without the record where that ends.

use crate::crossing::report::advise;
use crate::object::request::Posting;
use crate::object::Request;
use crate::pt2pt::kept;
use crate::quiesce::progress::phase;
use crate::quiesce::wait_loop;
use crate::record::log::Told;
use crate::record::{mode, receives, turns};
use crate::request::lifecycle;
use contract::abi::SUCCESS;
use contract::record::{Call, Outcome, RecordMode};
use core::sync::atomic::{AtomicU32, Ordering};

/// The way of a test or probe that does not wait.
pub(super) enum Does {
    /// It looks.
    Look,
    /// It finds nothing.
    Miss,
    /// It waits for what the recorded one found.
    Wait([i32; 2]),
}

/// The way of such a call.
pub(super) fn does(call: &Call, what: Outcome) -> Does {
    if !mode::replaying() {
        return Does::Look;
    }
    match turns::ask(Some(call), what) {
        Told::Numbers(numbers) => Does::Wait(numbers),
        Told::Miss => {
            look_now_and_then();
            Does::Miss
        }
        Told::Ended => {
            go_on_alone();
            Does::Look
        }
        Told::NotReplayed => Does::Look,
    }
}

/// Makes a test or probe that does not wait: its error code, and its flag. `run` gets the outcome that it is to wait
/// for, or `None` if it is to look, and the place of the flag. It is not called where nothing is to be found.
pub(super) fn attempt(
    call: &Call,
    what: Outcome,
    mut run: impl FnMut(Option<[i32; 2]>, &mut i32) -> i32,
) -> (i32, i32) {
    let restarts = mode::restarts();
    let (wait, mut flag) = match does(call, what) {
        Does::Miss => return (SUCCESS, 0),
        Does::Wait(numbers) => (Some(numbers), 1),
        Does::Look => (None, 0),
    };
    let error = run(wait, &mut flag);
    if wait.is_some() {
        return (error, flag);
    }
    match does_again(call, what, restarts) {
        Some(Does::Wait(numbers)) if flag == 0 => {
            flag = 1;
            (run(Some(numbers), &mut flag), flag)
        }
        // If the look has found something, so has the recorded one.
        _ => (error, flag),
    }
}

/// Asks the record again after a look in which the job was restarted. The recorded call ended after the checkpoint, so
/// the record has it behind the place where the replay begins.
pub(super) fn does_again(call: &Call, what: Outcome, restarts: u32) -> Option<Does> {
    mode::has_another_record(restarts).then(|| does(call, what))
}

/// The outcome of a call that waits. `None` if the run is not replayed, or goes on without the record.
pub(super) fn told(what: Outcome) -> Option<[i32; 2]> {
    if !mode::replaying() {
        return None;
    }
    match turns::ask(None, what) {
        Told::Numbers(numbers) => Some(numbers),
        Told::Miss | Told::NotReplayed => None,
        Told::Ended => {
            go_on_alone();
            None
        }
    }
}

/// Looks at everything now and then, for a run that polls for more than MPI: a test or probe that is to find nothing
/// does not look.
fn look_now_and_then() {
    const EVERY: u32 = 64;
    static MISSES: AtomicU32 = AtomicU32::new(0);
    if MISSES.fetch_add(1, Ordering::Relaxed).is_multiple_of(EVERY) {
        wait_loop::look_around(phase());
    }
}

/// Before a call waits for these requests, one of which may be a receive that got no message in the recorded run.
pub(super) fn before_wait(requests: &[&'static Request]) {
    if mode::replaying() && requests.iter().any(|request| receives::is_held(request)) {
        advise("the record ends in a wait for a message; the rank goes on without it");
        go_on_alone();
    }
}

/// The record ends in a call. The call may wait for ranks that wait until a held receive takes their message, and so
/// may last until these receives are posted.
pub(super) fn in_last_call() {
    if lifecycle::pending().any(receives::is_held) {
        advise("the record ends in this call; the rank goes on without it");
        go_on_alone();
    }
}

/// The rank goes on without the record: what is held is posted, in its order.
pub(super) fn go_on_alone() {
    mode::set(RecordMode::Off as u32);
    for request in lifecycle::pending_as_posted(receives::is_held) {
        request.body.posting.set(Posting::None);
        kept::post_kept(request);
    }
}
