//! How far this rank has come with MPI Stages, for all code that behaves differently then. It imports nothing.

use contract::abi::{ERR_IN_STATUS, ERR_TRY_RELOAD};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Number of states that were saved, or of the one that was gone back to.
pub(super) static EPOCH: AtomicU64 = AtomicU64::new(0);
/// The job runs under MPI Stages.
pub(super) static ON: AtomicBool = AtomicBool::new(false);
/// Another rank has died, and the program has not asked for the reload: calls fail.
pub(super) static BROKEN: AtomicBool = AtomicBool::new(false);
static FINALIZING: AtomicBool = AtomicBool::new(false);

/// Whether the job runs under MPI Stages.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Whether another rank has died, and the program has not asked for the reload.
#[inline(always)]
pub(crate) fn is_broken() -> bool {
    BROKEN.load(Ordering::Relaxed)
}

/// MPI is being finalised: there is no way back.
pub(crate) fn finalizes() {
    FINALIZING.store(true, Ordering::Relaxed);
}

/// Whether MPI is being finalised.
pub(super) fn is_finalizing() -> bool {
    FINALIZING.load(Ordering::Relaxed)
}

/// The error of a call for several requests, of which some have failed.
#[cold]
pub(crate) fn error_of_several() -> i32 {
    match is_broken() {
        // The program looks for this code, and not into statuses.
        true => ERR_TRY_RELOAD,
        false => ERR_IN_STATUS,
    }
}
