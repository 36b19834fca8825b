//! Leaves out probes that would find nothing again, as `request/vain_tests.rs` leaves out tests. A message that has
//! come meanwhile is found later by at most the time that `object/request/in_vain.rs` tells.

use crate::object::request::in_vain::InVain;
use crate::object::Comm;
use crate::request::vain_tests::{count_in_vain, may_be_left_out, other_crossings};
use crate::runtime::lock::{multiple, Lock};
use contract::recorder;

/// The messages that a probe asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pattern {
    source: i32,
    tag: i32,
    /// Id of the communicator.
    comm: u64,
}

/// The last probe in vain of one of the patterns that share a place.
struct Place {
    pattern: Pattern,
    last: InVain,
}

/// A program may probe for several messages in turn.
const PLACES: usize = 16;

static LAST: [Lock<Place>; PLACES] = [const {
    Lock::new(Place {
        pattern: Pattern {
            source: 0,
            tag: 0,
            comm: 0,
        },
        last: InVain::NEVER,
    })
}; PLACES];

impl Pattern {
    #[inline(always)]
    pub(crate) fn new(source: i32, tag: i32, comm: &'static Comm) -> Pattern {
        let comm = comm.body.id;
        Pattern { source, tag, comm }
    }

    #[inline(always)]
    fn place(self) -> &'static Lock<Place> {
        let numbers = self.source as usize + self.tag as usize + self.comm as usize;
        &LAST[numbers % PLACES]
    }
}

/// A probe that is made in the lower half.
pub(crate) struct Look {
    pattern: Pattern,
    /// When it began, if it may be one of several in vain.
    begin: Option<u64>,
}

/// Begins a probe. `None` if it needs not be made: there is nothing, as before.
#[inline(always)]
pub(crate) fn look(pattern: Pattern) -> Option<Look> {
    look_at(pattern, recorder::now)
}

/// The same with another clock.
#[inline(always)]
pub(crate) fn look_at(pattern: Pattern, clock: impl Fn() -> u64) -> Option<Look> {
    let begin = None;
    if !may_be_left_out() {
        return Some(Look { pattern, begin });
    }
    let place = pattern.place().lock();
    if place.pattern != pattern || !place.last.is_latest(other_crossings()) {
        return Some(Look { pattern, begin });
    }
    let now = clock();
    let begin = Some(now);
    (!place.last.holds(now)).then_some(Look { pattern, begin })
}

impl Look {
    /// The lower half has found nothing in one crossing.
    #[inline(always)]
    pub(crate) fn was_in_vain(self) {
        self.was_in_vain_at(recorder::now);
    }

    /// The same with another clock.
    #[inline(always)]
    pub(crate) fn was_in_vain_at(self, clock: impl Fn() -> u64) {
        if multiple() {
            return;
        }
        count_in_vain();
        let took = self.begin.map(|begin| (begin, clock()));
        let mut place = self.pattern.place().lock();
        let last = match place.pattern == self.pattern {
            true => place.last,
            false => InVain::NEVER,
        };
        place.pattern = self.pattern;
        place.last = last.then(other_crossings(), took);
    }
}
