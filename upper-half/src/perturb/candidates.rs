//! The candidates of a receive or probe with MPI_ANY_SOURCE: of each source its first message that matches. One is free
//! when it was held back for as many attempts as was drawn for it, counted from the first candidate's arrival. So a
//! message that comes late may be free before one that waits.

use crate::object::unexpected::Envelope;
use crate::perturb::holds;

/// The messages that a receive or probe takes, and the attempts that it has made.
pub(super) struct Seeker {
    pub(super) wants: Envelope,
    number: u64,
    /// Attempts since it has had a candidate.
    attempts: u32,
}

impl Seeker {
    /// One that makes its first attempt. Source and tag may be wildcards.
    pub(super) fn new(number: u64, wants: Envelope) -> Seeker {
        Seeker {
            wants,
            number,
            attempts: 0,
        }
    }

    /// The position of the message that it takes now, if any. `others` is how many sources there can be besides this
    /// process. The candidates of some sources are `barred`: they are for somebody else.
    pub(super) fn choose(
        &mut self,
        queue: impl Iterator<Item = Envelope>,
        barred: impl Fn(Envelope) -> bool,
        others: usize,
        attempts: u32,
    ) -> Option<usize> {
        let candidates = self.candidates(queue, barred);
        let number = self.number;
        let hold = |&(_, source): &(usize, i32)| holds::of(number, source);
        let first = candidates.iter().min_by_key(|candidate| hold(candidate))?;
        // Nothing else is to be waited for if every source has a candidate.
        let is_free = hold(first) <= self.attempts || candidates.len() >= others;
        self.attempts = self.attempts.saturating_add(attempts);
        is_free.then_some(first.0)
    }

    /// Positions and sources.
    fn candidates(
        &self,
        queue: impl Iterator<Item = Envelope>,
        barred: impl Fn(Envelope) -> bool,
    ) -> Vec<(usize, i32)> {
        let Envelope { comm, source, tag } = self.wants;
        let (mut seen, mut found) = (Vec::new(), Vec::new());
        for (position, envelope) in queue.enumerate() {
            if !envelope.matches(comm, source, tag) || seen.contains(&envelope.source) {
                continue;
            }
            seen.push(envelope.source);
            if !barred(envelope) {
                found.push((position, envelope.source));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perturb::holds::Taker;
    use contract::abi::{ANY_SOURCE, ANY_TAG};

    const WILD: Envelope = Envelope {
        comm: 1,
        source: ANY_SOURCE,
        tag: 7,
    };

    fn queue(messages: &[(i32, i32)]) -> Vec<Envelope> {
        let envelope = |&(source, tag)| Envelope {
            comm: 1,
            source,
            tag,
        };
        messages.iter().map(envelope).collect()
    }

    fn seeker(wants: Envelope) -> Seeker {
        Seeker::new(holds::next_number(Taker::Receive), wants)
    }

    /// The source of what a new seeker takes, and after how many attempts.
    fn taken(wants: Envelope, messages: &[(i32, i32)]) -> (i32, u32) {
        let (mut seeker, queue) = (seeker(wants), queue(messages));
        for attempt in 0..10_000 {
            if let Some(at) = seeker.choose(queue.iter().copied(), |_| false, 9, 1) {
                return (queue[at].source, attempt);
            }
        }
        panic!("held back for ever");
    }

    #[test]
    fn candidates_overtake_each_other_and_are_free_in_the_end() {
        let all: Vec<_> = (0..200)
            .map(|_| taken(WILD, &[(1, 7), (2, 7), (1, 7)]))
            .collect();
        for source in [1, 2] {
            let times = all.iter().filter(|taken| taken.0 == source).count();
            assert!(times > 40, "{source}: {times}");
        }
        assert!(all.iter().any(|(_, attempts)| *attempts > 0));
    }

    #[test]
    fn messages_of_one_source_come_in_their_order() {
        let wants = Envelope {
            tag: ANY_TAG,
            ..WILD
        };
        let queue = queue(&[(1, 3), (1, 7), (2, 7)]);
        for _ in 0..100 {
            let mut seeker = seeker(wants);
            let is_for_another = |envelope: Envelope| envelope.tag == 3;
            let at = (0..10_000)
                .find_map(|_| seeker.choose(queue.iter().copied(), is_for_another, 9, 1));
            assert_eq!(at, Some(2));
        }
    }

    #[test]
    fn nothing_is_held_back_if_nothing_else_can_come() {
        for _ in 0..100 {
            let mut seeker = seeker(WILD);
            let queue = queue(&[(1, 7), (2, 7)]);
            assert!(seeker.choose(queue.into_iter(), |_| false, 2, 1).is_some());
        }
        let mut seeker = seeker(WILD);
        assert_eq!(
            seeker.choose(queue(&[(1, 8)]).into_iter(), |_| false, 2, 1),
            None
        );
    }
}
