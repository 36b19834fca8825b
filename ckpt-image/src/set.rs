//! One set: made as `ckpt-N.partial`, renamed to `ckpt-N` when it is whole.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::Arc;

use nix::fcntl::{Flock, FlockArg};
use nix::unistd::{sysconf, SysconfVar};

use crate::access;
use crate::chain::{broken, LONGEST_CHAIN};
use crate::disk::Disk;
use crate::environment;
use crate::error::{ImageError, Result};
use crate::header::SetId;
use crate::image::{Expect, Image};
use crate::key::{Key, KeyId};
use crate::list::{parse_name, Name};
use crate::manifest::{Manifest, RankEntry, MANIFEST_FILE};
use crate::retention::ATTEMPTS_FILE;

/// Name of set `number`.
pub fn set_name(number: u64) -> String {
    format!("ckpt-{number}")
}

/// Name of set `number` until it is whole.
pub fn partial_name(number: u64) -> String {
    format!("ckpt-{number}.partial")
}

/// Name of a rank's image in its set.
pub fn image_file(rank: u32) -> String {
    format!("rank-{rank}.img")
}

/// Name of a rank's image while it is copied into its set.
pub(crate) fn unfinished_file(rank: u32) -> String {
    format!("{}.partial", image_file(rank))
}

/// The same while another process than its rank brings it there: several may at the same time.
pub(crate) fn brought_file(rank: u32) -> String {
    let (host, process) = (environment::host(), std::process::id());
    format!("rank-{rank}.{host}-{process}.img.partial")
}

/// A set being made. One process of the job (the coordinator's) holds it; the ranks create their
/// images in [`SetWriter::path`]. Dropped before [`SetWriter::commit`], it removes what there is.
#[derive(Debug)]
pub struct SetWriter {
    disk: Disk,
    dir: PathBuf,
    partial: PathBuf,
    number: u64,
    set_id: SetId,
    /// Holds a lock for as long as the set is being made, by which the leavings of a dead job are
    /// told from the work of a live one.
    _lock: Flock<File>,
    committed: bool,
}

impl SetWriter {
    /// Starts set `number` in `dir` (see [`crate::next_number`]); makes `dir` if need be, and
    /// removes what a dead job has left there unfinished.
    pub fn begin(disk: &Disk, dir: &Path, number: u64) -> Result<SetWriter> {
        access::create_checkpoint_dir(dir)?;
        remove_leavings(disk, dir);
        let partial = dir.join(partial_name(number));
        let set_id = SetId::random().map_err(|e| ImageError::io("make an id for", &partial, e))?;
        disk.make_dir(&partial)
            .map_err(|e| ImageError::io("make the directory", &partial, e))?;
        let lock = lock(&partial).map_err(|e| {
            let _ = disk.remove_dir(&partial);
            ImageError::io("lock", &partial, e)
        })?;
        Ok(SetWriter {
            disk: disk.clone(),
            dir: dir.to_owned(),
            partial,
            number,
            set_id,
            _lock: lock,
            committed: false,
        })
    }

    /// The directory that the ranks' images go into.
    pub fn path(&self) -> &Path {
        &self.partial
    }

    /// The id that the images must carry.
    pub fn set_id(&self) -> SetId {
        self.set_id
    }

    /// Makes the set a checkpoint, once every rank has reported its image finished. Looks at each image in
    /// it once more (those in local directories may be on other machines); writes the manifest, sealed if
    /// there is a key; renames. Returns the set's directory.
    pub fn commit(mut self, manifest: &Manifest, key: Option<&Key>) -> Result<PathBuf> {
        let here = |entry: &&RankEntry| entry.local.is_none();
        for entry in manifest.ranks.iter().filter(here) {
            let expect = Expect {
                set_id: Some(self.set_id),
                rank: Some(entry.rank),
                world_size: Some(manifest.world_size),
                bytes: Some(entry.image.bytes),
                sealed: key.is_some(),
                ..Expect::default()
            };
            Image::read_header(&self.partial.join(image_file(entry.rank)), &expect)?;
        }
        // Somebody may have removed what it builds upon.
        chain_of(&self.dir, &set_name(self.number), manifest, key)?;
        // The images must be in their directory before the manifest says that they are.
        self.sync_dir(&self.partial)?;
        manifest.write(&self.disk, &self.partial.join(MANIFEST_FILE), key)?;
        self.sync_dir(&self.partial)?;
        let whole = self.dir.join(set_name(self.number));
        self.disk
            .rename(&self.partial, &whole)
            .map_err(|e| ImageError::io("finish the checkpoint as", &whole, e))?;
        self.committed = true;
        self.sync_dir(&self.dir)?;
        Ok(whole)
    }

