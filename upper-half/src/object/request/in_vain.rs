//! Tests in vain. A program that tests in a loop asks far more often than the library below can have news. So a test
//! that has found nothing is not made again below for a while: for an eighth of the time that the program has been
//! testing, and at most [`LONGEST`]. Until then the answer is the same.
//!
//! Such an answer may be late by that time. It is never wrong, since MPI does not say which of several tests finds an
//! operation complete. Any other crossing may have completed it, so the test that follows one looks. A test that lasts
//! long has brought something forward, such as a piece of a long message. After it the time begins anew, so that the
//! next piece is not late.
//!
//! A restart brings the values to another process and another machine. They have no effect there: a time that ends more
//! than [`LONGEST`] from now is over, and a beginning in the future counts as now.

/// Most ticks for which a test is not made: 0.4 us at 2.5 GHz. It is short, because other ranks may depend on the
/// progress that a test makes, and long enough: one test in 30 is made then.
const LONGEST: u64 = 1024;
/// A test that finds nothing takes fewer ticks, unless it has brought something forward. Where a look at everything
/// takes longer, the crossing is a small part of the test, and every test is made.
const WORK: u64 = 1024;

/// When a request was tested in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InVain {
    /// Beginning of the tests in vain with no other crossing between them. 0 while there is only one.
    since: u64,
    /// When the next test is to look.
    until: u64,
    /// Number of the thread's crossings up to the last of them, tests in vain left out.
    crossings: usize,
}

impl InVain {
    /// Not tested yet.
    pub(crate) const NEVER: InVain = InVain::first(usize::MAX);

    /// After a test in vain that follows another crossing. It costs no look at the time.
    #[inline(always)]
    pub(crate) const fn first(crossings: usize) -> InVain {
        InVain {
            since: 0,
            until: 0,
            crossings,
        }
    }

    /// Whether there was no other crossing after the last test in vain.
    #[inline(always)]
    pub(crate) fn is_latest(self, crossings: usize) -> bool {
        self.crossings == crossings
    }

    /// Whether the test at `now` needs not be made.
    #[inline(always)]
    pub(crate) fn holds(self, now: u64) -> bool {
        self.until.wrapping_sub(now).wrapping_sub(1) < LONGEST
    }

    /// After another test in vain, at `crossings`. `took` are its begin and end, if the times were taken.
    #[inline(always)]
    pub(crate) fn then(self, crossings: usize, took: Option<(u64, u64)>) -> InVain {
        match took {
            Some((begin, end)) if self.is_latest(crossings) => self.again(begin, end),
            _ => InVain::first(crossings),
        }
    }

    /// After another test in vain, from `begin` to `end`.
    #[inline(always)]
    fn again(self, begin: u64, end: u64) -> InVain {
        let worked = end.wrapping_sub(begin) > WORK;
        let since = match self.since {
            _ if worked => end,
            0 => begin,
            since if since > end => end,
            since => since,
        };
        InVain {
            since,
            until: end.wrapping_add((end.wrapping_sub(since) / 8).min(LONGEST)),
            crossings: self.crossings,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two tests in vain, the second of which ends at `end`.
    fn tested(begin: u64, end: u64) -> InVain {
        InVain::first(5).again(begin, end)
    }

    #[test]
    fn a_first_test_says_nothing_about_the_next() {
        assert!(!InVain::NEVER.is_latest(0));
        for now in [0, 1, LONGEST, 1 << 60] {
            assert!(!InVain::NEVER.holds(now));
            assert!(!InVain::first(5).holds(now));
        }
    }

    #[test]
    fn an_answer_holds_for_an_eighth_of_the_time_of_testing() {
        let mut last = tested(10_000, 10_080);
        assert!(last.holds(10_080));
        assert!(last.holds(10_089));
        assert!(!last.holds(10_090));
        last = last.again(10_700, 10_800);
        assert!(last.holds(10_899));
        assert!(!last.holds(10_900));
    }

    #[test]
    fn an_answer_holds_no_longer_than_the_longest() {
        let last = tested(10_000, 10_100).again(9_000_000, 9_000_100);
        assert!(last.holds(9_000_100 + LONGEST - 1));
        assert!(!last.holds(9_000_100 + LONGEST));
    }

    #[test]
    fn another_crossing_ends_it() {
        let last = tested(10_000, 10_100);
        assert!(last.is_latest(5));
        assert!(!last.is_latest(6));
    }

    #[test]
    fn a_test_that_has_worked_begins_anew() {
        let last = tested(10_000, 10_100).again(50_000, 50_001 + WORK);
        assert!(!last.holds(50_001 + WORK));
        let last = last.again(50_100 + WORK, 50_201 + WORK);
        assert!(!last.holds(50_226 + WORK));
    }

    #[test]
    fn times_of_another_machine_have_no_effect() {
        let last = tested(1 << 60, (1 << 60) + 100);
        // Its counter is behind.
        assert!(!last.holds(1000));
        let here = last.again(1000, 1100);
        assert!(!here.holds(1100));
        assert!(!here.again(1200, 1300).holds(1326));
        // Its counter is ahead.
        assert!(!last.holds(1 << 61));
        let here = last.again(1 << 61, (1 << 61) + 100);
        assert!(!here.holds((1 << 61) + 100 + LONGEST));
    }
}
