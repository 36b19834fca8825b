//! Removal of old sets: the newest few stay, with the sets that they depend on.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::Path;

use crate::error::{ImageError, Result};
use crate::fs::file_system::FileSystem;
use crate::set::lineage::Lineage;
use crate::set::list::{list_sets, SetInfo, SetState};
use crate::set::manifest::Manifest;
use crate::set::names::partial_name;
use crate::set::seal::SealKey;
use crate::set::set_writer::remove_partial;

/// Removes whole sets in `dir`. Returns the names of the removed sets. These sets stay:
///
/// - the newest `keep`, and the sets that they depend on;
/// - the newest drained set, while none of those is drained: a set on nodes alone is lost with a node;
/// - sets that cannot be used, also for lack of the right key: the user may want to know why. They do not count;
/// - sets with a number in `left_behind`, while fewer than `keep` newer ones stay: they can be restarted from only with
///   the files of a later run, and do not count;
/// - sets of runs that are neither `own` nor continued by it; without `own`, sets with any lineage. They do not
///   count either.
///
/// The newest set is removed first, so that the rest of a chain is always a chain.
///
/// A set is first renamed to an unfinished one, durably, so that a partly removed set is never taken for a
/// checkpoint.
///
/// # Errors
/// Those of [`list_sets`]; [`ImageError::Io`] if a set cannot be renamed or removed.
pub fn prune(
    fs: &FileSystem,
    dir: &Path,
    keep: NonZeroUsize,
    key: Option<&SealKey>,
    own: Option<&Lineage>,
    left_behind: &[u64],
) -> Result<Vec<String>> {
    let sets = list_sets(dir, key)?;
    let by_own = |set: &&SetInfo| {
        let made = |manifest: &Manifest| match own {
            Some(own) => manifest.is_made_by(own),
            None => manifest.lineage.is_none(),
        };
        set.manifest.as_ref().is_some_and(made)
    };
    let whole = sets.iter().filter(|set| set.state == SetState::Whole);
    let whole = whole.filter(by_own);
    let (mut gone, mut needed, mut drained, mut newer) = (Vec::new(), BTreeSet::new(), false, 0);
    for set in whole {
        let counts = !left_behind.contains(&set.number);
        let is_drained = counts && set.undrained.is_empty();
        if newer < keep.get() || needed.contains(&*set.name) || is_drained && !drained {
            newer += usize::from(counts);
            drained |= is_drained;
            needed.extend(set.parent());
            continue;
        }
        let (path, doomed) = (dir.join(&set.name), dir.join(partial_name(set.number)));
        fs.rename(&path, &doomed)
            .and_then(|()| fs.sync_dir(dir))
            .map_err(|e| ImageError::io("remove the old checkpoint", &path, e))?;
        remove_partial(fs, &doomed);
        gone.push(set.name.clone());
    }
    Ok(gone)
}