    fn sync_dir(&self, path: &Path) -> Result<()> {
        self.disk
            .sync_dir(path)
            .map_err(|e| ImageError::io("sync the directory", path, e))
    }
}

impl Drop for SetWriter {
    fn drop(&mut self) {
        if !self.committed {
            remove_partial(&self.disk, &self.partial);
        }
    }
}

/// A set that has a valid manifest.
#[derive(Clone, Debug)]
pub struct Set {
    path: PathBuf,
    name: String,
    manifest: Manifest,
    sealed: Option<KeyId>,
    /// The sets that it builds upon: the one before it first, the full one last.
    chain: Vec<Set>,
    /// See [`Set::counting`].
    verified: Option<Arc<AtomicU64>>,
}

impl Set {
    /// Opens the set `name` in `dir` and reads its manifest, and those of the sets that it builds upon.
    /// The images are not looked at. With a key, the sets must be sealed with it; one that is sealed is not
    /// opened without.
    pub fn open(dir: &Path, name: &str, key: Option<&Key>) -> Result<Set> {
        let mut set = Set::open_alone(dir, name, key)?;
        set.chain = chain_of(dir, name, &set.manifest, key)?;
        Ok(set)
    }

    pub(crate) fn open_alone(dir: &Path, name: &str, key: Option<&Key>) -> Result<Set> {
        access::check_checkpoint_dir(dir)?;
        let missing = || ImageError::NoSuchSet {
            dir: dir.to_owned(),
            name: name.to_owned(),
        };
        if !matches!(parse_name(name), Some(Name::Whole(_))) {
            return Err(missing());
        }
        let path = dir.join(name);
        let absent = |e: &ImageError| matches!(e, ImageError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound);
        access::check_set_dir(&path).map_err(|e| if absent(&e) { missing() } else { e })?;
        let (manifest, sealed) =
            Manifest::read(&path.join(MANIFEST_FILE), key).map_err(|e| match absent(&e) {
                true => ImageError::NoManifest { path: path.clone() },
                false => e,
            })?;
        Ok(Set {
            path,
            name: name.to_owned(),
            manifest,
            sealed,
            chain: Vec::new(),
            verified: None,
        })
    }

    /// Has `verified` count the bytes of memory that are verified when images are opened, for people who
    /// wait for that.
    pub fn counting(mut self, verified: &Arc<AtomicU64>) -> Set {
        for link in &mut self.chain {
            link.verified = Some(verified.clone());
        }
        self.verified = Some(verified.clone());
        self
    }

