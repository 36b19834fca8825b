//! Memory, split into runs of zero pages and of other pages. Nothing here allocates, because a forked child
//! runs it too.

use std::ops::Range;

use crate::format::bytes::all_zero;
use crate::format::chunk::CHUNK_BYTES;
use crate::format::header::PAGE;

/// Consecutive pages that become one chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Length in bytes: at most a chunk's.
    pub len: u32,
    /// CRC-32 of the content; none for zeros, which are not stored.
    pub crc: Option<u32>,
}

impl Span {
    /// The first span of `memory`, which is at least one whole page.
    pub fn first_of(memory: &[u8]) -> Span {
        let mut pages = memory[..memory.len().min(CHUNK_BYTES)].chunks_exact(PAGE as usize);
        let zero = memory.get(..PAGE as usize).is_some_and(all_zero);
        let (mut len, mut crc) = (0, crc32fast::Hasher::new());
        // One pass for both: checking a page for zeros takes longer than its checksum, if only the check
        // loads it from memory.
        while let Some(page) = pages.next().filter(|page| all_zero(page) == zero) {
            len += page.len() as u32;
            if !zero {
                crc.update(page);
            }
        }
        Span {
            len,
            crc: (!zero).then(|| crc.finalize()),
        }
    }
}

/// The maximal runs of zero (true) and other (false) pages in `memory`, which consists of whole pages.
pub(crate) fn runs(memory: &[u8]) -> impl Iterator<Item = (bool, Range<usize>)> + '_ {
    let mut from = 0;
    std::iter::from_fn(move || {
        let mut pages = memory[from..].chunks_exact(PAGE as usize).map(all_zero);
        let zero = pages.next()?;
        let same = pages.take_while(|other| *other == zero).count();
        let run = from..from + (1 + same) * PAGE as usize;
        from = run.end;
        Some((zero, run))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_split_into_zero_and_other_runs() {
        let page = PAGE as usize;
        let mut memory = vec![0; 5 * page];
        memory[2 * page - 1] = 1;
        memory[3 * page - 1] = 1;
        let found: Vec<_> = runs(&memory).collect();
        let expected = [(true, 0..1), (false, 1..3), (true, 3..5)];
        assert_eq!(
            found,
            expected.map(|(zero, pages)| (zero, pages.start * page..pages.end * page))
        );
        let first = Span::first_of(&memory);
        assert_eq!((first.len as usize, first.crc), (page, None));
        let next = Span::first_of(&memory[page..]);
        assert_eq!(next.len as usize, 2 * page);
        assert_eq!(next.crc, Some(crc32fast::hash(&memory[page..3 * page])));
        let long = Span::first_of(&vec![1; CHUNK_BYTES + page]);
        assert_eq!(long.len as usize, CHUNK_BYTES);
        assert_eq!(runs(&[]).count(), 0);
    }
}
