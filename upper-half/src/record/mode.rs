//! Whether the run is recorded, replayed, or neither.

use crate::tools::{self, RECORDED};
use contract::record::RecordMode;
use core::sync::atomic::{AtomicU32, Ordering};

/// A [`RecordMode`].
static MODE: AtomicU32 = AtomicU32::new(RecordMode::Off as u32);

/// How often the job was restarted. Images hold it.
static RESTARTS: AtomicU32 = AtomicU32::new(0);

/// How often the job was restarted.
pub(crate) fn restarts() -> u32 {
    RESTARTS.load(Ordering::Relaxed)
}

/// The job was restarted.
pub(super) fn restarted() {
    RESTARTS.fetch_add(1, Ordering::Relaxed);
}

/// Whether the outcome of a call in which the job was restarted, after `restarts` others, may be that of another record
/// now. The call returns [`INTERRUPTED`](contract::INTERRUPTED) then, and is made again.
pub(crate) fn has_another_record(restarts: u32) -> bool {
    is_on() && restarts != self::restarts()
}

/// Whether the run is recorded or replayed.
#[inline(always)]
pub fn is_on() -> bool {
    tools::is_set(RECORDED)
}

/// Whether the run is recorded or replayed, and the thread's calls are those of the run.
#[inline(always)]
pub(super) fn sees_calls() -> bool {
    is_on() && !tools::untold()
}

/// Whether the run is recorded.
#[inline]
pub(crate) fn recording() -> bool {
    MODE.load(Ordering::Relaxed) == RecordMode::Record as u32
}

/// Whether the run is replayed.
#[inline]
pub(crate) fn replaying() -> bool {
    MODE.load(Ordering::Relaxed) == RecordMode::Replay as u32
}

/// Sets it, as a number.
pub(super) fn set(mode: u32) {
    MODE.store(mode, Ordering::Relaxed);
    tools::set(RECORDED, mode != RecordMode::Off as u32);
}
