//! The shape of the control plane: a tree over the ranks, the coordinator at its root.
//!
//! A block of consecutive ranks has its first rank as its *head*. The other ranks are split into as many
//! blocks as the tree is wide, of equal size up to one rank, and so on. The first block is the whole job,
//! and rank 0, its head, hosts the coordinator. The head of any other block with more than one rank hosts a
//! relay ([`crate::net::relay`]). The heads of the blocks within connect to it, and so does its own agent.
//!
//! The width is the least at which the tree is as shallow as the fan-out permits. No process has more
//! connections than that depth needs, and relays serve similar numbers of ranks.
//!
//! A job of N ranks has a depth of about log N to the base of the fan-out. Each node has at most fan-out
//! connections besides its own process, and the shape needs no message. Launchers place ranks by slot
//! by default, so the ranks of a node are neighbours, and most connections stay within a node.
//! With any other placement, the tree has the same depth and width.

use std::ops::Range;

/// Largest number of peers of the coordinator and of each relay, without its own process. A job of no more
/// ranks is a star.
pub const FAN_OUT: u32 = 64;

/// Place of a rank in the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// Rank whose relay (or coordinator, if it is rank 0) this rank connects to; none for rank 0.
    pub parent: Option<u32>,
    /// Ranks that connect to this one.
    pub children: Vec<u32>,
}

impl Position {
    /// The position of `rank` in a job of `size` ranks. `fan_out` is at least 2.
    pub fn of(rank: u32, size: u32, fan_out: u32) -> Position {
        let (mut parent, mut block) = (None, 0..size.max(rank + 1));
        let width = width(block.end, fan_out.max(2));
        loop {
            let mut within = blocks(&block, width);
            if block.start == rank {
                let children = within.map(|block| block.start).collect();
                return Position { parent, children };
            }
            parent = Some(block.start);
            block = within.find(|b| b.contains(&rank)).unwrap_or(rank..rank + 1);
        }
    }

    /// Whether the rank hosts a relay.
    pub fn relays(&self) -> bool {
        self.parent.is_some() && !self.children.is_empty()
    }
}

/// The least width at which a tree of `size` ranks is as shallow as with `fan_out`.
fn width(size: u32, fan_out: u32) -> u32 {
    let mut depth = 0;
    while full(fan_out, depth) < u64::from(size) {
        depth += 1;
    }
    let (mut least, mut enough) = (1, fan_out);
    while least < enough {
        let width = least + (enough - least) / 2;
        match full(width, depth) >= u64::from(size) {
            true => enough = width,
            false => least = width + 1,
        }
    }
    enough
}

/// Number of ranks of a full tree.
fn full(width: u32, depth: u32) -> u64 {
    let level = |deep| u64::from(width).saturating_pow(deep);
    (0..=depth).map(level).fold(0, u64::saturating_add)
}

/// The blocks into which the ranks after the head of `block` are split.
fn blocks(block: &Range<u32>, width: u32) -> impl Iterator<Item = Range<u32>> {
    let first = block.start + 1;
    let ranks = block.end.saturating_sub(first);
    let count = width.min(ranks);
    let cut = move |i: u32| first + (u64::from(ranks) * u64::from(i) / u64::from(count)) as u32;
    (0..count).map(move |i| cut(i)..cut(i + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Number of connections between `rank` and the coordinator.
    fn depth(rank: u32, size: u32, fan_out: u32) -> u32 {
        let parent = Position::of(rank, size, fan_out).parent;
        parent.map_or(0, |parent| 1 + depth(parent, size, fan_out))
    }

    #[test]
    fn small_jobs_are_stars() {
        for size in 1..=FAN_OUT + 1 {
            let root = Position::of(0, size, FAN_OUT);
            assert_eq!(root.children, (1..size).collect::<Vec<_>>());
            assert!((0..size).all(|rank| !Position::of(rank, size, FAN_OUT).relays()));
        }
        let root = Position::of(0, FAN_OUT + 2, FAN_OUT);
        assert_eq!(root.children.len(), 8, "no wider than it must be");
    }

    #[test]
    fn nine_ranks_by_two() {
        let shape: Vec<_> = (0..9).map(|r| Position::of(r, 9, 2)).collect();
        let children: Vec<_> = shape.iter().map(|p| p.children.as_slice()).collect();
        let expected: [&[u32]; 9] = [&[1, 5], &[2, 3], &[], &[4], &[], &[6, 7], &[], &[8], &[]];
        assert_eq!(children, expected);
    }

    #[test]
    fn a_million_ranks_are_four_deep() {
        let deepest = (0..1_000_000).step_by(997);
        assert_eq!(deepest.map(|r| depth(r, 1_000_000, 64)).max(), Some(4));
    }

    proptest! {
        #[test]
        fn the_tree_is_no_wider_and_no_deeper_than_necessary(
            size in 1..2000_u32, fan_out in 2..70_u32
        ) {
            let shape: Vec<_> = (0..size).map(|r| Position::of(r, size, fan_out)).collect();
            for (rank, place) in (0..).zip(&shape) {
                prop_assert!(place.children.len() <= fan_out as usize);
                prop_assert_eq!(place.parent.is_none(), rank == 0);
                // Parents come before their children, so there are no cycles.
                prop_assert!(place.parent.is_none_or(|p| p < rank));
                for child in &place.children {
                    prop_assert_eq!(shape[*child as usize].parent, Some(rank));
                }
            }
            let children: usize = shape.iter().map(|p| p.children.len()).sum();
            prop_assert_eq!(children, size as usize - 1);
            let deepest = (0..size).map(|r| depth(r, size, fan_out)).max().unwrap_or(0);
            prop_assert!(deepest == 0 || full(fan_out, deepest - 1) < u64::from(size));
        }
    }
}
