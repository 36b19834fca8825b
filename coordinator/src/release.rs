//! Which parked ranks are let go past their next collective (the second hole: docs/internals/collectives.md).
//!
//! Parking is tentative. A rank that has not reached its targets may depend on a rank that has and
//! is parked: by a collective of its own that passes a target, or by a message. Only ranks on which
//! an unreached rank depends are released, so only so many collectives are added as the unreached
//! ranks need to come to their targets, which the same program without a checkpoint would do too.
//!
//! No rank is let into MPI_Finalize for another: that must come there as well, so nothing that it waits
//! for can follow it. Where it only looks as if it would (a message has come, but its process gets no
//! processor), letting go would end the one rank, and with it the checkpoint.

use std::collections::{BTreeMap, BTreeSet};

use crate::protocol::{Activity, Counts, On, State};

/// How long nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quiet {
    /// Things change.
    No,
    /// Long enough to stop believing that messages under way will help: a message may have been
    /// matched with a receive that the program does not complete yet, and so never be counted.
    Stalled,
}

/// States of the ranks that are still there, by rank.
pub type States<'a> = BTreeMap<u32, &'a State>;

/// The targets to raise, by clock. `turn` remembers who had it when only a guess is possible.
pub fn raises(states: &States, quiet: Quiet, turn: &mut u32) -> BTreeMap<u64, u64> {
    let mut released = BTreeSet::new();
    let mut waiting = Vec::new();
    for (&rank, state) in states.iter().filter(|(_, s)| !s.reached) {
        match &state.activity {
            // A collective that passes its target, between the rank and its other targets.
            Activity::Parked { .. } => {
                released.insert(rank);
            }
            Activity::Waiting { .. } => waiting.push(rank),
            Activity::Running | Activity::Collective { .. } => {}
        }
    }
    let anyone = follow(states, waiting, quiet, &mut released);
    if released.is_empty() {
        let runs = |s: &State| s.activity == Activity::Running;
        let all_stand = !states.values().any(|s| runs(s));
        let unreached_stand = !states.values().any(|s| !s.reached && runs(s));
        // Any rank might send what is waited for: when nothing else can move, let the parked ones
        // go in turn. And when nothing has moved for a while although nobody who should is
        // computing, whatever the reason (a dependence that no report tells, such as another
        // thread's), do the same rather than hang.
        let guess = (anyone && all_stand) || (quiet == Quiet::Stalled && unreached_stand);
        if guess && states.values().any(|s| !s.reached) {
            released.extend(next_in_turn(states, turn));
        }
    }
    let mut raises = BTreeMap::new();
    for rank in released {
        if let Activity::Parked { id, seq, .. } = states[&rank].activity {
            let target = raises.entry(id).or_insert(0);
            *target = seq.max(*target);
        }
    }
    raises
}

/// Walks from waiting ranks along "waits for a message from" to the parked ranks at the end, in as
/// many steps as there are such relations. Returns whether a wait for just anybody was met on the way.
fn follow(states: &States, from: Vec<u32>, quiet: Quiet, released: &mut BTreeSet<u32>) -> bool {
    let mut anyone = false;
    let mut seen: BTreeSet<u32> = from.iter().copied().collect();
    let mut todo = from;
    let mut senders = None;
    while let Some(waiter) = todo.pop() {
        let Activity::Waiting { on, received, .. } = &states[&waiter].activity else {
            continue;
        };
        let peers = match on {
            On::Ranks(ranks) => ranks,
            On::Any => {
                let senders = senders.get_or_insert_with(|| senders_of(states));
                let mut known = senders.get(&waiter).into_iter().flatten();
                let coming = known.any(|p| under_way(*p, states[p], waiter, received));
                anyone |= quiet == Quiet::Stalled || !coming;
                continue;
            }
        };
        for &peer in peers {
            let Some(state) = states.get(&peer) else {
                continue;
            };
            if quiet == Quiet::No && under_way(peer, state, waiter, received) {
                continue;
            }
            match state.activity {
                Activity::Parked { last: false, .. } => {
                    released.insert(peer);
                }
                Activity::Waiting { .. } if seen.insert(peer) => todo.push(peer),
                _ => {}
            }
        }
    }
    anyone
}

/// Who has sent to each rank, as far as it is known.
fn senders_of(states: &States) -> BTreeMap<u32, Vec<u32>> {
    let mut senders: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (&rank, state) in states {
        for (to, _) in sent(state) {
            senders.entry(*to).or_default().push(rank);
        }
    }
    senders
}

/// How many messages a rank has sent to whom, where it tells that.
fn sent(state: &State) -> &[(u32, u64)] {
    match &state.activity {
        Activity::Waiting { sent, .. } | Activity::Parked { sent, .. } => sent,
        Activity::Running | Activity::Collective { .. } => &[],
    }
}

