//! Node-local storage (SCR's cache): the directory of a rank that holds its images until they are in their
//! sets.
//!
//! A job may have a directory for each rank that is faster than the checkpoint directory, such as the
//! node's own disk. Images are written there. The set's manifest records the host and the path of each, so
//! the set can be restarted from as soon as all images have been synced. In the background each image is
//! then *drained* (SCR: flushed): copied into its set under another name, verified there, synced, and
//! renamed. The local image is removed last. So an image is whole in one of the two places at every moment,
//! and the set is valid whichever of its images were drained.
//!
//! A *partner*, a rank on another machine, may keep a copy of an image in its own local directory until the
//! image is in its set. The copy has the same name that the image of that rank would have there. A process
//! that reaches an image which its own rank does not reach can drain it ([`Set::drain`]).

use std::io::{self, IoSlice, Read};
use std::path::{Path, PathBuf};

use crate::error::{ImageError, Result};
use crate::format::bytes::hex;
use crate::format::ids::SetId;
use crate::format::machine;
use crate::fs::file_system::{FileSystem, OutputFile};
use crate::fs::permissions;
use crate::read::image::Image;
use crate::set::image_set::Set;
use crate::set::names::{
    foreign_unfinished_file, holds, image_file, parse_name, unfinished_file, SetName,
};
use crate::set::seal::SealKey;

/// Bytes of one copied block.
const BLOCK: usize = 1 << 20;

/// The local directory of one rank of a job.
#[derive(Clone, Debug)]
pub struct LocalDir {
    fs: FileSystem,
    /// The job's own folder in the local directory: `stasis-` and an id of the checkpoint directory.
    dir: PathBuf,
    shared: PathBuf,
    rank: u32,
}

/// The folder of one set in a local directory, with or without this rank's image.
#[derive(Debug)]
struct LocalSet {
    /// Name of the set.
    set: String,
    number: u64,
    /// Id of the set, in hexadecimal.
    id: String,
    /// Path of the folder.
    dir: PathBuf,
}

/// State of the set that an image was written for.
enum SetStatus {
    Whole(Box<Set>),
    /// The set was never finished, or was removed.
    Gone,
    /// The state cannot be determined at present.
    Unknown(ImageError),
}

impl LocalDir {
    /// The local directory of `rank`, for the job with the checkpoint directory `shared`, an absolute path.
    /// Several ranks, and several jobs, may share one local directory.
    pub fn new(fs: &FileSystem, local: &Path, shared: &Path, rank: u32) -> LocalDir {
        let known_by = blake3::hash(shared.as_os_str().as_encoded_bytes());
        let folder = format!("stasis-{}", hex(&known_by.as_bytes()[..8]));
        LocalDir {
            fs: fs.clone(),
            dir: local.join(folder),
            shared: shared.to_owned(),
            rank,
        }
    }

    /// Path of the job's folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Creates the job's folder, or checks the existing one.
    ///
    /// # Errors
    /// As for [`crate::create_checkpoint_dir`].
    pub fn prepare(&self) -> Result<()> {
        permissions::create_checkpoint_dir(&self.dir)
    }

    /// Creates the folder for the image of a set that is being written, and returns it. Removes the folders
    /// of sets that were never finished, so it may be called only while no other set is being written.
    ///
    /// # Errors
    /// As for [`crate::create_checkpoint_dir`].
    pub fn begin(&self, set: &str, id: SetId, key: Option<&SealKey>) -> Result<PathBuf> {
        self.prepare()?;
        let dir = self.folder(set, id);
        // Another rank of this host may have created it already.
        for local in self.local_sets().iter().filter(|local| local.dir != dir) {
            if let SetStatus::Gone = self.status(local, key) {
                for rank in local.ranks() {
                    self.remove(local, rank);
                }
            }
        }
        self.make(&dir)?;
        Ok(dir)
    }

    fn folder(&self, set: &str, id: SetId) -> PathBuf {
        self.dir.join(format!("{set}.{id}"))
    }

    fn make(&self, folder: &Path) -> Result<()> {
        match self.fs.make_dir(folder) {
            // Created by another rank of this host, or for a copy.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made.map_err(|e| ImageError::io("make the directory", folder, e)),
        }
    }

    /// Syncs the folder of an image. Returns the image's path, for the manifest.
    ///
    /// # Errors
    /// [`ImageError::Io`] if a directory cannot be synced.
    pub fn sync(&self, dir: &Path) -> Result<PathBuf> {
        self.synced(dir, self.rank)
    }

    fn synced(&self, dir: &Path, rank: u32) -> Result<PathBuf> {
        for dir in [dir, &self.dir] {
            self.fs
                .sync_dir(dir)
                .map_err(|e| ImageError::io("sync the directory", dir, e))?;
        }
        Ok(dir.join(image_file(rank)))
    }

