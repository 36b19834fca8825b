//! Work on many chunks, divided among all processors available to the process. A rank that is bound to one
//! processor has one thread.

use std::hint::black_box;
use std::num::NonZero;
use std::panic::resume_unwind;
use std::thread;

/// Size of a test allocation in bytes, above the need of a thread. malloc maps an allocation of this size
/// directly, and does not take it from the heap of the calling thread.
const ROOM: usize = 65 << 20;

/// Whether there is memory for another thread. glibc ends the process if a new thread lacks memory for its
/// own data. So no thread is started when little memory is left.
pub fn room_for_thread() -> bool {
    // Without this the compiler removes the unused allocation.
    let mut room = black_box(Vec::<u8>::new());
    let had = room.try_reserve_exact(ROOM);
    black_box(room);
    had.is_ok()
}

/// Number of chunks from which a thread saves more than it costs.
const LEAST: usize = 64;

/// Calls `work` on all items, in contiguous parts, each with the index of its first item. If several parts
/// fail, the error of the first is returned, as in sequential execution.
///
/// # Errors
/// The error of the first part that fails.
pub fn side_by_side<T: Sync, E: Send>(
    items: &[T],
    work: impl Fn(usize, &[T]) -> Result<(), E> + Sync,
) -> Result<(), E> {
    if items.len() <= LEAST {
        // The number of processors takes many system calls.
        return match items {
            [] => Ok(()),
            _ => work(0, items),
        };
    }
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let each = items.len().div_ceil(processors).max(LEAST);
    let mut parts = (0..).step_by(each).zip(items.chunks(each));
    let work = &work;
    let mut done: Vec<(usize, Result<(), E>)> = thread::scope(|scope| {
        let mut own: Vec<_> = parts.next().into_iter().collect();
        let mut others = Vec::new();
        for (first, part) in parts {
            let begin = move || work(first, part);
            let thread =
                room_for_thread().then(|| thread::Builder::new().spawn_scoped(scope, begin));
            match thread {
                Some(Ok(thread)) => others.push((first, thread)),
                // If no thread can be started, this one does all the work.
                _ => own.push((first, part)),
            }
        }
        let own = own
            .into_iter()
            .map(|(first, part)| (first, work(first, part)));
        let own: Vec<_> = own.collect();
        let others = others.into_iter().map(|(first, thread)| {
            let result = thread.join().unwrap_or_else(|panic| resume_unwind(panic));
            (first, result)
        });
        own.into_iter().chain(others).collect()
    });
    done.sort_by_key(|(first, _)| *first);
    done.into_iter().try_for_each(|(_, result)| result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn every_item_is_processed_once_with_its_index() {
        for len in [0, 1, LEAST, 10 * LEAST + 7] {
            let items: Vec<usize> = (0..len).collect();
            let seen = Mutex::new(Vec::new());
            let done: Result<(), ()> = side_by_side(&items, |first, part| {
                assert_eq!(part[0], first);
                seen.lock().unwrap().extend_from_slice(part);
                Ok(())
            });
            let mut seen = seen.into_inner().unwrap();
            seen.sort_unstable();
            assert_eq!((done, seen), (Ok(()), items));
        }
    }

    #[test]
    fn the_first_failure_is_returned() {
        let items = vec![(); 10 * LEAST];
        let told = side_by_side(&items, |first, _| Err::<(), usize>(first));
        assert_eq!(told, Err(0));
    }
}