/// A message from `peer` has not been received by `waiter` yet.
fn under_way(peer: u32, state: &State, waiter: u32, received: &Counts) -> bool {
    count(sent(state), waiter) > count(received, peer)
}

fn count(counts: &[(u32, u64)], rank: u32) -> u64 {
    counts
        .iter()
        .find(|(r, _)| *r == rank)
        .map_or(0, |(_, n)| *n)
}

fn next_in_turn(states: &States, turn: &mut u32) -> Option<u32> {
    let parked =
        |(_, s): &(&u32, &&State)| matches!(s.activity, Activity::Parked { last: false, .. });
    let after = states.range(turn.saturating_add(1)..).find(parked);
    let next = *after.or_else(|| states.iter().find(parked))?.0;
    *turn = next;
    Some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(reached: bool, activity: Activity) -> State {
        State {
            epoch: 1,
            version: 1,
            reached,
            activity,
        }
    }
    fn waiting(on: On, received: Counts) -> Activity {
        Activity::Waiting {
            on,
            sent: vec![],
            received,
        }
    }
    fn parked(id: u64, seq: u64, sent: Counts) -> Activity {
        let last = false;
        Activity::Parked {
            id,
            seq,
            sent,
            last,
        }
    }
    fn run(states: &[State], quiet: Quiet) -> Vec<(u64, u64)> {
        let states: States = (0..).zip(states).collect();
        raises(&states, quiet, &mut 0).into_iter().collect()
    }

    #[test]
    fn waits_directly() {
        let s = [
            state(false, waiting(On::Ranks(vec![1]), vec![])),
            state(true, parked(9, 4, vec![])),
        ];
        assert_eq!(run(&s, Quiet::No), [(9, 4)]);
    }

    #[test]
    fn waits_through_a_reached_rank_that_waits() {
        let s = [
            state(false, waiting(On::Ranks(vec![1]), vec![])),
            state(true, waiting(On::Ranks(vec![2]), vec![])),
            state(true, parked(9, 4, vec![])),
            state(true, parked(8, 2, vec![])),
        ];
        assert_eq!(run(&s, Quiet::No), [(9, 4)]);
    }

    #[test]
    fn a_message_under_way_is_waited_for_until_nothing_moves() {
        let s = [
            state(false, waiting(On::Ranks(vec![1]), vec![(1, 2)])),
            state(true, parked(9, 4, vec![(0, 3)])),
        ];
        assert_eq!(run(&s, Quiet::No), []);
        assert_eq!(run(&s, Quiet::Stalled), [(9, 4)]);
    }

    #[test]
    fn nobody_is_let_into_finalize_for_others() {
        let finalising = Activity::Parked {
            id: 9,
            seq: 4,
            sent: vec![(0, 3)],
            last: true,
        };
        let mut s = [
            state(false, waiting(On::Ranks(vec![1]), vec![(1, 2)])),
            state(true, finalising.clone()),
        ];
        assert_eq!(run(&s, Quiet::Stalled), []);
        s[0].activity = waiting(On::Any, vec![]);
        assert_eq!(run(&s, Quiet::Stalled), []);
        // What a rank must do itself on its way is another matter.
        s[0].activity = finalising;
        assert_eq!(run(&s, Quiet::No), [(9, 4)]);
    }

    #[test]
    fn nobody_is_released_for_ranks_that_have_reached() {
        let s = [
            state(true, waiting(On::Ranks(vec![1]), vec![])),
            state(true, parked(9, 4, vec![])),
        ];
        assert_eq!(run(&s, Quiet::Stalled), []);
    }

    #[test]
    fn any_source_lets_go_in_turn_and_only_when_nobody_runs() {
        let mut s = vec![
            state(false, waiting(On::Any, vec![])),
            state(true, parked(9, 4, vec![])),
            state(true, parked(8, 1, vec![])),
            state(true, Activity::Running),
        ];
        assert_eq!(run(&s, Quiet::No), []);
        s.pop();
        let states: States = (0..).zip(&s).collect();
        let mut turn = 0;
        assert_eq!(
            raises(&states, Quiet::No, &mut turn),
            BTreeMap::from([(9, 4)])
        );
        assert_eq!(
            raises(&states, Quiet::No, &mut turn),
            BTreeMap::from([(8, 1)])
        );
        assert_eq!(
            raises(&states, Quiet::No, &mut turn),
            BTreeMap::from([(9, 4)])
        );
    }

    #[test]
    fn an_unreached_rank_passes_targets_on_its_way() {
        let s = [
            state(false, parked(5, 3, vec![])),
            state(true, Activity::Running),
        ];
        assert_eq!(run(&s, Quiet::No), [(5, 3)]);
    }

    #[test]
    fn a_computing_unreached_rank_is_waited_for() {
        let s = [
            state(false, Activity::Running),
            state(true, parked(5, 3, vec![])),
        ];
        assert_eq!(run(&s, Quiet::Stalled), []);
    }
}