    /// Keeps a durable copy of another rank's image of a set that is being written: the first `bytes` bytes
    /// of `from`. Returns the path, for the manifest. An incomplete copy is removed.
    ///
    /// # Errors
    /// [`ImageError::NoSuchSet`] if `set` is no name of a set; [`ImageError::Io`] if `from` ends too early or nothing
    /// can be written.
    pub fn keep(
        &self,
        set: &str,
        id: SetId,
        rank: u32,
        bytes: u64,
        from: &mut dyn Read,
    ) -> Result<PathBuf> {
        self.prepare()?;
        if !matches!(parse_name(set), Some(SetName::Whole(_))) {
            let (dir, name) = (self.shared.clone(), set.to_owned());
            return Err(ImageError::NoSuchSet { dir, name });
        }
        let dir = self.folder(set, id);
        self.make(&dir)?;
        let file = dir.join(image_file(rank));
        // An existing file is not this copy: if both ranks share a directory, it is the image itself.
        let copy = create(&self.fs, &file)?;
        let filled = fill(&copy, &mut from.take(bytes));
        let whole = filled.and_then(|filled| match filled == bytes {
            true => self.synced(&dir, rank),
            false => {
                let cut = format!("the copy broke off after {filled} of {bytes} bytes");
                Err(ImageError::io("write", &file, io::Error::other(cut)))
            }
        });
        if whole.is_err() {
            // The folder stays: this rank's own image may be written to it next.
            let _ = copy.remove();
        }
        whole
    }

    /// Removes all images here that are in their sets, whatever their rank: copies, and images of ranks
    /// that now run elsewhere.
    pub fn tidy(&self, key: Option<&SealKey>) {
        for local in self.local_sets() {
            let SetStatus::Whole(set) = self.status(&local, key) else {
                continue;
            };
            let drained = |rank: &u32| set.path().join(image_file(*rank)).exists();
            let drained: Vec<u32> = local.ranks().filter(drained).collect();
            // The process that renamed them may have been killed before this sync.
            if drained.is_empty() || self.fs.sync_dir(set.path()).is_err() {
                continue;
            }
            for rank in drained {
                self.remove(&local, rank);
            }
        }
    }

    /// Drains this rank's images of all whole sets, the oldest first. Returns the sets whose image is not
    /// drained, with the reasons.
    pub fn drain(&self, key: Option<&SealKey>) -> Vec<(String, ImageError)> {
        let drained = |local: LocalSet| {
            let why = match self.status(&local, key) {
                // It may be the set that is being written.
                SetStatus::Gone => return None,
                SetStatus::Unknown(why) => why,
                SetStatus::Whole(set) => match self.drain_to(&set, &local) {
                    Ok(()) => return None,
                    // The set was removed as an older one meanwhile.
                    Err(_) if matches!(holds(&self.shared, &local.set), Ok(false)) => return None,
                    Err(why) => why,
                },
            };
            Some((local.set, why))
        };
        let local = self.local_sets().into_iter();
        let own = local.filter(|local| local.dir.join(image_file(self.rank)).exists());
        own.filter_map(drained).collect()
    }

    fn drain_to(&self, set: &Set, local: &LocalSet) -> Result<()> {
        let image = local.dir.join(image_file(self.rank));
        drain(
            &self.fs,
            set,
            self.rank,
            &image,
            &unfinished_file(self.rank),
        )?;
        self.remove(local, self.rank);
        Ok(())
    }

    /// A failed removal is harmless, because a set is identified by its id.
    fn remove(&self, local: &LocalSet, rank: u32) {
        let _ = self.fs.remove_file(&local.dir.join(image_file(rank)));
        // It fails, as it should, if the folder holds other ranks' images.
        let _ = self.fs.remove_dir(&local.dir);
    }

    /// The folders of all sets, the oldest first.
    fn local_sets(&self) -> Vec<LocalSet> {
        let entries = std::fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let local = entries.filter_map(|entry| {
            let name = entry.file_name();
            let (set, id) = name.to_str()?.split_once('.')?;
            let SetName::Whole(number) = parse_name(set)? else {
                return None;
            };
            Some(LocalSet {
                set: set.to_owned(),
                number,
                id: id.to_owned(),
                dir: entry.path(),
            })
        });
        let mut local: Vec<LocalSet> = local.collect();
        local.sort_by_key(|local| local.number);
        local
    }

    /// The state of a folder's set. The checkpoint directory is listed first: the client of a file server
    /// caches the absence of a name for a while, unless it lists the directory.
    fn status(&self, local: &LocalSet, key: Option<&SealKey>) -> SetStatus {
        match holds(&self.shared, &local.set) {
            Ok(true) => {}
            Ok(false) => return SetStatus::Gone,
            Err(why) => return SetStatus::Unknown(why),
        }
        match Set::open_alone(&self.shared, &local.set, key) {
            Ok(set) if set.manifest().set_id.to_string() == local.id => {
                SetStatus::Whole(Box::new(set))
            }
            Ok(_) => SetStatus::Gone,
            Err(why) => SetStatus::Unknown(why),
        }
    }
}

