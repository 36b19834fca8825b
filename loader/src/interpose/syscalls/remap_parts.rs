//! `mremap` of memory that is one mapping natively and several ones here.
//!
//! The kernel joins a new mapping with its neighbours if they are alike. It does not join one whose writes it watches
//! (`--full-every`) with a new one, not later either. And it refuses to move several mappings at once, or, since Linux
//! 6.17, those of them that it watches. So each part is moved by itself. The program's other threads may find the
//! memory half moved, as they may find it at either place natively.

use crate::sys::proc_maps;
use crate::sys::syscall::is_err;
use ::proc_maps::Mapping;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering};

/// Whether the kernel watches writes to the program's memory.
static WATCHED: AtomicBool = AtomicBool::new(false);

/// Records that the kernel watches writes to the program's memory from now on.
pub fn note_watched_memory() {
    WATCHED.store(true, Ordering::Relaxed);
}

/// Whether memory may be in several parts because it is watched.
pub(super) fn may_be() -> bool {
    WATCHED.load(Ordering::Relaxed)
}

/// Makes a system call of these arguments.
type Kernel<'a> = &'a dyn Fn(i64, [usize; 5]) -> isize;

/// The arguments of `mremap`, with lengths of whole pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Remap {
    pub old: usize,
    pub old_len: usize,
    pub new_len: usize,
    pub flags: usize,
    pub new: usize,
}

impl Remap {
    fn has(&self, flag: i32) -> bool {
        self.flags & flag as usize != 0
    }

    /// Whether the kernel may have moved a part when it refuses the others.
    pub fn may_stop_midway(&self) -> bool {
        self.has(libc::MREMAP_FIXED) && self.old_len == self.new_len
    }

    fn is_apart(&self) -> bool {
        self.old + self.old_len <= self.new || self.new + self.new_len <= self.old
    }

    /// Makes the call part by part, if the memory consists of parts that natively are one mapping. `None` otherwise.
    pub fn by_parts(&self, kernel: Kernel<'_>) -> Option<isize> {
        // The kernel gives the rest back before it refuses the call.
        let kept = self.old_len.min(self.new_len);
        let parts = parts(self.old..self.old.checked_add(kept)?)?;
        let (last, more) = (parts.last()?.clone(), self.new_len - kept);
        let remap = |part: &Range<usize>, more, flags, to| {
            kernel(
                libc::SYS_mremap,
                [part.start, part.len(), part.len() + more, flags, to],
            )
        };
        if !self.has(libc::MREMAP_FIXED) {
            let result = remap(&last, more, self.flags, 0);
            return Some(match is_err(result) {
                true => result,
                false => self.old as isize,
            });
        }
        if !self.is_apart() {
            return None;
        }
        for (number, part) in parts.iter().enumerate() {
            let more = if *part == last { more } else { 0 };
            let to = self.new + (part.start - self.old);
            let result = remap(part, more, self.flags, to);
            if is_err(result) {
                // The place is free, or the empty mapping is there still.
                for part in &parts[..number] {
                    let from = self.new + (part.start - self.old);
                    let flags = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as usize;
                    remap(&(from..from + part.len()), 0, flags, part.start);
                }
                return Some(result);
            }
        }
        if kept < self.old_len {
            let rest = [self.old + kept, self.old_len - kept, 0, 0, 0];
            kernel(libc::SYS_munmap, rest);
        }
        Some(self.new as isize)
    }
}

/// The mappings of a range of private memory, if there are several, without gaps, and alike.
fn parts(range: Range<usize>) -> Option<Vec<Range<usize>>> {
    let inside = proc_maps::inside(range.clone()).ok()?;
    let alike = inside.windows(2).all(|pair| {
        let [one, next] = pair else { return true };
        let follows = one.inode == 0 || one.offset + (one.end - one.start) == next.offset;
        let is_same = (one.prot, one.inode, &one.device, &one.path)
            == (next.prot, next.inode, &next.device, &next.path);
        one.end == next.start && is_same && follows && !one.shared && !next.shared
    });
    let whole =
        inside.first()?.start <= range.start as u64 && inside.last()?.end >= range.end as u64;
    let part = |mapping: &Mapping| {
        range.start.max(mapping.start as usize)..range.end.min(mapping.end as usize)
    };
    (inside.len() > 1 && alike && whole).then(|| inside.iter().map(part).collect())
}
