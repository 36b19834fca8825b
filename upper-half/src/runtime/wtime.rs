//! MPI_Wtime, without a crossing. The clock is read in the upper half, where it costs no more than natively. The loader
//! makes this clock stand still between a cut and the restart, and keeps it from jumping on another machine.
//!
//! # Safety
//! `clock_gettime` fills a local; it goes through the upper half's own vDSO and may be called with threads stopped
//! anywhere. The loader has a function of this kind at [`OWN_CLOCK`].
#![allow(unsafe_code)]

use contract::OWN_CLOCK;

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

extern "C" {
    fn clock_gettime(clock: i32, time: *mut Timespec) -> i32;
}

/// MPI_Wtime.
pub fn wtime() -> f64 {
    let time = now(false);
    time.seconds as f64 + time.nanoseconds as f64 * 1e-9
}

/// The same clock in nanoseconds, for Stasis itself: the value is neither recorded nor replayed.
pub(crate) fn nanoseconds() -> u64 {
    // Tests have no loader.
    let time = now(!cfg!(test));
    (time.seconds * 1_000_000_000 + time.nanoseconds).cast_unsigned()
}

type Read = unsafe extern "C" fn(i32, *mut Timespec) -> i32;

#[inline(always)]
fn now(own: bool) -> Timespec {
    const CLOCK_MONOTONIC: i32 = 1;
    let mut time = Timespec {
        seconds: 0,
        nanoseconds: 0,
    };
    // SAFETY: see the module's head; this clock always exists.
    unsafe {
        let read: Read = match own {
            true => core::mem::transmute::<usize, Read>(OWN_CLOCK),
            false => clock_gettime,
        };
        read(CLOCK_MONOTONIC, &raw mut time);
    }
    time
}

/// MPI_Wtick.
pub fn wtick() -> f64 {
    1e-9
}
