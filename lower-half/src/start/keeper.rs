//! The connection of this rank to its keeper, if `stasis run` has started the job (`supervisor`). Without its keeper
//! the rank must not go on: the next incarnation of the job could run beside it.

use std::sync::OnceLock;

use anyhow::{ensure, Context, Result};
use job_spec::Checkpoints;
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use supervisor::messages::FromRank;
use supervisor::rank::Link;

use crate::stages;

static LINK: OnceLock<Link> = OnceLock::new();

/// Connects to the keeper. Fails if this rank must not run.
pub fn connect(checkpoints: &Checkpoints) -> Result<()> {
    let Some(incarnation) = checkpoints.incarnation else {
        return Ok(());
    };
    let link = || Link::connect(&checkpoints.dir, incarnation, launcher::rank());
    let link = loader::on_own_fd_table(link).context("cannot connect to `stasis run`")??;
    let Some(link) = link else {
        ensure!(
            checkpoints.stages.is_none(),
            "--stages: this rank is on another machine than `stasis run`, which is not supported"
        );
        return Ok(());
    };
    let link = LINK.get_or_init(|| link);
    if let Some(process) = stages::stand_in() {
        tell(&FromRank::StandIn(process.as_raw().cast_unsigned()));
    }
    let watch = || {
        link.wait_for_end(stages::survive);
        let _ = kill(Pid::this(), Signal::SIGKILL);
    };
    loader::spawn_on_own_fd_table("ckpt-keeper", watch)
        .context("cannot start the thread that watches `stasis run`")
}

/// Tells the keeper that the program ends with this code.
pub fn exits(code: i32) {
    tell(&FromRank::Exits(code));
}

/// Tells the keeper that the program ends the job with this code.
pub fn aborts(code: i32) {
    tell(&FromRank::Aborts(code));
}

/// Tells the keeper to end the job with this code.
pub fn ends_job(code: i32) {
    tell(&FromRank::EndsJob(code));
}

/// Tells the keeper that this rank cannot go on.
pub fn fails() {
    tell(&FromRank::Fails);
}

fn tell(message: &FromRank) {
    if let Some(link) = LINK.get() {
        // Without memory for a thread the launcher alone decides.
        let _ = loader::on_own_fd_table(|| link.tell(message));
    }
}
