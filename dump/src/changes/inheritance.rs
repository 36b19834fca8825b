//! The pages that the image of a set inherits from its parent, as they are found while the image is written.

use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use ckpt_image::{Backing, ParentImage, ParentPages, Region, SetId, WriteOrder, PAGE};

use super::page_digests::{DigestKey, DigestTable, Replacement};
use super::record::{Parent, SharedRecord, MOST_RUNS};
use crate::page_memory::PageMemory;
use crate::ranges::{difference, intersection, keep_longest, push, total_bytes, within};

type Runs = Vec<Range<u64>>;

/// The inherited pages of a set that is being written. If it is dropped before [`Inheritance::finish`], what the
/// comparison has found so far is kept for the next set.
pub struct Inheritance<'a> {
    record: &'a SharedRecord,
    key: DigestKey,
    set: SetId,
    parent: Option<ParentImage>,
    /// Pages that the kernel has watched unwritten since the parent.
    unwritten: Runs,
    /// Pages that are those of the parent if they have the digest of the last comparison.
    comparable: Runs,
    /// `None` once the comparison is over.
    digests: Option<Replacement>,
    /// All pages that were compared; those that are inherited; those that had another digest before.
    compared: Runs,
    equal: Runs,
    differing: Runs,
    took: Duration,
}

impl<'a> Inheritance<'a> {
    pub(super) fn new(
        record: &'a SharedRecord,
        key: DigestKey,
        set: SetId,
        parent: Option<Parent>,
        digests: DigestTable,
    ) -> Inheritance<'a> {
        let (parent, unwritten, comparable) = match parent {
            Some(parent) => (Some(parent.image), parent.unwritten, parent.equal),
            None => (None, Runs::new(), Runs::new()),
        };
        Inheritance {
            record,
            key,
            set,
            parent,
            unwritten,
            comparable,
            digests: Some(digests.replace()),
            compared: Runs::new(),
            equal: Runs::new(),
            differing: Runs::new(),
            took: Duration::ZERO,
        }
    }

    /// Pages that are inherited by their marks.
    pub fn unwritten(&self) -> &[Range<u64>] {
        &self.unwritten
    }

    /// Compares the pages `runs` of a region with their digests at the last comparison, and returns those to store.
    /// Regions come in ascending order.
    pub fn compare(
        &mut self,
        region: &Region,
        runs: &[Range<u64>],
        memory: &mut dyn PageMemory,
    ) -> io::Result<Runs> {
        let Some(table) = &mut self.digests else {
            return Ok(runs.to_vec());
        };
        let begun = Instant::now();
        let of_file = matches!(region.backing, Backing::PrivateFile { .. });
        let (mut same, mut digests) = (Runs::new(), Vec::new());
        for batch in WriteOrder::parts(runs) {
            digests.clear();
            memory.digests(&self.key, &batch, &mut digests)?;
            let pages = batch
                .iter()
                .flat_map(|run| run.clone().step_by(PAGE as usize));
            for (page, digest) in pages.zip(&digests) {
                let digest = if of_file { digest.of_file() } else { *digest };
                match table.exchange(page, digest) {
                    true => push(&mut same, page..page + PAGE),
                    false => push(&mut self.differing, page..page + PAGE),
                }
            }
        }
        let comparable = within(&self.comparable, &(region.start..region.end()));
        let room = MOST_RUNS.saturating_sub(self.equal.len());
        let equal = keep_longest(intersection(&same, comparable), room);
        let stored = difference(runs, &equal);
        self.compared.extend_from_slice(runs);
        self.equal.extend(equal);
        self.took += begun.elapsed();
        Ok(stored)
    }

    /// Ends the comparison. Returns what the image inherits from its parent, if that is anything.
    pub fn finish(mut self) -> Option<ParentPages> {
        let (compared, equal) = (
            std::mem::take(&mut self.compared),
            std::mem::take(&mut self.equal),
        );
        tracing::info!(
            compared = total_bytes(&compared),
            equal = total_bytes(&equal),
            unwritten = total_bytes(&self.unwritten),
            took = ?self.took,
            "changes of memory"
        );
        let mut record = self.record.lock();
        record.compared(self.set, compared, &equal);
        record.digests = self
            .digests
            .take()
            .map(Replacement::complete)
            .unwrap_or_default();
        drop(record);
        let parent = self.parent.take()?;
        let mut runs = std::mem::take(&mut self.unwritten);
        runs.extend(equal);
        runs.sort_unstable_by_key(|run| run.start);
        (!runs.is_empty()).then_some(ParentPages { parent, runs })
    }
}

impl Drop for Inheritance<'_> {
    fn drop(&mut self) {
        if let Some(digests) = self.digests.take() {
            let mut record = self.record.lock();
            record.differed(&self.differing);
            record.digests = digests.give_up();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_hold_all_pages_in_order_and_no_more_than_a_request() {
        let most = WriteOrder::MOST_BYTES;
        let single = (0..100).map(|n| 2 * n * PAGE..(2 * n + 1) * PAGE);
        let long = std::iter::once(200 * PAGE..200 * PAGE + 3 * most + PAGE);
        let runs: Runs = single.chain(long).collect();
        let batches: Vec<Runs> = WriteOrder::parts(&runs).collect();
        for batch in &batches {
            assert!(batch.len() <= WriteOrder::MOST_RUNS && total_bytes(batch) <= most);
        }
        let pages = |runs: &[Range<u64>]| -> Vec<u64> {
            let pages = runs.iter().map(|run| run.clone().step_by(PAGE as usize));
            pages.flatten().collect()
        };
        assert!(pages(&batches.concat()) == pages(&runs));
        assert_eq!(WriteOrder::parts(&[]).count(), 0);
    }
}
