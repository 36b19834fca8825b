//! Set of the blocks of a file that a segment holds already.

use std::collections::HashMap;
use std::ops::Range;

/// Bytes of a block: the page size, the unit of I/O in the kernel.
pub const BLOCK: u64 = 4096;
/// Blocks of a chunk.
const CHUNK: u64 = 4096;

/// A set of blocks. Takes 512 bytes for each 16 MiB that contain one.
#[derive(Debug, Default)]
pub struct Blocks {
    chunks: HashMap<u64, Box<[u64; (CHUNK / 64) as usize]>>,
}

impl Blocks {
    fn holds(&self, block: u64) -> bool {
        let chunk = self.chunks.get(&(block / CHUNK));
        chunk.is_some_and(|words| words[(block % CHUNK / 64) as usize] & (1 << (block % 64)) != 0)
    }

    /// Adds the blocks that contain these bytes.
    pub fn add(&mut self, bytes: &Range<u64>) {
        for block in bytes.start / BLOCK..bytes.end.div_ceil(BLOCK) {
            let chunk = self.chunks.entry(block / CHUNK);
            let words = chunk.or_insert_with(|| Box::new([0; (CHUNK / 64) as usize]));
            words[(block % CHUNK / 64) as usize] |= 1 << (block % 64);
        }
    }

    /// Next range of blocks that overlap `bytes` and are not in the set; at most `most` bytes.
    pub fn next_missing(&self, bytes: &Range<u64>, most: u64) -> Option<Range<u64>> {
        let mut blocks = bytes.start / BLOCK..bytes.end.div_ceil(BLOCK);
        let first = blocks.find(|block| !self.holds(*block))?;
        let mut end = first + 1;
        while end < blocks.end && !self.holds(end) && (end - first) * BLOCK < most {
            end += 1;
        }
        Some(first * BLOCK..end * BLOCK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_blocks_are_returned_once() {
        let mut blocks = Blocks::default();
        let far = CHUNK * BLOCK;
        blocks.add(&(BLOCK..BLOCK + 1));
        let mut found = Vec::new();
        let wanted = 1..far + 2;
        while let Some(range) = blocks.next_missing(&wanted, far / 2) {
            blocks.add(&range);
            found.push(range);
        }
        let (half, second) = (far / 2, 2 * BLOCK);
        assert_eq!(
            found,
            [0..BLOCK, second..second + half, second + half..far + BLOCK]
        );
        assert_eq!(blocks.next_missing(&(0..0), far), None);
    }
}
