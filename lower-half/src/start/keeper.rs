//! The connection of this rank to its keeper, if `stasis run` has started the job (`supervisor`). Without its keeper
//! the rank must not go on: the next incarnation of the job could run beside it.

use std::sync::mpsc::{channel, Receiver};
use std::sync::OnceLock;

use anyhow::{bail, ensure, Context, Result};
use job_spec::Checkpoints;
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use supervisor::messages::{FromRank, ToRank};
use supervisor::rank::Link;
use supervisor::run_file::{RUN_FILE, STANDBY_FILE};

static LINK: OnceLock<Link> = OnceLock::new();

/// Connects to the keeper. Fails if this rank must not run.
pub fn connect(checkpoints: &Checkpoints) -> Result<()> {
    connect_by(RUN_FILE, checkpoints, |_| ()).map(drop)
}

/// Connects by the file of this name, and gives `treat` what the keeper says. Returns whether there is a keeper.
fn connect_by(
    file: &str,
    checkpoints: &Checkpoints,
    treat: impl FnMut(ToRank) + Send + 'static,
) -> Result<bool> {
    let Some(incarnation) = checkpoints.incarnation else {
        return Ok(false);
    };
    let link = || Link::connect(&checkpoints.dir, file, incarnation, launcher::rank());
    let link = loader::on_own_fd_table(link).context("cannot connect to `stasis run`")??;
    let Some(link) = link else {
        return Ok(false);
    };
    let link = LINK.get_or_init(|| link);
    let watch = move || {
        link.listen(treat);
        let _ = kill(Pid::this(), Signal::SIGKILL);
    };
    loader::spawn_on_own_fd_table("ckpt-keeper", watch)
        .context("cannot start the thread that watches `stasis run`")?;
    Ok(true)
}

/// A rank of a standby world.
pub struct Sleeper {
    told: Receiver<ToRank>,
}

impl Sleeper {
    /// Connects to the keeper of the standby world.
    pub fn connect(checkpoints: &Checkpoints) -> Result<Sleeper> {
        let (tell, told) = channel();
        let treat = move |message| {
            let _ = tell.send(message);
        };
        ensure!(
            connect_by(STANDBY_FILE, checkpoints, treat)?,
            "ranks of a standby world must be on the machine of `stasis run`, which starts and wakes them"
        );
        Ok(Sleeper { told })
    }

    /// Sleeps until the keeper lets the world of `ranks` ranks go. False if its ranks are to end instead. `map` maps
    /// the image of a checkpoint in advance, and returns whether that was possible.
    pub fn sleep(self, ranks: u32, mut map: impl FnMut(u64) -> bool) -> Result<bool> {
        tell(&FromRank::Asleep { ranks });
        loop {
            match self.told.recv() {
                Ok(ToRank::Go) => return Ok(true),
                Ok(ToRank::Leave) => return Ok(false),
                Ok(ToRank::Map(set)) if map(set) => tell(&FromRank::Mapped(set)),
                Ok(ToRank::Map(_)) => {}
                other => bail!("`stasis run` says {other:?} (a defect in Stasis)"),
            }
        }
    }
}

/// Tells the keeper, for the whole job, that it runs and would go on from this checkpoint.
pub fn covered(set: u64) {
    tell(&FromRank::Covered(set));
}

/// Tells the keeper that the program ends with this code.
pub fn exits(code: i32) {
    tell(&FromRank::Exits(code));
}

/// Tells the keeper that the program ends the job with this code.
pub fn aborts(code: i32) {
    tell(&FromRank::Aborts(code));
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
