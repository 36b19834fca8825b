//! The contents of an image: each region with the pages to store, and the pages that the image inherits from
//! its parent.

use std::ops::Range;

use ckpt_image::{Advice, Backing, ParentPages, Region, Result, SHARED_CONTENT};

use crate::classify::Stored;
use crate::dirty_tracking::DirtyTracker;
use crate::pagemap::{MarkedPages, Pagemap};
use crate::plan::Plan;
use crate::ranges;
use crate::request::{DumpRequest, Increments, StoreAssignment};

/// The contents of an image.
pub struct ImageContents {
    pub parts: Vec<ImageRegion>,
    pub inherited: Option<ParentPages>,
    /// A note for people.
    pub note: Option<String>,
}

/// A region of the image and the location of its content.
pub struct ImageRegion {
    pub region: Region,
    /// The pages to store.
    pub runs: Vec<Range<u64>>,
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

impl ImageContents {
    /// Decides which pages the image stores and which it inherits from its parent.
    pub fn of(plan: &Plan, request: &DumpRequest<'_>) -> Result<ImageContents> {
        let Some(Increments { tracker, parent }) = &request.increments else {
            let parts = all_regions(plan, request, None)?.0;
            return Ok(ImageContents::full(parts, None));
        };
        if let Some(why) = tracker.unreliable() {
            tracker.forget();
            let parts = all_regions(plan, request, None)?.0;
            let note = parent.map(|_| format!("all of its memory is stored: {why}"));
            return Ok(ImageContents::full(parts, note));
        }
        // If a region cannot be marked, the marks of the other regions are lost.
        let regions = all_regions(plan, request, Some(tracker));
        let (mut parts, marked) = regions.inspect_err(|_| tracker.forget())?;
        let Some(inherited) = tracker.begin_set(request.info.set_id, *parent, marked) else {
            let note = parent.map(|_| {
                "all of its memory is stored: no page is known to be unchanged since the parent"
                    .to_owned()
            });
            return Ok(ImageContents::full(parts, note));
        };
        for part in &mut parts {
            part.runs = ranges::difference(&part.runs, &inherited.runs);
        }
        Ok(ImageContents {
            parts,
            inherited: Some(inherited),
            note: None,
        })
    }

    /// Nothing is inherited.
    fn full(parts: Vec<ImageRegion>, note: Option<String>) -> ImageContents {
        ImageContents {
            parts,
            inherited: None,
            note,
        }
    }
}

/// All regions in the order of the image, with their pages and the changes that `tracker` has seen.
fn all_regions(
    plan: &Plan,
    request: &DumpRequest<'_>,
    tracker: Option<&DirtyTracker>,
) -> Result<(Vec<ImageRegion>, MarkedPages)> {
    let pagemap = Pagemap::open().map_err(request.failed("open /proc/self/pagemap for"))?;
    let (mut parts, mut marked) = (Vec::new(), MarkedPages::default());
    for planned in &plan.regions {
        let runs = planned
            .runs(&pagemap, tracker, &mut marked)
            .map_err(request.failed("ask which pages are in use (/proc/self/pagemap) for"))?;
        parts.push(ImageRegion {
            region: planned.region.clone(),
            held: ranges::total_bytes(&runs),
            runs,
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
