//! Doing the same to many chunks on all processors that a process may use: a rank that is bound to one has
//! one thread.

use std::hint::black_box;
use std::num::NonZero;
use std::panic::resume_unwind;
use std::thread;

/// Bytes, more than a thread needs. malloc asks the kernel for an allocation of this size, and does not take it from
/// the heap of the calling thread.
const ROOM: usize = 65 << 20;

/// Whether there is memory for another thread. One that can be made, but then finds no memory for what is its own,
/// ends the process (glibc), so none is made where little is left.
pub fn room_for_thread() -> bool {
    // Otherwise the compiler removes an allocation that is never used.
    let mut room = black_box(Vec::<u8>::new());
    let had = room.try_reserve_exact(ROOM);
    black_box(room);
    had.is_ok()
}

/// A thread for fewer chunks than this costs more than it spares.
const LEAST: usize = 64;

/// Gives `work` all items, in parts that lie one behind the other, each with the index of its first. Of several
/// parts that fail the first is told, as if all had been done in order.
pub fn side_by_side<T: Sync, E: Send>(
    items: &[T],
    work: impl Fn(usize, &[T]) -> Result<(), E> + Sync,
) -> Result<(), E> {
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
                // None can be had: there is nothing that one cannot do.
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
    fn every_item_comes_once_with_its_index() {
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
    fn the_first_failure_is_told() {
        let items = vec![(); 10 * LEAST];
        let told = side_by_side(&items, |first, _| Err::<(), usize>(first));
        assert_eq!(told, Err(0));
    }
}
