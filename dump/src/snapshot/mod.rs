//! The snapshot: a copy of the memory at the stop, from which the image is written while the threads go on.
//!
//! Memory that is private to the process is copied on write by a forked child (`cow_child.rs`), which can write
//! it into the image itself (`cow_child_io.rs`). All other memory is copied at once (`eager_copy.rs`). No
//! snapshot is taken where `memory_budget.rs` finds too little memory for one.

pub mod cow_child;
mod cow_child_io;
pub mod eager_copy;
pub mod memory_budget;

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use ckpt_image::{MemorySource, Result, Span, WriteOrder};

use crate::advice::advise;
use crate::changes::page_digests::{DigestKey, PageDigest};
use crate::contents::{ImageRegion, Location};
use crate::page_memory::{digests_of_read, PageMemory};
use crate::ranges;
use crate::request::PauseMode;
use crate::source::{PageSource, StoppedProcess};
use cow_child::{forking_is_faster, CowChild, Lifetime};
use eager_copy::{CopyError, EagerCopy};
use memory_budget::MemoryBudget;

/// The memory as it was at the stop.
pub struct Snapshot<'a> {
    /// `None` where everything was copied at once.
    child: Option<CowChild>,
    /// All memory that the child does not have.
    eager: EagerCopy,
    cancelled: &'a AtomicBool,
}

impl<'a> Snapshot<'a> {
    /// Copies all regions, or returns the reason why not.
    pub fn take(
        process: &StoppedProcess<'_>,
        parts: &[ImageRegion],
        pause: &'a PauseMode<'_>,
    ) -> std::result::Result<Snapshot<'a>, String> {
        let (budget, cancelled) = match pause {
            PauseMode::UntilWritten(why) => return Err(why.clone()),
            PauseMode::UntilCopied { budget, cancelled } => (budget, *cancelled),
        };
        let fork = should_fork(parts);
        let eager = copy_eagerly(process, parts, fork, budget)?;
        let child = fork
            .then(|| fork_child(parts, Lifetime::OfThread))
            .transpose()?;
        Ok(Snapshot {
            child,
            eager,
            cancelled,
        })
    }
}

/// Copies all regions that a child does not have, if there is one (`fork`) and memory suffices for it.
pub fn copy_eagerly(
    process: &StoppedProcess<'_>,
    parts: &[ImageRegion],
    fork: bool,
    budget: &MemoryBudget,
) -> std::result::Result<EagerCopy, String> {
    let by_fork = |part: &&ImageRegion| fork && part.forks();
    // In the worst case all forked memory exists twice, even if little of it is stored.
    let forked: u64 = parts.iter().filter(by_fork).map(|part| part.held).sum();
    let scarce = || {
        format!(
            "memory is too scarce to copy {} MiB on write, and the shared memory: {} MiB are \
             available ({})",
            forked >> 20,
            budget.bytes >> 20,
            budget.limit
        )
    };
    let mut left = budget.bytes.checked_sub(forked).ok_or_else(scarce)?;
    let not_copied = |why| match why {
        CopyError::NoMemory => scarce(),
        CopyError::Unreadable(e) => format!("memory cannot be copied: {e}"),
    };
    let others = || parts.iter().filter(|part| !by_fork(part));
    let bytes: u64 = others().map(|part| ranges::total_bytes(&part.runs)).sum();
    let buffer = process.plan.take_buffer();
    tracing::debug!(
        forked,
        copied = bytes,
        budget = budget.bytes,
        buffered = buffer.is_some(),
        "copying the memory"
    );
    let mut eager = EagerCopy::new(bytes.min(left), buffer).map_err(not_copied)?;
    for part in others() {
        let mut memory = process.of(part).map_err(|e| e.to_string())?;
        let added = eager.add(&mut *memory, &part.runs, &mut left);
        added.map_err(not_copied)?;
    }
    Ok(eager)
}

impl Snapshot<'_> {
    /// Whether a part of the memory is copied on write.
    pub fn is_forked(&self) -> bool {
        self.child.is_some()
    }
}

