//! The sets of a checkpoint directory, and their state.

use std::path::Path;

use crate::error::{ImageError, Result};
use crate::format::ids::KeyId;
use crate::fs::permissions;
use crate::limits::MOST_ATTEMPTS;
use crate::set::image_set::Set;
use crate::set::manifest::{Manifest, RankEntry};
use crate::set::names::{names, parse_name, SetName};
use crate::set::seal::SealKey;

/// State of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetState {
    /// Manifest and images exist and belong together (their memory has not been read).
    Whole,
    /// The set was never finished, or is being written now.
    Unfinished,
    /// The set cannot be used, for this reason.
    Unusable(String),
}

/// One set of a checkpoint directory.
#[derive(Clone, Debug)]
pub struct SetInfo {
    /// Name of its directory.
    pub name: String,
    /// Number of the set: higher is newer.
    pub number: u64,
    /// State of the set.
    pub state: SetState,
    /// Manifest with time, ranks and sizes, if it can be read.
    pub manifest: Option<Manifest>,
    /// Id of the key that seals the set; none without a key.
    pub sealed: Option<KeyId>,
    /// Number of failed restarts from the set since the last successful one.
    pub attempts: u32,
    /// Images that the set needs and that are in local directories only, not drained yet: see
    /// [`Set::undrained`].
    pub undrained: Vec<RankEntry>,
}

impl SetInfo {
    /// The parent set of an increment; none for a full set.
    pub fn parent(&self) -> Option<&str> {
        let parent = self.manifest.as_ref()?.increment_of.as_ref()?;
        Some(&parent.set)
    }

    /// Bytes of all images of the set.
    pub fn bytes(&self) -> u64 {
        let ranks = self.manifest.iter().flat_map(|manifest| &manifest.ranks);
        ranks.fold(0, |sum: u64, entry| sum.saturating_add(entry.image.bytes))
    }
}

/// All sets in `dir`, newest first. For the key, here and below, see [`Set::open`].
///
/// # Errors
/// [`ImageError::Access`] and [`ImageError::Io`] about the directory. A set that cannot be used is no error: its
/// [`SetState`] says why.
pub fn list_sets(dir: &Path, key: Option<&SealKey>) -> Result<Vec<SetInfo>> {
    permissions::check_checkpoint_dir(dir)?;
    let look = |(name, parsed): (String, SetName)| {
        let (mut attempts, mut sealed, mut undrained) = (0, None, Vec::new());
        let (number, state, manifest) = match parsed {
            SetName::Partial(number) => (number, SetState::Unfinished, None),
            SetName::Whole(number) => match Set::open(dir, &name, key) {
                Ok(set) => {
                    (attempts, sealed) = (set.attempts(), set.sealed());
                    undrained = set.undrained().cloned().collect();
                    let state = match set.check_images() {
                        Ok(()) => SetState::Whole,
                        Err(e) => SetState::Unusable(e.to_string()),
                    };
                    (number, state, Some(set.manifest().clone()))
                }
                Err(e) => (number, SetState::Unusable(e.to_string()), None),
            },
        };
        SetInfo {
            name,
            number,
            state,
            manifest,
            sealed,
            attempts,
            undrained,
        }
    };
    Ok(names(dir)?.into_iter().map(look).collect())
}

/// The set that a restart uses when no set is named.
#[derive(Debug)]
pub struct Newest {
    /// The newest whole set from which restarts have not failed repeatedly.
    pub set: Set,
    /// Newer sets, and the reasons why they were skipped.
    pub skipped: Vec<String>,
}

/// The newest whole set in `dir`, except those from which three restarts have failed.
///
/// # Errors
/// [`ImageError::Access`] and [`ImageError::Io`] about the directory; [`ImageError::NoWholeSet`], with the reason
/// against each set, if none can be used.
pub fn newest_whole(dir: &Path, key: Option<&SealKey>) -> Result<Newest> {
    newest_whole_without(dir, key, &[])
}

/// The same without the sets of these numbers. Each of them has an image that no rank of the job reaches.
///
/// # Errors
/// As for [`newest_whole`].
pub fn newest_whole_without(dir: &Path, key: Option<&SealKey>, left_out: &[u64]) -> Result<Newest> {
    permissions::check_checkpoint_dir(dir)?;
    let (mut skipped, mut unfinished) = (Vec::new(), Vec::new());
    for (name, parsed) in names(dir)? {
        match parsed {
            SetName::Partial(_) => unfinished.push(format!("{name}: it was never finished")),
            // It was told when it was found.
            SetName::Whole(number) if left_out.contains(&number) => unfinished.push(format!(
                "{name}: an image of it is out of reach of this job's ranks"
            )),
            SetName::Whole(_) => match tried(dir, &name, key) {
                Ok(set) => return Ok(Newest { set, skipped }),
                Err(e) => skipped.push(format!("{name}: {e}")),
            },
        }
    }
    skipped.append(&mut unfinished);
    Err(ImageError::NoWholeSet {
        dir: dir.to_owned(),
        others: skipped,
    })
}

