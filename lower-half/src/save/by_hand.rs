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

/// A copy of some memory.
pub struct ByHand {
    content: Vec<u8>,
    /// Where in `content` memory is from an address on, in ascending order; what is not among it is zero.
    blocks: Vec<(u64, Range<usize>)>,
}

impl ByHand {
    /// Copies `runs`, as long as there is `room`, which gets smaller by what is taken.
    pub fn copy(
        memory: &mut dyn ReadMemory,
        runs: &[Range<u64>],
        room: &mut u64,
    ) -> Result<ByHand, Uncopied> {
        // Zeros take none of it.
        let most = super::runs::bytes(runs);
        let mut content = Vec::new();
        if content.try_reserve_exact(most.min(*room) as usize).is_err() {
            return Err(Uncopied::NoRoom);
        }
        in_huge_pages(&content);
        let mut blocks = Vec::new();
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
            let place = content.len()..content.len() + len as usize;
            content.resize(place.end, 0);
            let block = &mut content[place.clone()];
            memory.read(start, block).map_err(Uncopied::Unreadable)?;
            if block.iter().any(|byte| *byte != 0) {
                *room -= len;
                blocks.push((start, place));
            } else {
                content.truncate(place.start);
            }
        }
        Ok(ByHand { content, blocks })
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
        let Ok(copy) = ByHand::copy(&mut Numbered, &runs, &mut room) else {
            panic!("it was not copied");
        };
        for start in (0..5 * BLOCK).step_by(3 * PAGE as usize + 1) {
            let len = (4 * PAGE).min(5 * BLOCK + PAGE - start) as usize;
            let (mut copied, mut real) = (vec![9; len], vec![0; len]);
            (&copy).read(start, &mut copied).unwrap();
            Numbered.read(start, &mut real).unwrap();
            assert!(copied == real, "{start}");
        }
        assert!(room < BLOCK, "{room}");
        let again = ByHand::copy(&mut Numbered, &runs, &mut room);
        assert!(matches!(again, Err(Uncopied::NoRoom)));
    }
}
