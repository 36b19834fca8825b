//! Storage levels: where a rank's image lies until it is in its set.
//!
//! A job may be given a directory for each rank that is faster than the checkpoint directory, such as the
//! node's own disk. Images are written there; the set's manifest says of each on which host it is, and where,
//! so the set can be restarted from as soon as all have been synced. In the background each image is then
//! *drained*: copied into its set under another name, verified there, made durable, and given its name. Only
//! then the local one goes, so at every moment an image is whole in one of the two places, and a set is as the
//! manifest says whichever of its images were drained.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::access;
use crate::bytes::hex;
use crate::disk::Disk;
use crate::error::{ImageError, Result};
use crate::header::SetId;
use crate::image::Image;
use crate::key::Key;
use crate::list::{holds, parse_name, Name};
use crate::set::{image_file, unfinished_file, Set};

/// Bytes that are copied at a time.
const BLOCK: usize = 1 << 20;

/// The local directory of one rank of a job.
#[derive(Clone, Debug)]
pub struct LocalDir {
    disk: Disk,
    /// The job's own folder in it: `stasis-` and what the checkpoint directory is known by.
    dir: PathBuf,
    shared: PathBuf,
    rank: u32,
}

/// A folder of a local directory, with this rank's image of a set or without it.
#[derive(Debug)]
struct Lying {
    /// Name of its set.
    set: String,
    number: u64,
    /// Id of its set, in hexadecimal.
    id: String,
    /// Where it is.
    dir: PathBuf,
}

/// What has become of the set that an image was written for.
enum Fate {
    Whole(Box<Set>),
    /// It was never finished, or removed.
    Gone,
    /// That cannot be told now.
    Unknown(ImageError),
}

impl LocalDir {
    /// For `rank` of the job that has the checkpoint directory `shared`, an absolute path. Several ranks, and
    /// several jobs, may have the same directory.
    pub fn new(disk: &Disk, local: &Path, shared: &Path, rank: u32) -> LocalDir {
        let known_by = blake3::hash(shared.as_os_str().as_encoded_bytes());
        let folder = format!("stasis-{}", hex(&known_by.as_bytes()[..8]));
        LocalDir {
            disk: disk.clone(),
            dir: local.join(folder),
            shared: shared.to_owned(),
            rank,
        }
    }

    /// The job's folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Makes the job's folder, or checks the one that is there.
    pub fn prepare(&self) -> Result<()> {
        access::create_checkpoint_dir(&self.dir)
    }

    /// Makes the folder for the image of a set that is being made, and returns it. Removes what is left of
    /// sets that have come to nothing: so it may be called only when no other set is being made.
    pub fn begin(&self, set: &str, id: SetId, key: Option<&Key>) -> Result<PathBuf> {
        self.prepare()?;
        let dir = self.dir.join(format!("{set}.{id}"));
        // Another rank of this host may have made that one already.
        for lying in self.lying().iter().filter(|lying| lying.dir != dir) {
            if let Fate::Gone = self.fate(lying, key) {
                self.remove(lying);
            }
        }
        match self.disk.make_dir(&dir) {
            // By another rank of this host.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.map_err(|e| ImageError::io("make the directory", &dir, e))?,
        }
        Ok(dir)
    }

    /// Makes durable that an image is in its folder. Returns where it is, for the manifest.
    pub fn settle(&self, dir: &Path) -> Result<PathBuf> {
        for dir in [dir, &self.dir] {
            self.disk
                .sync_dir(dir)
                .map_err(|e| ImageError::io("sync the directory", dir, e))?;
        }
        Ok(dir.join(image_file(self.rank)))
    }

