//! Ids of communicators, on which all members agree without a message. Each derives the id from what every member
//! knows: the parent's id, the ordered members, and the number of communicators with the same derivation that it has
//! made before. (A constructor is collective over the new communicator's members, so all of them have made the same
//! number.)

use crate::runtime::lock::Lock;
use core::sync::atomic::{AtomicU32, Ordering};
use std::collections::BTreeMap;

/// Id of MPI_COMM_WORLD.
pub const WORLD: u64 = 1;
/// Id of the internal duplicate of MPI_COMM_WORLD.
pub const INTERNAL_WORLD: u64 = 2;
/// Ids up to here are fixed ([`contract::DRAIN_CLOCK`] and [`contract::synchronous_sends_clock`] are among them).
const LAST_FIXED: u64 = (3 << 32) - 1;

/// Id of MPI_COMM_SELF of a process.
pub fn of_self(world_rank: u32) -> u64 {
    (1 << 32) | u64::from(world_rank)
}

/// FNV-1a over 64-bit words with a final mix, so that near inputs have far ids.
pub struct Hash(u64);

impl Hash {
    /// The start of a derivation; `what` names the kind of constructor.
    pub fn new(what: &str) -> Hash {
        what.bytes()
            .fold(Hash(0xcbf2_9ce4_8422_2325), |hash, byte| {
                hash.add(u64::from(byte))
            })
    }

    /// Takes one more word in.
    #[must_use]
    pub fn add(self, word: u64) -> Hash {
        let mixed = (self.0 ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        Hash(mixed ^ (mixed >> 29))
    }

    /// Takes ordered ranks in, with their number.
    #[must_use]
    pub fn ranks(self, ranks: &[u32]) -> Hash {
        ranks
            .iter()
            .fold(self.add(ranks.len() as u64), |hash, &rank| {
                hash.add(u64::from(rank))
            })
    }

    /// The id that this derivation gives.
    pub fn finish(self) -> u64 {
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^= x >> 31;
        if x <= LAST_FIXED {
            x + LAST_FIXED + 1
        } else {
            x
        }
    }
}

/// How often each derivation was used.
static MADE: Lock<BTreeMap<u64, u32>> = Lock::new(BTreeMap::new());

/// Start of the job, if communicators of earlier starts may still be in use (MPI Stages).
static START: AtomicU32 = AtomicU32::new(0);

/// Derivations begin again, on all ranks, and give other ids than before.
pub(crate) fn derive_anew(start: u32) {
    START.store(start, Ordering::Relaxed);
    MADE.lock().clear();
}

/// The id of a new communicator with this derivation.
pub fn next(derivation: Hash) -> u64 {
    let base = match START.load(Ordering::Relaxed) {
        0 => derivation.finish(),
        start => derivation.add(u64::from(start)).finish(),
    };
    let made = {
        let mut all = MADE.lock();
        let made = all.entry(base).or_insert(0);
        *made += 1;
        *made
    };
    Hash(base).add(u64::from(made)).finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_derivation_gives_a_new_id_each_time() {
        let derive = || Hash::new("test").add(7).ranks(&[0, 1, 2]);
        let first = next(derive());
        let second = next(derive());
        assert_ne!(first, second);
        assert!(first > LAST_FIXED && second > LAST_FIXED);
    }

    #[test]
    fn order_and_split_of_ranks_matter() {
        let of = |a: &[u32], b: &[u32]| Hash::new("x").ranks(a).ranks(b).finish();
        assert_ne!(of(&[0, 1], &[2]), of(&[1, 0], &[2]));
        assert_ne!(of(&[0, 1], &[2]), of(&[0], &[1, 2]));
    }
}
