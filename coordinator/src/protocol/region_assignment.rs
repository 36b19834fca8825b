//! Assignment of shared memory to the ranks that write it, so that a set holds it once.
//!
//! Each rank reports the ranges of objects that it can read. [`assign_writers`] assigns every range to the
//! lowest rank that can read it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A range of a shared object that a rank can read.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SharedRange {
    /// Name of the object, the same in all ranks that share it.
    pub object: String,
    /// Offset of the first byte.
    pub from: u64,
    /// Offset after the last byte.
    pub to: u64,
}

/// The ranges of one object that a rank is to write.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WriteAssignment {
    /// Name of the object.
    pub object: String,
    /// Ranges that this rank stores (from, to), in ascending order.
    pub store: Vec<(u64, u64)>,
    /// Process ids of all ranks that share the object.
    pub processes: Vec<u32>,
}

/// The assignments of each rank. `ranks` has the process id of each rank and the ranges that it can read.
pub fn assign_writers(
    ranks: &BTreeMap<u32, (u32, Vec<SharedRange>)>,
) -> BTreeMap<u32, Vec<WriteAssignment>> {
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
    let mut shares: BTreeMap<u32, Vec<WriteAssignment>> = BTreeMap::new();
    for ((rank, object), mut store) in store {
        store.sort_unstable();
        shares.entry(rank).or_default().push(WriteAssignment {
            object: object.to_owned(),
            store,
            processes: processes[object].clone(),
        });
    }
    shares
}

/// The parts of `part` outside `taken`, which is in ascending order.
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

    fn part(object: &str, from: u64, to: u64) -> SharedRange {
        let object = object.to_owned();
        SharedRange { object, from, to }
    }

    #[test]
    fn the_lowest_rank_stores_common_memory() {
        let has = |pid| (pid, vec![part("a", 0, 8)]);
        let shares = assign_writers(&BTreeMap::from([(3, has(103)), (5, has(105))]));
        assert_eq!(shares[&3][0].store, [(0, 8)]);
        assert_eq!(shares[&5][0].store, []);
        assert_eq!(shares[&5][0].processes, [103, 105]);
    }

    proptest! {
        #[test]
        fn every_byte_is_stored_once_by_a_rank_that_can_read_it(
            ranks in prop::collection::vec(
                prop::collection::vec((0..2_u8, 0..20_u64, 1..20_u64), 0..4), 1..5)
        ) {
            let named = |parts: &Vec<(u8, u64, u64)>| -> Vec<SharedRange> {
                parts.iter().map(|(o, from, len)| part(&o.to_string(), *from, from + len)).collect()
            };
            let ranks: BTreeMap<u32, (u32, Vec<SharedRange>)> =
                (0..).zip(ranks.iter().map(|parts| (7, named(parts)))).collect();
            let shares = assign_writers(&ranks);
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
