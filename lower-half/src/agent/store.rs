//! Image sets for the coordinator: where ranks write, and the manifest that makes a set whole.

use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use ckpt_image::{next_number, prune, set_name, ImageSummary, Manifest, RankEntry, SetWriter};
use coordinator::coordinator::PartialSet;
use coordinator::protocol::Summary;
use coordinator::server::Store;

use super::{process, Setup};

/// The sets of this job's checkpoint directory.
pub struct Sets {
    setup: &'static Setup,
    size: u32,
    /// The set being made, and when it was begun.
    writing: Option<(SetWriter, u64)>,
}

impl Sets {
    /// For a job of `size` ranks.
    pub fn new(setup: &'static Setup, size: u32) -> Self {
        Sets {
            setup,
            size,
            writing: None,
        }
    }
}

impl Store for Sets {
    fn prepare(&mut self) -> Result<PartialSet, String> {
        // One that was given up goes first.
        self.writing = None;
        let begin = || {
            let dir = &self.setup.checkpoints.dir;
            let number = next_number(dir)?;
            Ok((number, SetWriter::begin(&self.setup.disk, dir, number)?))
        };
        let (number, writer) = begin().map_err(|e: ckpt_image::ImageError| e.to_string())?;
        let partial = PartialSet {
            set: set_name(number),
            id: writer.set_id().0.to_vec(),
            directory: writer.path().to_string_lossy().into_owned(),
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        self.writing = Some((writer, now.map_or(0, |since| since.as_secs())));
        Ok(partial)
    }

    fn commit(&mut self, images: &[Summary]) -> Result<(), String> {
        let (writer, created) = self.writing.take().ok_or("no set is being made")?;
        let entry = |(rank, summary): (u32, &Summary)| RankEntry {
            rank,
            host: summary.host.clone(),
            image: ImageSummary {
                bytes: summary.bytes,
                memory_bytes: summary.memory,
                digest: summary.digest.clone(),
            },
        };
        let manifest = Manifest {
            schema_version: 0,
            set_id: writer.set_id(),
            created,
            epoch: u64::from(contract::gate().lower.epoch.load(Ordering::Relaxed)),
            world_size: self.size,
            abi: process::abi_name(),
            library: self.setup.library.clone(),
            contract_version: contract::VERSION,
            command: self.setup.command.clone(),
            ranks: (0..).zip(images).map(entry).collect(),
        };
        let committed = writer.commit(&manifest, self.setup.key.as_ref());
        committed.map(drop).map_err(|e| e.to_string())
    }

    /// Removes what is older than the job wants to keep.
    fn tidy(&mut self) {
        let Setup {
            checkpoints,
            disk,
            key,
            ..
        } = self.setup;
        let Some(keep) = checkpoints.keep else { return };
        if let Err(why) = prune(disk, &checkpoints.dir, keep, key.as_ref()) {
            eprintln!("stasis: older checkpoints stay: {why}");
        }
    }

    fn discard(&mut self) {
        self.writing = None;
    }
}
