//! Memory of which digests can be asked for.

use std::io;
use std::ops::Range;

use ckpt_image::{MemorySource, PAGE};

use crate::changes::page_digests::{DigestKey, PageDigest};

/// Bytes that are read for digests at a time.
const READ_BYTES: usize = 64 << 10;

/// The memory of a region, of which digests can be asked for.
pub trait PageMemory: MemorySource {
    /// Appends the digests of all pages of `runs`, in order. The runs are no more than one [`ckpt_image::WriteOrder`]
    /// may hold.
    fn digests(
        &mut self,
        key: &DigestKey,
        runs: &[Range<u64>],
        into: &mut Vec<PageDigest>,
    ) -> io::Result<()> {
        digests_of_read(self, key, runs, into)
    }
}

/// Reads the pages, and appends their digests.
pub fn digests_of_read(
    memory: &mut (impl MemorySource + ?Sized),
    key: &DigestKey,
    runs: &[Range<u64>],
    into: &mut Vec<PageDigest>,
) -> io::Result<()> {
    let mut block = vec![0; READ_BYTES];
    for run in runs {
        for start in run.clone().step_by(READ_BYTES) {
            let block = &mut block[..(run.end - start).min(READ_BYTES as u64) as usize];
            memory.read(start, block)?;
            into.extend(
                block
                    .chunks_exact(PAGE as usize)
                    .map(|page| key.digest(page)),
            );
        }
    }
    Ok(())
}
