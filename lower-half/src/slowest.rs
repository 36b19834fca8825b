//! Which rank was slowest to read its image, and whether that is worth telling.

use std::time::Duration;

/// After so long, and again after as long, rank 0 tells how far it is; who was slowest is told if that
/// one took as long.
pub const EVERY: Duration = Duration::from_secs(5);

/// A rank and how long it took, such that the larger of two is the slower.
pub fn slowness(rank: u32, took: Duration) -> i64 {
    let millis = took.as_millis().min(1 << 30) as i64;
    millis << 32 | i64::from(rank)
}

/// What is told of the slowest rank, if that is worth a line.
pub fn of_the_slowest(slowness: i64, size: u32) -> Option<String> {
    let took = Duration::from_millis((slowness >> 32) as u64);
    let rank = slowness as u32;
    (took >= EVERY).then(|| {
        format!(
            "all {size} ranks have read their images; the slowest, rank {rank}, took {:.1} s",
            took.as_secs_f64()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_is_named_if_it_took_long() {
        let of = |rank, seconds| slowness(rank, Duration::from_secs_f64(seconds));
        let slowest = [of(0, 0.5), of(70_000, 12.25), of(3, 12.0)];
        let slowest = slowest.into_iter().max().unwrap();
        assert_eq!(
            of_the_slowest(slowest, 100_000).unwrap(),
            "all 100000 ranks have read their images; the slowest, rank 70000, took 12.2 s"
        );
        assert_eq!(of_the_slowest(of(1, 4.9), 2), None);
    }
}
