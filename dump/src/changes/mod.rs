//! Changes of memory since older sets, so that an increment holds only pages that have changed.
//!
//! Two means tell whether a page has changed:
//!
//! - The kernel watches writes and marks the written pages (`write_marks.rs`). That costs almost nothing at a save.
//! - Where it cannot, the digest of the page is compared with the one of the last comparison (`page_digests.rs`), when
//!   the image is written. That costs processor time for each page, but no time at the stop.
//!
//! `record.rs` keeps the unchanged pages for each set that may become the parent of the next, by either means. Both
//! err on one side: a page that is not known to be unchanged is stored again.

mod inheritance;
pub mod page_digests;
mod record;
pub mod write_marks;

use std::fs;
use std::ops::Range;

use ckpt_image::SetId;

use crate::pagemap::MarkedPages;
use page_digests::DigestKey;
use record::{Record, SharedRecord};
use write_marks::WriteMarks;

pub use inheritance::Inheritance;

/// The changes of this process's memory.
#[derive(Debug)]
pub struct DirtyTracker {
    /// Or the reason why the kernel does not watch writes.
    marks: Result<WriteMarks, String>,
    key: DigestKey,
    record: SharedRecord,
}

/// How changes of private memory are found now.
pub enum Means<'a> {
    /// By marks, and by digests in memory that cannot be watched.
    Marks(&'a WriteMarks),
    /// By digests alone, for this reason.
    Digests(String),
    /// Not at all, for this reason.
    Nothing(String),
}

impl DirtyTracker {
    /// Starts to track changes, by digests if the kernel cannot or may not watch writes.
    ///
    /// # Errors
    /// The kernel gives no random numbers.
    pub fn start() -> Result<DirtyTracker, String> {
        DirtyTracker::with(WriteMarks::start())
    }

    /// Tracks changes by digests alone, as if the kernel did not watch writes, for the reason `why`.
    ///
    /// # Errors
    /// The kernel gives no random numbers.
    pub fn by_digests(why: &str) -> Result<DirtyTracker, String> {
        DirtyTracker::with(Err(why.to_owned()))
    }

    fn with(marks: Result<WriteMarks, String>) -> Result<DirtyTracker, String> {
        let key = DigestKey::random();
        let key = key.map_err(|e| format!("the kernel gives no random numbers ({e})"))?;
        Ok(DirtyTracker {
            marks,
            key,
            record: SharedRecord::default(),
        })
    }

    /// The reason why the kernel does not watch writes, if it never does.
    pub fn unwatched(&self) -> Option<&str> {
        self.marks.as_ref().err().map(String::as_str)
    }

    /// How changes are found now.
    pub(crate) fn means(&self) -> Means<'_> {
        if reached_by_others() {
            // They write even while the image is made, so that a digest may not be that of the stored page.
            let why = "other processes can change memory unseen (/dev/xpmem)";
            return Means::Nothing(why.to_owned());
        }
        match (&self.marks, pinned()) {
            (Err(why), _) => Means::Digests(why.clone()),
            (Ok(marks), None) => Means::Marks(marks),
            (Ok(_), Some(size)) => Means::Digests(format!(
                "{size} of memory are registered with a device, which changes it unseen"
            )),
        }
    }

    /// Takes in the result of marking all tracked pages: those in `unwritten` were not written since they were marked
    /// last.
    pub(crate) fn narrow(&self, unwritten: &[Range<u64>]) {
        self.record.lock().narrow(unwritten);
    }

    /// Bytes that are known to be unwritten now, which an increment need not hold.
    pub(crate) fn unwritten_bytes(&self) -> u64 {
        self.record.lock().unwritten_bytes()
    }

    /// Whether the next set needs digests of a region although it is watched from now on: so far only its digests
    /// are known.
    pub(crate) fn knows_by_digest_alone(&self, range: &Range<u64>) -> bool {
        self.record.lock().knows_by_digest_alone(range)
    }

    /// Begins the set `set`, after all tracked pages were marked with this result.
    pub(crate) fn begin_set(
        &self,
        set: SetId,
        parent: Option<SetId>,
        marked: MarkedPages,
    ) -> Inheritance<'_> {
        let mut record = self.record.lock();
        record.narrow(&marked.unchanged);
        let parent = record.begin_set(set, parent, marked.own);
        let digests = std::mem::take(&mut record.digests);
        Inheritance::new(&self.record, self.key, set, parent, digests)
    }

    /// Records that this rank's image of a set is written.
    pub(crate) fn image_written(&self, set: SetId, digest: &str) {
        self.record.lock().image_written(set, digest);
    }

    /// Drops what marks have told: no page counts as unwritten.
    pub(crate) fn forget_marks(&self) {
        self.record.lock().forget_marks();
    }

    /// Drops everything: no page counts as unchanged.
    pub(crate) fn forget(&self) {
        *self.record.lock() = Record::default();
    }
}

/// The size of the memory that is registered with devices, if there is any or the kernel does not tell. The kernel does
/// not say which memory it is.
fn pinned() -> Option<String> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let pinned = status.lines().find_map(|line| line.strip_prefix("VmPin:"));
    let pinned = pinned.map_or("an unknown amount", |size| size.trim());
    (pinned != "0 kB").then(|| pinned.to_owned())
}

/// Whether other processes can write to this process's private memory.
fn reached_by_others() -> bool {
    let open = fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .flatten();
    let mut files = open.filter_map(|entry| fs::read_link(entry.path()).ok());
    files.any(|file| file.as_os_str() == "/dev/xpmem")
}
