//! Groups in the lower half, and communicators that are made of them.

use crate::argument::{Input, Output};
use crate::crossing::mpi_result::check;
use crate::object::comm::internal::{internal_world, world_group};
use crate::object::comm::CommBody;
use crate::object::lower_handle::temporary::LowerGroup;
use crate::object::lower_handle::{named, Below, Fresh};
use contract::abi::*;
use std::sync::Arc;

/// World ranks of the local or remote group of a lower communicator.
pub(crate) fn members_below(comm: impl Below<CommBody>, remote: bool) -> Result<Arc<[u32]>, i32> {
    let group = LowerGroup::made(|group| match remote {
        true => named::MPI_Comm_remote_group(comm, group),
        false => named::MPI_Comm_group(comm, group),
    });
    group?.members()
}

impl LowerGroup {
    /// Makes one of world ranks.
    pub(crate) fn of(members: &[u32]) -> Result<LowerGroup, i32> {
        let ranks: Vec<i32> = members.iter().map(|&rank| rank as i32).collect();
        let count = ranks.len() as i32;
        LowerGroup::made(|group| {
            named::MPI_Group_incl(world_group(), count, Input::from(&ranks[..]), group)
        })
    }

    /// World ranks of the members.
    fn members(&self) -> Result<Arc<[u32]>, i32> {
        let mut size = 0;
        check(named::MPI_Group_size(self, &mut size))?;
        let ranks: Vec<i32> = (0..size).collect();
        let mut world = vec![0; ranks.len()];
        check(named::MPI_Group_translate_ranks(
            self,
            size,
            Input::from(&ranks[..]),
            world_group(),
            Output::from(&mut world[..]),
        ))?;
        world
            .into_iter()
            .map(|rank| u32::try_from(rank).map_err(|_| ERR_INTERN))
            .collect()
    }
}

/// The two groups of an inter-communicator in an order on which both sides agree: they are disjoint,
/// so their first members differ.
pub(crate) fn sides<'a>(local: &'a [u32], remote: &'a [u32]) -> (&'a [u32], &'a [u32]) {
    if local.first() <= remote.first() {
        (local, remote)
    } else {
        (remote, local)
    }
}

/// Makes the lower communicator of `members`, who all call this, whatever the application's parent
/// was. In Open MPI the members tell each other about it in messages with the tag, as visible as any:
/// so they go over a communicator that no sweep looks into, and the application does not receive from.
pub(crate) fn from_group(members: &[u32], id: u64, made: &mut Fresh<'_, CommBody>) -> i32 {
    let (parent, tag) = (internal_world(), below_tag(id));
    match LowerGroup::of(members) {
        Ok(group) => named::MPI_Comm_create_group(parent, &group, tag, made),
        Err(code) => code,
    }
}

/// A tag for what members of the communicator `id` agree on below while they make it.
pub(crate) fn below_tag(id: u64) -> i32 {
    (id & 0x7fff) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_derive_the_same_id() {
        let (a, b) = ([4, 1], [2, 3]);
        assert_eq!(sides(&a, &b), sides(&b, &a));
    }
}
