//! A directory whose job `stasis run` keeps: between two incarnations no rank of it lives, and it is still taken.

use std::path::Path;

use supervisor::run_file::{Error, RunFile};

use crate::args::Running;
use crate::start::end_job;
use crate::ui::exit::{self, Code};

/// Fails if `stasis run` keeps a job in the directory, since that would be started again beside this one.
///
/// # Errors
/// The name and process id of that `stasis run`.
pub fn check(directory: &Path) -> Result<(), Error> {
    match RunFile::left_behind(directory) {
        Err(taken @ Error::Taken { .. }) => Err(taken),
        // No job depends on a file that cannot be read. It stays in the way of the next `stasis run`, which says so.
        Ok(_) | Err(_) => Ok(()),
    }
}

/// The same for a rank that starts: the first one looks for all of a job that no `stasis run` has started.
pub fn check_start(directory: &Path, running: &Running) -> exit::Result<()> {
    match running.checkpoints.incarnation().is_none() && launcher::is_first() {
        true => end_job::on_error(check(directory), Code::Directory, running),
        false => Ok(()),
    }
}
