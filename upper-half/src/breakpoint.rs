//! `--break RANK:CALL`: the rank stops before one of its calls. Calls are counted here, as records count them. At that
//! call the thread waits, and the lower half stops the process: so the thread stands in the upper half, and a debugger
//! finds the program's frames behind it.

use crate::crossing::report::advise;
use crate::crossing::stubs::service;
use crate::tools;
use contract::{gate, AT_BREAK, TOOL_BREAK, WAITS_AT_BREAK};
use core::hint;
use core::sync::atomic::{AtomicU64, Ordering};

/// Calls up to that one, with it.
static LEFT: AtomicU64 = AtomicU64::new(0);

/// Turns the tool on or off, as the lower half wants. To be called when MPI is initialised, and first after a restart.
pub(crate) fn begin() {
    let wanted = tools::wanted() & TOOL_BREAK != 0;
    tools::set(TOOL_BREAK, wanted);
    if wanted {
        let left = tools::options(TOOL_BREAK).parse().unwrap_or(0);
        LEFT.store(left, Ordering::Relaxed);
    }
}

/// Whether calls are counted.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    tools::is_set(TOOL_BREAK)
}

/// A call begins, or one that only looks has found something.
#[cold]
#[inline(never)]
pub(crate) fn passes() {
    if LEFT.fetch_sub(1, Ordering::Relaxed) != 1 {
        return;
    }
    tools::set(TOOL_BREAK, false);
    let features = &gate().lower.features;
    features.fetch_or(AT_BREAK, Ordering::Release);
    service::notify();
    features.fetch_or(WAITS_AT_BREAK, Ordering::Release);
    while features.load(Ordering::Acquire) & AT_BREAK != 0 {
        hint::spin_loop();
    }
}

/// MPI is finalised.
pub(crate) fn end() {
    if is_on() {
        let left = LEFT.load(Ordering::Relaxed);
        advise(&format!(
            "this rank has ended {left} calls before the one at which --break would have stopped it"
        ));
    }
}
