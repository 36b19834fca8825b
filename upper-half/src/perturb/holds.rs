//! How long a candidate is held back. Each receive or probe has a number, and the seed, the rank, this number and the
//! candidate's source decide: so a seed stands for the same holds in every run.

use crate::object::comm::comm_id::Hash;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

static SEED: AtomicU64 = AtomicU64::new(0);
/// Rank of this process.
static RANK: AtomicU32 = AtomicU32::new(0);
/// Numbers of the last receive and of the last probe. Images hold them.
static NUMBERS: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Something that takes a message from any source.
#[derive(Clone, Copy)]
pub(super) enum Taker {
    Receive,
    Probe,
}

/// Holds are drawn with this seed, for this rank.
pub(super) fn begin(seed: u64, rank: u32) {
    SEED.store(seed, Ordering::Relaxed);
    RANK.store(rank, Ordering::Relaxed);
}

/// The number of the next receive or probe: no two of them have the same.
pub(super) fn next_number(taker: Taker) -> u64 {
    let number = NUMBERS[taker as usize].fetch_add(1, Ordering::Relaxed);
    2 * number + taker as u64
}

/// Attempts for which the candidate from a source is held back.
pub(super) fn of(number: u64, source: i32) -> u32 {
    let (seed, rank) = (SEED.load(Ordering::Relaxed), RANK.load(Ordering::Relaxed));
    drawn(seed, rank, number, source)
}

/// Half of the candidates are held back, for 1, 2, 4 ... or 8192 attempts: the times after which messages overtake each
/// other have any magnitude.
fn drawn(seed: u64, rank: u32, number: u64, source: i32) -> u32 {
    const MAGNITUDES: u64 = 14;
    let hash = Hash::new("perturb").add(seed).add(u64::from(rank));
    let random = hash.add(number).add(source as u64).finish();
    match random % 2 {
        0 => 0,
        _ => 1 << (random / 2 % MAGNITUDES),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_candidates_are_held_back_for_a_bounded_time() {
        let draws: Vec<u32> = (0..10_000).map(|number| drawn(1, 0, number, 1)).collect();
        let held = draws.iter().filter(|attempts| **attempts > 0).count();
        assert!((4_800..5_200).contains(&held), "{held}");
        for attempts in (0..14).map(|magnitude| 1 << magnitude) {
            let times = draws.iter().filter(|drawn| **drawn == attempts).count();
            assert!((280..440).contains(&times), "{attempts}: {times}");
        }
        assert_eq!(draws.iter().max(), Some(&8192));
    }

    #[test]
    fn seed_rank_number_and_source_decide() {
        let all = |seed, rank, first, source| -> Vec<u32> {
            (first..first + 64)
                .map(|number| drawn(seed, rank, number, source))
                .collect()
        };
        let usual = all(1, 0, 0, 1);
        assert_eq!(usual, all(1, 0, 0, 1));
        for other in [
            all(2, 0, 0, 1),
            all(1, 1, 0, 1),
            all(1, 0, 1, 1),
            all(1, 0, 0, 2),
        ] {
            assert_ne!(usual, other);
        }
    }
}
