//! MPI_Wtime across a restart: every lower half has an origin of its own, but the application's
//! time must not jump. It stands still between the cut and the restart.
//!
//! # Safety
//! The crossings take no arguments.
#![allow(unsafe_code)]

use crate::lower;
use core::sync::atomic::{AtomicU64, Ordering};

/// What is added to the lower half's time, as the bits of a number of seconds.
static OFFSET: AtomicU64 = AtomicU64::new(0);
/// The application's time at the last cut, likewise.
static AT_CUT: AtomicU64 = AtomicU64::new(0);

/// MPI_Wtime.
pub fn wtime() -> f64 {
    // SAFETY: see the module's head.
    let below = unsafe { lower::MPI_Wtime() };
    below + f64::from_bits(OFFSET.load(Ordering::Relaxed))
}

/// A cut is being made.
pub(crate) fn note_cut() {
    AT_CUT.store(wtime().to_bits(), Ordering::Relaxed);
}

/// The lower half is a fresh one.
pub(crate) fn continue_from_cut() {
    // SAFETY: see the module's head.
    let below = unsafe { lower::MPI_Wtime() };
    let offset = f64::from_bits(AT_CUT.load(Ordering::Relaxed)) - below;
    OFFSET.store(offset.to_bits(), Ordering::Relaxed);
}
