//! MPI's functions for groups, which never cross.
//!
//! # Safety
//! The table does not know the length of an array of ranges, so those arrays come as pointers.
#![allow(unsafe_code)]

use crate::argument::{pass, App, Input, Out, Output};
use crate::object::group::{compare, make_group, own_world_rank, rank_in};
use crate::object::{Comm, File, Group, Win};
use contract::abi::*;
use std::sync::Arc;

/// World ranks with their positions, sorted for searching.
struct Positions(Vec<(u32, i32)>);

impl Positions {
    fn of(ranks: &[u32]) -> Positions {
        let mut sorted: Vec<(u32, i32)> = ranks.iter().copied().zip(0..).collect();
        sorted.sort_unstable();
        Positions(sorted)
    }

    fn find(&self, rank: u32) -> Option<i32> {
        let at = self.0.binary_search_by_key(&rank, |entry| entry.0).ok()?;
        self.0.get(at).map(|entry| entry.1)
    }

    fn contains(&self, rank: u32) -> bool {
        self.find(rank).is_some()
    }
}

fn valid(group: &'static Group) -> Result<&'static [u32], i32> {
    if group.is_null() {
        Err(ERR_GROUP)
    } else {
        Ok(&group.body.ranks)
    }
}

/// Ends a constructor: stores the new group or gives the error.
fn give<T: Into<Arc<[u32]>>>(ranks: Result<T, i32>, out: &mut &'static Group) -> i32 {
    Out::from(out).give(ranks.and_then(|ranks| make_group(ranks.into())))
}

fn union(a: &[u32], b: &[u32]) -> Vec<u32> {
    let first = Positions::of(a);
    let rest = b.iter().copied().filter(|&r| !first.contains(r));
    a.iter().copied().chain(rest).collect()
}

fn intersection(a: &[u32], b: &[u32]) -> Vec<u32> {
    let other = Positions::of(b);
    a.iter().copied().filter(|&r| other.contains(r)).collect()
}

fn difference(a: &[u32], b: &[u32]) -> Vec<u32> {
    let other = Positions::of(b);
    a.iter().copied().filter(|&r| !other.contains(r)).collect()
}

/// Marks the chosen ranks; each must exist and be named once.
fn marks(size: usize, chosen: &[i32]) -> Result<Vec<bool>, i32> {
    let mut marks = vec![false; size];
    for &rank in chosen {
        let mark = usize::try_from(rank)
            .ok()
            .and_then(|rank| marks.get_mut(rank))
            .ok_or(ERR_RANK)?;
        if core::mem::replace(mark, true) {
            return Err(ERR_RANK);
        }
    }
    Ok(marks)
}

fn include(ranks: &[u32], chosen: &[i32]) -> Result<Vec<u32>, i32> {
    marks(ranks.len(), chosen)?;
    Ok(chosen.iter().map(|&rank| ranks[rank as usize]).collect())
}

fn exclude(ranks: &[u32], chosen: &[i32]) -> Result<Vec<u32>, i32> {
    let marks = marks(ranks.len(), chosen)?;
    let kept = ranks.iter().zip(marks).filter(|(_, mark)| !mark);
    Ok(kept.map(|(&rank, _)| rank).collect())
}

/// The ranks that triplets (first, last, stride) name, in order.
fn expand(ranges: &[[i32; 3]]) -> Result<Vec<i32>, i32> {
    let mut all = Vec::new();
    for &[first, last, stride] in ranges {
        if stride == 0 || first < 0 || last < 0 {
            return Err(ERR_ARG);
        }
        let mut rank = i64::from(first);
        while (stride > 0 && rank <= i64::from(last)) || (stride < 0 && rank >= i64::from(last)) {
            all.push(rank as i32);
            rank += i64::from(stride);
        }
    }
    Ok(all)
}

/// The same for an array of the application.
///
/// # Safety
/// As MPI prescribes: `n` triplets can be read at `ranges`.
unsafe fn expand_at(ranges: *const i32, n: i32) -> Result<Vec<i32>, i32> {
    let n = usize::try_from(n).unwrap_or(0);
    // SAFETY: the caller's promise.
    let ranges: Input<'_, [i32; 3]> = unsafe { pass(App((ranges, n))) };
    expand(&ranges.to_vec())
}

/// MPI_Group_size.
pub fn group_size(group: &'static Group, mut size: Out<'_, i32>) -> i32 {
    size.give(valid(group).map(|ranks| ranks.len() as i32))
}

/// MPI_Group_rank.
pub fn group_rank(group: &'static Group, mut rank: Out<'_, i32>) -> i32 {
    rank.give(valid(group).map(|ranks| rank_in(ranks, own_world_rank()).unwrap_or(UNDEFINED)))
}

/// MPI_Group_translate_ranks.
pub fn group_translate_ranks(
    group1: &'static Group,
    n: i32,
    ranks1: &[i32],
    group2: &'static Group,
    mut ranks2: Output<'_, i32>,
) -> i32 {
    let (Ok(from), Ok(to)) = (valid(group1), valid(group2)) else {
        return ERR_GROUP;
    };
    if n < 0 {
        return ERR_ARG;
    }
    let positions = Positions::of(to);
    for (i, &rank) in ranks1.iter().enumerate() {
        let translated = if rank == PROC_NULL {
            PROC_NULL
        } else {
            let world = usize::try_from(rank).ok().and_then(|rank| from.get(rank));
            let Some(&world) = world else {
                return ERR_RANK;
            };
            positions.find(world).unwrap_or(UNDEFINED)
        };
        ranks2.set(i, translated);
    }
    SUCCESS
}

/// MPI_Group_compare.
pub fn group_compare(
    group1: &'static Group,
    group2: &'static Group,
    mut result: Out<'_, i32>,
) -> i32 {
    let (Ok(a), Ok(b)) = (valid(group1), valid(group2)) else {
        return ERR_GROUP;
    };
    result.set(compare(a, b));
    SUCCESS
}

/// MPI_Group_union.
pub fn group_union(
    group1: &'static Group,
    group2: &'static Group,
    new: &mut &'static Group,
) -> i32 {
    give(
        valid(group1).and_then(|a| Ok(union(a, valid(group2)?))),
        new,
    )
}

/// MPI_Group_intersection.
pub fn group_intersection(
    group1: &'static Group,
    group2: &'static Group,
    new: &mut &'static Group,
) -> i32 {
    give(
        valid(group1).and_then(|a| Ok(intersection(a, valid(group2)?))),
        new,
    )
}

/// MPI_Group_difference.
pub fn group_difference(
    group1: &'static Group,
    group2: &'static Group,
    new: &mut &'static Group,
) -> i32 {
    give(
        valid(group1).and_then(|a| Ok(difference(a, valid(group2)?))),
        new,
    )
}

/// MPI_Group_incl.
pub fn group_incl(
    group: &'static Group,
    n: i32,
    ranks: Input<'_, i32>,
    new: &mut &'static Group,
) -> i32 {
    if n < 0 {
        return ERR_ARG;
    }
    let chosen = ranks.to_vec();
    give(valid(group).and_then(|all| include(all, &chosen)), new)
}

/// MPI_Group_excl.
pub fn group_excl(
    group: &'static Group,
    n: i32,
    ranks: Input<'_, i32>,
    new: &mut &'static Group,
) -> i32 {
    if n < 0 {
        return ERR_ARG;
    }
    let chosen = ranks.to_vec();
    give(valid(group).and_then(|all| exclude(all, &chosen)), new)
}

/// MPI_Group_range_incl.
///
/// # Safety
/// As MPI prescribes: `n` triplets can be read at `ranges`.
pub unsafe fn group_range_incl(
    group: &'static Group,
    n: i32,
    ranges: *const i32,
    new: &mut &'static Group,
) -> i32 {
    if n < 0 {
        return ERR_ARG;
    }
    // SAFETY: the caller's promise.
    let chosen = || unsafe { expand_at(ranges, n) };
    give(valid(group).and_then(|all| include(all, &chosen()?)), new)
}

/// MPI_Group_range_excl.
///
/// # Safety
/// As MPI prescribes: `n` triplets can be read at `ranges`.
pub unsafe fn group_range_excl(
    group: &'static Group,
    n: i32,
    ranges: *const i32,
    new: &mut &'static Group,
) -> i32 {
    if n < 0 {
        return ERR_ARG;
    }
    // SAFETY: the caller's promise.
    let chosen = || unsafe { expand_at(ranges, n) };
    give(valid(group).and_then(|all| exclude(all, &chosen()?)), new)
}

/// MPI_Group_free.
pub fn group_free(group: &mut &'static Group) -> i32 {
    let given = *group;
    if given.is_null() {
        return ERR_GROUP;
    }
    given.release();
    *group = Group::null();
    SUCCESS
}

/// MPI_Comm_group.
pub fn comm_group(comm: &'static Comm, out: &mut &'static Group) -> i32 {
    if comm.is_null() {
        return ERR_COMM;
    }
    give(Ok(comm.body.members().clone()), out)
}

/// MPI_Comm_remote_group.
pub fn comm_remote_group(comm: &'static Comm, out: &mut &'static Group) -> i32 {
    match comm.body.remote_members() {
        Some(remote) => give(Ok(remote.clone()), out),
        None => ERR_COMM,
    }
}

/// MPI_Win_get_group.
pub fn win_get_group(win: &'static Win, out: &mut &'static Group) -> i32 {
    if win.is_null() {
        return ERR_WIN;
    }
    give(Ok(win.body.members().clone()), out)
}

/// MPI_File_get_group.
pub fn file_get_group(file: &'static File, out: &mut &'static Group) -> i32 {
    if file.is_null() {
        return ERR_FILE;
    }
    give(Ok(file.body.comm().body.members().clone()), out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::group::GroupBody;
    use crate::object::init;
    use crate::object::Body;

    #[test]
    fn set_operations_keep_the_order_of_the_standard() {
        let (a, b) = ([4, 1, 3], [3, 5, 1]);
        assert_eq!(union(&a, &b), [4, 1, 3, 5]);
        assert_eq!(intersection(&a, &b), [1, 3]);
        assert_eq!(difference(&a, &b), [4]);
        assert_eq!(compare(&a, &[1, 3, 4]), SIMILAR);
        assert_eq!(compare(&a, &a), IDENT);
        assert_eq!(compare(&a, &b), UNEQUAL);
    }

    #[test]
    fn inclusion_and_exclusion_check_ranks() {
        let all = [10, 11, 12, 13];
        assert_eq!(include(&all, &[3, 0]), Ok(vec![13, 10]));
        assert_eq!(exclude(&all, &[3, 0]), Ok(vec![11, 12]));
        assert_eq!(include(&all, &[4]), Err(ERR_RANK));
        assert_eq!(include(&all, &[1, 1]), Err(ERR_RANK));
        assert_eq!(exclude(&all, &[-1]), Err(ERR_RANK));
    }

    #[test]
    fn ranges_expand_in_both_directions() {
        assert_eq!(expand(&[[0, 5, 2], [7, 6, -1]]), Ok(vec![0, 2, 4, 7, 6]));
        assert_eq!(expand(&[[3, 1, 1]]), Ok(vec![]));
        assert_eq!(expand(&[[0, 1, 0]]), Err(ERR_ARG));
    }

    #[test]
    fn handles_of_the_application() {
        init();
        let a = make_group(Arc::from([5, 2])).expect("a group");
        let b = make_group(Arc::from([2, 5, 7])).expect("a group");
        let mut translated = [0; 3];
        let ranks = [1, PROC_NULL, 0];
        let code = group_translate_ranks(a, 3, &ranks, b, (&mut translated[..]).into());
        assert_eq!((code, translated), (SUCCESS, [0, PROC_NULL, 1]));
        let mut handle = a;
        let index = a.index();
        assert_eq!(group_free(&mut handle), SUCCESS);
        assert!(handle.is_null());
        assert!(GroupBody::table().get(index).is_none());
        assert_eq!(group_free(&mut handle), ERR_GROUP);
    }
}
