//! Image sets for the coordinator: the directory to which ranks write, the parent of an increment, and the manifest.

use std::error::Error;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use ckpt_image::{
    create_checkpoint_dir, next_number, oldest_number, prune, set_name, FileSystem, ImageSummary,
    Lineage, Manifest, ParentSet, PartnerCopy, RankEntry, SealKey, Set, SetId, SetWriter,
};
use coordinator::protocol::coordinator::{Cost, Parent, PartialSet};
use coordinator::protocol::Summary;
use coordinator::server::Store;
use job_spec::Keep;

use super::mpi_abi;
use super::setup::{self, Setup};
use crate::start::keeper;

/// The sets of this job's checkpoint directory.
pub struct SetStore {
    setup: &'static Setup,
    size: u32,
    writing: Option<Writing>,
    /// The set that is being taken in memory, and its number.
    holding: Option<(SetId, u64)>,
    /// Numbers of the newest set in memory, and of the one before.
    held: [Option<u64>; 2],
    /// The newest set that this process has committed.
    last: Option<Last>,
}

/// The set that is being written.
struct Writing {
    writer: SetWriter,
    number: u64,
    name: String,
    /// Time of its begin, in seconds since 1970.
    created: u64,
    /// The parent that was sent to the ranks.
    parent: Option<ParentSet>,
}

/// The newest committed set.
struct Last {
    set: ParentSet,
    /// Number of older sets in its chain.
    increments: u32,
}

impl SetStore {
    /// The store of a job of `size` ranks.
    pub fn new(setup: &'static Setup, size: u32) -> Self {
        SetStore {
            setup,
            size,
            writing: None,
            holding: None,
            held: [None; 2],
            last: None,
        }
    }

    /// Number of the next set, above those in memory.
    fn next_number(&self) -> Result<u64, ckpt_image::ImageError> {
        let next = next_number(&self.setup.checkpoints.dir)?;
        let [held, _] = self.held;
        Ok(held.map_or(next, |held| next.max(held + 1)))
    }

    /// Notes that all ranks have handed over their images of a set in memory.
    fn commit_in_memory(&mut self, id: SetId, number: u64) -> Result<(), String> {
        keeper::check_present(&self.setup.checkpoints).map_err(|why| why.to_string())?;
        keeper::held(id);
        let [last, _] = self.held;
        self.held = [Some(number), last];
        let dir = &self.setup.checkpoints.dir;
        // Without a set on disk only those in memory need journals. The last one may still be needed: `stasis run` may
        // have begun to restart from it.
        if let (Ok(None), Some(last)) = (oldest_number(dir), last) {
            if let Err(why) = undo::prune(dir, last) {
                tracing::warn!(%why, "older undo journals not removed");
            }
        }
        Ok(())
    }

    /// The parent for the next set: the last set, unless a full set is due or its chain is not complete any more.
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

/// Removes journals that are older than the oldest set: no restart needs them.
pub fn forget_older(dir: &Path) {
    let oldest = oldest_number(dir).map(|oldest| oldest.unwrap_or(u64::MAX));
    let forgotten = oldest.map_err(io::Error::other);
    if let Err(why) = forgotten.and_then(|oldest| undo::prune(dir, oldest)) {
        launcher::message::say(format_args!("cannot remove older undo journals: {why}"));
    }
}

/// Removes sets that are older than the newest `keep`.
fn older_removed(
    disk: &FileSystem,
    dir: &Path,
    keep: NonZeroUsize,
    key: Option<&SealKey>,
    own: &Lineage,
) -> Result<(), Box<dyn Error>> {
    let left_behind = ::restart::left_behind(dir, key)?.into_iter();
    let left_behind: Vec<u64> = left_behind.map(|left| left.cut.number).collect();
    prune(disk, dir, keep, key, Some(own), &left_behind)?;
    Ok(())
}

impl Store for SetStore {
    fn make_directory(&mut self) -> Result<(), String> {
        create_checkpoint_dir(&self.setup.checkpoints.dir).map_err(|e| e.to_string())
    }

    fn prepare(&mut self) -> Result<PartialSet, String> {
        // Removes the directory of a set that was given up, before the next number is chosen.
        self.writing = None;
        let begin = || {
            let dir = &self.setup.checkpoints.dir;
            let number = self.next_number()?;
            Ok((number, SetWriter::begin(&self.setup.disk, dir, number)?))
        };
        let (number, writer) = begin().map_err(|e: ckpt_image::ImageError| e.to_string())?;
        let parent = self.parent();
        let partial = PartialSet {
            set: set_name(number),
            id: writer.set_id().0.to_vec(),
            directory: Some(writer.path().to_string_lossy().into_owned()),
            parent: parent.as_ref().map(|parent| Parent {
                set: parent.set.clone(),
                id: parent.set_id.0.to_vec(),
            }),
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        self.writing = Some(Writing {
            writer,
            number,
            name: set_name(number),
            created: now.map_or(0, |since| since.as_secs()),
            parent,
        });
        Ok(partial)
    }

    fn prepare_in_memory(&mut self) -> Result<PartialSet, String> {
        let number = self.next_number().map_err(|e| e.to_string())?;
        let id = SetId::random().map_err(|e| e.to_string())?;
        self.holding = Some((id, number));
        Ok(PartialSet {
            set: set_name(number),
            id: id.0.to_vec(),
            directory: None,
            parent: None,
        })
    }

    fn commit(&mut self, images: &[Summary], cost: Cost) -> Result<(), String> {
        if let Some((id, number)) = self.holding.take() {
            return self.commit_in_memory(id, number);
        }
        let Writing {
            writer,
            number,
            name,
            created,
            parent,
        } = self
            .writing
            .take()
            .ok_or("no set is being written (a defect in Stasis)")?;
        // If no rank knew its changed memory, all have stored everything, and the set is a full one.
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
        let ranks = (0..).zip(images).map(entry).collect();
        let manifest = Manifest {
            increment_of: parent,
            created,
            pause_micros: Some(cost.pause),
            total_micros: Some(cost.total),
            world_size: self.size,
            thread_level: setup::thread_level(),
            ..self
                .setup
                .manifest(writer.set_id(), mpi_abi::at_cut(), ranks)
        };
        // The ranks of an older incarnation are dead by now, but for a call that the kernel has not ended.
        keeper::check_present(&self.setup.checkpoints).map_err(|why| why.to_string())?;
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
        if manifest.thread_level.is_some() {
            (self.setup.covered)(number);
        }
        Ok(())
    }

    /// Removes older sets of this job's lineage, except the newest that `--keep` asks for.
    fn tidy(&mut self) {
        let Setup {
            checkpoints,
            disk,
            key,
            lineage,
            ..
        } = self.setup;
        let Keep::Newest(keep) = checkpoints.keep else {
            return;
        };
        let removed = older_removed(disk, &checkpoints.dir, keep, key.as_ref(), lineage);
        if let Err(why) = removed {
            launcher::message::say(format_args!("cannot remove older checkpoints: {why}"));
        }
        forget_older(&checkpoints.dir);
    }

    fn discard(&mut self) {
        self.writing = None;
        if let Some((id, _)) = self.holding.take() {
            keeper::not_held(id);
        }
    }
}
