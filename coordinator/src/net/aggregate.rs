//! Aggregation of the messages between relays, as pure functions. Upward, the messages of many ranks are
//! merged; downward, the orders to many ranks. Equal messages become one. Their content and order stay the
//! same.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::net::frame;
use crate::net::routes::LinkId;
use crate::protocol::messages::{FromRank, To, ToChild, ToParent, ToRank};
use crate::protocol::rank_set::RankSet;

/// Largest number of merged clocks, so that the message fits into a frame.
const MOST_CLOCKS: usize = 1 << 20;

/// Messages from the children that a relay has not sent to its parent yet.
#[derive(Default)]
pub struct Aggregate {
    messages: Vec<ToParent>,
    spoken: BTreeSet<LinkId>,
}

impl Aggregate {
    /// Adds a message that came over `link`.
    pub fn add(&mut self, link: LinkId, message: ToParent) {
        self.spoken.insert(link);
        // A merge with the last message alone keeps each rank's messages in order.
        if let Some(message) = merged(self.messages.last_mut(), message) {
            self.messages.push(message);
        }
    }

    /// Whether there is no message to send.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Whether there are messages, and each of `links` has contributed: waiting longer is then not
    /// worthwhile.
    pub fn is_full(&self, mut links: impl Iterator<Item = LinkId>) -> bool {
        !self.is_empty() && links.all(|link| self.spoken.contains(&link))
    }

    /// Returns all messages and leaves the aggregate empty.
    pub fn take(&mut self) -> Vec<ToParent> {
        self.spoken.clear();
        std::mem::take(&mut self.messages)
    }
}

/// Merges `message` into `last`. Returns it if that is not possible.
fn merged(last: Option<&mut ToParent>, message: ToParent) -> Option<ToParent> {
    match (last, message) {
        (
            Some(ToParent::FromRanks { ranks, message }),
            ToParent::FromRanks {
                ranks: more,
                message: other,
            },
        ) => match joined(message, other) {
            None => {
                ranks.extend(more.iter());
                None
            }
            Some(message) => Some(ToParent::FromRanks {
                ranks: more,
                message,
            }),
        },
        (Some(ToParent::Lost { ranks }), ToParent::Lost { ranks: more }) => {
            ranks.extend(more.iter());
            None
        }
        (_, message) => Some(message),
    }
}

/// Merges `other` into `message`; returns `other` if that is not possible. Merged clocks keep the largest
/// count of each clock, and the ranks that have reported.
fn joined(message: &mut FromRank, other: FromRank) -> Option<FromRank> {
    match (message, other) {
        (
            FromRank::Clocks { epoch, clocks },
            FromRank::Clocks {
                epoch: same,
                clocks: more,
            },
        ) if *epoch == same && clocks.len() + more.len() <= MOST_CLOCKS => {
            let mut largest = BTreeMap::new();
            for (id, seq) in clocks.drain(..).chain(more) {
                let clock = largest.entry(id).or_insert(seq);
                *clock = seq.max(*clock);
            }
            clocks.extend(largest);
            None
        }
        // Requests are not merged into different ones: each rank's request counts.
        (message, other) => (*message != other).then_some(other),
    }
}

/// The message of each of `ranks`, from the merged `message`.
pub fn per_rank(ranks: &RankSet, message: FromRank) -> impl Iterator<Item = (u32, FromRank)> + '_ {
    let rest = match &message {
        // The first rank gets all clocks, the others none.
        FromRank::Clocks { epoch, .. } => FromRank::Clocks {
            epoch: *epoch,
            clocks: vec![],
        },
        message => message.clone(),
    };
    let messages = std::iter::once(message).chain(std::iter::repeat(rest));
    ranks.iter().zip(messages)
}

/// Orders that are not sent yet, in the order in which they are to be carried out.
#[derive(Default)]
pub struct Orders(Vec<ToChild>);

impl Orders {
    /// Adds an order to all ranks.
    pub fn all(&mut self, message: ToRank) {
        self.0.push(ToChild {
            to: To::All,
            message,
        });
    }

    /// Adds an order to one rank.
    pub fn one(&mut self, rank: u32, message: ToRank) {
        if let Some(ToChild {
            to: To::Ranks(ranks),
            message: last,
        }) = self.0.last_mut()
        {
            if *last == message {
                return ranks.add(rank);
            }
        }
        self.0.push(ToChild {
            to: To::Ranks(RankSet::one(rank)),
            message,
        });
    }

    /// Returns all orders and leaves none.
    pub fn take(&mut self) -> Vec<ToChild> {
        std::mem::take(&mut self.0)
    }
}