impl LocalSet {
    /// The ranks whose images are in the folder.
    fn ranks(&self) -> impl Iterator<Item = u32> {
        let entries = std::fs::read_dir(&self.dir).into_iter().flatten().flatten();
        entries.filter_map(|entry| {
            let name = entry.file_name();
            let rank = name.to_str()?.strip_prefix("rank-")?.strip_suffix(".img")?;
            rank.parse().ok()
        })
    }
}

impl Set {
    /// Whether the image of a rank and of its chain can be read here, as far as names show.
    pub fn reaches(&self, rank: u32) -> bool {
        self.check_reach(rank).is_ok()
    }

    /// Fails unless the image of a rank and of its chain can be read here, as far as names show.
    ///
    /// # Errors
    /// [`ImageError::OutOfReach`], with the places of the image.
    pub fn check_reach(&self, rank: u32) -> Result<()> {
        let mut sets = std::iter::once(self).chain(self.chain());
        sets.try_for_each(|set| {
            let places = set.elsewhere(rank);
            let places: Vec<_> = places
                .map(|(host, path)| (host.into(), path.into()))
                .collect();
            let there = |(_, path): &(String, PathBuf)| path.exists();
            match places.is_empty() || places.iter().any(there) {
                true => Ok(()),
                false => Err(ImageError::OutOfReach {
                    rank,
                    places,
                    here: machine::host(),
                }),
            }
        })
    }

    /// Lists the set's directories, so that the client of a file server notices new names: it caches the
    /// absence of a name for a while.
    pub fn look_again(&self) {
        for set in std::iter::once(self).chain(self.chain()) {
            let _ = std::fs::read_dir(set.path()).map(Iterator::count);
        }
    }

    /// Drains the image of a rank, and the images that it depends on, from the local directories that can
    /// be read here. The rank itself and other processes may do so at the same time.
    ///
    /// # Errors
    /// [`ImageError::Access`] about a local directory, [`ImageError::Damaged`] about the image there,
    /// [`ImageError::Io`]. The local image stays then.
    pub fn drain(&self, fs: &FileSystem, rank: u32) -> Result<()> {
        for set in std::iter::once(self).chain(self.chain()) {
            let here = |(_, path): &(&str, &Path)| path.exists();
            let Some((_, path)) = set.elsewhere(rank).find(here) else {
                continue;
            };
            let folder = path.parent().unwrap_or(path);
            permissions::check_set_dir(folder)?;
            drain(fs, set, rank, path, &foreign_unfinished_file(rank))?;
            // A failed removal is harmless here too.
            let _ = fs.remove_file(path);
            let _ = fs.remove_dir(folder);
        }
        Ok(())
    }
}

/// Copies an image into its set, under the name `unfinished` until it is verified and durable there.
fn drain(fs: &FileSystem, set: &Set, rank: u32, image: &Path, unfinished: &str) -> Result<()> {
    let place = set.path().join(image_file(rank));
    if !place.exists() {
        let unfinished = set.path().join(unfinished);
        // Left by a drain of a job that was killed.
        if unfinished.exists() {
            let _ = fs.remove_file(&unfinished);
        }
        let drained = permissions::open(image)
            .and_then(|mut source| fill(&create(fs, &unfinished)?, &mut source))
            .and_then(|_| Image::open_verified(&unfinished, &set.expect(rank)).map(drop))
            .and_then(|()| {
                match fs.rename(&unfinished, &place) {
                    // Another process has drained it meanwhile.
                    Err(_) if place.exists() => fs.remove_file(&unfinished),
                    renamed => renamed,
                }
                .map_err(|e| ImageError::io("finish the image as", &place, e))
            });
        if drained.is_err() {
            let _ = fs.remove_file(&unfinished);
        }
        drained?;
    }
    // This sync is needed for an existing image too: the process that renamed it may have been killed
    // before its own.
    fs.sync_dir(set.path())
        .map_err(|e| ImageError::io("sync the directory", set.path(), e))
}

fn create(fs: &FileSystem, path: &Path) -> Result<OutputFile> {
    fs.create(path)
        .map_err(|e| ImageError::io("create", path, e))
}

/// Writes the bytes of `from`, durably, and returns their number.
fn fill(target: &OutputFile, from: &mut impl Read) -> Result<u64> {
    let failed = |action| move |e: io::Error| ImageError::io(action, target.path(), e);
    let mut block = vec![0; BLOCK];
    let mut at = 0;
    loop {
        let bytes = from
            .read(&mut block)
            .map_err(failed("read what goes into"))?;
        if bytes == 0 {
            break;
        }
        target
            .write_at(&mut [IoSlice::new(&block[..bytes])], at)
            .map_err(failed("write"))?;
        at += bytes as u64;
    }
    target.sync().map_err(failed("write"))?;
    Ok(at)
}
