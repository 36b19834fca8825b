//! MPI_Wtime, without a crossing: the clock is read in the upper half, where it costs no more than
//! natively, and does not jump when the lower half or the machine is another one. The application's
//! time stands still between a cut and the restart.
//!
//! # Safety
//! `clock_gettime` fills a local; it goes through the upper half's own vDSO and may be called with
//! threads stopped anywhere.
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering};

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

extern "C" {
    fn clock_gettime(clock: i32, time: *mut Timespec) -> i32;
}

/// What is added to the machine's time, as the bits of a number of seconds.
static OFFSET: AtomicU64 = AtomicU64::new(0);
/// The application's time at the last cut, likewise.
static AT_CUT: AtomicU64 = AtomicU64::new(0);

/// Seconds since the machine's start.
fn machine_time() -> f64 {
    const CLOCK_MONOTONIC: i32 = 1;
    let mut time = Timespec {
        seconds: 0,
        nanoseconds: 0,
    };
    // SAFETY: see the module's head; this clock always exists.
    unsafe { clock_gettime(CLOCK_MONOTONIC, &raw mut time) };
    time.seconds as f64 + time.nanoseconds as f64 * 1e-9
}

/// MPI_Wtime.
pub fn wtime() -> f64 {
    machine_time() + f64::from_bits(OFFSET.load(Ordering::Relaxed))
}

/// MPI_Wtick.
pub fn wtick() -> f64 {
    1e-9
}

/// A cut is being made.
pub(crate) fn note_cut() {
    AT_CUT.store(wtime().to_bits(), Ordering::Relaxed);
}

/// The job was restarted.
pub(crate) fn continue_from_cut() {
    let offset = f64::from_bits(AT_CUT.load(Ordering::Relaxed)) - machine_time();
    OFFSET.store(offset.to_bits(), Ordering::Relaxed);
}
