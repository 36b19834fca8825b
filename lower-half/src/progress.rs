//! What people are told while the images of a restart are read. Under a launcher standard error is a
//! pipe, so there are no bars but lines, of rank 0; and none where it takes but a moment.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// After so long, and again after as long, rank 0 tells how far it is; who was slowest is told if that
/// one took as long.
pub const EVERY: Duration = Duration::from_secs(5);

/// Does `work`, which counts the bytes that it has read; `tell` is given a line now and then. Returns how
/// long it took, too.
pub fn reading<T>(
    every: Duration,
    tell: impl Fn(String) + Send,
    work: impl FnOnce(&Arc<AtomicU64>) -> T,
) -> (T, Duration) {
    let (begun, read) = (Instant::now(), Arc::new(AtomicU64::new(0)));
    let result = thread::scope(|scope| {
        let (working, ended) = mpsc::channel::<()>();
        let seen = &read;
        scope.spawn(move || {
            while ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                let mib = seen.load(Ordering::Relaxed) >> 20;
                let seconds = begun.elapsed().as_secs_f64();
                tell(format!(
                    "{mib} MiB of its image read and verified in {seconds:.0} s"
                ));
            }
        });
        let result = work(&read);
        drop(working);
        result
    });
    (result, begun.elapsed())
}

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
    fn lines_come_while_there_is_work() {
        let (lines, told) = mpsc::channel();
        let tell = move |line| lines.send(line).unwrap();
        let (first, _) = reading(Duration::from_millis(1), tell, |read| {
            read.store(3 << 20, Ordering::Relaxed);
            let three = told.iter().find(|line| line.starts_with("3 MiB"));
            three.expect("lines come for as long as this waits")
        });
        assert!(first.starts_with("3 MiB of its image read and verified in "));
        // Those who told are gone.
        assert!(told.iter().all(|line| line.contains("MiB")));
    }

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