    /// Drains this rank's images of all sets that are whole, the oldest first. Returns the sets whose image
    /// stays where it is, and why.
    pub fn drain(&self, key: Option<&Key>) -> Vec<(String, ImageError)> {
        let drained = |lying: Lying| {
            let why = match self.fate(&lying, key) {
                // It may be the one that is being made.
                Fate::Gone => return None,
                Fate::Unknown(why) => why,
                Fate::Whole(set) => match self.drain_to(&set, &lying) {
                    Ok(()) => return None,
                    // It was removed as an older one meanwhile.
                    Err(_) if matches!(holds(&self.shared, &lying.set), Ok(false)) => return None,
                    Err(why) => why,
                },
            };
            Some((lying.set, why))
        };
        let lying = self.lying().into_iter();
        let own = lying.filter(|lying| lying.dir.join(image_file(self.rank)).exists());
        own.filter_map(drained).collect()
    }

    fn drain_to(&self, set: &Set, lying: &Lying) -> Result<()> {
        let file = image_file(self.rank);
        let place = set.path().join(&file);
        if !place.exists() {
            let unfinished = set.path().join(unfinished_file(self.rank));
            // One that was being drained when the job was killed.
            if unfinished.exists() {
                let _ = self.disk.remove_file(&unfinished);
            }
            let drained = copy(&self.disk, &lying.dir.join(&file), &unfinished)
                .and_then(|()| Image::open_verified(&unfinished, &set.expect(self.rank)).map(drop))
                .and_then(|()| {
                    let renamed = self.disk.rename(&unfinished, &place);
                    renamed.map_err(|e| ImageError::io("finish the image as", &place, e))
                });
            if drained.is_err() {
                let _ = self.disk.remove_file(&unfinished);
            }
            drained?;
        }
        // Also if it was there: whoever gave it its name may have been killed before this.
        self.disk
            .sync_dir(set.path())
            .map_err(|e| ImageError::io("sync the directory", set.path(), e))?;
        self.remove(lying);
        Ok(())
    }

    /// What cannot be removed is no hindrance: a set is known by its id.
    fn remove(&self, lying: &Lying) {
        let _ = self
            .disk
            .remove_file(&lying.dir.join(image_file(self.rank)));
        // Unless there are other ranks' images in it.
        let _ = self.disk.remove_dir(&lying.dir);
    }

    /// The folders of sets, the oldest first.
    fn lying(&self) -> Vec<Lying> {
        let entries = std::fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let lying = entries.filter_map(|entry| {
            let name = entry.file_name();
            let (set, id) = name.to_str()?.split_once('.')?;
            let Name::Whole(number) = parse_name(set)? else {
                return None;
            };
            Some(Lying {
                set: set.to_owned(),
                number,
                id: id.to_owned(),
                dir: entry.path(),
            })
        });
        let mut lying: Vec<Lying> = lying.collect();
        lying.sort_by_key(|lying| lying.number);
        lying
    }

    /// The checkpoint directory is listed first: a file server's client believes that a name is not there
    /// for a while after it was not, unless it looks at the directory.
    fn fate(&self, lying: &Lying, key: Option<&Key>) -> Fate {
        match holds(&self.shared, &lying.set) {
            Ok(true) => {}
            Ok(false) => return Fate::Gone,
            Err(why) => return Fate::Unknown(why),
        }
        match Set::open_alone(&self.shared, &lying.set, key) {
            Ok(set) if set.manifest().set_id.to_string() == lying.id => Fate::Whole(Box::new(set)),
            Ok(_) => Fate::Gone,
            Err(why) => Fate::Unknown(why),
        }
    }
}

fn copy(disk: &Disk, from: &Path, to: &Path) -> Result<()> {
    let source: File = access::open(from)?;
    let target = disk
        .create(to)
        .map_err(|e| ImageError::io("create", to, e))?;
    let mut block = vec![0; BLOCK];
    let mut at = 0;
    loop {
        let read = source.read_at(&mut block, at);
        let bytes = read.map_err(|e| ImageError::io("read", from, e))?;
        if bytes == 0 {
            break;
        }
        target
            .write_at(&mut [IoSlice::new(&block[..bytes])], at)
            .map_err(|e| ImageError::io("write", to, e))?;
        at += bytes as u64;
    }
    target.sync().map_err(|e| ImageError::io("write", to, e))
}
