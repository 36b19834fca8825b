//! The agreement of the literature (Sultana's dissertation, section 5.5.4.5). The controller sends the epoch of the
//! failed process to the heads, one of a node. Each compares it with the epochs of its ranks and answers *agree*, or
//! *disagree* with its lowest one. The controller commits the epoch of the failed process if all agree, and the lowest
//! one otherwise. In a tree a node that has others below it does the same for them.

/// An answer: none is *agree*.
pub type Vote = Option<u64>;

/// The epochs of a job, and what was decided.
pub struct Votes<N> {
    failed: u64,
    nodes: u32,
    newest: N,
    /// For each node the number of answers that it waits for, and the lowest epoch of those that disagree.
    heads: Vec<(u32, Vote)>,
    committed: Vec<u64>,
}

impl<N: Fn(u32) -> u64> Votes<N> {
    /// The vote after the death of the rank of a node.
    pub fn new(failed: u32, nodes: u32, newest: N) -> Votes<N> {
        Votes {
            failed: newest(failed),
            nodes,
            heads: vec![(0, None); nodes as usize],
            committed: vec![0; nodes as usize],
            newest,
        }
    }

    /// A head hears of the failure. It compares its own rank, and waits for the given number of others. Returns its
    /// answer if that is complete.
    pub fn hears(&mut self, node: u32, others: u32) -> Option<Vote> {
        let own = Some((self.newest)(node)).filter(|epoch| *epoch != self.failed);
        self.heads[node as usize] = (others, own);
        (others == 0).then_some(own)
    }

    /// A head, or the controller, has an answer. Returns its own if that is complete.
    pub fn answered(&mut self, node: u32, vote: Vote) -> Option<Vote> {
        let (left, lowest) = &mut self.heads[node as usize];
        *left -= 1;
        *lowest = [*lowest, vote].into_iter().flatten().min();
        (*left == 0).then_some(*lowest)
    }

    /// The decision of the controller.
    pub fn decision(&self, vote: Vote) -> u64 {
        vote.map_or(self.failed, |lowest| lowest.min(self.failed))
    }

    /// A node is told the epoch.
    pub fn commit(&mut self, node: u32, epoch: u64) {
        self.committed[node as usize] = epoch;
    }

    /// The epoch that all nodes were told.
    pub fn committed(&self) -> u64 {
        let first = self.committed[0];
        let all = self.committed.iter().all(|epoch| *epoch == first);
        assert!(all && self.committed.len() == self.nodes as usize);
        first
    }
}
