//! The clocks that count from the machine's start, as the application sees them.
//!
//! Such a clock never goes backwards, and waiting until a moment on it must end: so after a restart,
//! perhaps on another machine, the application's clocks go on from where they stood at the cut.
//! What is added to the machine's clock is 0 until then, and the application reads it directly.
//!
//! # Safety
//! The slot's function and the kernel's have the same signature; times are written where the
//! application wants them, as the kernel would.
#![allow(unsafe_code)]

use crate::raw;
use core::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use core::time::Duration;

/// Nanoseconds in a second.
pub const SECOND: i64 = 1_000_000_000;

/// How often the coarse clock is looked at.
const LOOK: Duration = Duration::from_micros(200);

/// Those clocks.
pub const CLOCKS: [i32; 3] = [
    libc::CLOCK_MONOTONIC,
    libc::CLOCK_MONOTONIC_RAW,
    libc::CLOCK_BOOTTIME,
];

/// What is added to each, in nanoseconds.
static AHEAD: [AtomicI64; 3] = [const { AtomicI64::new(0) }; 3];
/// The kernel's function.
static REAL: AtomicUsize = AtomicUsize::new(0);

/// `struct timespec`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timespec {
    /// Seconds.
    pub seconds: i64,
    /// Nanoseconds, less than a second's.
    pub nanoseconds: i64,
}

impl Timespec {
    /// From nanoseconds.
    pub fn new(ns: i64) -> Self {
        Self {
            seconds: ns.div_euclid(SECOND),
            nanoseconds: ns.rem_euclid(SECOND),
        }
    }

    /// In nanoseconds, as far as they go (292 years).
    pub fn ns(&self) -> i64 {
        let seconds = self.seconds.saturating_mul(SECOND);
        seconds.saturating_add(self.nanoseconds)
    }

    /// Whether the kernel would take it for a span of time.
    pub fn is_span(&self) -> bool {
        self.seconds >= 0 && (0..SECOND).contains(&self.nanoseconds)
    }
}

fn index(clock: i32) -> Option<usize> {
    let clock = match clock {
        libc::CLOCK_MONOTONIC_COARSE => libc::CLOCK_MONOTONIC,
        libc::CLOCK_BOOTTIME_ALARM => libc::CLOCK_BOOTTIME,
        other => other,
    };
    CLOCKS.iter().position(|&c| c == clock)
}

/// Nanoseconds by which the application's clock is ahead of the machine's.
pub fn ahead(clock: i32) -> i64 {
    index(clock).map_or(0, |i| AHEAD[i].load(Ordering::Relaxed))
}

/// A moment on the application's clock, on the machine's.
pub fn on_machine(clock: i32, moment: Timespec) -> Timespec {
    match ahead(clock) {
        0 => moment,
        ahead => Timespec::new(moment.ns().saturating_sub(ahead).max(0)),
    }
}

/// Likewise for a timer, which a moment of 0 would disarm: one that has passed is not 0.
pub fn timer_on_machine(clock: i32, moment: Timespec) -> Timespec {
    if moment == Timespec::default() {
        return moment;
    }
    Timespec::new(on_machine(clock, moment).ns().max(1))
}

/// The machine's clock.
fn machine(clock: i32) -> i64 {
    let mut now = Timespec::default();
    let args = [clock as usize, &raw mut now as usize, 0, 0, 0, 0];
    // SAFETY: the kernel writes a local.
    unsafe { raw::syscall(libc::SYS_clock_gettime as usize, args) };
    now.ns()
}

/// The application's clock, in nanoseconds.
pub fn now(clock: i32) -> i64 {
    machine(clock).saturating_add(ahead(clock))
}

/// What the application's clocks ([`CLOCKS`]) show.
pub fn all() -> [i64; 3] {
    CLOCKS.map(now)
}

/// Has the application's clocks go on from what they showed at the cut. Returns at the next tick of the
/// machine's, some milliseconds later: the coarse clock shows the last one, which until then is from
/// before this moment, and so may be less than it showed at the cut.
pub fn go_on_from(shown: [i64; 3]) {
    let here = CLOCKS.map(machine);
    for (ahead, (shown, here)) in AHEAD.iter().zip(shown.iter().zip(here)) {
        ahead.store(shown - here, Ordering::Relaxed);
    }
    let [monotonic, ..] = here;
    while machine(libc::CLOCK_MONOTONIC_COARSE) < monotonic {
        std::thread::sleep(LOOK);
    }
}

/// The function for the vDSO's slot, where the kernel's is `real`.
pub fn reader(real: usize) -> usize {
    REAL.store(real, Ordering::Relaxed);
    if AHEAD.iter().all(|a| a.load(Ordering::Relaxed) == 0) {
        return real;
    }
    read as *const () as usize
}

extern "C" fn read(clock: i32, time: *mut Timespec) -> isize {
    let real = REAL.load(Ordering::Relaxed);
    // SAFETY: see the module's head.
    unsafe {
        let real: extern "C" fn(i32, *mut Timespec) -> isize = core::mem::transmute(real);
        let result = real(clock, time);
        let ahead = ahead(clock);
        if result == 0 && ahead != 0 {
            *time = Timespec::new((*time).ns().saturating_add(ahead));
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::{all, go_on_from, now, Timespec};

    #[test]
    fn the_coarse_clock_does_not_go_back_either() {
        let before = now(libc::CLOCK_MONOTONIC_COARSE);
        go_on_from(all());
        assert!(now(libc::CLOCK_MONOTONIC_COARSE) >= before);
    }

    #[test]
    fn times_convert() {
        let time = Timespec::new(-1);
        assert_eq!((time.seconds, time.nanoseconds), (-1, 999_999_999));
        assert_eq!(time.ns(), -1);
        assert_eq!(
            Timespec {
                seconds: i64::MAX,
                nanoseconds: 5
            }
            .ns(),
            i64::MAX
        );
        assert!(!time.is_span() && Timespec::new(5).is_span());
    }
}
