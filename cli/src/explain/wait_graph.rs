//! The graph of the ranks that each rank needs to go on, and the verdict. A rank may need several others at once
//! (*all*: MPI_Waitall, a barrier), or one of several (*any*: a receive from any source, MPI_Waitany).
//!
//! The criterion is that of MUST (Hilbrich et al., MPI Runtime Error Detection with MUST, SC 2012): a rank that can go
//! on releases those that need it, in as many steps as it takes. Ranks that are left when nothing more can be released
//! never go on.

use std::collections::{BTreeMap, BTreeSet};

use coordinator::protocol::rank_set::RankSet;

/// The others that a rank needs to go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// Something that this rank does.
    Rank(u32),
    /// All of these; nothing, if there are none.
    All(Vec<Need>),
    /// One of these. Nothing helps if there are none.
    Any(Vec<Need>),
}

impl Need {
    /// The need of a rank that can go on by itself.
    pub const NOTHING: Need = Need::All(vec![]);

    /// Whether the ranks in `free` are enough.
    fn is_met(&self, free: &BTreeSet<u32>) -> bool {
        match self {
            Need::Rank(rank) => free.contains(rank),
            Need::All(needs) => needs.iter().all(|need| need.is_met(free)),
            Need::Any(needs) => needs.iter().any(|need| need.is_met(free)),
        }
    }

    /// All ranks that it names.
    pub fn ranks(&self) -> BTreeSet<u32> {
        match self {
            Need::Rank(rank) => BTreeSet::from([*rank]),
            Need::All(needs) | Need::Any(needs) => needs.iter().flat_map(Need::ranks).collect(),
        }
    }
}

/// The verdict about the waits of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No rank waits for another one.
    Free,
    /// Some ranks wait, and can all be released. The ranks on which that depends, with those that wait for each.
    HeldUp(Vec<(u32, RankSet)>),
    /// No two looks have found the ranks in the same places.
    Moving,
    /// Some ranks never go on.
    Deadlock {
        /// These ranks.
        stuck: RankSet,
        /// A chain of ranks: each needs the next one.
        chain: Vec<u32>,
        /// Whether the last of them needs the first. Otherwise the last one has ended.
        is_cycle: bool,
    },
}

/// The needs of all ranks that live.
pub struct WaitGraph {
    needs: BTreeMap<u32, Need>,
    ended: BTreeSet<u32>,
}

/// Ranks from which a cycle is looked for.
const STARTS: usize = 256;

impl WaitGraph {
    /// A graph of the needs of the ranks that live, and of the ranks that have ended.
    pub fn new(needs: BTreeMap<u32, Need>, ended: BTreeSet<u32>) -> WaitGraph {
        WaitGraph { needs, ended }
    }

    /// The need of a rank that lives.
    pub fn need(&self, rank: u32) -> Option<&Need> {
        self.needs.get(&rank)
    }

    /// The ranks that can go on, now or after others.
    fn free(&self) -> BTreeSet<u32> {
        let mut free = BTreeSet::new();
        loop {
            let waiting = self.needs.iter().filter(|(rank, _)| !free.contains(*rank));
            let met = waiting.filter(|(_, need)| need.is_met(&free));
            let released: Vec<u32> = met.map(|(rank, _)| *rank).collect();
            if released.is_empty() {
                return free;
            }
            free.extend(released);
        }
    }

    /// The verdict.
    pub fn verdict(&self) -> Verdict {
        let free = self.free();
        let stuck: BTreeSet<u32> = self.needs.keys().copied().collect();
        let stuck: BTreeSet<u32> = stuck.difference(&free).copied().collect();
        if !stuck.is_empty() {
            let (chain, is_cycle) = self.shortest_chain(&stuck);
            return Verdict::Deadlock {
                stuck: stuck.into_iter().collect(),
                chain,
                is_cycle,
            };
        }
        match self.held_up() {
            held if held.is_empty() => Verdict::Free,
            held => Verdict::HeldUp(held),
        }
    }

    /// The ranks that need nobody and that others need, with all those that do, directly or not. Those that hold up
    /// most ranks come first.
    fn held_up(&self) -> Vec<(u32, RankSet)> {
        let mut held: BTreeMap<u32, RankSet> = BTreeMap::new();
        for &rank in self.needs.keys() {
            for root in self.roots_of(rank) {
                held.entry(root).or_default().add(rank);
            }
        }
        let mut held: Vec<(u32, RankSet)> = held.into_iter().collect();
        held.sort_by_key(|(_, ranks)| std::cmp::Reverse(ranks.iter().count()));
        held
    }

    /// The other ranks at the end of all chains of needs of a rank.
    fn roots_of(&self, rank: u32) -> BTreeSet<u32> {
        let (mut seen, mut todo) = (BTreeSet::from([rank]), vec![rank]);
        let mut roots = BTreeSet::new();
        while let Some(next) = todo.pop() {
            let needed = self.needs.get(&next).map(Need::ranks).unwrap_or_default();
            if needed.is_empty() && next != rank {
                roots.insert(next);
            }
            todo.extend(needed.into_iter().filter(|needed| seen.insert(*needed)));
        }
        roots
    }

    /// The shortest chain of needs among ranks that never go on that the search finds: a cycle if there is one.
    fn shortest_chain(&self, stuck: &BTreeSet<u32>) -> (Vec<u32>, bool) {
        let chains = stuck
            .iter()
            .take(STARTS)
            .map(|rank| self.chain(*rank, stuck));
        let best = chains.min_by_key(|(chain, is_cycle)| (!*is_cycle, chain.len()));
        best.unwrap_or_default()
    }

