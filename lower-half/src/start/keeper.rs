//! The connection of this rank to `stasis run`, if that has started the job (`supervisor`). Without it the rank must
//! not go on: the next incarnation of the job could run beside it. On another machine than `stasis run` the rank also
//! holds a lease. The kernel kills the rank when the lease ends.

use std::io;
use std::process::exit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, Receiver};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{bail, ensure, Context, Result};
use ckpt_image::{ImageError, SetId};
use contract::{gate, MpiState};
use coordinator::net::addresses;
use dump::{Handover, HeaderInfo};
use job_spec::{Checkpoints, ExitCode};
use launcher::message;
use nix::sys::signal::{kill, Signal};
use nix::unistd::{close, Pid};
use supervisor::messages::{FromRank, JobEnd, Member, Refusal, ToRank, LONGEST_REASON};
use supervisor::rank::{self, KillTimer, Link};
use supervisor::run_file::{RUN_FILE, STANDBY_FILE};

use crate::stages;

static LINK: OnceLock<Link> = OnceLock::new();
/// Whether the rank is one of a standby world that was not let go.
static ASLEEP: AtomicBool = AtomicBool::new(false);

/// Timer of the lease.
struct Timer(loader::KillTimer);

impl KillTimer for Timer {
    fn now(&self) -> Duration {
        self.0.now()
    }

    fn arm(&self, at: Duration) -> io::Result<()> {
        self.0.arm(at)
    }
}

/// Connects to `stasis run`. Fails if this rank must not run.
pub fn connect(checkpoints: &Checkpoints) -> Result<()> {
    connect_by(RUN_FILE, checkpoints, |message| {
        if let (ToRank::Survive, Some(link)) = (message, LINK.get()) {
            link.tell(&FromRank::Survives(stages::survive()));
        }
    })
}

/// Connects by the file of this name, and gives `treat` what the keeper says.
fn connect_by(
    file: &str,
    checkpoints: &Checkpoints,
    treat: impl FnMut(ToRank) + Send + 'static,
) -> Result<()> {
    let Some(incarnation) = checkpoints.incarnation else {
        return Ok(());
    };
    let timer =
        || -> io::Result<Box<dyn KillTimer>> { Ok(Box::new(Timer(loader::KillTimer::new()?))) };
    let link = || {
        let link = Link::connect(
            &checkpoints.dir,
            file,
            incarnation,
            Member::of_this_process(),
            timer,
        )?;
        if link.is_remote() {
            check_remote(checkpoints).unwrap_or_else(|why| refuse(&link, &why));
        }
        Ok::<Link, anyhow::Error>(link)
    };
    // The connection is in that table alone.
    let link = loader::on_own_fd_table(link).context("cannot connect to `stasis run`")??;
    let link = LINK.get_or_init(|| link);
    // This connection takes the place of that of the announcement, which only the program's table has.
    if let Some(announced) = checkpoints.announced {
        let _ = close(announced);
    }
    loader::set_executes_hook(|| tell(&FromRank::Executes));
    if let Some(process) = stages::stand_in() {
        tell(&FromRank::StandIn(process.as_raw().cast_unsigned()));
        stages::is_known();
    }
    let watch = move || {
        link.listen(treat);
        let _ = kill(Pid::this(), Signal::SIGKILL);
    };
    loader::spawn_on_own_fd_table("ckpt-keeper", watch)
        .context("cannot start the thread that watches `stasis run`")?;
    Ok(())
}

/// Refuses what a rank on another machine than `stasis run` cannot have. Then the job ends, and is not started again:
/// the launcher might let the other ranks wait for this one (Hydra).
fn check_remote(checkpoints: &Checkpoints) -> Result<()> {
    ensure!(
        checkpoints.stages.is_none(),
        "--stages: this rank is on another machine than `stasis run`, which is not supported"
    );
    Ok(())
}

