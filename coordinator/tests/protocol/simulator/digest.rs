//! States are identified by 128-bit digests, so that millions of them fit into memory.

use std::hash::{Hash, Hasher};

/// Digest of a state, or of a part of one.
pub(super) fn digest(state: &impl Hash) -> u128 {
    let mut digest = Digest(0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f);
    state.hash(&mut digest);
    u128::from(digest.0) << 64 | u128::from(digest.1)
}

/// Two lanes of folded multiplication.
struct Digest(u64, u64);

impl Digest {
    fn add(&mut self, word: u64) {
        self.0 = fold(self.0 ^ word, 0xa076_1d64_78bd_642f);
        self.1 = fold(self.1.rotate_left(23) ^ word, 0xe703_7ed1_a0b4_28db);
    }
}

fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

impl Hasher for Digest {
    fn write(&mut self, bytes: &[u8]) {
        for word in bytes.chunks(8) {
            let mut all = [0; 8];
            all[..word.len()].copy_from_slice(word);
            self.add(u64::from_le_bytes(all) ^ (word.len() as u64) << 56);
        }
    }
    fn write_u8(&mut self, n: u8) {
        self.add(n.into());
    }
    fn write_u32(&mut self, n: u32) {
        self.add(n.into());
    }
    fn write_u64(&mut self, n: u64) {
        self.add(n);
    }
    fn write_u128(&mut self, n: u128) {
        self.add(n as u64);
        self.add((n >> 64) as u64);
    }
    fn write_usize(&mut self, n: usize) {
        self.add(n as u64);
    }
    fn write_isize(&mut self, n: isize) {
        self.add(n as u64);
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

/// In a set of digests, a digest serves as its own hash.
#[derive(Default)]
pub(super) struct Digested(u64);

impl Hasher for Digested {
    fn write(&mut self, _: &[u8]) {
        unreachable!("digests are numbers");
    }
    fn write_u128(&mut self, n: u128) {
        self.0 = n as u64;
    }
    fn finish(&self) -> u64 {
        self.0
    }
}
