//! Which sets a checkpoint directory holds, and which of them can be used.

use std::path::Path;

use crate::access;
use crate::error::{ImageError, Result};
use crate::key::{Key, KeyId};
use crate::manifest::{Manifest, RankEntry};
use crate::retention::MOST_ATTEMPTS;
use crate::set::Set;

/// Whether a set can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetState {
    /// Manifest and images are there and belong together (their memory has not been read).
    Whole,
    /// It was never finished, or is being made now.
    Unfinished,
    /// Why it cannot be used.
    Unusable(String),
}

/// One set of a checkpoint directory.
#[derive(Clone, Debug)]
pub struct SetInfo {
    /// Name of its directory.
    pub name: String,
    /// Its number: higher is newer.
    pub number: u64,
    /// Whether it can be used.
    pub state: SetState,
    /// Its manifest, if that can be read: time, ranks and sizes stand there.
    pub manifest: Option<Manifest>,
    /// The key that seals it, which was given.
    pub sealed: Option<KeyId>,
    /// Restarts that were begun from it and did not come back, since one last did.
    pub attempts: u32,
    /// Images that it needs and that are in local directories alone, not drained yet: see
    /// [`Set::undrained`].
    pub undrained: Vec<RankEntry>,
}

impl SetInfo {
    /// The set of which it is an increment; none if it stands by itself.
    pub fn parent(&self) -> Option<&str> {
        let parent = self.manifest.as_ref()?.increment_of.as_ref()?;
        Some(&parent.set)
    }

    /// Bytes of all images.
    pub fn bytes(&self) -> u64 {
        let ranks = self.manifest.iter().flat_map(|manifest| &manifest.ranks);
        ranks.fold(0, |sum: u64, entry| sum.saturating_add(entry.image.bytes))
    }
}

/// What a name in a checkpoint directory stands for.
pub(crate) enum Name {
    Whole(u64),
    Partial(u64),
}

pub(crate) fn parse_name(name: &str) -> Option<Name> {
    let rest = name.strip_prefix("ckpt-")?;
    let (digits, partial) = match rest.strip_suffix(".partial") {
        Some(digits) => (digits, true),
        None => (rest, false),
    };
    let number: u64 = digits.parse().ok()?;
    if number.to_string() != digits {
        return None;
    }
    Some(match partial {
        true => Name::Partial(number),
        false => Name::Whole(number),
    })
}

/// The sets in `dir`, finished or not, newest first.
pub(crate) fn names(dir: &Path) -> Result<Vec<(String, Name)>> {
    let io = |e| ImageError::io("list", dir, e);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(io)? {
        let name = entry.map_err(io)?.file_name();
        if let Some((name, parsed)) = name.to_str().and_then(|n| Some((n, parse_name(n)?))) {
            names.push((name.to_owned(), parsed));
        }
    }
    names.sort_by_key(|(_, name)| match name {
        Name::Whole(number) | Name::Partial(number) => std::cmp::Reverse(*number),
    });
    Ok(names)
}

/// Whether `dir` holds the set `name`, finished. Only names are looked at.
pub(crate) fn holds(dir: &Path, name: &str) -> Result<bool> {
    Ok(names(dir)?.iter().any(|(held, _)| held == name))
}

