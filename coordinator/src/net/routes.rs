//! Routes of the coordinator and of each relay: the connection that leads to each rank.

use std::collections::BTreeMap;

use crate::protocol::rank_set::RankSet;

/// Id of an accepted connection.
pub type LinkId = u64;

/// The connection to each rank that has connected.
#[derive(Default)]
pub struct Routes(BTreeMap<u32, LinkId>);

impl Routes {
    /// Adds a rank that connected over `link`. Returns false if the rank is connected already.
    pub fn join(&mut self, rank: u32, link: LinkId) -> bool {
        let free = !self.0.contains_key(&rank);
        if free {
            self.0.insert(rank, link);
        }
        free
    }

    /// The connection that leads to a rank.
    pub fn link(&self, rank: u32) -> Option<LinkId> {
        self.0.get(&rank).copied()
    }

    /// The ranks of `ranks` that are reachable via `link`.
    pub fn reachable_via(&self, link: LinkId, ranks: &RankSet) -> RankSet {
        let reachable_via = |rank: &u32| self.link(*rank) == Some(link);
        ranks.iter().filter(reachable_via).collect()
    }

    /// Removes the ranks of `ranks` that are reachable via `link`, and returns them.
    pub fn leave(&mut self, link: LinkId, ranks: &RankSet) -> RankSet {
        let left = self.reachable_via(link, ranks);
        for rank in left.iter() {
            self.0.remove(&rank);
        }
        left
    }

    /// Removes all ranks that are reachable via `link`, and returns them.
    pub fn cut(&mut self, link: LinkId) -> RankSet {
        let mut lost = RankSet::default();
        self.0.retain(|rank, over| {
            let gone = *over == link;
            if gone {
                lost.add(*rank);
            }
            !gone
        });
        lost
    }

    /// Splits `ranks` by the connection that leads to them. Unconnected ranks are left out.
    pub fn split(&self, ranks: &RankSet) -> BTreeMap<LinkId, RankSet> {
        let mut by_link = BTreeMap::<_, RankSet>::new();
        for rank in ranks.iter() {
            if let Some(link) = self.link(rank) {
                by_link.entry(link).or_default().add(rank);
            }
        }
        by_link
    }

    /// Number of connected ranks other than `own`.
    pub fn others(&self, own: u32) -> usize {
        self.0.len() - usize::from(self.0.contains_key(&own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks(ranks: &[u32]) -> RankSet {
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
    fn orders_are_split_by_route() {
        let by_link = routes().split(&ranks(&[1, 3, 4, 7]));
        let expected = BTreeMap::from([(10, ranks(&[1, 4])), (11, ranks(&[3]))]);
        assert_eq!(by_link, expected);
    }

    #[test]
    fn a_link_covers_only_its_own_ranks() {
        let mut routes = routes();
        assert!(!routes.join(3, 10), "it is there already");
        assert_eq!(routes.reachable_via(10, &ranks(&[1, 3])), ranks(&[1]));
        assert_eq!(routes.leave(10, &ranks(&[1, 3])), ranks(&[1]));
        assert_eq!(routes.link(3), Some(11));
        assert_eq!(routes.link(1), None);
    }

    #[test]
    fn a_lost_link_loses_all_ranks_behind_it() {
        let mut routes = routes();
        assert_eq!(routes.others(3), 3);
        assert_eq!(routes.cut(10), ranks(&[1, 2, 4]));
        assert_eq!(routes.cut(10), ranks(&[]));
        assert_eq!(routes.others(3), 0);
    }
}
