//! Which sets stay: the newest few, and those that they build upon. And which are tried: a set from which restarts have failed again
//! and again is passed over for an older one.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::num::NonZeroUsize;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::access::open;
use crate::disk::Disk;
use crate::error::{ImageError, Result};
use crate::key::Key;
use crate::lineage::Lineage;
use crate::list::{list_sets, SetInfo, SetState};
use crate::manifest::Manifest;
use crate::set::{partial_name, remove_partial, Set};

/// Restarts that were begun from the set and did not come back, in decimal.
pub(crate) const ATTEMPTS_FILE: &str = "attempts";
/// A set with so many is not taken unless it is named.
pub(crate) const MOST_ATTEMPTS: u32 = 3;

/// Removes the whole sets in `dir` but the newest `keep` and those that these build upon; and while none of
/// these is drained, the newest that is: what lies on nodes alone is lost with a node. Sets that cannot
/// be used, for want of the right key too, stay, and do not count: somebody may want to know why. So do those
/// that neither the run `own` nor one that it continues has made; without a run, those whose makers were noted.
/// Returns the names of those that are gone. The newest goes first: what is left of a chain is always one.
///
/// A set is renamed to an unfinished one first, durably: half of a set is never taken for a
/// checkpoint.
pub fn prune(
    disk: &Disk,
    dir: &Path,
    keep: NonZeroUsize,
    key: Option<&Key>,
    own: Option<&Lineage>,
) -> Result<Vec<String>> {
    let sets = list_sets(dir, key)?;
    let by_own = |set: &&SetInfo| {
        let made = |manifest: &Manifest| match own {
            Some(own) => own.made(manifest),
            None => manifest.lineage.is_none(),
        };
        set.manifest.as_ref().is_some_and(made)
    };
    let whole = sets.iter().filter(|set| set.state == SetState::Whole);
    let whole = whole.filter(by_own);
    let (mut gone, mut needed, mut drained) = (Vec::new(), BTreeSet::new(), false);
    for (place, set) in whole.enumerate() {
        let first_drained = !drained && set.undrained.is_empty();
        if place < keep.get() || needed.contains(&*set.name) || first_drained {
            drained |= set.undrained.is_empty();
            needed.extend(set.parent());
            continue;
        }
        let (path, doomed) = (dir.join(&set.name), dir.join(partial_name(set.number)));
        disk.rename(&path, &doomed)
            .and_then(|()| disk.sync_dir(dir))
            .map_err(|e| ImageError::io("remove the old checkpoint", &path, e))?;
        remove_partial(disk, &doomed);
        gone.push(set.name.clone());
    }
    Ok(gone)
}

impl Set {
    /// Notes that a restart from it was begun. Called by one process of the job, once all have
    /// chosen their set.
    pub fn restart_begun(&self) -> Result<()> {
        let path = self.path().join(ATTEMPTS_FILE);
        let attempts = self.attempts().saturating_add(1).to_string();
        // An entry of that name is replaced: a link is not followed, and the open does not block on a pipe.
        let new = self.path().join(format!("{ATTEMPTS_FILE}.partial"));
        let _ = fs::remove_file(&new);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        options
            .open(&new)
            .and_then(|mut file| file.write_all(attempts.as_bytes()))
            .and_then(|()| fs::rename(&new, &path))
            .map_err(|e| ImageError::io("write", &path, e))
    }

    /// Notes that the job is back.
    pub fn restart_worked(&self) {
        // The next restart would begin to count anew: no harm if it cannot be removed.
        let _ = fs::remove_file(self.path().join(ATTEMPTS_FILE));
    }

    /// How often a restart from it was begun and did not come back since one last did.
    pub fn attempts(&self) -> u32 {
        const MOST_DIGITS: u64 = 10;
        let mut text = String::new();
        let file = open(&self.path().join(ATTEMPTS_FILE)).ok();
        let read = file.map(|file| file.take(MOST_DIGITS).read_to_string(&mut text));
        read.and_then(|_| text.parse().ok()).unwrap_or(0)
    }
}