impl PageSource for Snapshot<'_> {
    fn of<'a>(&'a self, part: &'a ImageRegion) -> Result<Box<dyn PageMemory + 'a>> {
        Ok(match &self.child {
            Some(child) if part.forks() => Box::new(ChildMemory {
                child,
                cancelled: self.cancelled,
                readable: matches!(part.location, Location::Memory { readable: true, .. }),
            }),
            _ => Box::new(&self.eager),
        })
    }

    fn check(&self) -> io::Result<()> {
        self.child.as_ref().map_or(Ok(()), CowChild::check)
    }
}

/// A copy of the process that has all regions which `fork` copies.
pub fn fork_child(
    parts: &[ImageRegion],
    lifetime: Lifetime,
) -> std::result::Result<CowChild, String> {
    let excluded = ForkExclusion::of(parts);
    let child = CowChild::fork(lifetime).and_then(|child| Ok((child.mappings()?, child)));
    drop(excluded);
    let (mappings, child) =
        child.map_err(|e| format!("the memory cannot be copied on write: {e}"))?;
    match parts.iter().find(|part| part.lacks(&mappings)) {
        Some(ImageRegion { region, .. }) => Err(format!(
            "the copy of the process lacks the memory at {:#x} ({} KiB)",
            region.start,
            region.len >> 10
        )),
        None => Ok(child),
    }
}

/// Whether a fork takes less time than an eager copy of the stored memory. For a small increment it takes more. After
/// an eager copy, threads that write to memory need not wait for the kernel to copy pages.
fn should_fork(parts: &[ImageRegion]) -> bool {
    let (mut held, mut stored) = (0, 0);
    for part in parts.iter().filter(|part| part.forks()) {
        held += part.held;
        stored += ranges::total_bytes(&part.runs);
    }
    forking_is_faster(held, stored)
}

/// Mappings that are not read in a copy, excluded from children that are created meanwhile. So the copy shares no
/// memory, does not count as attached to a System V segment, and holds no mapped file open.
struct ForkExclusion(Vec<Range<u64>>);

impl ForkExclusion {
    fn of(parts: &[ImageRegion]) -> ForkExclusion {
        let unread = parts.iter().filter(|part| part.is_unread());
        let regions = unread
            .map(|part| &part.region)
            .filter(|region| !region.advice.dont_fork)
            .map(|region| region.start..region.end())
            .filter(|range| advise(range, libc::MADV_DONTFORK));
        ForkExclusion(regions.collect())
    }
}

impl Drop for ForkExclusion {
    fn drop(&mut self) {
        for range in &self.0 {
            advise(range, libc::MADV_DOFORK);
        }
    }
}

/// Memory of the forked child.
pub struct ChildMemory<'a> {
    pub child: &'a CowChild,
    /// Set when the image is no longer wanted.
    pub cancelled: &'a AtomicBool,
    /// The child itself can read it.
    pub readable: bool,
}

impl ChildMemory<'_> {
    /// Asks the child, if the image is still wanted.
    fn ask<T>(&self, ask: impl FnOnce(&CowChild) -> io::Result<T>) -> io::Result<T> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(io::Error::other("the checkpoint was given up"));
        }
        // The end of the child explains the failure better than the failure itself.
        ask(self.child).or_else(|error| self.child.check().and(Err(error)))
    }
}

impl MemorySource for ChildMemory<'_> {
    fn read(&mut self, address: u64, into: &mut [u8]) -> io::Result<()> {
        self.ask(|child| child.read(address, into))
    }

    fn can_write(&self) -> bool {
        self.readable
    }

    fn write(&mut self, order: &WriteOrder<'_>) -> io::Result<Vec<Span>> {
        self.ask(|child| child.write(order))
    }
}

impl PageMemory for ChildMemory<'_> {
    fn digests(
        &mut self,
        key: &DigestKey,
        runs: &[Range<u64>],
        into: &mut Vec<PageDigest>,
    ) -> io::Result<()> {
        match self.readable {
            true => self.ask(|child| child.digests(key, runs, into)),
            false => digests_of_read(self, key, runs, into),
        }
    }
}
