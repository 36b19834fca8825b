//! The sources of page content: how the content of a region is read while the image is written.
//!
//! # Safety
//! Memory of the upper half is copied through raw pointers, never through references: a signal may still write to the
//! dead part of a parked thread's stack. Memory that is read directly is in a mapping that the kernel has just listed
//! as readable, in pages that it has just reported as present. No thread can unmap them, because every thread that
//! could is parked. All other memory is read through /proc/self/mem, which returns an error where a load would fault.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use ckpt_image::{MemorySource, Result, PAGE};

use crate::contents::{ImageRegion, Location};
use crate::page_memory::PageMemory;
use crate::plan::Plan;
use crate::shared_objects::ObjectReader;

/// A source of the content of regions.
pub trait PageSource {
    /// The memory of a region, addressed as in the image.
    fn of<'a>(&'a self, part: &'a ImageRegion) -> Result<Box<dyn PageMemory + 'a>>;

    /// Returns an error if the data that was read may be wrong.
    fn check(&self) -> io::Result<()>;
}

/// The process itself, whose threads stand still.
pub struct StoppedProcess<'a> {
    pub plan: &'a Plan,
    /// /proc/self/mem.
    pub mem: &'a File,
}

impl PageSource for StoppedProcess<'_> {
    fn of<'a>(&'a self, part: &'a ImageRegion) -> Result<Box<dyn PageMemory + 'a>> {
        let mem = self.mem;
        Ok(match part.location {
            Location::Memory {
                holes, readable, ..
            } => Box::new(OwnMemory {
                mem,
                direct: readable,
                holes,
            }),
            Location::Object { index, origin } => {
                let object = &self.plan.objects.all()[index as usize];
                Box::new(ObjectReader {
                    object,
                    file: object.open()?,
                    origin,
                    mem,
                })
            }
        })
    }

    fn check(&self) -> io::Result<()> {
        Ok(())
    }
}

/// This process's memory.
struct OwnMemory<'a> {
    mem: &'a File,
    /// The pages asked for are there and can be read by load instructions.
    direct: bool,
    /// Pages that cannot be read (past the end of a file) are taken as zeros.
    holes: bool,
}

impl MemorySource for OwnMemory<'_> {
    fn read(&mut self, address: u64, into: &mut [u8]) -> io::Result<()> {
        if self.direct {
            // SAFETY: see the head of this file; `into` is the lower half's, so they cannot
            // overlap.
            unsafe {
                std::ptr::copy_nonoverlapping(address as *const u8, into.as_mut_ptr(), into.len());
            }
            return Ok(());
        }
        match self.mem.read_exact_at(into, address) {
            Err(_) if self.holes => {
                self.read_around_holes(address..address + into.len() as u64, into)
            }
            result => result,
        }
    }
}

impl PageMemory for OwnMemory<'_> {}

impl OwnMemory<'_> {
    fn read_around_holes(&self, range: Range<u64>, into: &mut [u8]) -> io::Result<()> {
        for (page, address) in into
            .chunks_mut(PAGE as usize)
            .zip(range.step_by(PAGE as usize))
        {
            if self.mem.read_exact_at(page, address).is_err() {
                page.fill(0);
            }
        }
        Ok(())
    }
}
