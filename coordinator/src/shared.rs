//! Memory that ranks share: who stores which part of it, so that a set holds it once.
//!
//! Each rank says which parts of which objects it can read; [`share_out`] gives every part to the
//! lowest of the ranks that can.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A part of an object that a rank can read.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Part {
    /// The object's name, the same in all ranks that share it.
    pub object: String,
    /// First byte.
    pub from: u64,
    /// One past the last byte.
    pub to: u64,
}

/// What a rank is told about an object of which it has named parts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Share {
    /// The object's name.
    pub object: String,
    /// The parts that this rank is to store: from, to; in ascending order.
    pub store: Vec<(u64, u64)>,
    /// Process ids of all ranks that have it.
    pub processes: Vec<u32>,
}

/// For each rank, given with its process id and the parts that it can read, its shares.
pub fn share_out(ranks: &BTreeMap<u32, (u32, Vec<Part>)>) -> BTreeMap<u32, Vec<Share>> {
    let mut processes: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    let mut taken: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
    let mut store: BTreeMap<(u32, &str), Vec<(u64, u64)>> = BTreeMap::new();
    for (rank, (pid, parts)) in ranks {
        for part in parts {
            let pids = processes.entry(&part.object).or_default();
            if pids.last() != Some(pid) {
                pids.push(*pid);
            }
            let taken = taken.entry(&part.object).or_default();
            let own = store.entry((*rank, &part.object)).or_default();
            let free = without((part.from, part.to), taken);
            own.extend(&free);
            taken.extend(free);
            taken.sort_unstable();
        }
    }
    let mut shares: BTreeMap<u32, Vec<Share>> = BTreeMap::new();
    for ((rank, object), mut store) in store {
        store.sort_unstable();
        shares.entry(rank).or_default().push(Share {
            object: object.to_owned(),
            store,
            processes: processes[object].clone(),
        });
    }
    shares
}

/// What is left of `part` without `taken`, which is in ascending order.
fn without(part: (u64, u64), taken: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let (mut from, to) = part;
    let mut left = Vec::new();
    for (start, end) in taken {
        if *start >= to {
            break;
        }
        if from < *start {
            left.push((from, *start));
        }
        from = from.max(*end);
    }
    if from < to {
        left.push((from, to));
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn part(object: &str, from: u64, to: u64) -> Part {
        let object = object.to_owned();
        Part { object, from, to }
    }

    #[test]
    fn the_lowest_rank_stores_what_all_have() {
        let has = |pid| (pid, vec![part("a", 0, 8)]);
        let shares = share_out(&BTreeMap::from([(3, has(103)), (5, has(105))]));
        assert_eq!(shares[&3][0].store, [(0, 8)]);
        assert_eq!(shares[&5][0].store, []);
        assert_eq!(shares[&5][0].processes, [103, 105]);
    }

    proptest! {
        #[test]
        fn every_byte_that_somebody_has_is_stored_once_by_one_who_has_it(
            ranks in prop::collection::vec(
                prop::collection::vec((0..2_u8, 0..20_u64, 1..20_u64), 0..4), 1..5)
        ) {
            let named = |parts: &Vec<(u8, u64, u64)>| -> Vec<Part> {
                parts.iter().map(|(o, from, len)| part(&o.to_string(), *from, from + len)).collect()
            };
            let ranks: BTreeMap<u32, (u32, Vec<Part>)> =
                (0..).zip(ranks.iter().map(|parts| (7, named(parts)))).collect();
            let shares = share_out(&ranks);
            for object in ["0", "1"] {
                for byte in 0..40 {
                    let has = |rank: &u32| ranks[rank].1.iter()
                        .any(|p| p.object == object && (p.from..p.to).contains(&byte));
                    let stored: Vec<u32> = shares.iter().flat_map(|(rank, shares)| {
                        let of_object = shares.iter().filter(|s| s.object == object);
                        of_object.flat_map(|s| s.store.iter())
                            .filter(|(from, to)| (*from..*to).contains(&byte))
                            .map(|_| *rank).collect::<Vec<_>>()
                    }).collect();
                    let lowest = ranks.keys().copied().find(has);
                    prop_assert_eq!(stored, lowest.into_iter().collect::<Vec<_>>());
                }
            }
        }
    }
}
