//! Inodes of both ends of each socket pair: the kernel does not report which sockets are a pair.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Number of newest pairs kept; an older one is treated like any other socket.
const KEPT: usize = 512;
static PAIRS: [[AtomicU64; 2]; KEPT] = [const { [const { AtomicU64::new(0) }; 2] }; KEPT];
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// Records the sockets with these inodes as a pair.
pub fn note(first: u64, second: u64) {
    let pair = &PAIRS[NEXT.fetch_add(1, Ordering::Relaxed) % KEPT];
    pair[0].store(first, Ordering::Relaxed);
    pair[1].store(second, Ordering::Relaxed);
}

/// Inode of the other end.
pub fn other(inode: u64) -> Option<u64> {
    PAIRS.iter().find_map(|pair| {
        let ends = [0, 1].map(|end: usize| pair[end].load(Ordering::Relaxed));
        let at = ends.iter().position(|&end| end == inode)?;
        Some(ends[1 - at])
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_end_finds_the_other() {
        super::note(71, 72);
        super::note(81, 82);
        assert_eq!(
            [71, 72, 82, 90].map(super::other),
            [Some(72), Some(71), Some(81), None]
        );
    }
}