fn tried(dir: &Path, name: &str, key: Option<&SealKey>) -> Result<Set> {
    let set = whole(dir, name, key)?;
    match set.attempts() {
        attempts @ MOST_ATTEMPTS.. => Err(ImageError::KeepsFailing {
            name: name.to_owned(),
            attempts,
        }),
        _ => Ok(set),
    }
}

/// The fallback for the set `name`: the newest older whole set that does not need the set `bad`. `bad` is
/// `name` or a set of its chain. If the image of the rank `away` cannot be reached here, that of the fallback can be.
fn newest_whole_before(
    dir: &Path,
    name: &str,
    bad: &str,
    away: Option<u32>,
    key: Option<&SealKey>,
) -> Option<Set> {
    let Some(SetName::Whole(named)) = parse_name(name) else {
        return None;
    };
    let spared = |set: &Set| {
        let without = set.name() != bad && set.chain().iter().all(|link| link.name() != bad);
        without && away.is_none_or(|rank| set.reaches(rank))
    };
    names(dir)
        .ok()?
        .into_iter()
        .find_map(|(name, parsed)| match parsed {
            SetName::Whole(number) if number < named => whole(dir, &name, key).ok().filter(spared),
            _ => None,
        })
}

/// The number for the next set in `dir`: above every number in use, finished or not.
///
/// # Errors
/// [`ImageError::Io`] if the directory cannot be listed.
pub fn next_number(dir: &Path) -> Result<u64> {
    if !dir.exists() {
        return Ok(1);
    }
    Ok(match names(dir)?.first() {
        Some((_, SetName::Whole(number) | SetName::Partial(number))) => number.saturating_add(1),
        None => 1,
    })
}

/// The number of the oldest finished set in `dir`, usable or not. Only names are read.
///
/// # Errors
/// [`ImageError::Io`] if the directory cannot be listed.
pub fn oldest_number(dir: &Path) -> Result<Option<u64>> {
    let numbers = names(dir)?.into_iter().filter_map(|(_, name)| match name {
        SetName::Whole(number) => Some(number),
        SetName::Partial(_) => None,
    });
    Ok(numbers.min())
}

/// Whether `dir` has a finished set, usable or not. Only names are read.
///
/// # Errors
/// [`ImageError::Access`] and [`ImageError::Io`] about the directory.
pub fn any_finished(dir: &Path) -> Result<bool> {
    permissions::check_checkpoint_dir(dir)?;
    let finished = |(_, name): &(String, SetName)| matches!(name, SetName::Whole(_));
    Ok(names(dir)?.iter().any(finished))
}

/// The set `name` in `dir`, with all its images. If it cannot be used, the error names a usable set.
///
/// # Errors
/// Those of [`Set::open`] and [`Set::check_images`], with the command that goes back to a usable set.
pub fn named_whole(dir: &Path, name: &str, key: Option<&SealKey>) -> Result<Set> {
    whole(dir, name, key).map_err(|reason| explain(dir, name, key, reason))
}

fn whole(dir: &Path, name: &str, key: Option<&SealKey>) -> Result<Set> {
    let set = Set::open(dir, name, key)?;
    set.check_images()?;
    Ok(set)
}

/// The rank whose image cannot be reached here, if that is the reason.
fn away(reason: &ImageError) -> Option<u32> {
    match reason {
        ImageError::OutOfReach { rank, .. } => Some(*rank),
        ImageError::Link { reason, .. } => away(reason),
        _ => None,
    }
}

/// Adds a usable set to the reason why the set `name` cannot be used.
pub fn explain(dir: &Path, name: &str, key: Option<&SealKey>, reason: ImageError) -> ImageError {
    let bad = match &reason {
        ImageError::Link { link, .. } => link,
        _ => name,
    };
    let older = newest_whole_before(dir, name, bad, away(&reason), key);
    ImageError::Unusable {
        set: name.to_owned(),
        older: older.map(|set| set.path().to_owned()),
        reason: Box::new(reason),
    }
}
