//! `STASIS_CUT`: the job takes a checkpoint at a given MPI call, or at a given crossing, of one rank. Every rank kills
//! itself with SIGKILL as soon as the checkpoint is committed. It is for tests only: `cargo xtask conformance` tries
//! each call, and the cases `crossings/` try each crossing.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::OnceLock;

use anyhow::{anyhow, Context, Result};
use contract::{gate, MpiState, Phase};
use coordinator::client::Client;

use crate::agent::setup::known;
use crate::console;
use crate::mpi::world;

/// `CALL@RANK` or `crossing:NUMBER@RANK`. For example, `17@0` is the end of the 17th MPI call of rank 0. MPI_Init is
/// the first call, and MPI_Finalize does not count. Some calls cross several times. A crossing from the same place as
/// the one before it does not count: the number of turns of a loop that waits depends on the load of the machine. If
/// the job ends earlier, no checkpoint is taken. The rank then says how many crossings there were before MPI_Finalize:
/// a checkpoint that is requested inside MPI_Finalize may come too late.
pub const VARIABLE: &str = "STASIS_CUT";

/// The point at which the job takes its checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KillPoint {
    what: Counted,
    number: u64,
    rank: u32,
}

/// The events that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counted {
    Call,
    Crossing,
}

static KILL_POINT: OnceLock<KillPoint> = OnceLock::new();
/// Calls or crossings of this rank so far.
static COUNT: AtomicU64 = AtomicU64::new(0);
/// The same at the end of the last MPI call before MPI_Finalize.
static BEFORE_FINALIZE: AtomicU64 = AtomicU64::new(0);
/// Whether the request for the checkpoint has returned. It returns only if it fails: after a commit the rank is killed.
static ANSWERED: AtomicBool = AtomicBool::new(false);

/// Reads [`VARIABLE`] from the environment. Must be called before the program is started.
pub fn arm() -> Result<()> {
    if let Some(words) = std::env::var_os(VARIABLE) {
        let point = parse(&words.to_string_lossy())?;
        KILL_POINT.get_or_init(|| point);
        loader::tell_calls();
        if point.what == Counted::Crossing {
            loader::tell_crossings(crossing_ended);
        }
    }
    Ok(())
}

/// Whether the job is to be killed with its checkpoint.
pub fn armed() -> bool {
    KILL_POINT.get().is_some()
}

fn parse(words: &str) -> Result<KillPoint> {
    let (what, rest) = match words.strip_prefix("crossing:") {
        Some(rest) => (Counted::Crossing, rest),
        None => (Counted::Call, words),
    };
    let parts = rest.split_once('@');
    let point = parts.and_then(|(number, rank)| {
        Some(KillPoint {
            what,
            number: number.parse().ok().filter(|number| *number > 0)?,
            rank: rank.parse().ok()?,
        })
    });
    point.ok_or_else(|| {
        anyhow!(
            "{VARIABLE}='{words}' is neither CALL@RANK nor crossing:NUMBER@RANK. The variable kills the job and is for \
             tests only; unset it for any other job"
        )
    })
}

thread_local! {
    /// Address to which the last crossing of the thread returned.
    static LAST: Cell<usize> = const { Cell::new(0) };
}

/// A crossing has ended and returns to an address.
extern "C" fn crossing_ended(back: usize) {
    if let Some(point) = KILL_POINT.get().filter(|point| point.is_here()) {
        if LAST.replace(back) != back {
            count(point);
        }
    }
}

/// An MPI call has ended.
pub fn call_ended() {
    match KILL_POINT.get().filter(|point| point.is_here()) {
        Some(point) if point.what == Counted::Call => count(point),
        Some(_) => BEFORE_FINALIZE.store(COUNT.load(Ordering::Relaxed), Ordering::Relaxed),
        None => {}
    }
}

impl KillPoint {
    /// Whether what ends now is counted.
    fn is_here(&self) -> bool {
        gate().mpi_is(MpiState::Initialised) && world::rank() == Some(self.rank)
    }
}

/// Counts a call or a crossing that has ended. At the one that [`VARIABLE`] names, requests the checkpoint and waits
/// until it is pending, so that the next call of this rank meets it.
fn count(point: &KillPoint) {
    if COUNT.fetch_add(1, Ordering::Relaxed) + 1 != point.number {
        return;
    }
    let asked = loader::spawn_lower("ckpt-cut", || {
        if let Err(error) = ask() {
            console::tell(&error.context(VARIABLE));
        }
        ANSWERED.store(true, Ordering::Release);
    });
    let pending = || gate().phase.load(Ordering::Relaxed) != Phase::Run as u32;
    while asked.is_ok() && !pending() && !ANSWERED.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
}

/// Reports the number of crossings if the program ends before the one that [`VARIABLE`] names.
pub fn tell() {
    let Some(point) = KILL_POINT.get() else {
        return;
    };
    let over = COUNT.load(Ordering::Relaxed);
    let rank = launcher::rank().unwrap_or(0);
    if point.what == Counted::Crossing && rank == point.rank && over < point.number {
        let before = BEFORE_FINALIZE.load(Ordering::Relaxed);
        console::say(
            rank,
            format_args!("{VARIABLE}: {before} crossings, no checkpoint"),
        );
    }
}

fn ask() -> Result<()> {
    let job =
        Client::connect(&known()?.checkpoints.dir).context("cannot request the checkpoint")?;
    job.checkpoint(true, |_| {})?;
    Ok(())
}

/// Kills this process.
pub fn die() {
    let _ = nix::sys::signal::raise(nix::sys::signal::SIGKILL);
}

#[cfg(test)]
mod tests {
    use super::{parse, Counted, KillPoint};

    #[test]
    fn a_call_and_a_rank_are_named_or_it_is_refused() {
        let point = |what| KillPoint {
            what,
            number: 17,
            rank: 2,
        };
        assert_eq!(parse("17@2").unwrap(), point(Counted::Call));
        assert_eq!(parse("crossing:17@2").unwrap(), point(Counted::Crossing));
        for wrong in [
            "crossing:@2",
            "crossing:0@1",
            "",
            "17",
            "0@1",
            "17@",
            "@1",
            "17@-1",
            "x@1",
        ] {
            let refusal = parse(wrong).unwrap_err().to_string();
            assert!(refusal.contains("CALL@RANK"), "{wrong}: {refusal}");
        }
    }
}
