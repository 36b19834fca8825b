//! Limits of the process's memory: RLIMIT_AS and RLIMIT_DATA.
//!
//! The kernel counts the lower half's memory, too, and another MPI library uses another amount of it. So a restart
//! gives the program the room that it had at the checkpoint, and moves the kernel's limit by the difference. The
//! program goes on seeing the limit that it has set.

use crate::sys::syscall;
use core::sync::atomic::{AtomicI64, AtomicU64, Ordering};

const PAGE: u64 = 4096;
const INFINITE: u64 = libc::RLIM_INFINITY;

/// A limit of memory.
struct MemoryLimit {
    number: u32,
    /// Position of the used amount in `/proc/self/statm`, in pages (proc_pid_statm(5)).
    place: usize,
    /// The kernel's limit minus the program's, in bytes.
    moved: AtomicI64,
    /// Bytes of the lower half's reserve that this limit counts.
    reserve: AtomicU64,
    /// Bytes in use when [`note_use`] was called last.
    noted: AtomicU64,
}

static LIMITS: [MemoryLimit; 2] = [
    MemoryLimit {
        number: libc::RLIMIT_AS,
        place: 0,
        moved: AtomicI64::new(0),
        reserve: AtomicU64::new(0),
        noted: AtomicU64::new(u64::MAX),
    },
    MemoryLimit {
        number: libc::RLIMIT_DATA,
        place: 5,
        moved: AtomicI64::new(0),
        reserve: AtomicU64::new(0),
        noted: AtomicU64::new(u64::MAX),
    },
];

fn find(number: u32) -> Option<&'static MemoryLimit> {
    LIMITS.iter().find(|limit| limit.number == number)
}

/// Field of a line of numbers.
fn field(line: &[u8], place: usize) -> Option<u64> {
    let text = line.split(u8::is_ascii_whitespace).nth(place)?;
    core::str::from_utf8(text).ok()?.parse().ok()
}

impl MemoryLimit {
    /// Bytes that the process uses. Does not allocate.
    fn used(&self) -> Option<u64> {
        let mut line = [0; 256];
        let file = syscall::open(c"/proc/self/statm", libc::O_CLOEXEC);
        if syscall::is_err(file) {
            return None;
        }
        let got = syscall::read(file as i32, &mut line);
        syscall::plain(libc::SYS_close, [file as usize, 0, 0, 0, 0, 0]);
        Some(field(line.get(..usize::try_from(got).ok()?)?, self.place)? * PAGE)
    }
}

fn plus(limit: u64, bytes: i64) -> u64 {
    match limit {
        INFINITE => INFINITE,
        finite => finite.saturating_add_signed(bytes).min(INFINITE - 1),
    }
}

/// Whether the kernel's limit can differ from the one that the program sees.
pub fn can_differ(number: u32) -> bool {
    find(number).is_some()
}

/// The limit that the program sees, soft and hard, for the kernel's.
pub fn seen(number: u32, kernel: [u64; 2]) -> [u64; 2] {
    let moved = find(number).map_or(0, |limit| limit.moved.load(Ordering::Relaxed));
    kernel.map(|limit| plus(limit, -moved))
}

/// The limit, soft and hard, to give to the kernel for a new one of the program. The program may have computed it from
/// the memory that the process uses now, so it is not moved downwards.
pub fn kernels(number: u32, seen: [u64; 2]) -> [u64; 2] {
    let moved = find(number).map_or(0, |limit| limit.moved.load(Ordering::Relaxed));
    seen.map(|limit| plus(limit, moved.max(0)))
}

/// Notes that the kernel has taken a limit that [`kernels`] returned.
pub fn note_set(number: u32) {
    if let Some(limit) = find(number) {
        limit.moved.fetch_max(0, Ordering::Relaxed);
    }
}

/// Notes how much memory the process uses. Call it at the beginning of a checkpoint, which uses memory itself.
/// `reserve` bytes of address space are then released until the checkpoint is over.
pub fn note_use(reserve: u64) {
    if let Some(all) = find(libc::RLIMIT_AS) {
        all.reserve.store(reserve, Ordering::Relaxed);
    }
    for limit in &LIMITS {
        if let Some(used) = limit.used() {
            limit.noted.store(used, Ordering::Relaxed);
        }
    }
}

/// Bytes that the process can still use up to the kernel's soft limit, if it has one. The program may have mapped or
/// unmapped memory since [`note_use`]: the smaller of both values is the one that can do it no harm.
pub fn room(number: u32, kernel: [u64; 2]) -> Option<u64> {
    let limit = find(number).filter(|_| kernel[0] != INFINITE)?;
    let now = limit.used()? + limit.reserve.load(Ordering::Relaxed);
    let used = now.min(limit.noted.load(Ordering::Relaxed));
    Some(kernel[0].saturating_sub(used))
}

/// The kernel's limit, soft and hard, that leaves this room to a program that goes on seeing `seen`. Does not
/// allocate.
pub fn with_room(number: u32, seen: [u64; 2], room: u64) -> [u64; 2] {
    let Some((limit, used)) = find(number).and_then(|limit| Some((limit, limit.used()?))) else {
        return seen;
    };
    let moved = used.saturating_add(room).wrapping_sub(seen[0]) as i64;
    limit.moved.store(moved, Ordering::Relaxed);
    seen.map(|limit| plus(limit, moved))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test, because the limits are static.
    #[test]
    fn a_moved_limit_is_seen_as_it_was() {
        let (mine, used) = ([1 << 40, INFINITE], LIMITS[0].used().unwrap());
        assert!(used > PAGE && LIMITS[1].used().unwrap() <= used);
        let kernel = with_room(libc::RLIMIT_AS, mine, 1 << 41);
        assert!(kernel[0] > 1 << 41 && kernel[1] == INFINITE);
        assert_eq!(seen(libc::RLIMIT_AS, kernel), mine);
        assert_eq!(kernels(libc::RLIMIT_AS, mine), kernel);

        let kernel = with_room(libc::RLIMIT_AS, mine, 1 << 30);
        assert!(kernel[0] < mine[0]);
        assert_eq!(seen(libc::RLIMIT_AS, kernel), mine);
        assert_eq!(kernels(libc::RLIMIT_AS, mine), mine);
        note_set(libc::RLIMIT_AS);
        assert_eq!(seen(libc::RLIMIT_AS, mine), mine);

        assert_eq!(room(libc::RLIMIT_AS, [INFINITE; 2]), None);
        assert_eq!(room(libc::RLIMIT_AS, [PAGE, INFINITE]), Some(0));
        assert_eq!(seen(libc::RLIMIT_NOFILE, mine), mine);
        assert!(!can_differ(libc::RLIMIT_NOFILE));
    }
}
