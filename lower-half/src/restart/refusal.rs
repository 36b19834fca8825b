//! A restart that fails before anything of the program runs: `stasis run` hears the reason, or else the user does and
//! the job's history.

use std::path::Path;

use launcher::message;

use crate::console;
use crate::start::keeper;

/// Tells the reason of this rank, with the exit code of the process.
pub fn tell(directory: &Path, why: &anyhow::Error, code: i32) {
    if keeper::refuses(Some(why), code) {
        return;
    }
    console::tell(why);
    if keeper::is_there() {
        // `stasis run` notes its failures.
        return;
    }
    let why = message::reasons(why.as_ref());
    if let Err(why) = history::file::note_refusal(directory, launcher::rank(), &why) {
        tracing::warn!(%why, "refusal not noted");
    }
}
