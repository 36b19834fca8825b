//! MPI_Wtime, without a crossing. The clock is read in the upper half, where it costs no more than natively. The loader
//! makes this clock stand still between a cut and the restart, and keeps it from jumping on another machine.
//!
//! # Safety
//! `clock_gettime` fills a local; it goes through the upper half's own vDSO and may be called with threads stopped
//! anywhere. The loader has a function of this kind at [`contract::OWN_CLOCK`].
#![allow(unsafe_code)]

const CLOCK_MONOTONIC: i32 = 1;

#[repr(C)]
#[derive(Default)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

extern "C" {
    fn clock_gettime(clock: i32, time: *mut Timespec) -> i32;
}

/// MPI_Wtime.
pub fn wtime() -> f64 {
    let mut time = Timespec::default();
    // SAFETY: see the module's head; this clock always exists.
    unsafe { clock_gettime(CLOCK_MONOTONIC, &raw mut time) };
    time.seconds as f64 + time.nanoseconds as f64 * 1e-9
}

/// The same clock in nanoseconds, for Stasis itself: the value is neither recorded nor replayed.
pub(crate) fn nanoseconds() -> u64 {
    let mut time = Timespec::default();
    // SAFETY: see the module's head; this clock always exists.
    unsafe { own_clock()(CLOCK_MONOTONIC, &raw mut time) };
    (time.seconds * 1_000_000_000 + time.nanoseconds).cast_unsigned()
}

#[cfg(not(test))]
fn own_clock() -> unsafe extern "C" fn(i32, *mut Timespec) -> i32 {
    // SAFETY: see the module's head.
    unsafe { core::mem::transmute(contract::OWN_CLOCK) }
}

/// Tests have no loader.
#[cfg(test)]
fn own_clock() -> unsafe extern "C" fn(i32, *mut Timespec) -> i32 {
    clock_gettime
}

/// MPI_Wtick.
pub fn wtick() -> f64 {
    1e-9
}
