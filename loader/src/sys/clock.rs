//! Clocks of the application that count from the machine's start.
//!
//! Such a clock never goes backwards, and a wait for a deadline on it must end. So after a restart, perhaps on another
//! machine, the application's clocks continue from their values at the checkpoint. The offset to the machine's clock is
//! 0 until then, and the application reads the machine's directly. A replay of recorded clocks shifts others, too
//! (`interpose/clock_log.rs`).
//!
//! # Safety
//! The slot's function and the kernel's have the same signature; times are written to the application's addresses, as
//! the kernel would.
#![allow(unsafe_code)]

use super::syscall;
pub use super::timespec::{Timespec, SECOND};
use core::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use core::time::Duration;

/// Interval of the reads of the coarse clock.
const LOOK: Duration = Duration::from_micros(200);

/// Ids of the clocks that count from the machine's start.
const CLOCKS: [i32; 3] = [
    libc::CLOCK_MONOTONIC,
    libc::CLOCK_MONOTONIC_RAW,
    libc::CLOCK_BOOTTIME,
];
/// Ids of those that a replay shifts, too.
const REPLAYED: [i32; 3] = [
    libc::CLOCK_REALTIME,
    libc::CLOCK_PROCESS_CPUTIME_ID,
    libc::CLOCK_THREAD_CPUTIME_ID,
];

/// Number of clocks that may be shifted.
pub const SHIFTED: usize = CLOCKS.len() + REPLAYED.len();

/// Offset of each from the machine's clock, in nanoseconds.
static AHEAD: [AtomicI64; SHIFTED] = [const { AtomicI64::new(0) }; SHIFTED];
/// The kernel's function.
static REAL: AtomicUsize = AtomicUsize::new(0);

/// Place of a clock among those that may be shifted.
pub fn shifted(clock: i32) -> Option<usize> {
    let clock = match clock {
        libc::CLOCK_MONOTONIC_COARSE => libc::CLOCK_MONOTONIC,
        libc::CLOCK_BOOTTIME_ALARM => libc::CLOCK_BOOTTIME,
        libc::CLOCK_REALTIME_COARSE | libc::CLOCK_REALTIME_ALARM => libc::CLOCK_REALTIME,
        other => other,
    };
    CLOCKS.iter().chain(&REPLAYED).position(|&c| c == clock)
}

/// Whether it shows the last tick.
pub fn is_coarse(clock: i32) -> bool {
    matches!(
        clock,
        libc::CLOCK_MONOTONIC_COARSE | libc::CLOCK_REALTIME_COARSE
    )
}

/// Whether all are the machine's.
pub fn are_the_machines() -> bool {
    AHEAD.iter().all(|a| a.load(Ordering::Relaxed) == 0)
}

/// Sets the application's clock to a value, in nanoseconds.
pub fn show(clock: i32, ns: i64) {
    if let Some(index) = shifted(clock) {
        AHEAD[index].store(ns.saturating_sub(machine(clock)), Ordering::Relaxed);
    }
}

/// Sets it to this value if it shows an earlier one.
pub fn not_before(clock: i32, ns: i64) {
    if now(clock) < ns {
        show(clock, ns);
    }
}

/// Nanoseconds by which the application's clock is ahead of the machine's.
pub fn ahead(clock: i32) -> i64 {
    shifted(clock).map_or(0, |i| AHEAD[i].load(Ordering::Relaxed))
}

/// Converts a time on the application's clock to the machine's.
pub fn on_machine(clock: i32, moment: Timespec) -> Timespec {
    match ahead(clock) {
        0 => moment,
        ahead => Timespec::new(moment.ns().saturating_sub(ahead).max(0)),
    }
}

/// Converts for a timer, which a time of 0 would disarm: a time in the past does not become 0.
pub fn timer_on_machine(clock: i32, moment: Timespec) -> Timespec {
    if moment == Timespec::default() {
        return moment;
    }
    Timespec::new(on_machine(clock, moment).ns().max(1))
}

/// Value of the machine's clock.
fn machine(clock: i32) -> i64 {
    syscall::clock_gettime(clock).ns()
}

/// Value of the application's clock, in nanoseconds.
pub fn now(clock: i32) -> i64 {
    machine(clock).saturating_add(ahead(clock))
}

/// Values of the application's clocks ([`CLOCKS`]).
pub fn all() -> [i64; 3] {
    CLOCKS.map(now)
}

/// Continues the application's clocks from their values at the cut. Returns at the next tick of the machine's, some
/// milliseconds later: the coarse clock shows the last tick. Until the next one that is before this moment, and may be
/// less than the value at the cut.
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

/// Function for the vDSO's slot, if the kernel's is `real`.
pub fn reader(real: usize) -> usize {
    REAL.store(real, Ordering::Relaxed);
    match are_the_machines() {
        true => real,
        false => shifted_reader(),
    }
}

/// Function for a slot, after [`reader`], whatever the offsets become.
pub fn shifted_reader() -> usize {
    read as *const () as usize
}

/// Value of the application's clock as a program reads it, in nanoseconds, or the kernel's error number.
pub fn shown(clock: i32) -> Result<i64, isize> {
    let mut time = Timespec::default();
    match stasis_kernel_clock(clock, &raw mut time) {
        0 => Ok(time.ns().saturating_add(ahead(clock))),
        error => Err(error),
    }
}

/// Reads a clock by the kernel's function. That is compiled like the kernel, without vector registers, so handlers of
/// patched calls may call this.
#[inline(never)]
#[no_mangle]
extern "C" fn stasis_kernel_clock(clock: i32, time: *mut Timespec) -> isize {
    let real = REAL.load(Ordering::Relaxed);
    // SAFETY: `REAL` has this signature, and the kernel's function writes to the caller's address only.
    unsafe {
        core::mem::transmute::<usize, extern "C" fn(i32, *mut Timespec) -> isize>(real)(clock, time)
    }
}

extern "C" fn read(clock: i32, time: *mut Timespec) -> isize {
    let result = stasis_kernel_clock(clock, time);
    let ahead = ahead(clock);
    if result == 0 && ahead != 0 {
        // SAFETY: the kernel has written the time to this address.
        unsafe { *time = Timespec::new((*time).ns().saturating_add(ahead)) };
    }
    result
}

#[cfg(test)]
mod tests {
    use super::all;
    use super::go_on_from;
    use super::now;
    use super::Timespec;

    #[test]
    fn coarse_clock_never_goes_back() {
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
