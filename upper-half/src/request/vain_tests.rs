//! Leaves out tests that would find nothing again, as `object/request/in_vain.rs` says. That is for a program with one
//! thread in MPI, as long as no checkpoint is pending. `pt2pt/vain_probes.rs` does the same for probes.

use crate::crossing::switch::crossings;
use crate::object::request::State;
use crate::object::Request;
use crate::quiesce::progress::phase;
use crate::runtime::lock::multiple;
use crate::tools::{self, POLLS};
use contract::{recorder, Phase, TOOL_CONTENTS};
use core::sync::atomic::{AtomicUsize, Ordering};

/// Number of tests and probes in vain, modulo its size. They are not other crossings to each other: a program may test
/// several requests in turn.
static IN_VAIN: AtomicUsize = AtomicUsize::new(0);

/// Number of crossings that were not tests or probes in vain.
#[inline(always)]
pub(crate) fn other_crossings() -> usize {
    crossings().wrapping_sub(IN_VAIN.load(Ordering::Relaxed))
}

/// Counts a crossing that was a test or a probe in vain.
#[inline(always)]
pub(crate) fn count_in_vain() {
    let in_vain = IN_VAIN.load(Ordering::Relaxed).wrapping_add(1);
    IN_VAIN.store(in_vain, Ordering::Relaxed);
}

/// Whether a test or a probe may be left out at all: not where the library's polls or the record of a run depend on it.
#[inline(always)]
pub(crate) fn may_be_left_out() -> bool {
    !multiple() && phase() == Phase::Run && !tools::is_set(POLLS | TOOL_CONTENTS)
}

/// A test that is made in the lower half.
pub(crate) struct Look {
    /// When it began, if it may be one of several in vain.
    begin: Option<u64>,
}

/// Begins a test of requests. `None` if it needs not be made: nothing is complete, as before.
#[inline(always)]
pub(crate) fn look(requests: &[&'static Request]) -> Option<Look> {
    look_at(requests, recorder::now)
}

/// The same with another clock.
#[inline(always)]
pub(crate) fn look_at(requests: &[&'static Request], clock: impl Fn() -> u64) -> Option<Look> {
    if !may_be_left_out() {
        return Some(Look { begin: None });
    }
    let crossings = other_crossings();
    let mut begin = None;
    for request in requests {
        match request.body.state.get() {
            State::Inactive => continue,
            State::Active => {}
            State::Free | State::Upper | State::Done => return Some(Look { begin: None }),
        }
        let last = request.body.in_vain.get();
        if !last.is_latest(crossings) {
            return Some(Look { begin });
        }
        let now = *begin.get_or_insert_with(&clock);
        if !last.holds(now) {
            return Some(Look { begin });
        }
    }
    match begin {
        Some(_) => None,
        // None of them is under way.
        None => Some(Look { begin }),
    }
}

impl Look {
    /// The lower half has found nothing in one crossing.
    #[inline(always)]
    pub(crate) fn was_in_vain(self, requests: &[&'static Request]) {
        self.was_in_vain_at(requests, recorder::now);
    }

    /// The same with another clock.
    #[inline(always)]
    pub(crate) fn was_in_vain_at(self, requests: &[&'static Request], clock: impl Fn() -> u64) {
        if multiple() {
            return;
        }
        count_in_vain();
        let crossings = other_crossings();
        let end = self.begin.map(|_| clock());
        for request in requests {
            if request.body.state.get() != State::Active {
                continue;
            }
            let last = request.body.in_vain.get();
            let took = self.begin.zip(end);
            request.body.in_vain.set(last.then(crossings, took));
        }
    }
}
