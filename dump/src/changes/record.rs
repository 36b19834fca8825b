//! The record of unchanged pages, for each set that may become the parent of the next: the last that was committed and
//! the one that is being made. A set that is given up costs nothing: pages that were unchanged until then and are
//! unchanged since are unchanged.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ckpt_image::{ParentImage, SetId};

use super::page_digests::DigestTable;
use crate::ranges::{difference, intersection, keep_longest, total_bytes, within};

type Runs = Vec<Range<u64>>;

/// Largest number of runs of unchanged pages that is kept: 16 MiB of memory. Pages that are left out are stored
/// again.
pub const MOST_RUNS: usize = 1 << 20;

/// The record, for one user at a time.
#[derive(Debug, Default)]
pub struct SharedRecord(Mutex<Record>);

impl SharedRecord {
    pub fn lock(&self) -> MutexGuard<'_, Record> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The unchanged pages, for each set that may become the parent, and the digests of pages.
#[derive(Debug, Default)]
pub struct Record {
    candidates: Vec<ParentCandidate>,
    /// The digests at the last comparison.
    pub digests: DigestTable,
}

/// A set that may become the parent of the next one.
#[derive(Debug)]
struct ParentCandidate {
    set: SetId,
    /// Of this rank's image in it, once it is written.
    digest: Option<String>,
    /// Pages that the image holds, or inherits, and that the kernel has watched unwritten since.
    unwritten: Runs,
    /// Pages that the image holds, or inherits, and that had the same digest at every comparison since.
    equal: Runs,
}

/// The parent of a set, and the pages that may be inherited from it.
#[derive(Debug)]
pub struct Parent {
    pub image: ParentImage,
    /// Pages that are known to be unchanged.
    pub unwritten: Runs,
    /// Pages that are unchanged if they have the digest of the last comparison.
    pub equal: Runs,
}

impl Record {
    /// Takes in the result of marking all tracked pages: those in `unwritten` were not written since they were marked
    /// last.
    pub fn narrow(&mut self, unwritten: &[Range<u64>]) {
        for candidate in &mut self.candidates {
            candidate.unwritten =
                keep_longest(intersection(unwritten, &candidate.unwritten), MOST_RUNS);
        }
    }

    /// Bytes that are known to be unwritten now, which an increment need not hold.
    pub fn unwritten_bytes(&self) -> u64 {
        let last = self.candidates.last();
        last.map_or(0, |candidate| total_bytes(&candidate.unwritten))
    }

    /// Whether nothing in this range is known by marks, but something may be by its digest.
    pub fn knows_by_digest_alone(&self, range: &Range<u64>) -> bool {
        let last = self.candidates.last();
        let marked = last.is_some_and(|last| !within(&last.unwritten, range).is_empty());
        !marked && self.digests.touches(range)
    }

    /// Begins the set `set`, of whose marked pages all are `own`. Returns the parent, unless its record is gone.
    pub fn begin_set(&mut self, set: SetId, parent: Option<SetId>, own: Runs) -> Option<Parent> {
        (self.candidates)
            .retain(|candidate| Some(candidate.set) == parent && candidate.digest.is_some());
        let parent = self.candidates.first().and_then(|candidate| {
            Some(Parent {
                image: ParentImage {
                    set_id: candidate.set,
                    digest: candidate.digest.clone()?,
                },
                unwritten: candidate.unwritten.clone(),
                equal: candidate.equal.clone(),
            })
        });
        self.candidates.push(ParentCandidate {
            set,
            digest: None,
            unwritten: keep_longest(own, MOST_RUNS),
            equal: Runs::new(),
        });
        parent
    }

    /// Takes in a complete comparison for the set `set`: all pages that were compared, and those of them that the set
    /// has in common with its parent.
    pub fn compared(&mut self, set: SetId, all: Runs, inherited: &[Range<u64>]) {
        let mut all = Some(keep_longest(all, MOST_RUNS));
        for candidate in &mut self.candidates {
            candidate.equal = match candidate.set == set {
                true => all.take().unwrap_or_default(),
                false => inherited.to_vec(),
            };
        }
    }

    /// Takes in a comparison that was given up after these pages had other digests.
    pub fn differed(&mut self, pages: &[Range<u64>]) {
        for candidate in &mut self.candidates {
            candidate.equal = difference(&candidate.equal, pages);
        }
    }

    /// Records that this rank's image of a set is written.
    pub fn image_written(&mut self, set: SetId, digest: &str) {
        let written = self.candidates.iter_mut().find(|one| one.set == set);
        if let Some(candidate) = written {
            candidate.digest = Some(digest.to_owned());
        }
    }

    /// Drops what marks have told: no page counts as unwritten.
    pub fn forget_marks(&mut self) {
        for candidate in &mut self.candidates {
            candidate.unwritten = Runs::new();
        }
    }
}
