//! Mapping the memory of an image in advance, in a process that may restart from it later.
//!
//! Only memory without a file is mapped. Files may change before the restart, and shared objects are made by all ranks
//! together. An image with shared objects is not mapped in advance at all: a segment of System V is attached as a
//! whole, also over addresses that the program had unmapped and used for other memory.
//!
//! # Safety
//! [`EarlyMemory`] unmaps the ranges that it has mapped itself with MAP_FIXED_NOREPLACE. Nothing else of the process
//! refers to them, since no upper half runs before they are kept ([`EarlyMemory::keep`]).
#![allow(unsafe_code)]

use ckpt_image::{Backing, Image, Region};

use crate::error::Result;
use crate::map_memory::RegionMapper;
use crate::sections;
use crate::shared_objects::SharedMemory;

/// Memory of an upper half that was mapped in advance. Dropping it unmaps the memory.
#[derive(Debug)]
pub struct EarlyMemory {
    ranges: Vec<(u64, u64)>,
}

impl EarlyMemory {
    /// Maps and fills what can be mapped in advance.
    pub fn of(image: &Image) -> Result<EarlyMemory> {
        let mut mapped = EarlyMemory { ranges: Vec::new() };
        let is_shared = |region: &Region| matches!(region.backing, Backing::Shared { .. });
        if image.regions().iter().any(is_shared) {
            return Ok(mapped);
        }
        let (memory, shared) = (image.memory()?, SharedMemory::default());
        let guards = sections::guards(image)?;
        for (index, region) in image.regions().iter().enumerate() {
            if is_early(region) {
                let mapper = RegionMapper::new(image, region, &shared);
                mapper.map(memory.pieces_of(index))?;
                mapped.ranges.push((region.start, region.len));
                mapper.complete(memory.pieces_of(index), image, &guards)?;
            }
        }
        Ok(mapped)
    }

    /// Start and length of each mapped region. The memory stays mapped, as that of the upper half.
    pub fn keep(mut self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.ranges)
    }
}

/// Whether the content of a region depends on its image alone.
fn is_early(region: &Region) -> bool {
    matches!(
        region.backing,
        Backing::Anonymous | Backing::SharedAnonymous
    )
}

impl Drop for EarlyMemory {
    fn drop(&mut self) {
        for (start, len) in &self.ranges {
            // SAFETY: see the head of this file.
            unsafe { libc::munmap(*start as *mut libc::c_void, *len as usize) };
        }
    }
}