/// All sets in `dir`, newest first. What a key is for, here and below: [`Set::open`].
pub fn list_sets(dir: &Path, key: Option<&Key>) -> Result<Vec<SetInfo>> {
    access::check_checkpoint_dir(dir)?;
    let look = |(name, parsed): (String, Name)| {
        let (mut attempts, mut sealed, mut undrained) = (0, None, Vec::new());
        let (number, state, manifest) = match parsed {
            Name::Partial(number) => (number, SetState::Unfinished, None),
            Name::Whole(number) => match Set::open(dir, &name, key) {
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

/// What a restart takes when no set is named.
#[derive(Debug)]
pub struct Newest {
    /// The newest whole set from which restarts do not keep failing.
    pub set: Set,
    /// Newer ones, and why they were passed over.
    pub passed_over: Vec<String>,
}

/// The newest whole set in `dir`, but for those from which three restarts have failed.
pub fn newest_whole(dir: &Path, key: Option<&Key>) -> Result<Newest> {
    access::check_checkpoint_dir(dir)?;
    let (mut passed_over, mut unfinished) = (Vec::new(), Vec::new());
    for (name, parsed) in names(dir)? {
        match parsed {
            Name::Partial(_) => unfinished.push(format!("{name}: it was never finished")),
            Name::Whole(_) => match tried(dir, &name, key) {
                Ok(set) => return Ok(Newest { set, passed_over }),
                Err(e) => passed_over.push(format!("{name}: {e}")),
            },
        }
    }
    passed_over.append(&mut unfinished);
    Err(ImageError::NoWholeSet {
        dir: dir.to_owned(),
        others: passed_over,
    })
}

fn tried(dir: &Path, name: &str, key: Option<&Key>) -> Result<Set> {
    let set = whole(dir, name, key)?;
    match set.attempts() {
        attempts @ MOST_ATTEMPTS.. => Err(ImageError::KeepsFailing {
            name: name.to_owned(),
            attempts,
        }),
        _ => Ok(set),
    }
}

/// The newest whole set older than the set `name` that does not need the set `bad`, which may be that one
/// or one of its chain: what to fall back to.
fn newest_whole_before(dir: &Path, name: &str, bad: &str, key: Option<&Key>) -> Option<Set> {
    let Some(Name::Whole(named)) = parse_name(name) else {
        return None;
    };
    let spared = |set: &Set| set.name() != bad && set.chain().iter().all(|link| link.name() != bad);
    names(dir)
        .ok()?
        .into_iter()
        .find_map(|(name, parsed)| match parsed {
            Name::Whole(number) if number < named => whole(dir, &name, key).ok().filter(spared),
            _ => None,
        })
}

/// The number for the next set in `dir`: above every number in use, finished or not.
pub fn next_number(dir: &Path) -> Result<u64> {
    if !dir.exists() {
        return Ok(1);
    }
    Ok(match names(dir)?.first() {
        Some((_, Name::Whole(number) | Name::Partial(number))) => number.saturating_add(1),
        None => 1,
    })
}

/// The number of the oldest finished set in `dir`, be it usable or not. Only names are looked at.
pub fn oldest_number(dir: &Path) -> Result<Option<u64>> {
    let numbers = names(dir)?.into_iter().filter_map(|(_, name)| match name {
        Name::Whole(number) => Some(number),
        Name::Partial(_) => None,
    });
    Ok(numbers.min())
}

/// Whether any set in `dir` was ever finished, be it usable or not. Only names are looked at.
pub fn any_finished(dir: &Path) -> Result<bool> {
    access::check_checkpoint_dir(dir)?;
    let finished = |(_, name): &(String, Name)| matches!(name, Name::Whole(_));
    Ok(names(dir)?.iter().any(finished))
}

/// The set `name` in `dir`, all of whose images are there. If it cannot be used, the reason says what
/// can be used instead.
pub fn named_whole(dir: &Path, name: &str, key: Option<&Key>) -> Result<Set> {
    whole(dir, name, key).map_err(|reason| explain(dir, name, key, reason))
}

fn whole(dir: &Path, name: &str, key: Option<&Key>) -> Result<Set> {
    let set = Set::open(dir, name, key)?;
    set.check_images()?;
    Ok(set)
}

/// Wraps the reason why the set `name` cannot be used with what can be used instead.
pub fn explain(dir: &Path, name: &str, key: Option<&Key>, reason: ImageError) -> ImageError {
    let bad = match &reason {
        ImageError::Link { link, .. } => link,
        _ => name,
    };
    let older = newest_whole_before(dir, name, bad, key);
    ImageError::Unusable {
        set: name.to_owned(),
        older: older.map(|set| set.path().to_owned()),
        reason: Box::new(reason),
    }
}
