//! Groups: ordered lists of world ranks, wholly in the upper half.
//!
//! # Safety
//! Arrays and out parameters are the application's, as MPI prescribes them.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // MPI's own contracts, see the head

use crate::object::{Body, Comm, File, Group, Win};
use crate::{code, object_table, slices};
use contract::abi::*;
use contract::{gate, HandleKind};
use core::sync::atomic::Ordering;
use std::sync::Arc;

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
pub(crate) fn make(ranks: Arc<[u32]>) -> Result<&'static Group, i32> {
    if ranks.is_empty() {
        return Ok(Group::at(group::GROUP_EMPTY as u32));
    }
    Group::make(0, GroupBody { ranks })
}

fn valid(group: &'static Group) -> Result<&'static [u32], i32> {
    if group.is_null() {
        Err(ERR_GROUP)
    } else {
        Ok(&group.body.ranks)
    }
}

/// Ends a constructor: stores the new group or gives the error.
unsafe fn give<T: Into<Arc<[u32]>>>(ranks: Result<T, i32>, out: *mut &'static Group) -> i32 {
    // SAFETY: MPI's contract for an out parameter.
    unsafe { code::give(ranks.and_then(|ranks| make(ranks.into())), out) }
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

/// MPI_Group_size.
pub unsafe fn group_size(group: &'static Group, size: *mut i32) -> i32 {
    match valid(group) {
        Ok(ranks) => {
            // SAFETY: MPI's contract for an out parameter.
            unsafe { *size = ranks.len() as i32 };
            SUCCESS
        }
        Err(code) => code,
    }
}

/// MPI_Group_rank.
pub unsafe fn group_rank(group: &'static Group, rank: *mut i32) -> i32 {
    match valid(group) {
        Ok(ranks) => {
            // SAFETY: MPI's contract for an out parameter.
            unsafe { *rank = rank_in(ranks, own_world_rank()).unwrap_or(UNDEFINED) };
            SUCCESS
        }
        Err(code) => code,
    }
}

/// MPI_Group_translate_ranks.
pub unsafe fn group_translate_ranks(
    group1: &'static Group,
    n: i32,
    ranks1: *const i32,
    group2: &'static Group,
    ranks2: *mut i32,
) -> i32 {
    let (Ok(from), Ok(to)) = (valid(group1), valid(group2)) else {
        return ERR_GROUP;
    };
    if n < 0 {
        return ERR_ARG;
    }
    let positions = Positions::of(to);
    // SAFETY: MPI's contract: n entries each.
    for (i, &rank) in unsafe { slices::input(ranks1, n) }.iter().enumerate() {
        let translated = if rank == PROC_NULL {
            PROC_NULL
        } else {
            let world = usize::try_from(rank).ok().and_then(|rank| from.get(rank));
            let Some(&world) = world else {
                return ERR_RANK;
            };
            positions.find(world).unwrap_or(UNDEFINED)
        };
        // SAFETY: as above.
        unsafe { *ranks2.add(i) = translated };
    }
    SUCCESS
}

/// MPI_Group_compare.
pub unsafe fn group_compare(
    group1: &'static Group,
    group2: &'static Group,
    result: *mut i32,
) -> i32 {
    let (Ok(a), Ok(b)) = (valid(group1), valid(group2)) else {
        return ERR_GROUP;
    };
    // SAFETY: MPI's contract for an out parameter.
    unsafe { *result = compare(a, b) };
    SUCCESS
}

/// MPI_Group_union.
pub unsafe fn group_union(
    group1: &'static Group,
    group2: &'static Group,
    new: *mut &'static Group,
) -> i32 {
    // SAFETY: passed on.
    unsafe {
        give(
            valid(group1).and_then(|a| Ok(union(a, valid(group2)?))),
            new,
        )
    }
}

/// MPI_Group_intersection.
pub unsafe fn group_intersection(
    group1: &'static Group,
    group2: &'static Group,
    new: *mut &'static Group,
) -> i32 {
    // SAFETY: passed on.
    unsafe {
        give(
            valid(group1).and_then(|a| Ok(intersection(a, valid(group2)?))),
            new,
        )
    }
}

/// MPI_Group_difference.
pub unsafe fn group_difference(
    group1: &'static Group,
    group2: &'static Group,
    new: *mut &'static Group,
) -> i32 {
    // SAFETY: passed on.
    unsafe {
        give(
            valid(group1).and_then(|a| Ok(difference(a, valid(group2)?))),
            new,
        )
    }
}

/// MPI_Group_incl.
pub unsafe fn group_incl(
    group: &'static Group,
    n: i32,
    ranks: *const i32,
    new: *mut &'static Group,
) -> i32 {
    if n < 0 {
        return ERR_ARG;
    }
    // SAFETY: MPI's contract: n entries.
    let chosen = unsafe { slices::input(ranks, n) };
    // SAFETY: passed on.
    unsafe { give(valid(group).and_then(|all| include(all, chosen)), new) }
}

/// MPI_Group_excl.
pub unsafe fn group_excl(
    group: &'static Group,
    n: i32,
    ranks: *const i32,
    new: *mut &'static Group,
) -> i32 {
    if n < 0 {
        return ERR_ARG;
    }
    // SAFETY: MPI's contract: n entries.
    let chosen = unsafe { slices::input(ranks, n) };
    // SAFETY: passed on.
    unsafe { give(valid(group).and_then(|all| exclude(all, chosen)), new) }
}

/// MPI_Group_range_incl.
pub unsafe fn group_range_incl(
    group: &'static Group,
    n: i32,
    ranges: *const i32,
    new: *mut &'static Group,
) -> i32 {
    if n < 0 {
        return ERR_ARG;
    }
    // SAFETY: MPI's contract: n triplets.
    let ranges = unsafe { slices::input(ranges.cast::<[i32; 3]>(), n) };
    let make = || include(valid(group)?, &expand(ranges)?);
    // SAFETY: passed on.
    unsafe { give(make(), new) }
}

/// MPI_Group_range_excl.
pub unsafe fn group_range_excl(
    group: &'static Group,
    n: i32,
    ranges: *const i32,
    new: *mut &'static Group,
) -> i32 {
    if n < 0 {
        return ERR_ARG;
    }
    // SAFETY: MPI's contract: n triplets.
    let ranges = unsafe { slices::input(ranges.cast::<[i32; 3]>(), n) };
    let make = || exclude(valid(group)?, &expand(ranges)?);
    // SAFETY: passed on.
    unsafe { give(make(), new) }
}

/// MPI_Group_free.
pub unsafe fn group_free(group: *mut &'static Group) -> i32 {
    // SAFETY: MPI's contract for an inout parameter.
    let given = unsafe { *group };
    if given.is_null() {
        return ERR_GROUP;
    }
    given.release();
    // SAFETY: as above.
    unsafe { *group = Group::null() };
    SUCCESS
}

/// MPI_Comm_group.
pub unsafe fn comm_group(comm: &'static Comm, out: *mut &'static Group) -> i32 {
    if comm.is_null() {
        return ERR_COMM;
    }
    // SAFETY: passed on.
    unsafe { give(Ok(comm.body.members().clone()), out) }
}

/// MPI_Comm_remote_group.
pub unsafe fn comm_remote_group(comm: &'static Comm, out: *mut &'static Group) -> i32 {
    match comm.body.remote_members() {
        // SAFETY: passed on.
        Some(remote) => unsafe { give(Ok(remote.clone()), out) },
        None => ERR_COMM,
    }
}

/// MPI_Win_get_group.
pub unsafe fn win_get_group(win: &'static Win, out: *mut &'static Group) -> i32 {
    if win.is_null() {
        return ERR_WIN;
    }
    // SAFETY: passed on.
    unsafe { give(Ok(win.body.members().clone()), out) }
}

/// MPI_File_get_group.
pub unsafe fn file_get_group(file: &'static File, out: *mut &'static Group) -> i32 {
    if file.is_null() {
        return ERR_FILE;
    }
    // SAFETY: passed on.
    unsafe { give(Ok(file.body.comm().body.members().clone()), out) }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        crate::object::init();
        let a = make(Arc::from([5, 2])).expect("a group");
        let b = make(Arc::from([2, 5, 7])).expect("a group");
        let mut translated = [0; 3];
        let ranks = [1, PROC_NULL, 0];
        // SAFETY: all pointers are to locals of the right size.
        unsafe {
            let code = group_translate_ranks(a, 3, ranks.as_ptr(), b, translated.as_mut_ptr());
            assert_eq!((code, translated), (SUCCESS, [0, PROC_NULL, 1]));
            let mut handle = a;
            let index = a.index();
            assert_eq!(group_free(&mut handle), SUCCESS);
            assert!(handle.is_null());
            assert!(GroupBody::table().get(index).is_none());
            assert_eq!(group_free(&mut handle), ERR_GROUP);
        }
    }
}
