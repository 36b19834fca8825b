//! The body of a group: an ordered list of world ranks, wholly in the upper half.

use crate::object::table::Body;
use crate::object::table::Object;

use crate::object_table;
use contract::abi::*;
use contract::{gate, HandleKind};
use core::sync::atomic::Ordering;
use std::sync::Arc;

/// A group.
pub type Group = Object<GroupBody>;

/// Body of a group.
pub struct GroupBody {
    /// World ranks, by rank in the group.
    pub(crate) ranks: Arc<[u32]>,
}

impl Body for GroupBody {
    const KIND: HandleKind = HandleKind::Group;
    const CAPACITY: u32 = 1 << 20;
    const NULL: usize = group::GROUP_NULL;
    const PREDEFINED: &'static [(&'static str, usize)] = group::ALL;
    object_table!(GroupBody);

    fn predefined(_index: u32) -> Self {
        GroupBody {
            ranks: Arc::from([]),
        }
    }
}

/// This process's world rank.
pub(crate) fn own_world_rank() -> u32 {
    gate().lower.rank.load(Ordering::Relaxed)
}

/// Rank of a process in an ordered list of world ranks.
pub(crate) fn rank_in(ranks: &[u32], world_rank: u32) -> Option<i32> {
    ranks
        .iter()
        .position(|&r| r == world_rank)
        .map(|r| r as i32)
}

/// The result of comparing two ordered lists.
pub(crate) fn compare(a: &[u32], b: &[u32]) -> i32 {
    if a == b {
        return IDENT;
    }
    let sorted = |ranks: &[u32]| {
        let mut ranks = ranks.to_vec();
        ranks.sort_unstable();
        ranks
    };
    if a.len() == b.len() && sorted(a) == sorted(b) {
        SIMILAR
    } else {
        UNEQUAL
    }
}

/// A group with these members, as a handle for the application.
pub(crate) fn make_group(ranks: Arc<[u32]>) -> Result<&'static Group, i32> {
    if ranks.is_empty() {
        return Ok(Group::at(group::GROUP_EMPTY as u32));
    }
    Group::make(0, GroupBody { ranks })
}
