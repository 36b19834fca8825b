//! The eager copy: memory that is copied while the threads stand still. It holds memory that `fork` does not copy
//! (shared memory, and memory with MADV_DONTFORK). If so little is stored that a fork would take longer, it holds all
//! memory.
//!
//! # Safety
//! `madvise` is called only for memory that this file owns, with advice that does not change its content.
#![allow(unsafe_code)]

use std::io;
use std::ops::Range;

use ckpt_image::{MemorySource, PAGE};

use crate::page_memory::PageMemory;

/// Unit in which memory is searched for zeros.
const BLOCK: u64 = 256 * PAGE;

/// Why memory was not copied.
pub enum CopyError {
    /// The budget is too small.
    NoMemory,
    /// It could not be read.
    Unreadable(io::Error),
}

/// Allocated memory for a copy.
pub struct CopyBuffer(Vec<u8>);

impl CopyBuffer {
    /// A buffer whose pages are already present: the kernel takes longer to provide pages than to copy
    /// into them, so this is done before the threads stop. `None` if there is too little memory.
    pub fn filled(bytes: u64) -> Option<CopyBuffer> {
        let mut buffer = CopyBuffer::reserved(bytes)?;
        buffer.0.resize(bytes as usize, 0);
        buffer.0.clear();
        Some(buffer)
    }

    fn reserved(bytes: u64) -> Option<CopyBuffer> {
        let mut content = Vec::new();
        content.try_reserve_exact(bytes as usize).ok()?;
        in_huge_pages(&content);
        Some(CopyBuffer(content))
    }
}

/// Start address of a copied block, and the place of its copy.
pub type CopiedBlock = (u64, Range<usize>);

/// A copy of memory.
pub struct EagerCopy {
    content: Vec<u8>,
    /// The copied blocks, with their ranges in `content`, in ascending order. Other memory is zero.
    blocks: Vec<CopiedBlock>,
}

impl EagerCopy {
    /// A copy with room for `bytes`; zeros take none. It is in `buffer` if that is large enough.
    pub fn new(bytes: u64, buffer: Option<CopyBuffer>) -> Result<EagerCopy, CopyError> {
        let enough = buffer.filter(|buffer| buffer.0.capacity() as u64 >= bytes);
        let CopyBuffer(content) = enough
            .or_else(|| CopyBuffer::reserved(bytes))
            .ok_or(CopyError::NoMemory)?;
        Ok(EagerCopy {
            content,
            blocks: Vec::new(),
        })
    }

    /// Copies `runs`, which must follow the runs of earlier calls, while `budget` lasts. Reduces `budget` by the memory
    /// that is used.
    pub fn add(
        &mut self,
        memory: &mut dyn MemorySource,
        runs: &[Range<u64>],
        budget: &mut u64,
    ) -> Result<(), CopyError> {
        let ends = |run: &Range<u64>| {
            run.clone()
                .step_by(BLOCK as usize)
                .zip(std::iter::repeat(run.end))
        };
        for (start, end) in runs.iter().flat_map(ends) {
            let len = (end - start).min(BLOCK);
            if len > *budget {
                return Err(CopyError::NoMemory);
            }
            let place = self.content.len()..self.content.len() + len as usize;
            self.content.resize(place.end, 0);
            let block = &mut self.content[place.clone()];
            memory.read(start, block).map_err(CopyError::Unreadable)?;
            if block.iter().any(|byte| *byte != 0) {
                *budget -= len;
                self.blocks.push((start, place));
            } else {
                self.content.truncate(place.start);
            }
        }
        Ok(())
    }

    /// The copied blocks, with the addresses of their copies.
    pub fn placed(&self) -> Vec<CopiedBlock> {
        let base = self.content.as_ptr() as usize;
        let placed = |(start, place): &CopiedBlock| (*start, base + place.start..base + place.end);
        self.blocks.iter().map(placed).collect()
    }
}

/// Fills `into` with the memory at `address`. `fetch` gets a part of the place of a block.
pub fn read_blocks(
    blocks: &[CopiedBlock],
    address: u64,
    into: &mut [u8],
    mut fetch: impl FnMut(Range<usize>, &mut [u8]) -> io::Result<()>,
) -> io::Result<()> {
    into.fill(0);
    let end = address + into.len() as u64;
    let from = blocks.partition_point(|(start, place)| start + place.len() as u64 <= address);
    let within = blocks[from..].iter().take_while(|(start, _)| *start < end);
    for (start, place) in within {
        let first = (*start).max(address);
        let last = (start + place.len() as u64).min(end);
        let from = place.start + (first - start) as usize;
        let part = &mut into[(first - address) as usize..(last - address) as usize];
        fetch(from..from + part.len(), part)?;
    }
    Ok(())
}

/// Asks the kernel for huge pages, because allocating small pages takes longer than copying them. A refusal is
/// harmless.
fn in_huge_pages(content: &Vec<u8>) {
    let start = (content.as_ptr() as usize).next_multiple_of(PAGE as usize);
    let end = (content.as_ptr() as usize + content.capacity()) / PAGE as usize * PAGE as usize;
    if start < end {
        // SAFETY: the range is whole pages of the vector's buffer, and MADV_HUGEPAGE does not change their content.
        unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_HUGEPAGE) };
    }
}

impl MemorySource for &EagerCopy {
    fn read(&mut self, address: u64, into: &mut [u8]) -> io::Result<()> {
        read_blocks(&self.blocks, address, into, |place, part| {
            part.copy_from_slice(&self.content[place]);
            Ok(())
        })
    }
}

impl PageMemory for &EagerCopy {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory whose bytes tell their block, the third of which is zero.
    struct Numbered;

    impl MemorySource for Numbered {
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
        let mut budget = 5 * BLOCK;
        let mut copy = EagerCopy::new(6 * BLOCK, CopyBuffer::filled(BLOCK))
            .ok()
            .unwrap();
        let added = copy.add(&mut Numbered, &runs, &mut budget);
        assert!(added.is_ok(), "it was not copied");
        for start in (0..5 * BLOCK).step_by(3 * PAGE as usize + 1) {
            let len = (4 * PAGE).min(5 * BLOCK + PAGE - start) as usize;
            let (mut copied, mut real) = (vec![9; len], vec![0; len]);
            (&copy).read(start, &mut copied).unwrap();
            Numbered.read(start, &mut real).unwrap();
            assert!(copied == real, "{start}");
        }
        assert!(budget < BLOCK, "{budget}");
        let mut again = EagerCopy::new(0, None).ok().unwrap();
        let again = again.add(&mut Numbered, &runs, &mut budget);
        assert!(matches!(again, Err(CopyError::NoMemory)));
    }
}
