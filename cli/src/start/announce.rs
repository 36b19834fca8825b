//! The announcement of a rank to `stasis run`. It is the first thing that `stasis launch` does, so that a process which
//! is killed before the lower half has connected is missed: some launchers never notice that (Intel MPI).

use std::os::fd::RawFd;
use std::path::Path;
use std::sync::OnceLock;

use launcher::message;
use supervisor::messages::{FromRank, Member, Refusal};
use supervisor::rank::{Announcement, Error};
use supervisor::run_file::{RUN_FILE, STANDBY_FILE};

use crate::start::node_keeper;
use crate::ui::exit::Code;

/// The announcement, and whether it is that of a standby world.
static ANNOUNCED: OnceLock<(Announcement, bool)> = OnceLock::new();

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
    ANNOUNCED.get_or_init(|| (made, asleep));
    Ok(())
}

/// Whether `stasis run` knows this process.
pub fn is_announced() -> bool {
    ANNOUNCED.get().is_some()
}

/// Tells `stasis run` why the rank does not start: if the launcher kills others for that, these deaths are no failures.
/// Returns whether the user hears the whole reason from it.
pub fn refuses(code: Code, why: &anyhow::Error) -> bool {
    let Some((announced, asleep)) = ANNOUNCED.get() else {
        return false;
    };
    // A directory may be free, whole or writable again, and a file back. Options and programs stay as they are.
    let lasts = !matches!(code, Code::Directory | Code::Image);
    let why = message::reasons(why.as_ref());
    let why = format!("{}{why}", launcher::rank_label());
    let (refusal, is_whole) = Refusal::new(Some(why), code.number(), lasts);
    announced.tell(&FromRank::Refuses(refusal));
    // The job goes on without a standby world, so that its refusal is no end.
    is_whole && !asleep
}

/// The descriptor of the announcement, for the lower half that this process executes next.
pub fn inherited() -> Option<RawFd> {
    ANNOUNCED.get()?.0.inherit().ok()
}
