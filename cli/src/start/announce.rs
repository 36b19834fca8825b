//! The announcement of a rank to `stasis run`. It is the first thing that `stasis launch` does, so that a process which
//! is killed before the lower half has connected is missed: some launchers never notice that (Intel MPI).

use std::os::fd::RawFd;
use std::path::Path;
use std::sync::OnceLock;

use supervisor::messages::{FromRank, Member};
use supervisor::rank::{Announcement, Error};
use supervisor::run_file::{RUN_FILE, STANDBY_FILE};

use crate::ui::exit::Code;

static ANNOUNCED: OnceLock<Announcement> = OnceLock::new();

/// Announces the rank of this process, which belongs to an incarnation or, `asleep`, to a standby world.
pub fn announce(directory: &Path, incarnation: u32, asleep: bool) -> Result<(), Error> {
    let file = match asleep {
        true => STANDBY_FILE,
        false => RUN_FILE,
    };
    let made = Announcement::make(directory, file, incarnation, Member::of_this_process())?;
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
