//! The report to the agent while a checkpoint is pending: the ranks on which this one waits, or the collective
//! operation before which it is parked. By it the coordinator sees that a rank which has not reached its targets
//! depends on one that is parked (the second hole: docs/internals/collectives.md).

use crate::object::comm::NOBODY;
use contract::{gate, Activity, ActivityKind, ACTIVITY_RANKS};
use core::sync::atomic::Ordering;

/// World ranks whose message would help a waiting rank.
#[derive(Clone, Copy)]
pub(crate) struct WaitSet {
    len: usize,
    ranks: [u32; ACTIVITY_RANKS],
    /// More than can be named one by one: any rank may help.
    any: bool,
}

impl WaitSet {
    pub(crate) fn new() -> Self {
        WaitSet {
            len: 0,
            ranks: [0; ACTIVITY_RANKS],
            any: false,
        }
    }

    /// A message of this rank would help.
    pub(crate) fn add(&mut self, rank: u32) {
        if self.any || rank == NOBODY || self.ranks().contains(&rank) {
            return;
        }
        match self.ranks.get_mut(self.len) {
            Some(place) => {
                *place = rank;
                self.len += 1;
            }
            None => self.any = true,
        }
    }

    /// Any rank may help.
    pub(crate) fn add_all(&mut self) {
        self.any = true;
    }

    /// The ranks, as far as they are named.
    pub(crate) fn ranks(&self) -> &[u32] {
        self.ranks.get(..self.len).unwrap_or_default()
    }

    /// The value of [`Activity::nranks`].
    fn count(&self) -> i32 {
        if self.any {
            -1
        } else {
            self.len as i32
        }
    }

    fn is_shown_by(&self, activity: &Activity) -> bool {
        activity.kind.load(Ordering::Relaxed) == ActivityKind::Waiting as u32
            && activity.nranks.load(Ordering::Relaxed) == self.count()
            && self
                .ranks()
                .iter()
                .zip(&activity.ranks)
                .all(|(rank, shown)| shown.load(Ordering::Relaxed) == *rank)
    }

    /// Writes the set as the activity; whether that changed anything.
    pub(crate) fn show(&self, activity: &Activity) -> bool {
        if self.is_shown_by(activity) {
            return false;
        }
        hide(activity);
        for (rank, shown) in self.ranks().iter().zip(&activity.ranks) {
            shown.store(*rank, Ordering::Relaxed);
        }
        activity.nranks.store(self.count(), Ordering::Relaxed);
        activity
            .kind
            .store(ActivityKind::Waiting as u32, Ordering::Release);
        true
    }
}

/// Nobody must read the fields while they change.
fn hide(activity: &Activity) {
    activity
        .kind
        .store(ActivityKind::Running as u32, Ordering::Release);
    core::sync::atomic::fence(Ordering::SeqCst);
}

/// Writes "parked before operation `seq` of clock `id`", as `kind` says it; whether that changed anything.
pub(crate) fn show_parked(activity: &Activity, kind: ActivityKind, id: u64, seq: u64) -> bool {
    if activity.kind.load(Ordering::Relaxed) == kind as u32
        && activity.clock_id.load(Ordering::Relaxed) == id
        && activity.clock_seq.load(Ordering::Relaxed) == seq
    {
        return false;
    }
    hide(activity);
    activity.clock_id.store(id, Ordering::Relaxed);
    activity.clock_seq.store(seq, Ordering::Relaxed);
    activity.kind.store(kind as u32, Ordering::Release);
    true
}

/// Writes "inside the collective operation of clock `id`"; whether that changed anything.
pub(crate) fn show_collective(activity: &Activity, id: u64) -> bool {
    if activity.kind.load(Ordering::Relaxed) == ActivityKind::Collective as u32
        && activity.clock_id.load(Ordering::Relaxed) == id
    {
        return false;
    }
    hide(activity);
    activity.clock_id.store(id, Ordering::Relaxed);
    activity
        .kind
        .store(ActivityKind::Collective as u32, Ordering::Release);
    true
}

/// Writes "inside the collective operation of clock `id`".
#[inline(always)]
pub(crate) fn collective(id: u64) {
    let activity = &gate().activity;
    activity.clock_id.store(id, Ordering::Relaxed);
    activity
        .kind
        .store(ActivityKind::Collective as u32, Ordering::Release);
}

/// Writes "running" after a collective operation.
#[inline(always)]
pub(crate) fn collective_over() {
    gate()
        .activity
        .kind
        .store(ActivityKind::Running as u32, Ordering::Release);
}

/// Writes "running"; whether that changed anything.
pub(crate) fn running() -> bool {
    let kind = &gate().activity.kind;
    let running = ActivityKind::Running as u32;
    kind.load(Ordering::Relaxed) != running && {
        kind.store(running, Ordering::Release);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};

    fn activity() -> Activity {
        Activity {
            kind: AtomicU32::new(0),
            nranks: AtomicI32::new(0),
            clock_id: AtomicU64::new(0),
            clock_seq: AtomicU64::new(0),
            ranks: [const { AtomicU32::new(0) }; ACTIVITY_RANKS],
        }
    }

    #[test]
    fn names_each_rank_once_and_nobody_never() {
        let mut set = WaitSet::new();
        for rank in [3, 1, NOBODY, 3, 2, 1] {
            set.add(rank);
        }
        assert_eq!(set.ranks(), [3, 1, 2]);
    }

    #[test]
    fn too_many_ranks_become_any() {
        let mut set = WaitSet::new();
        for rank in 0..ACTIVITY_RANKS as u32 {
            set.add(rank);
        }
        assert_eq!(set.count(), ACTIVITY_RANKS as i32);
        set.add(1000);
        assert_eq!(set.count(), -1);
    }

    #[test]
    fn shows_changes_only() {
        let shown = activity();
        let mut set = WaitSet::new();
        set.add(5);
        assert!(set.show(&shown));
        assert!(!set.show(&shown));
        assert_eq!(shown.ranks[0].load(Ordering::Relaxed), 5);
        set.add(6);
        assert!(set.show(&shown));
        let parked = ActivityKind::Parked;
        assert!(show_parked(&shown, parked, 9, 2));
        assert!(!show_parked(&shown, parked, 9, 2));
        assert!(show_parked(&shown, parked, 9, 3));
        assert!(show_parked(&shown, ActivityKind::Finalising, 9, 3));
        assert!(set.show(&shown));
        assert_eq!(
            shown.kind.load(Ordering::Relaxed),
            ActivityKind::Waiting as u32
        );
    }
}
