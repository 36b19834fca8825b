//! A finished set: its manifest, its chain, and its images.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::Arc;

use nix::unistd::{sysconf, SysconfVar};

use crate::error::{ImageError, Result};
use crate::format::ids::{KeyId, SetId};
use crate::format::machine;
use crate::fs::permissions;
use crate::limits::LONGEST_CHAIN;
use crate::read::expect::Expect;
use crate::read::image::Image;
use crate::set::manifest::{Manifest, RankEntry};
use crate::set::names::{image_file, parse_name, set_number, SetName, MANIFEST_FILE};
use crate::set::seal::SealKey;

/// A set with a valid manifest.
#[derive(Clone, Debug)]
pub struct Set {
    path: PathBuf,
    name: String,
    manifest: Manifest,
    sealed: Option<KeyId>,
    /// Sets that it depends on: its parent first, the full set last.
    chain: Vec<Set>,
    /// Counter of [`Set::counting`].
    verified: Option<Arc<AtomicU64>>,
}

impl Set {
    /// Opens the set `name` in `dir` and reads its manifest and those of its chain, but no images. With a
    /// key, all these sets must be sealed with it; without a key, none may be sealed.
    ///
    /// # Errors
    /// [`ImageError::NoSuchSet`], [`ImageError::Access`]; [`ImageError::Damaged`] for the manifest; the errors about
    /// seals; and an error that names the link if the chain is broken.
    pub fn open(dir: &Path, name: &str, key: Option<&SealKey>) -> Result<Set> {
        let mut set = Set::open_alone(dir, name, key)?;
        set.chain = chain_of(dir, name, &set.manifest, key)?;
        Ok(set)
    }

    pub(crate) fn open_alone(dir: &Path, name: &str, key: Option<&SealKey>) -> Result<Set> {
        permissions::check_checkpoint_dir(dir)?;
        let missing = || ImageError::NoSuchSet {
            dir: dir.to_owned(),
            name: name.to_owned(),
        };
        if !matches!(parse_name(name), Some(SetName::Whole(_))) {
            return Err(missing());
        }
        let path = dir.join(name);
        let absent = |e: &ImageError| matches!(e, ImageError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound);
        permissions::check_set_dir(&path).map_err(|e| if absent(&e) { missing() } else { e })?;
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

    /// Sets a counter for the bytes of memory that are verified when images are opened, for progress
    /// reports.
    pub fn counting(mut self, verified: &Arc<AtomicU64>) -> Set {
        for link in &mut self.chain {
            link.verified = Some(verified.clone());
        }
        self.verified = Some(verified.clone());
        self
    }

    /// Name of the set, `ckpt-N`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of the set: higher is newer.
    pub fn number(&self) -> u64 {
        set_number(&self.name).unwrap_or(0)
    }

    /// Directory of the set.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Manifest of the set.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The sets that it depends on, newest first; none for a full set.
    pub fn chain(&self) -> &[Set] {
        &self.chain
    }

    /// Id of the key that seals the set; none without a key.
    pub fn sealed(&self) -> Option<KeyId> {
        self.sealed
    }

    /// Refuses a job with another number of ranks.
    ///
    /// # Errors
    /// [`ImageError::WorldSize`].
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

    /// The images of this set and of its chain that are in local directories: until they are drained, they
    /// are lost with their machines. Lost images are included.
    pub fn undrained(&self) -> impl Iterator<Item = &RankEntry> {
        let sets = std::iter::once(self).chain(&self.chain);
        sets.flat_map(|set| {
            set.manifest
                .ranks
                .iter()
                .filter(|entry| set.elsewhere(entry.rank).next().is_some())
        })
    }

    /// Bytes of a rank's image and of all images that it depends on.
    pub fn bytes_of(&self, rank: u32) -> u64 {
        let sets = std::iter::once(self).chain(&self.chain);
        let entries = sets.filter_map(|set| set.entry(rank));
        entries.map(|entry| entry.image.bytes).sum()
    }

    /// Machines and paths where the image of a rank may be; none if it is in the set.
    pub(crate) fn elsewhere(&self, rank: u32) -> impl Iterator<Item = (&str, &Path)> {
        let entry = self.entry(rank);
        let entry = entry.filter(|_| !self.path.join(image_file(rank)).exists());
        entry.into_iter().flat_map(RankEntry::elsewhere)
    }

    fn entry(&self, rank: u32) -> Option<&RankEntry> {
        self.manifest.ranks.get(rank as usize)
    }

    /// Reads the image of a rank at the first place where it exists.
    fn read<T>(&self, rank: u32, read: impl Fn(&Path) -> Result<T>) -> Result<T> {
        let drained = self.path.join(image_file(rank));
        let mut why = None;
        for (_, path) in self.elsewhere(rank) {
            let folder = path.parent().unwrap_or(path);
            match permissions::check_set_dir(folder).and_then(|()| read(path)) {
                Err(e) if path.exists() => why = why.or(Some(e)),
                Err(_) => {}
                result => return result,
            }
        }
        // The image may have been drained meanwhile.
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
                here: machine::host(),
            }),
        }
    }

    /// Checks that every rank's image exists with the right header and length, in this set and its chain.
    /// Images in local directories of other machines are left out. It is quick: it reads a few hundred
    /// bytes of each image.
    ///
    /// # Errors
    /// The error of the first image that is missing or does not fit. One of a parent names the link of the chain.
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

    /// Opens one rank's image with its chain, verified down to the last byte.
    ///
    /// # Errors
    /// As for [`Image::open_verified`]; [`ImageError::OutOfReach`] if the image lies in a local directory of another
    /// machine only. An error of a parent names the link of the chain.
    pub fn image(&self, rank: u32, contract_version: Option<u32>) -> Result<Image> {
        let (mut set, mut image) = (self, self.own_image(rank, contract_version)?);
        let (mut links, mut increments) = (self.chain.iter(), Vec::new());
        let link_broken = |link: &Set, reason| broken(&self.name, &link.name, reason);
        // The manifest of the image's set agrees that there is a parent.
        while let Some(link) = links.next().filter(|_| image.missing_parent().is_some()) {
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
        if let Some(inherited) = image.parent_pages() {
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

/// The sets that a set with this name and manifest depends on, nearest first. Numbers only increase, so a
/// parent has a smaller number.
pub(crate) fn chain_of(
    dir: &Path,
    name: &str,
    manifest: &Manifest,
    key: Option<&SealKey>,
) -> Result<Vec<Set>> {
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

/// Page size of this machine.
fn page_size() -> Option<u32> {
    let size = sysconf(SysconfVar::PAGE_SIZE).ok()??;
    u32::try_from(size).ok()
}

/// Wraps the reason why an older set of a chain cannot be used.
fn broken(set: &str, link: &str, reason: ImageError) -> ImageError {
    ImageError::Link {
        set: set.to_owned(),
        link: link.to_owned(),
        reason: Box::new(reason),
    }
}
