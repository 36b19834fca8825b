//! Classification of mappings: how each mapping of the upper half is recorded, which part of its content is
//! stored, and by which means its content can be read.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::path::PathBuf;

use ckpt_image::{Advice, Backing, FileIdentity, FileIdentityCache, ImageError, Region, Result};
use proc_maps::Mapping;

use crate::changes::write_marks::WriteMarks;
use crate::pagemap::{MarkedPages, Pagemap};
use crate::shared_objects::{MappedKind, ObjectTable, Refusal};
use crate::smaps::SmapsEntry;

/// Knowledge about the application that its mappings do not show.
#[derive(Clone, Copy)]
pub struct Application {
    /// Converts the kernel's id of a System V segment to the application's.
    pub shm_id: fn(i32) -> i32,
    /// Whether the file of this path belongs to Stasis, such as a front. Its content is stored with the memory, because
    /// the Stasis of a restart may be in another directory or have another version.
    pub is_ours: fn(&[u8]) -> bool,
}

/// All mappings, classified.
pub struct Classified {
    pub regions: Vec<PlannedRegion>,
    pub objects: ObjectTable,
}

/// Classifies all mappings, or returns an error for one that cannot be saved.
pub fn classify(entries: &[SmapsEntry], application: &Application) -> Result<Classified> {
    let mut classifier = Classifier {
        files: FileIdentityCache::default(),
        objects: ObjectTable::new(application.shm_id)?,
        aliased: aliased(entries),
        is_ours: application.is_ours,
    };
    let regions = entries
        .iter()
        .map(|entry| classifier.region(entry))
        .collect::<Result<Vec<_>>>()?;
    Ok(Classified {
        regions,
        objects: classifier.objects,
    })
}

/// The error of reading the list of mappings.
pub fn proc_failed(action: &'static str, source: io::Error) -> ImageError {
    ImageError::Io {
        action,
        path: PathBuf::from("/proc/self/smaps"),
        source,
    }
}

/// A mapping as it will be recorded.
pub struct PlannedRegion {
    pub region: Region,
    pub stored: Stored,
    /// A child made by `fork` has its content as it is at the fork.
    pub forks: bool,
    /// Its content can be read by load instructions, in this process and in a copy of it.
    pub readable: bool,
    /// The program has locked it (mlock).
    pub locked: bool,
    /// Each page is locked when it is touched (MLOCK_ONFAULT).
    pub on_fault: bool,
    /// Whether the kernel can report which pages were written.
    pub tracking: WriteTracking,
}

/// The part of a mapping that goes into the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// Nothing: the content belongs to a file or to a shared object.
    Nothing,
    /// The pages that belong to this process alone.
    OwnPages,
    /// Everything, of a file that Stasis has given to the application.
    OurFile,
    /// Everything: a restart will not find the file or the memory that backs it.
    Everything,
}

/// Whether writes to a mapping are tracked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteTracking {
    /// They cannot be.
    Impossible,
    /// They can be from now on.
    New,
    /// They have been.
    Active,
}

impl PlannedRegion {
    /// The pages to store if nothing is inherited.
    pub fn runs(&self, pagemap: &Pagemap) -> io::Result<Vec<Range<u64>>> {
        match self.stored {
            Stored::Nothing => Ok(Vec::new()),
            Stored::Everything | Stored::OurFile => Ok(vec![self.range()]),
            Stored::OwnPages => pagemap.own(self.range(), self.anonymous()),
        }
    }

    /// Whether an image may inherit pages of it: its memory is private.
    pub fn may_be_inherited(&self) -> bool {
        self.stored != Stored::Nothing
            && matches!(
                self.region.backing,
                Backing::Anonymous | Backing::PrivateFile { .. }
            )
    }

    /// Its pages and which of them have not changed, if that is known. The kernel tracks writes from now on, if
    /// it can.
    pub fn mark(&self, pagemap: &Pagemap, marks: &WriteMarks) -> io::Result<Option<MarkedPages>> {
        let tracked = match (self.stored, self.tracking) {
            (_, WriteTracking::Active) => true,
            (_, WriteTracking::New) if pagemap.any(self.range(), self.anonymous())? => false,
            _ => return Ok(None),
        };
        Ok(marks
            .mark(pagemap, self.range(), self.anonymous(), tracked)
            .ok())
    }

    pub fn range(&self) -> Range<u64> {
        self.region.start..self.region.end()
    }

    /// No file is behind it.
    fn anonymous(&self) -> bool {
        self.stored == Stored::OwnPages && self.region.backing == Backing::Anonymous
    }
}

/// Device and inode of objects that have several shared mappings.
fn aliased(entries: &[SmapsEntry]) -> BTreeSet<(String, u64)> {
    let mut seen = BTreeSet::new();
    let mappings = entries.iter().map(|entry| &entry.mapping);
    let shared = mappings.filter(|m| m.shared && m.inode != 0);
    shared
        .map(|m| (m.device.clone(), m.inode))
        .filter(|key| !seen.insert(key.clone()))
        .collect()
}

/// State of the classification.
struct Classifier {
    files: FileIdentityCache,
    objects: ObjectTable,
    aliased: BTreeSet<(String, u64)>,
    is_ours: fn(&[u8]) -> bool,
}

