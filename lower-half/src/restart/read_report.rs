//! The report of the rank that was slowest to read its image.

use std::time::Duration;

/// Interval of rank 0's progress messages. The slowest rank is reported if it took at least this long.
pub const EVERY: Duration = Duration::from_secs(5);

/// The duration of a rank's reading in the upper bits and the rank in the lower ones, so that the slower of two ranks
/// has the larger value.
pub fn slowness(rank: u32, took: Duration) -> i64 {
    let millis = took.as_millis().min(1 << 30) as i64;
    millis << 32 | i64::from(rank)
}

/// The message about the slowest rank, if it took at least [`EVERY`].
pub fn slowest_rank_line(slowness: i64, size: u32) -> Option<String> {
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
            slowest_rank_line(slowest, 100_000).unwrap(),
            "all 100000 ranks have read their images; the slowest, rank 70000, took 12.2 s"
        );
        assert_eq!(slowest_rank_line(of(1, 4.9), 2), None);
    }
}
