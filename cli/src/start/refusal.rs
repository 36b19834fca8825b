//! A start that is refused. `stasis run` hears the reason, or else the user does and the history of the job that was to
//! go on.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;

use launcher::message;

use crate::start::announce;
use crate::ui::exit::{Code, Failure};
use crate::ui::text;

/// Checkpoint directory of the job that this process restarts.
static RESTARTED: OnceLock<PathBuf> = OnceLock::new();
/// Whether other ranks may have another reason, or none.
static OF_THIS_RANK: AtomicBool = AtomicBool::new(false);

/// A restart of the job in this directory begins.
pub fn begins_restart(directory: &Path) {
    RESTARTED.get_or_init(|| directory.to_owned());
}

/// The next failure may be one of this rank alone, so that this rank notes it. Other failures are the same in all
/// ranks, and the first rank notes them.
pub fn is_of_this_rank() {
    OF_THIS_RANK.store(true, Ordering::Relaxed);
}

/// Tells the reason.
pub fn tell(failure: &Failure) {
    if announce::refuses(failure.code, &failure.error) {
        return;
    }
    text::tell(&failure.error);
    if announce::is_announced() || failure.code == Code::Usage {
        // `stasis run` notes its failures. A command with wrong options says nothing about the job.
        return;
    }
    let of_this_rank = OF_THIS_RANK.load(Ordering::Relaxed);
    let rank = launcher::rank().filter(|_| of_this_rank);
    if let Some(directory) = RESTARTED
        .get()
        .filter(|_| of_this_rank || launcher::is_first())
    {
        let why = message::reasons(failure.error.as_ref());
        if let Err(why) = history::file::note_refusal(directory, rank, &why) {
            tracing::warn!(%why, "refusal not noted");
        }
    }
}