impl Classifier {
    /// The record of a mapping, or the reason why it cannot be saved.
    fn region(&mut self, entry: &SmapsEntry) -> Result<PlannedRegion> {
        let mapping = &entry.mapping;
        let (backing, stored) = self.backing(entry).map_err(|why| ImageError::Unsaveable {
            start: mapping.start,
            end: mapping.end,
            why: format!("{} {why}", String::from_utf8_lossy(&mapping.path)),
        })?;
        let region = Region {
            start: mapping.start,
            len: mapping.end - mapping.start,
            prot: mapping.prot,
            grows_down: entry.has(b"gd"),
            no_reserve: entry.has(b"nr"),
            advice: Advice {
                huge: entry.has(b"hg"),
                no_huge: entry.has(b"nh"),
                dont_fork: entry.has(b"dc"),
                wipe_on_fork: entry.has(b"wf"),
            },
            backing,
        };
        // Another process may change the pages of a file itself. Huge pages reserved for this process are
        // taken from a child when they run out.
        let forks = matches!(stored, Stored::OwnPages | Stored::OurFile)
            && !region.advice.dont_fork
            && !region.advice.wipe_on_fork
            && !entry.has(b"ht");
        let readable = stored != Stored::Everything && mapping.prot & 1 != 0 && !entry.keyed;
        let tracking = match entry.has(b"uw") {
            _ if stored != Stored::OwnPages || entry.has(b"ht") => WriteTracking::Impossible,
            true => WriteTracking::Active,
            false => WriteTracking::New,
        };
        Ok(PlannedRegion {
            region,
            stored,
            forks,
            readable,
            locked: entry.has(b"lo"),
            on_fault: entry.has(b"lf"),
            tracking,
        })
    }

    fn backing(&mut self, entry: &SmapsEntry) -> std::result::Result<(Backing, Stored), Refusal> {
        let mapping = &entry.mapping;
        let named = |prefix: &str| mapping.path.starts_with(prefix.as_bytes());
        if entry.has(b"io") || entry.has(b"pf") {
            return Err("is the memory of a device".to_owned());
        }
        if mapping.shared {
            return self.shared(entry);
        }
        if mapping.path.is_empty() || named("[heap]") || named("[stack") || named("[anon:") {
            return Ok((Backing::Anonymous, Stored::OwnPages));
        }
        if named("[") {
            return Err("is a mapping of the kernel's, which no restart can restore".to_owned());
        }
        // Private memory whose name only shows how it was created.
        if named("/dev/zero") || named("/anon_hugepage") {
            return Ok((Backing::Anonymous, Stored::OwnPages));
        }
        Ok(match same_file(mapping, &mut self.files) {
            Some(_) if (self.is_ours)(&mapping.path) => (Backing::Anonymous, Stored::OurFile),
            Some(identity) => {
                let backing = Backing::PrivateFile {
                    path: mapping.path.clone(),
                    offset: mapping.offset,
                    identity,
                };
                (backing, Stored::OwnPages)
            }
            // Deleted, replaced, or not reachable by this path: all of its content is stored, also of pages that the
            // program has never touched. It is anonymous memory after a restart, so a page that is given back then
            // (MADV_DONTNEED) holds zeros instead of the file's content, and later writes to the file do not show. The
            // file's content beneath a written page cannot be read here without a descriptor of the file.
            None => (Backing::Anonymous, Stored::Everything),
        })
    }

    fn shared(&mut self, entry: &SmapsEntry) -> std::result::Result<(Backing, Stored), Refusal> {
        let mapping = &entry.mapping;
        let named = |prefix: &str| mapping.path.starts_with(prefix.as_bytes());
        if entry.has(b"ht") {
            return Err("is shared memory of huge pages, which Stasis cannot save yet".to_owned());
        }
        let anonymous = named("/dev/zero") || named("[anon_shmem");
        let key = (mapping.device.clone(), mapping.inode);
        if anonymous && !self.aliased.contains(&key) {
            return Ok((Backing::SharedAnonymous, Stored::Everything));
        }
        let identity = same_file(mapping, &mut self.files);
        let what = match identity {
            _ if named("/SYSV") => MappedKind::SystemV,
            Some(_) if named("/dev/shm/") => MappedKind::Named,
            Some(identity) => {
                let writable = entry.has(b"mw");
                if writable {
                    self.objects.index(mapping, MappedKind::File)?;
                }
                let backing = Backing::SharedFile {
                    path: mapping.path.clone(),
                    offset: mapping.offset,
                    identity,
                    writable,
                };
                return Ok((backing, Stored::Nothing));
            }
            None if anonymous || named("/memfd:") || mapping.path.ends_with(b" (deleted)") => {
                MappedKind::Memory
            }
            None => {
                return Err(
                    "is a shared mapping of something that is not a file under this name \
                            any more"
                        .to_owned(),
                )
            }
        };
        let backing = Backing::Shared {
            object: self.objects.index(mapping, what)?,
            offset: mapping.offset,
            writable: entry.has(b"mw"),
        };
        Ok((backing, Stored::Nothing))
    }
}

/// FileIdentity of the mapped file, if the path still refers to that file.
fn same_file(mapping: &Mapping, files: &mut FileIdentityCache) -> Option<FileIdentity> {
    // The inode alone: on stacked file systems mapping and path name different devices.
    let (inode, identity) = files.at(&mapping.path)?;
    (*inode == mapping.inode).then(|| identity.clone())
}
