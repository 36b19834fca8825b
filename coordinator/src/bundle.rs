//! What travels between relays, as pure functions: upward the words of many ranks are bundled, downward
//! orders to many ranks are; equal ones become one, and nothing else about them changes, nor their
//! order.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::frame;
use crate::protocol::{Down, FromRank, To, ToRank, Up};
use crate::ranks::Ranks;
use crate::routes::LinkId;

/// Clocks that are merged at most, so that the word fits into a frame.
const MOST_CLOCKS: usize = 1 << 20;

/// What a relay has heard from below and has not told yet.
#[derive(Default)]
pub struct Bundle {
    words: Vec<Up>,
    spoken: BTreeSet<LinkId>,
}

impl Bundle {
    /// A word that came over `link`.
    pub fn add(&mut self, link: LinkId, word: Up) {
        self.spoken.insert(link);
        // With the last one only: so what one rank says stays in order.
        if let Some(word) = merged(self.words.last_mut(), word) {
            self.words.push(word);
        }
    }

    /// There is nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// There is something to tell, and each of `links` has brought a part of it: it is not worth
    /// waiting for more.
    pub fn is_full(&self, mut links: impl Iterator<Item = LinkId>) -> bool {
        !self.is_empty() && links.all(|link| self.spoken.contains(&link))
    }

    /// All of it; the bundle is empty then.
    pub fn take(&mut self) -> Vec<Up> {
        self.spoken.clear();
        std::mem::take(&mut self.words)
    }
}

/// Makes `word` a part of `last`; gives it back if it is none.
fn merged(last: Option<&mut Up>, word: Up) -> Option<Up> {
    match (last, word) {
        (
            Some(Up::Said { ranks, message }),
            Up::Said {
                ranks: more,
                message: other,
            },
        ) => match joined(message, other) {
            None => {
                ranks.extend(more.iter());
                None
            }
            Some(message) => Some(Up::Said {
                ranks: more,
                message,
            }),
        },
        (Some(Up::Lost { ranks }), Up::Lost { ranks: more }) => {
            ranks.extend(more.iter());
            None
        }
        (_, word) => Some(word),
    }
}

/// Makes `message` hold what `other` says, too; gives `other` back if it cannot. Of clocks only the
/// largest count, and who has told them.
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
        // Each asks for itself: who has asked before is not heard.
        (message, other) => (*message != other).then_some(other),
    }
}

/// What each of `ranks` has said, where together they have said `message`.
pub fn each(ranks: &Ranks, message: FromRank) -> impl Iterator<Item = (u32, FromRank)> + '_ {
    let rest = match &message {
        // The first speaks for all.
        FromRank::Clocks { epoch, .. } => FromRank::Clocks {
            epoch: *epoch,
            clocks: vec![],
        },
        message => message.clone(),
    };
    let messages = std::iter::once(message).chain(std::iter::repeat(rest));
    ranks.iter().zip(messages)
}

/// Orders in the order in which they are to be carried out, none of them sent yet.
#[derive(Default)]
pub struct Orders(Vec<Down>);

impl Orders {
    /// One for all ranks.
    pub fn all(&mut self, message: ToRank) {
        self.0.push(Down {
            to: To::All,
            message,
        });
    }

    /// One for one rank.
    pub fn one(&mut self, rank: u32, message: ToRank) {
        if let Some(Down {
            to: To::Ranks(ranks),
            message: last,
        }) = self.0.last_mut()
        {
            if *last == message {
                return ranks.add(rank);
            }
        }
        self.0.push(Down {
            to: To::Ranks(Ranks::one(rank)),
            message,
        });
    }

    /// All of them; there is none then.
    pub fn take(&mut self) -> Vec<Down> {
        std::mem::take(&mut self.0)
    }
}

/// The frames in which `words` are sent, as few as can be, each no longer than `cap`. An error if one
/// word is longer than that by itself.
pub fn frames<T: Serialize>(words: &[T], cap: usize) -> Result<Vec<Vec<u8>>, frame::Error> {
    match frame::encode_within(&words, cap) {
        Err(frame::Error::TooLong(..)) if words.len() > 1 => {
            let (first, second) = words.split_at(words.len() / 2);
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
    use crate::frame::MAX_FRAME;
    use proptest::prelude::*;

    fn said(rank: u32, message: FromRank) -> Up {
        Up::Said {
            ranks: Ranks::one(rank),
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
    fn of_clocks_the_largest_count() {
        let mut bundle = Bundle::default();
        bundle.add(1, said(4, clocks(&[(7, 1), (9, 5)])));
        bundle.add(2, said(5, clocks(&[(9, 3), (7, 2), (8, 1)])));
        let Up::Said { ranks, message } = &bundle.take()[0] else {
            panic!("not what was said");
        };
        assert_eq!(ranks.iter().collect::<Vec<_>>(), [4, 5]);
        assert_eq!(*message, clocks(&[(7, 2), (8, 1), (9, 5)]));
        let each: Vec<_> = each(ranks, message.clone()).collect();
        assert_eq!(each, [(4, message.clone()), (5, clocks(&[]))]);
    }

    #[test]
    fn it_is_full_when_everyone_has_spoken() {
        let mut bundle = Bundle::default();
        assert!(!bundle.is_full([].into_iter()), "there is nothing to tell");
        bundle.add(1, said(4, FromRank::Finished));
        assert!(!bundle.is_full([1, 2].into_iter()));
        bundle.add(2, said(5, FromRank::Finished));
        assert!(bundle.is_full([1, 2].into_iter()));
        assert_eq!(bundle.take().len(), 1);
        assert!(bundle.is_empty());
    }

    #[test]
    fn orders_for_all_divide_those_for_some() {
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
    fn what_is_too_long_for_a_frame_is_cut_between_words() {
        let refused = |reason: &str| {
            let reason = reason.to_owned();
            said(1, FromRank::Refused { epoch: 1, reason })
        };
        let words = ["a", "b", "c"].map(|letter| refused(&letter.repeat(20)));
        let cut = frames(&words, 60).unwrap();
        assert!(cut.len() > 1 && cut.len() < 4, "{}", cut.len());
        let read = |frame: &Vec<u8>| frame::receive::<Vec<Up>>(&mut frame.as_slice(), 60).unwrap();
        assert_eq!(cut.iter().flat_map(read).collect::<Vec<_>>(), words);
        assert_eq!(frames(&words, MAX_FRAME).unwrap().len(), 1);
        let long = frames(&words, 20);
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
        fn each_rank_says_what_it_said_in_its_order(
            said_by in prop::collection::vec((0..4_u32, message()), 0..20)
        ) {
            let mut bundle = Bundle::default();
            for (rank, message) in &said_by {
                bundle.add(1, said(*rank, message.clone()));
            }
            let heard: Vec<(u32, FromRank)> = bundle.take().into_iter().flat_map(|word| match word {
                Up::Said { ranks, message } => each(&ranks, message).collect::<Vec<_>>(),
                _ => vec![],
            }).collect();
            // What is not about clocks is as it was, and equal words of a rank in a row are one.
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
