//! Storage levels: where a rank's image lies until it is in its set.
//!
//! A job may be given a directory for each rank that is faster than the checkpoint directory, such as the
//! node's own disk. Images are written there; the set's manifest says of each on which host it is, and where,
//! so the set can be restarted from as soon as all have been synced. In the background each image is then
//! *drained*: copied into its set under another name, verified there, made durable, and given its name. Only
//! then the local one goes, so at every moment an image is whole in one of the two places, and a set is as the
//! manifest says whichever of its images were drained.
//!
//! A *partner*, a rank on another machine, may keep a copy of an image in its own local directory, under the
//! name that it would have if that rank's images were written there, until the image is in its set. And who
//! reaches an image that its rank does not reach can *bring* it to its set.

use std::io::{self, IoSlice, Read};
use std::path::{Path, PathBuf};

use crate::access;
use crate::bytes::hex;
use crate::disk::{Disk, DiskFile};
use crate::error::{ImageError, Result};
use crate::header::SetId;
use crate::image::Image;
use crate::key::Key;
use crate::list::{holds, parse_name, Name};
use crate::set::{brought_file, image_file, unfinished_file, Set};

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
        let dir = self.folder(set, id);
        // Another rank of this host may have made that one already.
        for lying in self.lying().iter().filter(|lying| lying.dir != dir) {
            if let Fate::Gone = self.fate(lying, key) {
                for rank in lying.ranks() {
                    self.remove(lying, rank);
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
        match self.disk.make_dir(folder) {
            // By another rank of this host, or for a copy.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made.map_err(|e| ImageError::io("make the directory", folder, e)),
        }
    }

    /// Makes durable that an image is in its folder. Returns where it is, for the manifest.
    pub fn settle(&self, dir: &Path) -> Result<PathBuf> {
        self.settled(dir, self.rank)
    }

    fn settled(&self, dir: &Path, rank: u32) -> Result<PathBuf> {
        for dir in [dir, &self.dir] {
            self.disk
                .sync_dir(dir)
                .map_err(|e| ImageError::io("sync the directory", dir, e))?;
        }
        Ok(dir.join(image_file(rank)))
    }

    /// Keeps a copy of another rank's image of a set that is being made: so many bytes of `from`, which is
    /// read no further. It is durable then. Returns where it is, for the manifest. What cannot be kept whole is
    /// not kept.
    pub fn keep(
        &self,
        set: &str,
        id: SetId,
        rank: u32,
        bytes: u64,
        from: &mut dyn Read,
    ) -> Result<PathBuf> {
        self.prepare()?;
        if !matches!(parse_name(set), Some(Name::Whole(_))) {
            let (dir, name) = (self.shared.clone(), set.to_owned());
            return Err(ImageError::NoSuchSet { dir, name });
        }
        let dir = self.folder(set, id);
        self.make(&dir)?;
        let file = dir.join(image_file(rank));
        // One that is there already is not this copy: where both have one directory, it is the image itself.
        let copy = create(&self.disk, &file)?;
        let filled = fill(&copy, &mut from.take(bytes));
        let whole = filled.and_then(|filled| match filled == bytes {
            true => self.settled(&dir, rank),
            false => {
                let cut = format!("the copy broke off after {filled} of {bytes} bytes");
                Err(ImageError::io("write", &file, io::Error::other(cut)))
            }
        });
        if whole.is_err() {
            // The folder stays: this rank's own image may be about to be made in it.
            let _ = copy.remove();
        }
        whole
    }

    /// Removes the images here, whosever they are, that are in their sets: copies, and what ranks left that
    /// now run elsewhere.
    pub fn tidy(&self, key: Option<&Key>) {
        for lying in self.lying() {
            let Fate::Whole(set) = self.fate(&lying, key) else {
                continue;
            };
            let drained = |rank: &u32| set.path().join(image_file(*rank)).exists();
            let drained: Vec<u32> = lying.ranks().filter(drained).collect();
            // Whoever gave them their names may have been killed before this.
            if drained.is_empty() || self.disk.sync_dir(set.path()).is_err() {
                continue;
            }
            for rank in drained {
                self.remove(&lying, rank);
            }
        }
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
        let image = lying.dir.join(image_file(self.rank));
        drain(
            &self.disk,
            set,
            self.rank,
            &image,
            &unfinished_file(self.rank),
        )?;
        self.remove(lying, self.rank);
        Ok(())
    }

    /// What cannot be removed is no hindrance: a set is known by its id.
    fn remove(&self, lying: &Lying, rank: u32) {
        let _ = self.disk.remove_file(&lying.dir.join(image_file(rank)));
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

impl Lying {
    /// The ranks whose images are in it.
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
    /// Whether the image of a rank, with all that it builds upon, can be read here, as far as names tell.
    pub fn reaches(&self, rank: u32) -> bool {
        let mut sets = std::iter::once(self).chain(self.chain());
        sets.all(|set| {
            let mut places = set.elsewhere(rank).peekable();
            places.peek().is_none() || places.any(|(_, path)| path.exists())
        })
    }

    /// Has a file server's client look whether there is more in the set's directories now: it believes for a
    /// while that a name is not there after it was not.
    pub fn look_again(&self) {
        for set in std::iter::once(self).chain(self.chain()) {
            let _ = std::fs::read_dir(set.path()).map(Iterator::count);
        }
    }

    /// Brings the image of a rank, and what it builds upon, to their sets, from where they can be read here. The
    /// rank itself and other processes may do so at the same time.
    pub fn bring(&self, disk: &Disk, rank: u32) -> Result<()> {
        for set in std::iter::once(self).chain(self.chain()) {
            let here = |(_, path): &(&str, &Path)| path.exists();
            let Some((_, path)) = set.elsewhere(rank).find(here) else {
                continue;
            };
            let folder = path.parent().unwrap_or(path);
            access::check_set_dir(folder)?;
            drain(disk, set, rank, path, &brought_file(rank))?;
            // What cannot be removed is no hindrance, as above.
            let _ = disk.remove_file(path);
            let _ = disk.remove_dir(folder);
        }
        Ok(())
    }
}

/// Copies an image into its set, as `unfinished` until it is verified and durable there.
fn drain(disk: &Disk, set: &Set, rank: u32, image: &Path, unfinished: &str) -> Result<()> {
    let place = set.path().join(image_file(rank));
    if !place.exists() {
        let unfinished = set.path().join(unfinished);
        // One that was being drained when the job was killed.
        if unfinished.exists() {
            let _ = disk.remove_file(&unfinished);
        }
        let drained = access::open(image)
            .and_then(|mut source| fill(&create(disk, &unfinished)?, &mut source))
            .and_then(|_| Image::open_verified(&unfinished, &set.expect(rank)).map(drop))
            .and_then(|()| {
                match disk.rename(&unfinished, &place) {
                    // Somebody else has brought it meanwhile.
                    Err(_) if place.exists() => disk.remove_file(&unfinished),
                    renamed => renamed,
                }
                .map_err(|e| ImageError::io("finish the image as", &place, e))
            });
        if drained.is_err() {
            let _ = disk.remove_file(&unfinished);
        }
        drained?;
    }
    // Also if it was there: whoever gave it its name may have been killed before this.
    disk.sync_dir(set.path())
        .map_err(|e| ImageError::io("sync the directory", set.path(), e))
}

fn create(disk: &Disk, path: &Path) -> Result<DiskFile> {
    disk.create(path)
        .map_err(|e| ImageError::io("create", path, e))
}

/// Writes what `from` gives, durably, and returns how many bytes that were.
fn fill(target: &DiskFile, from: &mut impl Read) -> Result<u64> {
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
