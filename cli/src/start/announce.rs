//! The announcement of a rank to `stasis run`. It is the first thing that `stasis launch` does, so that a process which
//! is killed before the lower half has connected is missed: some launchers never notice that (Intel MPI).

use std::os::fd::RawFd;
use std::path::Path;
use std::sync::OnceLock;

use supervisor::messages::{FromRank, Member};
use supervisor::rank::{Announcement, Error};
use supervisor::run_file::{RUN_FILE, STANDBY_FILE};

use crate::start::node_keeper;
use crate::ui::exit::Code;

static ANNOUNCED: OnceLock<Announcement> = OnceLock::new();

/// Announces the rank of this process, which belongs to an incarnation or, `asleep`, to a standby world. On another
/// machine than that of `stasis run`, a job with checkpoints `in_memory` gets a node keeper.
pub fn announce(
    directory: &Path,
    incarnation: u32,
    asleep: bool,
    in_memory: bool,
) -> Result<(), Error> {
    let file = match asleep {
        true => STANDBY_FILE,
        false => RUN_FILE,
    };
    let made = Announcement::make(directory, file, incarnation, Member::of_this_process())?;
    if let Some(keeper) = made.node_keeper().filter(|_| in_memory) {
        if let Err(why) = node_keeper::start(keeper.socket(), directory, file) {
            // The job runs without it. Each rank of the machine says at a checkpoint in memory that there is none.
            tracing::warn!(%why, "no node keeper can be started");
        }
    }
    ANNOUNCED.get_or_init(|| made);
    Ok(())
}

/// The rank does not start, for a reason that this process has told: if the launcher kills others for that, these
/// deaths are no failures.
pub fn refuses(code: Code) {
    if let Some(announced) = ANNOUNCED.get() {
        announced.tell(&FromRank::Aborts(code.number()));
    }
}

/// The descriptor of the announcement, for the lower half that this process executes next.
pub fn inherited() -> Option<RawFd> {
    ANNOUNCED.get()?.inherit().ok()
}
