//! The plan of a save: all mappings and all shared objects of the upper half. It is complete before anything is
//! written, so that a mapping that cannot be saved is refused before.

use std::io;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use ckpt_image::{GuardPages, ImageError, Result, SharedObject};

use crate::classify::{classify, Application, Classified, PlannedRegion};
use crate::pagemap::Pagemap;
use crate::prescan::{list_mappings, PreScan};
use crate::request::StoreAssignment;
use crate::shared_objects::{MappedObject, ObjectTable};
use crate::snapshot::eager_copy::CopyBuffer;

/// The plan for saving this process's memory.
pub struct Plan {
    pub(crate) regions: Vec<PlannedRegion>,
    pub(crate) objects: ObjectTable,
    /// Memory for a copy. The first caller of `take_buffer` gets it.
    buffer: Mutex<Option<CopyBuffer>>,
}

impl Plan {
    /// Plans the save of all mappings of the upper half. Its threads must be stopped until the save is complete. A
    /// `prescan` must be omitted if the application may have changed mappings since.
    ///
    /// # Errors
    /// [`ckpt_image::ImageError::Io`] if the mappings cannot be listed; [`ckpt_image::ImageError::Unsaveable`] names a
    /// mapping that no image can hold.
    pub fn make(application: &Application, mut prescan: Option<PreScan>) -> Result<Plan> {
        let buffer = prescan.as_mut().and_then(PreScan::take_buffer);
        let entries = match prescan.map(PreScan::confirmed) {
            Some(Ok(Some(entries))) => entries,
            other => {
                let changed = matches!(other, Some(Ok(None)));
                tracing::debug!(changed, "listing the mappings: no pre-scan can be used");
                list_mappings()?
            }
        };
        let Classified { regions, objects } = classify(&entries, application)?;
        Ok(Plan {
            regions,
            objects,
            buffer: Mutex::new(buffer),
        })
    }

    pub(crate) fn take_buffer(&self) -> Option<CopyBuffer> {
        let mut buffer = self.buffer.lock().unwrap_or_else(PoisonError::into_inner);
        buffer.take()
    }

    /// The parts of shared objects that can be read here, by the objects' names.
    pub fn parts(&self) -> Vec<(String, Range<u64>)> {
        let objects = self.objects.all().iter();
        objects
            .flat_map(|object| {
                let name = &object.described.id;
                object
                    .readable()
                    .into_iter()
                    .map(|part| (name.clone(), part))
            })
            .collect()
    }

    /// The guard pages (MADV_GUARD_INSTALL), if there are any.
    ///
    /// # Errors
    /// [`ImageError::Io`] if the kernel does not tell them from other pages.
    pub fn guard_pages(&self) -> Result<Option<GuardPages>> {
        let failed = |source| ImageError::Io {
            action: "find the guard pages (MADV_GUARD_INSTALL) in",
            path: "/proc/self/pagemap".into(),
            source,
        };
        let pagemap = Pagemap::open().map_err(failed)?;
        if !pagemap.tells_guards().map_err(failed)? {
            let why = "the kernel does not tell them from other pages (Linux 6.15 does)";
            return Err(failed(io::Error::other(why)));
        }
        let mut all = Vec::new();
        for region in &self.regions {
            all.extend(pagemap.guards(region.range()).map_err(failed)?);
        }
        Ok(GuardPages::of(all))
    }

    /// The ranges that the program has locked (mlock), and whether each page is locked when it is touched.
    pub fn locked(&self) -> impl Iterator<Item = (Range<u64>, bool)> + '_ {
        let locked = self.regions.iter().filter(|region| region.locked);
        locked.map(|region| (region.range(), region.on_fault))
    }

    /// The object that is the file of this device and inode.
    pub fn object(&self, dev: u64, ino: u64) -> Option<&SharedObject> {
        let mut objects = self.objects.all().iter();
        let found = objects.find(|object| object.is(dev, ino))?;
        Some(&found.described)
    }

    /// The objects in which this rank has a share, with their indices.
    pub(crate) fn assigned<'a>(
        &'a self,
        shares: &'a [StoreAssignment],
    ) -> impl Iterator<Item = (u32, &'a MappedObject, &'a StoreAssignment)> {
        (0..).zip(self.objects.all()).filter_map(|(index, object)| {
            let of_it = |share: &&StoreAssignment| share.object == object.described.id;
            Some((index, object, shares.iter().find(of_it)?))
        })
    }
}