    /// Follows needs from a rank until one comes a second time, or has ended.
    fn chain(&self, from: u32, stuck: &BTreeSet<u32>) -> (Vec<u32>, bool) {
        let mut chain = vec![from];
        let mut at = from;
        loop {
            let needed = self.needs.get(&at).map(Need::ranks).unwrap_or_default();
            let mut unmet = needed.iter().filter(|rank| stuck.contains(*rank));
            // Back to where the chain has been, if that is possible at once.
            let back = unmet.clone().find(|rank| chain.contains(*rank));
            let Some(&next) = back.or_else(|| unmet.next()) else {
                chain.extend(needed.iter().find(|rank| self.ended.contains(*rank)));
                return (chain, false);
            };
            if let Some(first) = chain.iter().position(|rank| *rank == next) {
                return (chain.split_off(first), true);
            }
            chain.push(next);
            at = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(ranks: &[u32]) -> Need {
        Need::All(ranks.iter().copied().map(Need::Rank).collect())
    }

    fn any(ranks: &[u32]) -> Need {
        Need::Any(ranks.iter().copied().map(Need::Rank).collect())
    }

    fn verdict(needs: &[Need]) -> Verdict {
        let needs = (0..).zip(needs.iter().cloned()).collect();
        WaitGraph::new(needs, BTreeSet::new()).verdict()
    }

    fn set(ranks: &[u32]) -> RankSet {
        ranks.iter().copied().collect()
    }

    fn deadlock(stuck: &[u32], chain: &[u32]) -> Verdict {
        Verdict::Deadlock {
            stuck: set(stuck),
            chain: chain.to_vec(),
            is_cycle: true,
        }
    }

    #[test]
    fn nobody_waits() {
        assert_eq!(verdict(&[Need::NOTHING, Need::NOTHING]), Verdict::Free);
    }

    #[test]
    fn two_ranks_that_need_each_other_are_a_cycle() {
        assert_eq!(verdict(&[all(&[1]), all(&[0])]), deadlock(&[0, 1], &[0, 1]));
    }

    #[test]
    fn a_rank_that_needs_itself_is_a_cycle() {
        assert_eq!(verdict(&[all(&[0]), Need::NOTHING]), deadlock(&[0], &[0]));
    }

    #[test]
    fn a_rank_that_computes_releases_a_chain() {
        let needs = [all(&[1]), all(&[2]), Need::NOTHING];
        assert_eq!(verdict(&needs), Verdict::HeldUp(vec![(2, set(&[0, 1]))]));
    }

    #[test]
    fn all_needs_every_one_and_any_needs_one() {
        let cycle = [all(&[1]), all(&[0]), Need::NOTHING];
        let mut needs = cycle.to_vec();
        needs.push(all(&[0, 2]));
        assert_eq!(verdict(&needs), deadlock(&[0, 1, 3], &[0, 1]));
        needs[3] = any(&[0, 2]);
        assert_eq!(verdict(&needs), deadlock(&[0, 1], &[0, 1]));
    }

    #[test]
    fn any_is_stuck_if_all_that_could_help_are() {
        let needs = [any(&[1, 2]), any(&[0, 2]), any(&[0, 1])];
        assert_eq!(verdict(&needs), deadlock(&[0, 1, 2], &[0, 1]));
    }

    #[test]
    fn needs_nest() {
        let either = Need::Any(vec![all(&[1, 2]), all(&[3])]);
        let needs = |third: Need| [either.clone(), Need::NOTHING, third, all(&[0])];
        assert_eq!(verdict(&needs(all(&[0]))), deadlock(&[0, 2, 3], &[0, 2]));
        let held = verdict(&needs(Need::NOTHING));
        assert!(matches!(held, Verdict::HeldUp(_)), "{held:?}");
    }

    #[test]
    fn the_ranks_outside_of_the_cycle_are_stuck_behind_it() {
        let needs = [all(&[1]), all(&[2]), all(&[3]), all(&[2])];
        assert_eq!(verdict(&needs), deadlock(&[0, 1, 2, 3], &[2, 3]));
    }

    #[test]
    fn a_rank_that_needs_one_that_has_ended_never_goes_on() {
        let needs = BTreeMap::from([(0, all(&[1])), (1, all(&[2]))]);
        let graph = WaitGraph::new(needs, BTreeSet::from([2]));
        let chain = Verdict::Deadlock {
            stuck: set(&[0, 1]),
            chain: vec![1, 2],
            is_cycle: false,
        };
        assert_eq!(graph.verdict(), chain);
    }

    #[test]
    fn nothing_helps_a_rank_that_needs_one_of_none() {
        let stuck = Verdict::Deadlock {
            stuck: set(&[0]),
            chain: vec![0],
            is_cycle: false,
        };
        assert_eq!(verdict(&[any(&[]), Need::NOTHING]), stuck);
    }

    #[test]
    fn who_holds_up_most_comes_first() {
        let needs = [
            all(&[3]),
            all(&[4]),
            all(&[4]),
            Need::NOTHING,
            Need::NOTHING,
        ];
        let held = vec![(4, set(&[1, 2])), (3, set(&[0]))];
        assert_eq!(verdict(&needs), Verdict::HeldUp(held));
    }
}
