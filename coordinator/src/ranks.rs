//! Sets of ranks as runs of consecutive ones: what all ranks below a relay say takes no more room than
//! what one of them says.

use serde::{Deserialize, Serialize};

/// A set of ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ranks(
    /// First and last of each run, ascending.
    Vec<(u32, u32)>,
);

impl Ranks {
    /// This one alone.
    pub fn one(rank: u32) -> Ranks {
        Ranks(vec![(rank, rank)])
    }

    /// Adds one.
    pub fn add(&mut self, rank: u32) {
        let runs = &mut self.0;
        // Those that end before it, and do not reach it.
        let at = runs.partition_point(|(_, last)| last.saturating_add(1) < rank);
        match runs.get_mut(at) {
            Some((first, last)) if rank.saturating_add(1) >= *first => {
                (*first, *last) = (rank.min(*first), rank.max(*last));
                let last = *last;
                let next = runs.get(at + 1).copied();
                if let Some((_, end)) = next.filter(|(first, _)| last.saturating_add(1) >= *first) {
                    runs[at].1 = end.max(last);
                    runs.remove(at + 1);
                }
            }
            _ => runs.insert(at, (rank, rank)),
        }
    }

    /// In ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().flat_map(|(first, last)| *first..=*last)
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Extend<u32> for Ranks {
    fn extend<T: IntoIterator<Item = u32>>(&mut self, ranks: T) {
        ranks.into_iter().for_each(|rank| self.add(rank));
    }
}

impl FromIterator<u32> for Ranks {
    fn from_iter<T: IntoIterator<Item = u32>>(ranks: T) -> Ranks {
        let mut set = Ranks::default();
        set.extend(ranks);
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn neighbours_are_one_run() {
        let ranks: Ranks = [7, 3, 5, 4, 6, 0, u32::MAX].into_iter().collect();
        assert_eq!(ranks.0, [(0, 0), (3, 7), (u32::MAX, u32::MAX)]);
    }

    proptest! {
        #[test]
        fn it_is_the_set_of_what_was_added(added in prop::collection::vec(0..40_u32, 0..60)) {
            let set: BTreeSet<u32> = added.iter().copied().collect();
            let ranks: Ranks = added.into_iter().collect();
            prop_assert_eq!(ranks.iter().collect::<Vec<_>>(), set.iter().copied().collect::<Vec<_>>());
            prop_assert!(ranks.0.windows(2).all(|two| two[0].1 + 1 < two[1].0));
        }
    }
}
