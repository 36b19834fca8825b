//! Reproducible random moments: everything follows from a seed that is printed.

use std::time::Duration;

/// FNV-1a, which gives every case a separate stream.
pub fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| {
        (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// A SplitMix64 generator.
pub struct Random(u64);

impl Random {
    /// The stream called `name` under `seed`.
    pub fn new(seed: u64, name: &str) -> Self {
        Self(seed ^ hash(name))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// A duration between two numbers of seconds.
    pub fn seconds(&mut self, from: f64, to: f64) -> Duration {
        let unit = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        Duration::from_secs_f64(from + (to - from) * unit)
    }
}

/// A seed that differs from run to run.
pub fn fresh_seed() -> u64 {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    (now.as_secs() ^ (u64::from(now.subsec_nanos()) << 10)) % 1_000_000
}
