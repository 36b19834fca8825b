//! The scan of the upper half's mappings before the stop. The time for listing them and marking their pages grows with
//! the memory, so both are done while the threads still run.

use std::io;

use ckpt_image::Result;

use crate::changes::{DirtyTracker, Means};
use crate::classify::{classify, proc_failed, Application, WriteTracking};
use crate::pagemap::Pagemap;
use crate::ranges;
use crate::smaps::{self, SmapsEntry};
use crate::snapshot::cow_child::forking_is_faster;
use crate::snapshot::eager_copy::CopyBuffer;
use crate::snapshot::memory_budget::MemoryBudget;

/// Allowance, in bytes, for pages that are written between the pre-scan and the stop.
const PRESCAN_SLACK: u64 = 1 << 20;

/// The mappings of the upper half as they were while its threads still ran.
pub struct PreScan {
    entries: Vec<SmapsEntry>,
    /// Memory for the content of the next increment, if that is small.
    buffer: Option<CopyBuffer>,
}

impl PreScan {
    /// Scans the mappings. `tracker` collects the changes until now, so that few remain at the stop. If the threads are
    /// to be stopped only until the memory is copied, a part of the `budget` is used for a copy buffer.
    ///
    /// # Errors
    /// [`ckpt_image::ImageError::Io`] if the mappings cannot be listed.
    pub fn run(
        application: &Application,
        tracker: Option<&DirtyTracker>,
        budget: Option<&MemoryBudget>,
    ) -> Result<PreScan> {
        let mut scan = PreScan {
            entries: list_mappings()?,
            buffer: None,
        };
        // The kernel may have merged newly tracked mappings with others.
        if tracker.is_some_and(|tracker| scan.mark(application, tracker, budget)) {
            scan.entries = list_mappings()?;
        }
        Ok(scan)
    }

    /// Marks the pages. Returns whether the kernel now tracks writes to more mappings.
    fn mark(
        &mut self,
        application: &Application,
        tracker: &DirtyTracker,
        budget: Option<&MemoryBudget>,
    ) -> bool {
        let marks = match tracker.means() {
            Means::Marks(marks) => marks,
            // Registered memory is not marked: what a device writes behind the mark would not be seen. The caches of
            // the MPI library give their registrations up at the stop, and what was registered since the last set
            // counts as written. So all that is known of other pages stays.
            Means::Digests(_) => return false,
            Means::Nothing(_) => {
                tracker.forget_marks();
                return false;
            }
        };
        let (Ok(pagemap), Ok(classified)) = (Pagemap::open(), classify(&self.entries, application))
        else {
            return false;
        };
        let (mut unchanged, mut held, mut new) = (Vec::new(), 0, false);
        for planned in &classified.regions {
            if let Ok(Some(marked)) = planned.mark(&pagemap, marks) {
                unchanged.extend(marked.unchanged);
                held += ranges::total_bytes(&marked.own);
                new |= planned.tracking == WriteTracking::New;
            }
        }
        tracker.narrow(&unchanged);
        let changed = held.saturating_sub(tracker.unwritten_bytes());
        // More pages change until the stop.
        let likely = changed + changed / 4 + PRESCAN_SLACK;
        let plenty = budget.is_some_and(|budget| likely < budget.bytes / 2);
        tracing::debug!(held, changed, plenty, "pre-scan");
        if plenty && !forking_is_faster(held, likely) {
            self.buffer = CopyBuffer::filled(likely);
        }
        new
    }

    /// The buffer for copies, once.
    pub(crate) fn take_buffer(&mut self) -> Option<CopyBuffer> {
        self.buffer.take()
    }

    /// The mappings, if they are unchanged in the kernel's short list.
    pub(crate) fn confirmed(self) -> io::Result<Option<Vec<SmapsEntry>>> {
        let same = smaps::still_same(&self.entries, contract::ARENA_END as u64)?;
        Ok(same.then_some(self.entries))
    }
}

/// All mappings of the upper half.
pub fn list_mappings() -> Result<Vec<SmapsEntry>> {
    let listed = smaps::below(contract::ARENA_END as u64);
    listed.map_err(|source| proc_failed("list mappings in", source))
}
