//! The save of an image: from the plan to the durable file.

use std::fs::File;
use std::io;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use ckpt_image::{kind, Header, ImageSummary, ImageWriter, Result, PAGE};

use crate::changes::Inheritance;
use crate::contents::{ImageContents, ImageRegion};
use crate::plan::Plan;
use crate::ranges::total_bytes;
use crate::request::{DumpRequest, HeaderInfo, SavedImage, StoreAssignment};
use crate::snapshot::Snapshot;
use crate::source::{PageSource, StoppedProcess};

impl Plan {
    /// Writes this rank's image and makes it durable. Calls `copied` as soon as the threads' memory is not read any
    /// more. If the memory can be copied, that is before the image is written.
    ///
    /// # Errors
    /// [`ckpt_image::ImageError::Unsaveable`] names memory that no image can hold; [`ckpt_image::ImageError::Io`] if
    /// the file cannot be written. The file is no image then.
    pub fn save(&self, request: &DumpRequest<'_>, copied: impl FnOnce()) -> Result<SavedImage> {
        let mut notes = self.check_other_processes(request.shares)?;
        let ImageContents {
            parts,
            inheritance,
            note,
        } = ImageContents::of(self, request)?;
        notes.extend(note);
        let tracked = inheritance.is_some();
        tracing::info!(
            regions = parts.len(),
            bytes = parts.iter().map(|part| part.held).sum::<u64>(),
            read = parts
                .iter()
                .map(|part| total_bytes(&part.runs))
                .sum::<u64>(),
            objects = self.objects.all().len(),
            "saving the memory"
        );
        for note in &notes {
            tracing::info!(note, "note for the report");
        }
        let begun = Instant::now();
        let mem = File::open("/proc/self/mem");
        let process = StoppedProcess {
            plan: self,
            mem: &mem.map_err(request.failed("open /proc/self/mem for"))?,
        };
        let ((image, inherits), stopped_because) =
            match Snapshot::take(&process, &parts, &request.pause) {
                Ok(snapshot) => {
                    tracing::info!(
                        took = ?begun.elapsed(),
                        fork = snapshot.is_forked(),
                        "memory copied"
                    );
                    copied();
                    let image = self.write(request, &parts, inheritance, snapshot)?;
                    (image, None)
                }
                Err(why) => {
                    tracing::info!(why, "memory not copied: the threads stay stopped");
                    let image = self.write(request, &parts, inheritance, process)?;
                    copied();
                    (image, Some(why))
                }
            };
        tracing::info!(took = ?begun.elapsed(), bytes = image.bytes, "image file complete");
        if let Some(increments) = &request.increments {
            increments
                .tracker
                .image_written(request.info.set_id, &image.digest);
            if increments.parent.is_some() && tracked && !inherits {
                notes.push(
                    "all of its memory is stored: no page is known to be unchanged since the parent"
                        .to_owned(),
                );
            }
        }
        Ok(SavedImage {
            image,
            notes,
            stopped_because,
            inherits,
        })
    }

    /// Writes the regions with the content from `source`. Returns also whether pages are inherited.
    fn write(
        &self,
        request: &DumpRequest<'_>,
        parts: &[ImageRegion],
        mut inheritance: Option<Inheritance<'_>>,
        source: impl PageSource,
    ) -> Result<(ImageSummary, bool)> {
        let (info, path) = (request.info, request.path());
        let mut writer = ImageWriter::create(request.disk, &path, header(info), info.compression)?;
        if info.sealed {
            writer.sealed();
        }
        for part in parts {
            let mut memory = source.of(part)?;
            let inheritance = inheritance.as_mut().filter(|_| part.compared);
            let changed = inheritance
                .map(|inheritance| inheritance.compare(&part.region, &part.runs, &mut *memory));
            let changed = changed
                .transpose()
                .map_err(request.failed("compare the memory for"))?;
            let runs = changed.as_ref().unwrap_or(&part.runs);
            writer.region(part.region.clone(), runs, &mut *memory)?;
        }
        source
            .check()
            .map_err(request.failed("read the memory for"))?;
        // Copies are needed no longer.
        drop(source);
        let inherited = inheritance.and_then(Inheritance::finish);
        let inherits = inherited.is_some();
        if let Some(inherited) = inherited {
            writer.inherit(inherited);
        }
        let described = self.objects.all().iter().map(|o| o.described.clone());
        writer.shared(described.collect());
        let undescribed = || request.failed("describe this machine for");
        let environment = info.machine().map_err(undescribed())?;
        let environment = kind::ENVIRONMENT
            .encode(&environment)
            .map_err(|e| undescribed()(io::Error::other(e)))?;
        writer.section(environment);
        for section in request.sections {
            writer.section(section.clone());
        }
        Ok((writer.finish()?, inherits))
    }

    /// Refuses a shared object that a process outside of the job has mapped. The first of the ranks that have the
    /// object does this. Returns notes about child processes of the job that have it mapped.
    pub(crate) fn check_other_processes(&self, shares: &[StoreAssignment]) -> Result<Vec<String>> {
        let mut notes = Vec::new();
        for (_, object, share) in self.assigned(shares) {
            if share.processes.first() != Some(&std::process::id()) {
                continue;
            }
            let others = object
                .other_processes(&share.processes)
                .map_err(|why| object.unsaveable(why))?;
            let what = object.described.kind.describe();
            notes.extend(others.into_iter().map(|process| {
                format!("{what} is also mapped by child process {process}, which is not saved")
            }));
        }
        Ok(notes)
    }
}

pub fn header(info: &HeaderInfo) -> Header {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    Header {
        set_id: info.set_id,
        epoch: info.epoch,
        rank: info.rank,
        world_size: info.world_size,
        contract_version: contract::VERSION,
        page_size: PAGE as u32,
        abi: info.abi.clone(),
        created_ns: now.map_or(0, |since| since.as_nanos() as u64),
    }
}
