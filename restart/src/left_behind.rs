//! Sets whose files are those of a later run by now. They are neither taken for the newest, nor restarted with their
//! files undone.

use std::io;
use std::path::Path;

use ckpt_image::{SealKey, Set};
use undo::{Cut, LeftBehind};

use crate::error::{RestartError, Result};

/// The cut at which a set was made.
pub fn cut_of(set: &Set) -> Cut {
    Cut {
        number: set.number(),
        id: set.manifest().set_id.0,
    }
}

/// The sets of a directory that restarts from older ones have left behind.
///
/// # Errors
/// The journals cannot be read.
pub fn left_behind(dir: &Path, key: Option<&SealKey>) -> io::Result<Vec<LeftBehind>> {
    let mut all = undo::left_behind(dir)?;
    // A set that was removed may have given its number to another one.
    all.retain(|left| {
        let set = Set::open(dir, &format!("ckpt-{}", left.cut.number), key);
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
