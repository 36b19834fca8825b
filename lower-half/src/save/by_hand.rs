//! Memory that is copied while the threads stand still: what `fork` does not copy (what is shared, what must
//! not be in children), and what is so little that a fork would take longer.
//!
//! # Safety
//! Advice about memory of this file's own, which it holds and which stays what it is.
#![allow(unsafe_code)]

use std::io;
use std::ops::Range;

use ckpt_image::ReadMemory;

use super::PAGE;

/// As much as is looked at for zeros at a time.
const BLOCK: u64 = 256 * PAGE;

/// Why something was not copied.
pub enum Uncopied {
    /// There is no room for it.
    NoRoom,
    /// It could not be read.
    Unreadable(io::Error),
}

/// Memory that is there, for copies.
pub struct Pool(Vec<u8>);

impl Pool {
    /// So much: the kernel takes longer to give memory than to copy into it, so it is better had before
    /// everybody waits. None if there is none.
    pub fn filled(bytes: u64) -> Option<Pool> {
        let mut pool = Pool::reserved(bytes)?;
        pool.0.resize(bytes as usize, 0);
        pool.0.clear();
        Some(pool)
    }

    fn reserved(bytes: u64) -> Option<Pool> {
        let mut content = Vec::new();
        content.try_reserve_exact(bytes as usize).ok()?;
        in_huge_pages(&content);
        Some(Pool(content))
    }
}

/// A copy of some memory.
pub struct ByHand {
    content: Vec<u8>,
    /// Where in `content` memory is from an address on, in ascending order; what is not among it is zero.
    blocks: Vec<(u64, Range<usize>)>,
}

impl ByHand {
    /// For so many bytes, of which zeros take none; into the `pool`, if that is large enough.
    pub fn new(bytes: u64, pool: Option<Pool>) -> Result<ByHand, Uncopied> {
        let enough = pool.filter(|pool| pool.0.capacity() as u64 >= bytes);
        let Pool(content) = enough
            .or_else(|| Pool::reserved(bytes))
            .ok_or(Uncopied::NoRoom)?;
        Ok(ByHand {
            content,
            blocks: Vec::new(),
        })
    }

    /// Copies `runs`, which lie behind those before, as long as there is `room`, which gets smaller by what
    /// is taken.
    pub fn add(
        &mut self,
        memory: &mut dyn ReadMemory,
        runs: &[Range<u64>],
        room: &mut u64,
    ) -> Result<(), Uncopied> {
        let ends = |run: &Range<u64>| {
            run.clone()
                .step_by(BLOCK as usize)
                .zip(std::iter::repeat(run.end))
        };
        for (start, end) in runs.iter().flat_map(ends) {
            let len = (end - start).min(BLOCK);
            if len > *room {
                return Err(Uncopied::NoRoom);
            }
            let place = self.content.len()..self.content.len() + len as usize;
            self.content.resize(place.end, 0);
            let block = &mut self.content[place.clone()];
            memory.read(start, block).map_err(Uncopied::Unreadable)?;
            if block.iter().any(|byte| *byte != 0) {
                *room -= len;
                self.blocks.push((start, place));
            } else {
                self.content.truncate(place.start);
            }
        }
        Ok(())
    }
}

/// Has the kernel give this memory in large pieces: that of small pages takes longer than to copy them. A wish,
/// and nothing to be told of where it is not granted.
fn in_huge_pages(content: &Vec<u8>) {
    let start = (content.as_ptr() as usize).next_multiple_of(PAGE as usize);
    let end = (content.as_ptr() as usize + content.capacity()) / PAGE as usize * PAGE as usize;
    if start < end {
        // SAFETY: whole pages of what the vector holds, whose content stays as it is.
        unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_HUGEPAGE) };
    }
}

impl ReadMemory for &ByHand {
    fn read(&mut self, address: u64, into: &mut [u8]) -> io::Result<()> {
        into.fill(0);
        let end = address + into.len() as u64;
        let from = self
            .blocks
            .partition_point(|(start, place)| start + place.len() as u64 <= address);
        let within = self.blocks[from..]
            .iter()
            .take_while(|(start, _)| *start < end);
        for (start, place) in within {
            let block = &self.content[place.clone()];
            let first = (*start).max(address);
            let last = (start + block.len() as u64).min(end);
            let from = |at: u64, base: u64| (at - base) as usize;
            into[from(first, address)..from(last, address)]
                .copy_from_slice(&block[from(first, *start)..from(last, *start)]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory whose bytes tell their block, the third of which is zero.
    struct Numbered;

    impl ReadMemory for Numbered {
        fn read(&mut self, address: u64, into: &mut [u8]) -> io::Result<()> {
            for (byte, at) in into.iter_mut().zip(address..) {
                *byte = match at / BLOCK {
                    2 => 0,
                    block => 1 + block as u8,
                };
            }
            Ok(())
        }
    }

    #[test]
    fn what_is_copied_is_read_back_at_any_place() {
        let runs = [0..5 * BLOCK + PAGE, 6 * BLOCK..6 * BLOCK + PAGE];
        let mut room = 5 * BLOCK;
        let mut copy = ByHand::new(6 * BLOCK, Pool::filled(BLOCK)).ok().unwrap();
        let added = copy.add(&mut Numbered, &runs, &mut room);
        assert!(added.is_ok(), "it was not copied");
        for start in (0..5 * BLOCK).step_by(3 * PAGE as usize + 1) {
            let len = (4 * PAGE).min(5 * BLOCK + PAGE - start) as usize;
            let (mut copied, mut real) = (vec![9; len], vec![0; len]);
            (&copy).read(start, &mut copied).unwrap();
            Numbered.read(start, &mut real).unwrap();
            assert!(copied == real, "{start}");
        }
        assert!(room < BLOCK, "{room}");
        let mut again = ByHand::new(0, None).ok().unwrap();
        let again = again.add(&mut Numbered, &runs, &mut room);
        assert!(matches!(again, Err(Uncopied::NoRoom)));
    }
}
