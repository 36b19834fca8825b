//! Sets of ranks, stored as runs of consecutive ranks. A message of all ranks below a relay takes no more
//! space than a message of one.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A set of ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RankSet(
    /// First and last rank of each run, ascending.
    Vec<(u32, u32)>,
);

impl RankSet {
    /// A set of one rank.
    pub fn one(rank: u32) -> RankSet {
        RankSet(vec![(rank, rank)])
    }

    /// Adds a rank.
    pub fn add(&mut self, rank: u32) {
        let runs = &mut self.0;
        // Number of runs that end before the rank without touching it.
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

    /// The ranks in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().flat_map(|(first, last)| *first..=*last)
    }

    /// Whether the rank is in the set.
    pub fn contains(&self, rank: u32) -> bool {
        self.0
            .iter()
            .any(|(first, last)| (*first..=*last).contains(&rank))
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Runs, as in `0-2, 5`.
impl fmt::Display for RankSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lead = "";
        for (first, last) in &self.0 {
            match first == last {
                true => write!(f, "{lead}{first}")?,
                false => write!(f, "{lead}{first}-{last}")?,
            }
            lead = ", ";
        }
        Ok(())
    }
}

impl Extend<u32> for RankSet {
    fn extend<T: IntoIterator<Item = u32>>(&mut self, ranks: T) {
        ranks.into_iter().for_each(|rank| self.add(rank));
    }
}

impl FromIterator<u32> for RankSet {
    fn from_iter<T: IntoIterator<Item = u32>>(ranks: T) -> RankSet {
        let mut set = RankSet::default();
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
    fn neighbouring_ranks_are_one_run() {
        let ranks: RankSet = [7, 3, 5, 4, 6, 0, u32::MAX].into_iter().collect();
        assert_eq!(ranks.0, [(0, 0), (3, 7), (u32::MAX, u32::MAX)]);
    }

    proptest! {
        #[test]
        fn the_set_holds_exactly_the_added_ranks(added in prop::collection::vec(0..40_u32, 0..60)) {
            let set: BTreeSet<u32> = added.iter().copied().collect();
            let ranks: RankSet = added.into_iter().collect();
            prop_assert_eq!(ranks.iter().collect::<Vec<_>>(), set.iter().copied().collect::<Vec<_>>());
            prop_assert!(ranks.0.windows(2).all(|two| two[0].1 + 1 < two[1].0));
        }
    }
}