/// Encodes `messages` into as few frames as possible, each of at most `cap` bytes. Fails if one message
/// alone is longer.
///
/// # Errors
/// [`frame::Error::TooLong`], [`frame::Error::Malformed`].
pub fn frames<T: Serialize>(messages: &[T], cap: usize) -> Result<Vec<Vec<u8>>, frame::Error> {
    match frame::encode_within(&messages, cap) {
        Err(frame::Error::TooLong(..)) if messages.len() > 1 => {
            let (first, second) = messages.split_at(messages.len() / 2);
            let mut whole = frames(first, cap)?;
            whole.extend(frames(second, cap)?);
            Ok(whole)
        }
        whole => Ok(vec![whole?]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::frame::MAX_FRAME;
    use proptest::prelude::*;

    fn said(rank: u32, message: FromRank) -> ToParent {
        ToParent::FromRanks {
            ranks: RankSet::one(rank),
            message,
        }
    }

    fn clocks(clocks: &[(u64, u64)]) -> FromRank {
        FromRank::Clocks {
            epoch: 1,
            clocks: clocks.to_vec(),
        }
    }

    #[test]
    fn merged_clocks_keep_the_largest_count() {
        let mut aggregate = Aggregate::default();
        aggregate.add(1, said(4, clocks(&[(7, 1), (9, 5)])));
        aggregate.add(2, said(5, clocks(&[(9, 3), (7, 2), (8, 1)])));
        let ToParent::FromRanks { ranks, message } = &aggregate.take()[0] else {
            panic!("another message");
        };
        assert_eq!(ranks.iter().collect::<Vec<_>>(), [4, 5]);
        assert_eq!(*message, clocks(&[(7, 2), (8, 1), (9, 5)]));
        let each: Vec<_> = per_rank(ranks, message.clone()).collect();
        assert_eq!(each, [(4, message.clone()), (5, clocks(&[]))]);
    }

    #[test]
    fn an_aggregate_is_full_when_every_link_has_contributed() {
        let mut aggregate = Aggregate::default();
        assert!(!aggregate.is_full([].into_iter()), "there is no message");
        aggregate.add(1, said(4, FromRank::Finished));
        assert!(!aggregate.is_full([1, 2].into_iter()));
        aggregate.add(2, said(5, FromRank::Finished));
        assert!(aggregate.is_full([1, 2].into_iter()));
        assert_eq!(aggregate.take().len(), 1);
        assert!(aggregate.is_empty());
    }

    #[test]
    fn orders_to_all_separate_orders_to_some() {
        let mut orders = Orders::default();
        let stop = || ToRank::Stop { epoch: 1 };
        orders.one(3, stop());
        orders.one(1, stop());
        orders.all(ToRank::GoOn { epoch: 1 });
        orders.one(2, stop());
        let to: Vec<_> = orders.take().into_iter().map(|o| o.to).collect();
        let some = |ranks: &[u32]| To::Ranks(ranks.iter().copied().collect());
        assert_eq!(to, [some(&[1, 3]), To::All, some(&[2])]);
    }

    #[test]
    fn long_lists_are_split_into_frames_between_messages() {
        let refused = |reason: &str| {
            let reason = reason.to_owned();
            said(1, FromRank::Refused { epoch: 1, reason })
        };
        let messages = ["a", "b", "c"].map(|letter| refused(&letter.repeat(20)));
        let cut = frames(&messages, 60).unwrap();
        assert!(cut.len() > 1 && cut.len() < 4, "{}", cut.len());
        let read =
            |frame: &Vec<u8>| frame::receive::<Vec<ToParent>>(&mut frame.as_slice(), 60).unwrap();
        assert_eq!(cut.iter().flat_map(read).collect::<Vec<_>>(), messages);
        assert_eq!(frames(&messages, MAX_FRAME).unwrap().len(), 1);
        let long = frames(&messages, 20);
        assert!(matches!(long, Err(frame::Error::TooLong(_, 20))));
    }

    fn message() -> impl Strategy<Value = FromRank> {
        prop_oneof![
            prop::collection::vec((0..3_u64, 0..9_u64), 0..3).prop_map(|c| clocks(&c)),
            Just(FromRank::Copied { epoch: 1 }),
            Just(FromRank::Finished),
        ]
    }

    proptest! {
        #[test]
        fn merging_keeps_each_ranks_messages_in_order(
            said_by in prop::collection::vec((0..4_u32, message()), 0..20)
        ) {
            let mut aggregate = Aggregate::default();
            for (rank, message) in &said_by {
                aggregate.add(1, said(*rank, message.clone()));
            }
            let heard: Vec<(u32, FromRank)> = aggregate.take().into_iter().flat_map(|message| match message {
                ToParent::FromRanks { ranks, message } => per_rank(&ranks, message).collect::<Vec<_>>(),
                _ => vec![],
            }).collect();
            // Messages other than clocks stay as they were, and equal messages of one rank in a row become
            // one.
            let of = |all: &[(u32, FromRank)], rank: u32| {
                let mut own: Vec<_> = all.iter().filter(|(r, _)| *r == rank).map(|(_, m)| match m {
                    FromRank::Clocks { .. } => clocks(&[]),
                    other => other.clone(),
                }).collect();
                own.dedup();
                own
            };
            for rank in 0..4 {
                prop_assert_eq!(of(&heard, rank), of(&said_by, rank));
            }
            let largest = |all: &[(u32, FromRank)]| {
                let mut largest = BTreeMap::new();
                for (_, message) in all {
                    if let FromRank::Clocks { clocks, .. } = message {
                        for (id, seq) in clocks {
                            let clock = largest.entry(*id).or_insert(*seq);
                            *clock = (*clock).max(*seq);
                        }
                    }
                }
                largest
            };
            prop_assert_eq!(largest(&heard), largest(&said_by));
        }
    }
}