    /// Its name, `ckpt-N`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its number: higher is newer.
    pub fn number(&self) -> u64 {
        set_number(&self.name).unwrap_or(0)
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The sets that it builds upon, newest first; none for a full one.
    pub fn chain(&self) -> &[Set] {
        &self.chain
    }

    /// The key that seals it, which was given.
    pub fn sealed(&self) -> Option<KeyId> {
        self.sealed
    }

    /// Refuses a job with another number of ranks.
    pub fn check_world_size(&self, job: u32) -> Result<()> {
        let taken = self.manifest.world_size;
        match taken == job {
            true => Ok(()),
            false => Err(ImageError::WorldSize {
                set: self.name.clone(),
                taken,
                job,
            }),
        }
    }

    /// The images of this set and those that it builds upon which lie in local directories: they are lost
    /// with their machines, until they are drained. One that was lost counts, too.
    pub fn undrained(&self) -> impl Iterator<Item = &RankEntry> {
        let sets = std::iter::once(self).chain(&self.chain);
        sets.flat_map(|set| {
            set.manifest
                .ranks
                .iter()
                .filter(|entry| set.elsewhere(entry.rank).next().is_some())
        })
    }

    /// How long the image of a rank is, with all that it builds upon.
    pub fn bytes_of(&self, rank: u32) -> u64 {
        let sets = std::iter::once(self).chain(&self.chain);
        let entries = sets.filter_map(|set| set.entry(rank));
        entries.map(|entry| entry.image.bytes).sum()
    }

    /// The machines and files where the image of a rank may be; none if it is in the set.
    pub(crate) fn elsewhere(&self, rank: u32) -> impl Iterator<Item = (&str, &Path)> {
        let entry = self.entry(rank);
        let entry = entry.filter(|_| !self.path.join(image_file(rank)).exists());
        entry.into_iter().flat_map(RankEntry::elsewhere)
    }

    fn entry(&self, rank: u32) -> Option<&RankEntry> {
        self.manifest.ranks.get(rank as usize)
    }

    /// Reads the image of a rank where it is.
    fn read<T>(&self, rank: u32, read: impl Fn(&Path) -> Result<T>) -> Result<T> {
        let drained = self.path.join(image_file(rank));
        let mut why = None;
        for (_, path) in self.elsewhere(rank) {
            let folder = path.parent().unwrap_or(path);
            match access::check_set_dir(folder).and_then(|()| read(path)) {
                Err(e) if path.exists() => why = why.or(Some(e)),
                Err(_) => {}
                result => return result,
            }
        }
        // It may have been drained meanwhile.
        if drained.exists() {
            return read(&drained);
        }
        let owned = |(host, path): (&str, &Path)| (host.to_owned(), path.to_owned());
        let places: Vec<_> = self.elsewhere(rank).map(owned).collect();
        match why {
            Some(why) => Err(why),
            None if places.is_empty() => read(&drained),
            None => Err(ImageError::OutOfReach {
                rank,
                places,
                here: environment::host(),
            }),
        }
    }

    /// Checks that every rank's image is there, with the right header and length, in this set and those
    /// that it builds upon; but not those in local directories of other machines. Quick: reads a few hundred
    /// bytes of each.
    pub fn check_images(&self) -> Result<()> {
        self.check_own_images()?;
        self.chain.iter().try_for_each(|link| {
            let checked = link.check_own_images();
            checked.map_err(|reason| broken(&self.name, &link.name, reason))
        })
    }

    fn check_own_images(&self) -> Result<()> {
        for rank in 0..self.manifest.world_size {
            let read = |path: &Path| Image::read_header(path, &self.expect(rank));
            match self.read(rank, read) {
                Err(ImageError::OutOfReach { places, here, .. })
                    if places.iter().any(|(host, _)| *host != here) => {}
                result => drop(result?),
            }
        }
        Ok(())
    }

    /// Opens one rank's image with all that it builds upon, verified down to the last byte.
    pub fn image(&self, rank: u32, contract_version: Option<u32>) -> Result<Image> {
        let (mut set, mut image) = (self, self.own_image(rank, contract_version)?);
        let (mut links, mut increments) = (self.chain.iter(), Vec::new());
        let link_broken = |link: &Set, reason| broken(&self.name, &link.name, reason);
        // Its manifest agrees that there is one below.
        while let Some(link) = links.next().filter(|_| image.lacks().is_some()) {
            let below = link.own_image(rank, contract_version);
            let below = below.map_err(|reason| link_broken(link, reason))?;
            increments.push((set, std::mem::replace(&mut image, below)));
            set = link;
        }
        while let Some((above, increment)) = increments.pop() {
            let whole = increment.on(image);
            image = whole.map_err(|reason| link_broken(set, reason))?;
            set = above;
        }
        Ok(image)
    }

    fn own_image(&self, rank: u32, contract_version: Option<u32>) -> Result<Image> {
        let expect = Expect {
            contract_version,
            page_size: contract_version.and_then(|_| page_size()),
            verified: self.verified.clone(),
            ..self.expect(rank)
        };
        let image = self.read(rank, |path| Image::open_verified(path, &expect))?;
        let agree = |what, expected: String, found: String| match expected == found {
            true => Ok(()),
            false => Err(ImageError::Disagrees {
                path: image.path().to_owned(),
                rank,
                what,
                expected,
                found,
            }),
        };
        let (m, h) = (&self.manifest, image.header());
        agree("the epoch", m.epoch.to_string(), h.epoch.to_string())?;
        agree("the program's MPI ABI", m.abi.clone(), h.abi.clone())?;
        if let Some(inherited) = image.inherited() {
            let named = |id: Option<SetId>| id.map_or("none".to_owned(), |id| id.to_string());
            let parent = m.increment_of.as_ref().map(|parent| parent.set_id);
            let found = Some(inherited.parent.set_id);
            agree("the set before it", named(parent), named(found))?;
        }
        Ok(image)
    }

    pub(crate) fn expect(&self, rank: u32) -> Expect {
        let entry = self.entry(rank);
        Expect {
            set_id: Some(self.manifest.set_id),
            rank: Some(rank),
            world_size: Some(self.manifest.world_size),
            bytes: entry.map(|entry| entry.image.bytes),
            digest: entry.map(|entry| entry.image.digest.clone()),
            sealed: self.sealed.is_some(),
            ..Expect::default()
        }
    }
}

/// The number of the set of this name.
pub fn set_number(name: &str) -> Option<u64> {
    match parse_name(name) {
        Some(Name::Whole(number)) => Some(number),
        _ => None,
    }
}

/// The sets that one with this name and manifest builds upon, nearest first. Numbers only grow, so that of
/// a parent is smaller.
fn chain_of(dir: &Path, name: &str, manifest: &Manifest, key: Option<&Key>) -> Result<Vec<Set>> {
    let mut chain: Vec<Set> = Vec::new();
    let mut next = (name.to_owned(), manifest.increment_of.clone());
    while let (child, Some(parent)) = next {
        let link = (|| {
            if chain.len() >= LONGEST_CHAIN {
                return Err(ImageError::TooLong);
            }
            if set_number(&parent.set) >= set_number(&child) {
                return Err(ImageError::NoSuchSet {
                    dir: dir.to_owned(),
                    name: parent.set.clone(),
                });
            }
            let link = Set::open_alone(dir, &parent.set, key)?;
            link.check_world_size(manifest.world_size)?;
            match link.manifest.set_id == parent.set_id {
                true => Ok(link),
                false => Err(ImageError::OtherLink {
                    expected: parent.set_id,
                }),
            }
        })();
        let link = link.map_err(|reason| broken(name, &parent.set, reason))?;
        next = (parent.set, link.manifest.increment_of.clone());
        chain.push(link);
    }
    Ok(chain)
}

/// This machine's.
fn page_size() -> Option<u32> {
    let size = sysconf(SysconfVar::PAGE_SIZE).ok()??;
    u32::try_from(size).ok()
}

fn lock(dir: &Path) -> io::Result<Flock<File>> {
    let file = File::open(dir)?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, why)| why.into())
}

/// Removes unfinished sets on which no process works any more. What cannot be removed is no
/// hindrance: the next set has a higher number.
fn remove_leavings(disk: &Disk, dir: &Path) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let partial = matches!(name.to_str().and_then(parse_name), Some(Name::Partial(_)));
        let path = entry.path();
        if partial && access::check_set_dir(&path).is_ok() && lock(&path).is_ok() {
            remove_partial(disk, &path);
        }
    }
}

/// Removes an unfinished set: only what a set consists of, in case it is something else.
pub(crate) fn remove_partial(disk: &Disk, path: &Path) {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
    names.sort();
    for name in names {
        let file = path.join(&name);
        let name = name.to_string_lossy();
        let ours = [MANIFEST_FILE, ATTEMPTS_FILE].contains(&&*name);
        let image = name.strip_suffix(".partial").unwrap_or(&name);
        if ours || (image.starts_with("rank-") && image.ends_with(".img")) {
            let _ = disk.remove_file(&file);
        }
    }
    let _ = disk.remove_dir(path);
}
