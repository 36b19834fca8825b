//! Texts for users: the reason why a checkpoint waits, and lists of ranks.

use std::collections::BTreeMap;

use crate::protocol::messages::{Activity, Doing, State, WaitTarget};

/// "rank 3", "ranks 3, 5 and 8", "ranks 1, 2, 3 and 509 others".
pub fn ranks(ranks: impl Iterator<Item = u32>) -> String {
    let all: Vec<u32> = ranks.collect();
    let list = |some: &[u32]| {
        let words: Vec<String> = some.iter().map(u32::to_string).collect();
        words.join(", ")
    };
    match all.as_slice() {
        [] => "no rank".into(),
        [one] => format!("rank {one}"),
        [some @ .., last] if all.len() <= 8 => format!("ranks {} and {last}", list(some)),
        many => format!("ranks {} and {} others", list(&many[..3]), many.len() - 3),
    }
}

/// Reason to reject a rank that is connected already.
pub fn came_before(rank: u32) -> String {
    format!("rank {rank} has connected before; were two jobs started as one?")
}

/// Number of ranks that are named one by one.
const NAMED: usize = 4;

/// The reason why targets are not reached yet. `states` are the reports of all ranks. `still`: nothing has
/// changed for a while, and no release by the coordinator would help.
pub fn approach(states: &BTreeMap<u32, State>, still: bool) -> String {
    let unreached = || states.iter().filter(|(_, s)| !s.reached);
    let parked = |s: &&State| matches!(s.activity, Activity::Parked { .. });
    let runs = |s: &State| s.activity == Activity::Running;
    let mut text = match still && !unreached().any(|(_, s)| runs(s)) {
        true => "no rank can reach a safe state".to_string(),
        false => "a safe state is not reached yet".to_string(),
    };
    let mut lead = ": ";
    for (rank, state) in unreached().take(NAMED) {
        let held = "is in a call that has not returned (`stasis status` names it)";
        let doing = if state.held {
            held.to_owned()
        } else {
            doing(&state.activity)
        };
        text += &format!("{lead}rank {rank} {doing}");
        lead = "; ";
    }
    let more = unreached().count().saturating_sub(NAMED);
    if more > 0 {
        text += &format!("; and {more} others");
    }
    let held = states.iter().filter(|(_, s)| s.reached && parked(s));
    let held: Vec<u32> = held.map(|(rank, _)| *rank).collect();
    if !held.is_empty() {
        let verb = if held.len() == 1 { "is" } else { "are" };
        text += &format!("; {} {verb} parked", ranks(held.into_iter()));
    }
    text
}

/// A rank that has been in one call for too long, with the stack of its thread.
pub fn stuck(rank: u32, process: &str, seconds: u64, doing: &Doing) -> String {
    let what = match doing.what.as_str() {
        what if what.starts_with("in ") => format!("stuck {what}"),
        _ => "stuck in a system call".to_owned(),
    };
    let lines = doing.stack.iter().map(|line| format!("\n    {line}"));
    format!(
        "rank {rank}{process} has been {what} for {seconds} s{}",
        lines.collect::<String>()
    )
}

fn doing(activity: &Activity) -> String {
    match activity {
        Activity::Running => "computes".into(),
        Activity::Collective { .. } => "is in a collective operation".into(),
        Activity::Parked { .. } => "is parked before a collective operation".into(),
        Activity::Waiting { on, .. } => match on {
            WaitTarget::Any => "waits for a message from any rank".into(),
            WaitTarget::Ranks(peers) if peers.is_empty() => {
                "waits for an operation that was started".into()
            }
            WaitTarget::Ranks(peers) => {
                format!("waits for a message from {}", ranks(peers.iter().copied()))
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_waiting_and_parked_ranks() {
        let state = |reached, activity| State {
            epoch: 1,
            version: 1,
            reached,
            held: false,
            activity,
        };
        let waiting = Activity::Waiting {
            on: WaitTarget::Ranks(vec![1]),
            sent: vec![],
            received: vec![],
        };
        let parked = Activity::Parked {
            id: 9,
            seq: 1,
            sent: vec![],
            last: false,
        };
        let mut states = BTreeMap::from([
            (0, state(false, waiting)),
            (1, state(true, parked)),
            (2, state(false, Activity::Collective { id: 7 })),
        ]);
        assert_eq!(
            approach(&states, true),
            "no rank can reach a safe state: rank 0 waits for a message from rank 1; rank 2 is in \
             a collective operation; rank 1 is parked"
        );
        states.insert(3, state(false, Activity::Running));
        assert!(approach(&states, true).starts_with("a safe state is not reached yet: rank 0 "));
    }
}
