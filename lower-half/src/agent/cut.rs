//! `STASIS_CUT`: at a certain MPI call of one rank, or at a certain crossing of it to the lower half, the job takes a
//! checkpoint, and every rank is killed as soon as it is committed, as by `kill -9` of the whole job at that very
//! moment. For tests alone: `cargo xtask conformance` sweeps the call, the cases `crossings/` the crossing.
//!
//! # Safety
//! `kill(2)` of the own process takes two integers.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::OnceLock;

use anyhow::{anyhow, Context, Result};
use contract::{gate, MpiState, Phase};
use coordinator::client::Client;

use super::known;
use crate::mpi::world;

/// `CALL@RANK`, as in `17@0`: after the 17th MPI call of rank 0, of which MPI_Init is the first and
/// MPI_Finalize is none; or `crossing:NUMBER@RANK`, of which there are several in some calls. If the job ends before,
/// nothing happens.
pub const VARIABLE: &str = "STASIS_CUT";

/// Where the checkpoint is to fall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cut {
    what: What,
    number: u64,
    rank: u32,
}

/// After what it falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Call,
    Crossing,
}

static CUT: OnceLock<Cut> = OnceLock::new();
/// Calls or crossings of this rank so far.
static OVER: AtomicU64 = AtomicU64::new(0);
/// The job has answered: there will be no checkpoint, since none of its processes outlives one.
static ANSWERED: AtomicBool = AtomicBool::new(false);

/// Does what the environment wants. To be called before the program is started.
pub fn arm() -> Result<()> {
    if let Some(words) = std::env::var_os(VARIABLE) {
        let cut = parse(&words.to_string_lossy())?;
        CUT.get_or_init(|| cut);
        match cut.what {
            What::Call => loader::tell_calls(),
            What::Crossing => loader::tell_crossings(crossing_ended),
        }
    }
    Ok(())
}

/// Whether the job is to be killed with its checkpoint.
pub fn armed() -> bool {
    CUT.get().is_some()
}

fn parse(words: &str) -> Result<Cut> {
    let (what, rest) = match words.strip_prefix("crossing:") {
        Some(rest) => (What::Crossing, rest),
        None => (What::Call, words),
    };
    let parts = rest.split_once('@');
    let cut = parts.and_then(|(number, rank)| {
        Some(Cut {
            what,
            number: number.parse().ok().filter(|number| *number > 0)?,
            rank: rank.parse().ok()?,
        })
    });
    cut.ok_or_else(|| {
        anyhow!(
            "{VARIABLE} says '{words}', which is neither CALL@RANK nor crossing:NUMBER@RANK; it kills the job and is for tests only: \
             unset it for any other job"
        )
    })
}

/// A crossing is over.
extern "C" fn crossing_ended() {
    if CUT.get().is_some_and(|cut| cut.what == What::Crossing) {
        call_ended();
    }
}

/// A call of the application, or a crossing, is over. After the one that is meant, returns when the checkpoint is
/// pending, so that whatever the rank calls next is called in its face.
pub fn call_ended() {
    let Some(cut) = CUT.get() else { return };
    if !gate().mpi_is(MpiState::Initialised) || world::rank() != Some(cut.rank) {
        return;
    }
    if OVER.fetch_add(1, Ordering::Relaxed) + 1 != cut.number {
        return;
    }
    let asked = loader::spawn_lower("ckpt-cut", || {
        if let Err(error) = ask() {
            crate::tell(&error.context(VARIABLE));
        }
        ANSWERED.store(true, Ordering::Release);
    });
    let pending = || gate().phase.load(Ordering::Relaxed) != Phase::Run as u32;
    while asked.is_ok() && !pending() && !ANSWERED.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
}

/// The program ends. Where a crossing is meant that it has not made, says how many it has.
pub fn tell() {
    let Some(cut) = CUT.get() else { return };
    let over = OVER.load(Ordering::Relaxed);
    let rank = launcher::rank().unwrap_or(0);
    if cut.what == What::Crossing && rank == cut.rank && over < cut.number {
        crate::say(
            rank,
            format_args!("{VARIABLE}: {over} crossings, and no cut"),
        );
    }
}

fn ask() -> Result<()> {
    let job = Client::connect(&known()?.checkpoints.dir).context("the job cannot be asked")?;
    job.checkpoint(true, |_| {})?;
    Ok(())
}

/// Kills this process.
pub fn die() {
    // SAFETY: see the head of this file.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
}

#[cfg(test)]
mod tests {
    use super::{parse, Cut, What};

    #[test]
    fn a_call_and_a_rank_are_named_or_it_is_refused() {
        let cut = |what| Cut {
            what,
            number: 17,
            rank: 2,
        };
        assert_eq!(parse("17@2").unwrap(), cut(What::Call));
        assert_eq!(parse("crossing:17@2").unwrap(), cut(What::Crossing));
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
