//! Sets whose files are those of a later run by now. They are neither taken for the newest, nor restarted with their
//! files undone.

use std::io;
use std::path::Path;

use ckpt_image::{list_sets, set_name, SealKey, Set};
use undo::{Cut, LeftBehind};

use crate::error::{RestartError, Result};

/// The cut at which a set was made.
pub fn cut_of(set: &Set) -> Cut {
    Cut {
        number: set.number(),
        id: set.manifest().set_id.0,
    }
}

/// The cuts of the sets of a directory that are newer than `cut`.
///
/// # Errors
/// The directory cannot be read.
pub fn newer_sets(dir: &Path, key: Option<&SealKey>, cut: &Cut) -> Result<Vec<Cut>> {
    let sets = list_sets(dir, key)?.into_iter();
    let newer = sets.filter(|set| set.number > cut.number);
    let cuts = newer.filter_map(|set| {
        let id = set.manifest?.set_id.0;
        Some(Cut {
            number: set.number,
            id,
        })
    });
    Ok(cuts.collect())
}

/// The sets of a directory that restarts from older ones have left behind.
///
/// # Errors
/// The journals cannot be read.
pub fn left_behind(dir: &Path, key: Option<&SealKey>) -> io::Result<Vec<LeftBehind>> {
    let mut all = undo::left_behind(dir)?;
    // A set that was removed may have given its number to another one.
    all.retain(|left| {
        let set = Set::open(dir, &set_name(left.cut.number), key);
        set.is_ok_and(|set| cut_of(&set) == left.cut)
    });
    Ok(all)
}

/// Checks that the files can be brought to their state at a set.
///
/// # Errors
/// [`RestartError::LeftBehind`] if a later run has replaced them, [`RestartError::Journals`] if that is unknown.
pub fn check_not_left_behind(dir: &Path, set: &Set) -> Result<()> {
    let journals = |source| RestartError::Journals {
        dir: dir.to_owned(),
        source,
    };
    let cut = cut_of(set);
    let all = undo::left_behind(dir).map_err(journals)?;
    match all.into_iter().find(|left| left.cut == cut) {
        None => Ok(()),
        Some(left) => Err(RestartError::LeftBehind {
            set: set.name().to_owned(),
            by: left.by,
        }),
    }
}
