//! Image sets for the coordinator: where ranks write, what they build upon, and the manifest that makes a
//! set whole.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use ckpt_image::{
    create_checkpoint_dir, next_number, oldest_number, prune, set_name, ImageSummary, Manifest,
    ParentSet, PartnerCopy, RankEntry, Set, SetWriter,
};
use contract::MpiState;
use coordinator::coordinator::{Parent, PartialSet};
use coordinator::protocol::Summary;
use coordinator::server::Store;

use super::{process, Setup};
use crate::mpi::world;

/// The sets of this job's checkpoint directory.
pub struct Sets {
    setup: &'static Setup,
    size: u32,
    writing: Option<Writing>,
    /// The newest set that this process has committed.
    last: Option<Last>,
}

/// The set being made.
struct Writing {
    writer: SetWriter,
    name: String,
    /// When it was begun, in seconds since 1970.
    created: u64,
    /// What the ranks were told to build upon.
    parent: Option<ParentSet>,
}

struct Last {
    set: ParentSet,
    /// How many sets it builds upon.
    increments: u32,
}

impl Sets {
    /// For a job of `size` ranks.
    pub fn new(setup: &'static Setup, size: u32) -> Self {
        Sets {
            setup,
            size,
            writing: None,
            last: None,
        }
    }

    /// The set that the next one may build upon: as long as a full one is not due, and if the last one is
    /// still there, with all that it builds upon.
    fn parent(&self) -> Option<ParentSet> {
        let Setup {
            checkpoints, key, ..
        } = self.setup;
        let last = self.last.as_ref();
        let last = last.filter(|last| last.increments + 1 < checkpoints.full_every)?;
        let found = Set::open(&checkpoints.dir, &last.set.set, key.as_ref()).ok()?;
        (found.manifest().set_id == last.set.set_id).then(|| last.set.clone())
    }
}

/// Removes journals by which no set can be gone back to any more.
pub fn forget_older(dir: &Path) {
    let oldest = oldest_number(dir).map(|oldest| oldest.unwrap_or(u64::MAX));
    let forgotten = oldest.map_err(io::Error::other);
    if let Err(why) = forgotten.and_then(|oldest| undo::prune(dir, oldest)) {
        launcher::message::say(format_args!("older undo journals stay: {why}"));
    }
}

impl Store for Sets {
    fn make_directory(&mut self) -> Result<(), String> {
        create_checkpoint_dir(&self.setup.checkpoints.dir).map_err(|e| e.to_string())
    }

    fn prepare(&mut self) -> Result<PartialSet, String> {
        // One that was given up goes first.
        self.writing = None;
        let begin = || {
            let dir = &self.setup.checkpoints.dir;
            let number = next_number(dir)?;
            Ok((number, SetWriter::begin(&self.setup.disk, dir, number)?))
        };
        let (number, writer) = begin().map_err(|e: ckpt_image::ImageError| e.to_string())?;
        let parent = self.parent();
        let partial = PartialSet {
            set: set_name(number),
            id: writer.set_id().0.to_vec(),
            directory: writer.path().to_string_lossy().into_owned(),
            parent: parent.as_ref().map(|parent| Parent {
                set: parent.set.clone(),
                id: parent.set_id.0.to_vec(),
            }),
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        self.writing = Some(Writing {
            writer,
            name: set_name(number),
            created: now.map_or(0, |since| since.as_secs()),
            parent,
        });
        Ok(partial)
    }

    fn commit(&mut self, images: &[Summary]) -> Result<(), String> {
        let Writing {
            writer,
            name,
            created,
            parent,
        } = self.writing.take().ok_or("no set is being made")?;
        // Ranks that could not tell what has changed have stored everything.
        let parent = parent.filter(|_| images.iter().any(|summary| summary.inherits));
        let entry = |(rank, summary): (u32, &Summary)| RankEntry {
            rank,
            host: summary.host.clone(),
            image: ImageSummary {
                bytes: summary.bytes,
                memory_bytes: summary.memory,
                digest: summary.digest.clone(),
            },
            local: summary.local.as_ref().map(PathBuf::from),
            copy: summary.copy.as_ref().map(|copy| PartnerCopy {
                host: copy.host.clone(),
                path: PathBuf::from(&copy.path),
            }),
        };
        let manifest = Manifest {
            schema_version: 0,
            set_id: writer.set_id(),
            increment_of: parent,
            created,
            epoch: u64::from(contract::gate().lower.epoch.load(Ordering::Relaxed)),
            world_size: self.size,
            abi: process::abi_at_cut(),
            library: self.setup.library.clone(),
            thread_level: contract::gate()
                .mpi_is(MpiState::Initialised)
                .then(world::thread_level),
            contract_version: contract::VERSION,
            stasis_version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            command: self.setup.command.clone(),
            lineage: Some(self.setup.lineage.clone()),
            ranks: (0..).zip(images).map(entry).collect(),
        };
        let committed = writer.commit(&manifest, self.setup.key.as_ref());
        committed.map_err(|e| e.to_string())?;
        let below = self.last.take().map_or(0, |last| last.increments + 1);
        self.last = Some(Last {
            set: ParentSet {
                set: name,
                set_id: manifest.set_id,
            },
            increments: manifest.increment_of.map_or(0, |_| below),
        });
        Ok(())
    }

    /// Removes what is older than the job wants to keep, of what it has made itself.
    fn tidy(&mut self) {
        let Setup {
            checkpoints,
            disk,
            key,
            lineage,
            ..
        } = self.setup;
        let Some(keep) = checkpoints.keep else { return };
        if let Err(why) = prune(disk, &checkpoints.dir, keep, key.as_ref(), Some(lineage)) {
            launcher::message::say(format_args!("older checkpoints stay: {why}"));
        }
        forget_older(&checkpoints.dir);
    }

    fn discard(&mut self) {
        self.writing = None;
    }
}
