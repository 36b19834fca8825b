//! Choice of the parked ranks that may start their next collective operation (the second hole:
//! docs/internals/collectives.md).
//!
//! Parking is tentative. A rank that has not reached its targets may depend on a parked rank that has, by a
//! message or by a collective of its own that passes a target. Only ranks that an unreached rank depends on
//! are released. The collectives that this adds are those that the unreached ranks need on the way to their
//! targets. The program would start them without a checkpoint too.
//!
//! No rank is released into MPI_Finalize for another rank. The other rank must call MPI_Finalize as well,
//! so nothing that it waits for can come after that call. A dependence may be apparent only: a message has
//! arrived, but its receiver gets no processor. A release would then end the parked rank, and the
//! checkpoint with it.

use std::collections::{BTreeMap, BTreeSet};

use crate::protocol::messages::{Activity, Counts, State, WaitTarget};

/// Duration without a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quiet {
    /// States are changing.
    No,
    /// No change for so long that messages in flight will not help any more. Such a message may match a
    /// receive that the program does not complete yet, and is then never counted.
    Stalled,
}

/// States of the remaining ranks, by rank.
pub type States<'a> = BTreeMap<u32, &'a State>;

/// The targets to raise, by clock. `turn` stores the rank of the last guess, so that guesses take turns.
pub fn targets_to_raise(states: &States, quiet: Quiet, turn: &mut u32) -> BTreeMap<u64, u64> {
    let mut released = BTreeSet::new();
    let mut waiting = Vec::new();
    for (&rank, state) in states.iter().filter(|(_, s)| !s.reached) {
        match &state.activity {
            // A collective that passes its target, on the rank's way to its other targets.
            Activity::Parked { .. } => {
                released.insert(rank);
            }
            Activity::Waiting { .. } => waiting.push(rank),
            Activity::Running | Activity::Collective { .. } => {}
        }
    }
    // A rank that does not wait is inside a collective operation. If it has counted that, all members come to it.
    // Otherwise it has had no turn yet (`internals/collectives.md`), and is parked as soon as it has one.
    let some_wait = !waiting.is_empty();
    let anyone = follow(states, waiting, quiet, &mut released);
    if released.is_empty() {
        let runs = |s: &State| s.activity == Activity::Running;
        let all_stand = !states.values().any(|s| runs(s));
        let unreached_stand = !states.values().any(|s| !s.reached && runs(s));
        // A wait for any source may depend on every rank. When nothing else can move, the parked ranks are
        // released in turn. The same happens after a standstill in which no unreached rank computes. Its
        // cause may be a dependence that no report contains, such as another thread's; a release avoids a
        // hang.
        let guess = (anyone && all_stand) || (quiet == Quiet::Stalled && unreached_stand);
        if guess && some_wait {
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

/// Follows "waits for a message from" from waiting ranks to the parked ranks at the end, in as many steps
/// as there are such relations. Returns whether it met a wait for any source.
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
            WaitTarget::Ranks(ranks) => ranks,
            WaitTarget::Any => {
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

/// The known senders to each rank.
fn senders_of(states: &States) -> BTreeMap<u32, Vec<u32>> {
    let mut senders: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (&rank, state) in states {
        for (to, _) in sent(state) {
            senders.entry(*to).or_default().push(rank);
        }
    }
    senders
}

/// Numbers of messages that a rank has sent to each peer, if its report has them.
fn sent(state: &State) -> &[(u32, u64)] {
    match &state.activity {
        Activity::Waiting { sent, .. } | Activity::Parked { sent, .. } => sent,
        Activity::Running | Activity::Collective { .. } => &[],
    }
}

/// Whether a message from `peer` to `waiter` is in flight.
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
            held: false,
            activity,
        }
    }
    fn waiting(on: WaitTarget, received: Counts) -> Activity {
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
        targets_to_raise(&states, quiet, &mut 0)
            .into_iter()
            .collect()
    }

    #[test]
    fn nobody_is_released_for_a_rank_that_has_had_no_turn_yet() {
        let s = [
            state(false, Activity::Collective { id: 9 }),
            state(true, parked(9, 4, vec![])),
            state(true, Activity::Running),
        ];
        assert_eq!(run(&s, Quiet::Stalled), []);
    }

    #[test]
    fn waits_directly() {
        let s = [
            state(false, waiting(WaitTarget::Ranks(vec![1]), vec![])),
            state(true, parked(9, 4, vec![])),
        ];
        assert_eq!(run(&s, Quiet::No), [(9, 4)]);
    }

    #[test]
    fn waits_through_a_reached_rank_that_waits() {
        let s = [
            state(false, waiting(WaitTarget::Ranks(vec![1]), vec![])),
            state(true, waiting(WaitTarget::Ranks(vec![2]), vec![])),
            state(true, parked(9, 4, vec![])),
            state(true, parked(8, 2, vec![])),
        ];
        assert_eq!(run(&s, Quiet::No), [(9, 4)]);
    }

    #[test]
    fn a_message_in_flight_delays_a_release_until_a_stall() {
        let s = [
            state(false, waiting(WaitTarget::Ranks(vec![1]), vec![(1, 2)])),
            state(true, parked(9, 4, vec![(0, 3)])),
        ];
        assert_eq!(run(&s, Quiet::No), []);
        assert_eq!(run(&s, Quiet::Stalled), [(9, 4)]);
    }

    #[test]
    fn no_rank_is_released_into_finalize_for_another() {
        let finalising = Activity::Parked {
            id: 9,
            seq: 4,
            sent: vec![(0, 3)],
            last: true,
        };
        let mut s = [
            state(false, waiting(WaitTarget::Ranks(vec![1]), vec![(1, 2)])),
            state(true, finalising.clone()),
        ];
        assert_eq!(run(&s, Quiet::Stalled), []);
        s[0].activity = waiting(WaitTarget::Any, vec![]);
        assert_eq!(run(&s, Quiet::Stalled), []);
        // A rank's own next collective is released regardless.
        s[0].activity = finalising;
        assert_eq!(run(&s, Quiet::No), [(9, 4)]);
    }

    #[test]
    fn no_rank_is_released_for_ranks_that_have_reached() {
        let s = [
            state(true, waiting(WaitTarget::Ranks(vec![1]), vec![])),
            state(true, parked(9, 4, vec![])),
        ];
        assert_eq!(run(&s, Quiet::Stalled), []);
    }

    #[test]
    fn any_source_releases_in_turn_and_only_when_no_rank_runs() {
        let mut s = vec![
            state(false, waiting(WaitTarget::Any, vec![])),
            state(true, parked(9, 4, vec![])),
            state(true, parked(8, 1, vec![])),
            state(true, Activity::Running),
        ];
        assert_eq!(run(&s, Quiet::No), []);
        s.pop();
        let states: States = (0..).zip(&s).collect();
        let mut turn = 0;
        assert_eq!(
            targets_to_raise(&states, Quiet::No, &mut turn),
            BTreeMap::from([(9, 4)])
        );
        assert_eq!(
            targets_to_raise(&states, Quiet::No, &mut turn),
            BTreeMap::from([(8, 1)])
        );
        assert_eq!(
            targets_to_raise(&states, Quiet::No, &mut turn),
            BTreeMap::from([(9, 4)])
        );
    }

    #[test]
    fn an_unreached_rank_passes_targets() {
        let s = [
            state(false, parked(5, 3, vec![])),
            state(true, Activity::Running),
        ];
        assert_eq!(run(&s, Quiet::No), [(5, 3)]);
    }

    #[test]
    fn a_computing_unreached_rank_delays_releases() {
        let s = [
            state(false, Activity::Running),
            state(true, parked(5, 3, vec![])),
        ];
        assert_eq!(run(&s, Quiet::Stalled), []);
    }
}
