//! The contents of an image: each region with the pages to store, and the pages that the image inherits from
//! its parent.

use std::ops::Range;

use ckpt_image::{Advice, Backing, Region, Result, SHARED_CONTENT};

use crate::changes::write_marks::WriteMarks;
use crate::changes::{DirtyTracker, Inheritance, Means};
use crate::classify::Stored;
use crate::pagemap::{MarkedPages, Pagemap};
use crate::plan::Plan;
use crate::ranges;
use crate::request::{DumpRequest, Increments, StoreAssignment};

/// The contents of an image.
pub struct ImageContents<'a> {
    pub parts: Vec<ImageRegion>,
    /// The pages that the image inherits from its parent. `None`: all sets are full, or changes are not tracked.
    pub inheritance: Option<Inheritance<'a>>,
    /// A note for people.
    pub note: Option<String>,
}

/// A region of the image and the location of its content.
pub struct ImageRegion {
    pub region: Region,
    /// The pages to store, or to compare.
    pub runs: Vec<Range<u64>>,
    /// Only digests tell which of its pages have changed.
    pub compared: bool,
    /// Bytes of content, with those that are inherited.
    pub held: u64,
    pub location: Location,
}

/// The place from which the content of a region is read while the threads stand still.
pub enum Location {
    /// In this process's memory.
    Memory {
        /// There may be pages that cannot be read (past the end of a file).
        holes: bool,
        /// All of it can be read by load instructions.
        readable: bool,
        /// Also in a copy that `fork` makes.
        forks: bool,
    },
    /// In an object, whose first byte has this address. The address may wrap, since parts begin at higher offsets.
    Object { index: u32, origin: u64 },
}

impl<'a> ImageContents<'a> {
    /// Decides which pages the image stores, and which it may inherit from its parent.
    pub fn of(plan: &Plan, request: &DumpRequest<'a>) -> Result<ImageContents<'a>> {
        let Some(Increments { tracker, parent }) = request.increments else {
            return ImageContents::full(plan, request, None);
        };
        let marks = match tracker.means() {
            Means::Marks(marks) => Some(marks),
            Means::Digests(why) => {
                tracing::info!(why, "changes are found by digests");
                tracker.forget_marks();
                None
            }
            Means::Nothing(why) => {
                tracker.forget();
                let note = parent.map(|_| format!("all of its memory is stored: {why}"));
                return ImageContents::full(plan, request, note);
            }
        };
        // If a region cannot be marked, the marks of the other regions are lost.
        let regions = all_regions(plan, request, Some((tracker, marks)));
        let (mut parts, marked) = regions.inspect_err(|_| tracker.forget_marks())?;
        let inheritance = tracker.begin_set(request.info.set_id, parent, marked);
        for part in &mut parts {
            part.runs = ranges::difference(&part.runs, inheritance.unwritten());
        }
        Ok(ImageContents {
            parts,
            inheritance: Some(inheritance),
            note: None,
        })
    }

    /// Nothing is inherited.
    fn full(
        plan: &Plan,
        request: &DumpRequest<'_>,
        note: Option<String>,
    ) -> Result<ImageContents<'a>> {
        Ok(ImageContents {
            parts: all_regions(plan, request, None)?.0,
            inheritance: None,
            note,
        })
    }
}

/// All regions in the order of the image, with their pages and the changes that the marks show.
fn all_regions(
    plan: &Plan,
    request: &DumpRequest<'_>,
    changes: Option<(&DirtyTracker, Option<&WriteMarks>)>,
) -> Result<(Vec<ImageRegion>, MarkedPages)> {
    let failed = || request.failed("ask which pages are in use (/proc/self/pagemap) for");
    let pagemap = Pagemap::open().map_err(request.failed("open /proc/self/pagemap for"))?;
    let (mut parts, mut marked) = (Vec::new(), MarkedPages::default());
    for planned in &plan.regions {
        let marks = changes.and_then(|(_, marks)| marks);
        let found = marks.map(|marks| planned.mark(&pagemap, marks));
        let found = found.transpose().map_err(failed())?.flatten();
        // Memory that cannot be watched is compared.
        let compared = changes.is_some_and(|(tracker, _)| {
            planned.may_be_inherited()
                && (found.is_none() || tracker.knows_by_digest_alone(&planned.range()))
        });
        let runs = match found {
            Some(MarkedPages { own, unchanged }) => {
                marked.own.extend_from_slice(&own);
                marked.unchanged.extend(unchanged);
                own
            }
            None => planned.runs(&pagemap).map_err(failed())?,
        };
        parts.push(ImageRegion {
            region: planned.region.clone(),
            held: ranges::total_bytes(&runs),
            runs,
            compared,
            location: Location::Memory {
                holes: planned.stored == Stored::Everything,
                readable: planned.readable,
                forks: planned.forks,
            },
        });
    }
    add_shared_content(plan, request.shares, &mut parts)?;
    Ok((parts, marked))
}

/// Adds this rank's part of the content of shared objects.
fn add_shared_content(
    plan: &Plan,
    shares: &[StoreAssignment],
    parts: &mut Vec<ImageRegion>,
) -> Result<()> {
    let mut at = SHARED_CONTENT;
    let assigned = plan.assigned(shares);
    for (index, object, share) in assigned.filter(|(_, _, share)| !share.store.is_empty()) {
        let file = object.open()?;
        for part in &share.store {
            let region = Region {
                start: at,
                len: part.end - part.start,
                prot: 0,
                grows_down: false,
                no_reserve: false,
                advice: Advice::default(),
                backing: Backing::SharedContent {
                    object: index,
                    offset: part.start,
                },
            };
            let origin = at.wrapping_sub(part.start);
            let runs = object.content(part.clone(), file.as_ref()).into_iter();
            let runs: Vec<_> = runs
                .map(|run| origin.wrapping_add(run.start)..origin.wrapping_add(run.end))
                .collect();
            at = region.end();
            parts.push(ImageRegion {
                region,
                held: ranges::total_bytes(&runs),
                runs,
                compared: false,
                location: Location::Object { index, origin },
            });
        }
    }
    Ok(())
}

impl ImageRegion {
    /// Its content is in a copy that `fork` makes.
    pub fn forks(&self) -> bool {
        matches!(self.location, Location::Memory { forks: true, .. })
    }

    /// Whether no part of the mapping is read in a copy, although it holds a file or an object.
    pub fn is_unread(&self) -> bool {
        let file = matches!(self.region.backing, Backing::PrivateFile { .. });
        match self.location {
            Location::Memory { forks, .. } => !forks || file && self.runs.is_empty(),
            Location::Object { .. } => false,
        }
    }

    /// Whether the region is missing in a copy with these mappings, which are in ascending order. Memory that the lower
    /// half has registered with a device since the mappings were listed may be excluded from children.
    pub fn lacks(&self, copied: &[Range<u64>]) -> bool {
        self.forks() && !ranges::difference(&self.runs, copied).is_empty()
    }
}
