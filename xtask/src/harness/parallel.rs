//! A queue of tasks, a few of which run at a time.

use std::sync::Mutex;

/// Does `work` with every item, on `threads` threads.
pub fn each<T: Send>(
    threads: usize,
    items: impl Iterator<Item = T> + Send,
    work: impl Fn(T) + Sync,
) {
    let queue = Mutex::new(items);
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| loop {
                let next = queue.lock().expect("no item panics under it").next();
                let Some(item) = next else { break };
                work(item);
            });
        }
    });
}
