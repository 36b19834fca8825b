//! Which connection leads to which rank, for the coordinator and for each relay.

use std::collections::BTreeMap;

use crate::ranks::Ranks;

/// Names a connection that was taken.
pub type LinkId = u64;

/// Where each rank is, of those that have come in.
#[derive(Default)]
pub struct Routes(BTreeMap<u32, LinkId>);

impl Routes {
    /// A rank has come in over `link`. False if it is there already.
    pub fn join(&mut self, rank: u32, link: LinkId) -> bool {
        let free = !self.0.contains_key(&rank);
        if free {
            self.0.insert(rank, link);
        }
        free
    }

    /// Where a rank is.
    pub fn link(&self, rank: u32) -> Option<LinkId> {
        self.0.get(&rank).copied()
    }

    /// Those of `ranks` that are behind `link`.
    pub fn behind(&self, link: LinkId, ranks: &Ranks) -> Ranks {
        let behind = |rank: &u32| self.link(*rank) == Some(link);
        ranks.iter().filter(behind).collect()
    }

    /// Forgets those of `ranks` that are behind `link`, and returns them.
    pub fn leave(&mut self, link: LinkId, ranks: &Ranks) -> Ranks {
        let left = self.behind(link, ranks);
        for rank in left.iter() {
            self.0.remove(&rank);
        }
        left
    }

    /// Forgets all that are behind `link`, and returns them.
    pub fn cut(&mut self, link: LinkId) -> Ranks {
        let mut lost = Ranks::default();
        self.0.retain(|rank, over| {
            let gone = *over == link;
            if gone {
                lost.add(*rank);
            }
            !gone
        });
        lost
    }

    /// `ranks` by the link that leads to them; without those that are not there.
    pub fn split(&self, ranks: &Ranks) -> BTreeMap<LinkId, Ranks> {
        let mut by_link = BTreeMap::<_, Ranks>::new();
        for rank in ranks.iter() {
            if let Some(link) = self.link(rank) {
                by_link.entry(link).or_default().add(rank);
            }
        }
        by_link
    }

    /// How many ranks other than `own` are there.
    pub fn others(&self, own: u32) -> usize {
        self.0.len() - usize::from(self.0.contains_key(&own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks(ranks: &[u32]) -> Ranks {
        ranks.iter().copied().collect()
    }

    fn routes() -> Routes {
        let mut routes = Routes::default();
        for (rank, link) in [(1, 10), (2, 10), (3, 11), (4, 10)] {
            assert!(routes.join(rank, link));
        }
        routes
    }

    #[test]
    fn orders_are_split_by_where_ranks_are() {
        let by_link = routes().split(&ranks(&[1, 3, 4, 7]));
        let expected = BTreeMap::from([(10, ranks(&[1, 4])), (11, ranks(&[3]))]);
        assert_eq!(by_link, expected);
    }

    #[test]
    fn nobody_speaks_for_ranks_of_others() {
        let mut routes = routes();
        assert!(!routes.join(3, 10), "it is there already");
        assert_eq!(routes.behind(10, &ranks(&[1, 3])), ranks(&[1]));
        assert_eq!(routes.leave(10, &ranks(&[1, 3])), ranks(&[1]));
        assert_eq!(routes.link(3), Some(11));
        assert_eq!(routes.link(1), None);
    }

    #[test]
    fn with_a_link_all_behind_it_are_lost() {
        let mut routes = routes();
        assert_eq!(routes.others(3), 3);
        assert_eq!(routes.cut(10), ranks(&[1, 2, 4]));
        assert_eq!(routes.cut(10), ranks(&[]));
        assert_eq!(routes.others(3), 0);
    }
}