/// Ends the job, which cannot be served.
fn refuse(link: &Link, why: &anyhow::Error) -> ! {
    let code = ExitCode::CannotServe.number();
    link.tell(&FromRank::EndsJob(JobEnd {
        code,
        why: Some(why.to_string()),
    }));
    exit(code)
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
        ASLEEP.store(true, Ordering::Relaxed);
        connect_by(STANDBY_FILE, checkpoints, treat)?;
        Ok(Sleeper { told })
    }

    /// Sleeps until the keeper lets the world of `ranks` ranks go. False if its ranks are to end instead. `map` maps
    /// the image of a checkpoint in advance, and returns whether that was possible.
    pub fn sleep(self, ranks: u32, mut map: impl FnMut(u64) -> bool) -> Result<bool> {
        tell(&FromRank::Asleep { ranks });
        loop {
            match self.told.recv() {
                Ok(ToRank::Go) => {
                    ASLEEP.store(false, Ordering::Relaxed);
                    return Ok(true);
                }
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

/// Hands this rank's image of a checkpoint in memory to the keeper or, on another machine, to the node keeper.
pub fn hands_over(info: &HeaderInfo, number: u64, handover: &Handover) -> Result<()> {
    let link = LINK.get().context("`stasis run` does not run this job")?;
    let message = FromRank::Holds {
        set: info.set_id,
        number,
        rank: info.rank,
        ranks: info.world_size,
        recipe: handover.recipe,
    };
    link.hand_over(&message, &handover.child)
        .with_context(|| match link.is_remote() {
            false => "cannot hand the copy of the memory to `stasis run`".to_owned(),
            true => format!(
                "no node keeper takes the copy of the memory on {}; there is one again after a lease or, at the \
                 latest, when the job has been started again",
                addresses::host()
            ),
        })
}

/// Tells the keeper, for the whole job, that all ranks have handed over their images of this set.
pub fn held(set: SetId) {
    tell(&FromRank::Held(set));
}

/// Tells the keeper, for the whole job, that a set in memory was given up.
pub fn not_held(set: SetId) {
    tell(&FromRank::NotHeld(set));
}

/// Fails unless this rank's incarnation of the job is the present one. Only then it may commit a checkpoint.
pub fn check_present(checkpoints: &Checkpoints) -> Result<(), rank::Error> {
    match checkpoints.incarnation {
        Some(incarnation) => rank::check_present(&checkpoints.dir, incarnation),
        None => Ok(()),
    }
}

/// Tells the keeper that the program ends with this code.
pub fn exits(code: i32) {
    tell(&match gate().mpi_is(MpiState::Initialised) {
        true => FromRank::Leaves(code),
        false => FromRank::Exits(code),
    });
}

/// Tells the keeper that the program ends the job with this code.
pub fn aborts(code: i32) {
    tell(&FromRank::Aborts(code));
}

/// Tells the keeper to end the job with this code.
pub fn ends_job(code: i32) {
    tell(&FromRank::EndsJob(JobEnd { code, why: None }));
}

/// Numbers of the sets that `stasis run` leaves out, since an image of each cannot be used.
pub fn left_out(checkpoints: &Checkpoints) -> Result<Vec<u64>, rank::Error> {
    rank::left_out(&checkpoints.dir, checkpoints.incarnation)
}

/// Whether `stasis run` runs this job.
pub fn is_there() -> bool {
    LINK.get().is_some()
}

/// Tells the keeper that this rank's image of a set cannot be used, and why. False without a keeper.
pub fn unusable(set: u64, why: &ImageError) -> bool {
    let why: String = why.to_string().chars().take(LONGEST_REASON).collect();
    tell(&FromRank::Unusable { set, why });
    is_there()
}

/// Tells the keeper that this rank's restart fails before anything of the program runs: for this reason or, without
/// one, because others fail. Returns whether `stasis run` tells the user the whole of it.
pub fn refuses(why: Option<&anyhow::Error>, code: i32) -> bool {
    // Nobody waits for a rank that sleeps, and `stasis run` starts the job without it.
    if ASLEEP.load(Ordering::Relaxed) {
        return false;
    }
    let why = why.map(|why| message::reasons(why.as_ref()));
    let why = why.map(|why| format!("{}{why}", launcher::rank_label()));
    let (refusal, is_whole) = Refusal::new(why, code, false);
    tell(&FromRank::Refuses(refusal));
    is_there() && is_whole
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
