//! Memory that a call of the application gives back, or in whose place it puts other pages.
//!
//! An MPI library that has registered such memory with a network adapter must hear of it beforehand: the adapter would
//! go on with the old pages. Hooks of the library in its own C library see no call of the application.

use super::{memory, Call};
use crate::interpose::hooks;
use contract::ARENA_END;
use core::ops::Range;

/// All memory of the application.
const ALL: Range<usize> = 0..ARENA_END;
const NONE: Range<usize> = 0..0;

/// Advice after which the pages are others.
const DISCARDS: [i32; 4] = [
    libc::MADV_DONTNEED,
    libc::MADV_FREE,
    libc::MADV_REMOVE,
    libc::MADV_DONTNEED_LOCKED,
];

/// Tells the lower half what this call, of [`memory::remaps`], is about to give back.
pub(super) fn tell(call: &mut Call, nr: usize) {
    if !hooks::are_unmaps_told() || !call.in_rank() {
        return;
    }
    for range in ranges(nr, call.args(), memory::brk_end()) {
        let range = range.start..range.end.min(ARENA_END);
        if !range.is_empty() {
            hooks::unmaps(call.thread, range);
        }
    }
}

fn ranges(nr: usize, args: [usize; 6], brk_end: usize) -> [Range<usize>; 2] {
    let [first, len, third, flags, fifth, _] = args;
    let to = |start: usize, len: usize| start..start.saturating_add(len);
    match nr as i64 {
        libc::SYS_munmap | libc::SYS_remap_file_pages => [to(first, len), NONE],
        libc::SYS_mmap if flags as i32 & libc::MAP_FIXED != 0 => [to(first, len), NONE],
        libc::SYS_mremap if flags as i32 & libc::MREMAP_FIXED != 0 => {
            [to(first, len), to(fifth, third)]
        }
        libc::SYS_mremap => [to(first, len), NONE],
        libc::SYS_brk if first != 0 => [first..brk_end, NONE],
        libc::SYS_madvise if DISCARDS.contains(&(third as i32)) => [to(first, len), NONE],
        libc::SYS_process_madvise if DISCARDS.contains(&(flags as i32)) => [ALL, NONE],
        // The kernel knows how long the segment is.
        libc::SYS_shmdt => [first..ARENA_END, NONE],
        libc::SYS_shmat if third as i32 & libc::SHM_REMAP != 0 => [len..ARENA_END, NONE],
        _ => [NONE, NONE],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(nr: i64, args: [usize; 6]) -> [Range<usize>; 2] {
        ranges(nr as usize, args, 0x9000)
    }

    #[test]
    fn memory_that_is_given_back_or_replaced_is_told() {
        let (at, len) = (0x1000, 0x3000);
        let whole = [at..at + len, NONE];
        let fixed = libc::MAP_FIXED as usize;
        let may_move = libc::MREMAP_MAYMOVE as usize;
        let to_fixed = libc::MREMAP_FIXED as usize | may_move;
        assert_eq!(of(libc::SYS_munmap, [at, len, 0, 0, 0, 0]), whole);
        assert_eq!(of(libc::SYS_mmap, [at, len, 3, fixed, 0, 0]), whole);
        assert_eq!(of(libc::SYS_mremap, [at, len, 9, may_move, 0, 0]), whole);
        assert_eq!(
            of(libc::SYS_mremap, [at, len, 0x2000, to_fixed, 0x7000, 0]),
            [at..at + len, 0x7000..0x9000]
        );
        assert_eq!(
            of(libc::SYS_brk, [0x8000, 0, 0, 0, 0, 0])[0],
            0x8000..0x9000
        );
        let dontneed = libc::MADV_DONTNEED as usize;
        assert_eq!(of(libc::SYS_madvise, [at, len, dontneed, 0, 0, 0]), whole);
        assert_eq!(of(libc::SYS_shmdt, [at, 0, 0, 0, 0, 0])[0], at..ARENA_END);
    }

    #[test]
    fn memory_that_stays_is_not_told() {
        let (at, len) = (0x1000, 0x3000);
        let told = [
            of(
                libc::SYS_mmap,
                [at, len, 3, libc::MAP_FIXED_NOREPLACE as usize, 0, 0],
            ),
            of(
                libc::SYS_madvise,
                [at, len, libc::MADV_HUGEPAGE as usize, 0, 0, 0],
            ),
            of(libc::SYS_mprotect, [at, len, 1, 0, 0, 0]),
            of(libc::SYS_brk, [0, 0, 0, 0, 0, 0]),
            of(libc::SYS_brk, [0xa000, 0, 0, 0, 0, 0]),
            of(libc::SYS_shmat, [1, at, 0, 0, 0, 0]),
        ];
        assert!(told.iter().flatten().all(Range::is_empty), "{told:?}");
    }
}
