//! The shape of the control plane: a tree over the ranks, the coordinator at its root.
//!
//! A block of consecutive ranks has its first rank as its *head*; the others are cut into as many
//! blocks of equal size (but for one rank) as the tree is wide, and so on. The whole job is the first
//! block, and rank 0, its head, hosts the coordinator. The head of any other block with more than one
//! rank hosts a relay ([`crate::relay`]), to which the heads of the blocks within connect, and to which
//! its own agent does.
//!
//! The tree is as wide as it must be to be as shallow as the fan-out lets it be: no process has more
//! connections than it takes, and no relay serves a handful of ranks where others serve many.
//!
//! So a job of N ranks is about log N to the base of the fan-out deep; nobody hears more than fan-out
//! others and its own process; and the shape needs no message. Ranks of a node are neighbours where
//! launchers place them by slot, as they do unless told otherwise: most connections then stay within a
//! node. With any other placement the tree is as deep and as wide.

use std::ops::Range;

/// Others than its own process that the coordinator and each relay are connected to, at most. A job of
/// no more ranks is a star.
pub const FAN_OUT: u32 = 64;

/// Where a rank stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The rank whose relay, or coordinator if it is rank 0, it is connected to; none for rank 0.
    pub parent: Option<u32>,
    /// The ranks that are connected to it.
    pub children: Vec<u32>,
}

impl Place {
    /// The place of `rank` in a job of `size` ranks. `fan_out` is 2 at least.
    pub fn of(rank: u32, size: u32, fan_out: u32) -> Place {
        let (mut parent, mut block) = (None, 0..size.max(rank + 1));
        let width = width(block.end, fan_out.max(2));
        loop {
            let mut within = blocks(&block, width);
            if block.start == rank {
                let children = within.map(|block| block.start).collect();
                return Place { parent, children };
            }
            parent = Some(block.start);
            block = within.find(|b| b.contains(&rank)).unwrap_or(rank..rank + 1);
        }
    }

    /// The rank is to host a relay.
    pub fn relays(&self) -> bool {
        self.parent.is_some() && !self.children.is_empty()
    }
}

/// The least width with which a tree of `size` ranks is as shallow as with `fan_out`.
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

/// Ranks of a full tree.
fn full(width: u32, depth: u32) -> u64 {
    let level = |deep| u64::from(width).saturating_pow(deep);
    (0..=depth).map(level).fold(0, u64::saturating_add)
}

/// The blocks into which those behind the head of `block` are cut.
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

    /// Connections between `rank` and the coordinator.
    fn depth(rank: u32, size: u32, fan_out: u32) -> u32 {
        let parent = Place::of(rank, size, fan_out).parent;
        parent.map_or(0, |parent| 1 + depth(parent, size, fan_out))
    }

    #[test]
    fn small_jobs_are_stars() {
        for size in 1..=FAN_OUT + 1 {
            let root = Place::of(0, size, FAN_OUT);
            assert_eq!(root.children, (1..size).collect::<Vec<_>>());
            assert!((0..size).all(|rank| !Place::of(rank, size, FAN_OUT).relays()));
        }
        let root = Place::of(0, FAN_OUT + 2, FAN_OUT);
        assert_eq!(root.children.len(), 8, "no wider than it must be");
    }

    #[test]
    fn nine_ranks_by_two() {
        let shape: Vec<_> = (0..9).map(|r| Place::of(r, 9, 2)).collect();
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
        fn it_is_a_tree_of_that_width_and_no_deeper_than_it_must(
            size in 1..2000_u32, fan_out in 2..70_u32
        ) {
            let shape: Vec<_> = (0..size).map(|r| Place::of(r, size, fan_out)).collect();
            for (rank, place) in (0..).zip(&shape) {
                prop_assert!(place.children.len() <= fan_out as usize);
                prop_assert_eq!(place.parent.is_none(), rank == 0);
                // Parents come before their children: there are no circles.
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
