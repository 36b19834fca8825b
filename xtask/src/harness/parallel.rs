//! A queue of tasks, a few of which run at a time.

use std::iter;
use std::sync::Mutex;

/// Does `work` with every item, on `threads` threads.
pub fn each<T: Send>(
    threads: usize,
    items: impl Iterator<Item = T> + Send,
    work: impl Fn(T) + Sync,
) {
    each_beside(threads, iter::empty(), items, work);
}

/// The same, with the items of `lane` done one after the other, because two of them at a time would wait for each
/// other. The other threads do `items` meanwhile.
pub fn each_beside<T: Send>(
    threads: usize,
    lane: impl Iterator<Item = T> + Send,
    items: impl Iterator<Item = T> + Send,
    work: impl Fn(T) + Sync,
) {
    let queue = Mutex::new(items);
    let from_queue = || loop {
        let next = queue.lock().expect("no item panics under it").next();
        let Some(item) = next else { break };
        work(item);
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.max(1) {
            scope.spawn(from_queue);
        }
        lane.for_each(&work);
        from_queue();
    });
}

#[cfg(test)]
mod tests {
    use super::each_beside;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Barrier, Mutex};

    #[test]
    fn one_thread_does_the_lane_while_others_do_the_rest() {
        // The last item of the lane and the last of the others meet, so the others do not wait for the lane.
        let (meeting, at_a_time) = (Barrier::new(2), AtomicUsize::new(0));
        let done = Mutex::new(Vec::new());
        each_beside(2, 0..3, 3..6, |item| {
            if item < 3 {
                assert_eq!(at_a_time.fetch_add(1, Ordering::SeqCst), 0);
            }
            if item == 2 || item == 5 {
                meeting.wait();
            }
            if item < 3 {
                at_a_time.fetch_sub(1, Ordering::SeqCst);
            }
            done.lock().unwrap().push(item);
        });
        let mut done = done.into_inner().unwrap();
        done.sort_unstable();
        assert_eq!(done, [0, 1, 2, 3, 4, 5]);
    }
}
