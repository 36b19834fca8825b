//! Timers from timerfd_create.
//!
//! # Safety
//! System calls on descriptors made here or found open, with locals for memory.
#![allow(unsafe_code)]

use super::descriptor::{checked, fresh, Look};
use crate::error::{CaptureError, RestoreError};
use core::mem::MaybeUninit;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::OwnedFd;

const NANOSECONDS: i64 = 1_000_000_000;
/// ioctl: sets how often it has expired and nobody has read that.
const SET_TICKS: u64 = 0x4008_5400;

/// A timer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timer {
    clock: i32,
    /// Flags with which it was set.
    flags: i32,
    /// Expirations that nobody has read.
    ticks: u64,
    interval: [i64; 2],
    /// Seconds and nanoseconds until it expires; 0 when it is not set.
    remaining: [i64; 2],
    /// When it expires, where the application has named a time of day.
    deadline: Option<[i64; 2]>,
}

fn timespec([tv_sec, tv_nsec]: [i64; 2]) -> libc::timespec {
    libc::timespec { tv_sec, tv_nsec }
}

impl Timer {
    /// Notes it.
    pub fn capture(look: &Look) -> Result<Timer, CaptureError> {
        // Asked first: this lets a timer whose time has passed begin its next interval.
        let now = settings(look.fd).map_err(|e| look.failed(e))?;
        let look = Look::at(look.fd)?;
        let clock = look.need("clockid", |text| text.parse().ok())?;
        let flags = look.need("settime flags", |text| i32::from_str_radix(text, 8).ok())?;
        let pair = |time: libc::timespec| [time.tv_sec, time.tv_nsec];
        let remaining = pair(now.it_value);
        let of_day = matches!(clock, libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_ALARM)
            && flags & libc::TFD_TIMER_ABSTIME != 0
            && remaining != [0, 0];
        let deadline = match of_day {
            true => Some(after_now(remaining).map_err(|e| look.failed(e))?),
            false => None,
        };
        Ok(Timer {
            clock,
            flags,
            ticks: look.need("ticks", |text| text.parse().ok())?,
            interval: pair(now.it_interval),
            remaining,
            deadline,
        })
    }

    /// Makes it anew; it does not run yet.
    pub fn make(&self) -> Result<OwnedFd, RestoreError> {
        // SAFETY: the descriptor is fresh.
        let made = unsafe { fresh(libc::timerfd_create(self.clock, libc::TFD_CLOEXEC)) };
        made.map_err(RestoreError::system("making a timerfd anew"))
    }

    /// Lets it run.
    pub fn start(&self, fd: i32) -> Result<(), RestoreError> {
        self.try_start(fd)
            .map_err(RestoreError::system("setting a timerfd again"))
    }

    fn try_start(&self, fd: i32) -> io::Result<()> {
        match self.deadline {
            Some(deadline) => set(fd, self.flags, deadline, self.interval)?,
            None if self.remaining != [0, 0] => set(fd, 0, self.remaining, self.interval)?,
            None => {}
        }
        if self.ticks > 0 {
            // SAFETY: eight bytes, which are only read.
            checked(unsafe { libc::ioctl(fd, SET_TICKS, &raw const self.ticks) })?;
        }
        Ok(())
    }
}

fn settings(fd: i32) -> io::Result<libc::itimerspec> {
    let mut now = MaybeUninit::uninit();
    // SAFETY: written by the kernel on success, which is checked.
    unsafe {
        checked(libc::timerfd_gettime(fd, now.as_mut_ptr()))?;
        Ok(now.assume_init())
    }
}

fn set(fd: i32, flags: i32, value: [i64; 2], interval: [i64; 2]) -> io::Result<()> {
    let new = libc::itimerspec {
        it_interval: timespec(interval),
        it_value: timespec(value),
    };
    // SAFETY: a local that is only read.
    checked(unsafe { libc::timerfd_settime(fd, flags, &raw const new, core::ptr::null_mut()) })
        .map(drop)
}

/// The time of day at which so much time will have passed.
fn after_now(time: [i64; 2]) -> io::Result<[i64; 2]> {
    let mut now = timespec([0, 0]);
    // SAFETY: the kernel writes a local.
    checked(unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut now) })?;
    let nanoseconds = now.tv_nsec + time[1];
    Ok([
        now.tv_sec + time[0] + nanoseconds / NANOSECONDS,
        nanoseconds % NANOSECONDS,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    fn look(timer: &OwnedFd) -> Timer {
        Timer::capture(&Look::at(timer.as_raw_fd()).unwrap()).unwrap()
    }

    #[test]
    fn expirations_and_the_rest_of_the_time_are_kept() {
        let timer = Timer {
            clock: libc::CLOCK_MONOTONIC,
            flags: 0,
            ticks: 0,
            interval: [500, 0],
            remaining: [1000, 0],
            deadline: None,
        };
        let first = timer.make().unwrap();
        timer.start(first.as_raw_fd()).unwrap();
        let saved = look(&first);
        assert_eq!(saved.remaining[0], 999, "{saved:?}");
        let saved = Timer { ticks: 3, ..saved };
        let second = saved.make().unwrap();
        saved.start(second.as_raw_fd()).unwrap();
        let again = look(&second);
        assert_eq!((again.ticks, again.interval), (3, [500, 0]));
        assert!(again.remaining <= saved.remaining && again.remaining[0] == 999);
    }

    #[test]
    fn a_time_of_day_stays_one() {
        let timer = Timer {
            clock: libc::CLOCK_REALTIME,
            flags: libc::TFD_TIMER_ABSTIME,
            ticks: 0,
            interval: [0, 0],
            remaining: [0, 0],
            deadline: Some([1 << 33, 0]),
        };
        let made = timer.make().unwrap();
        timer.start(made.as_raw_fd()).unwrap();
        let [seconds, nanoseconds] = look(&made).deadline.unwrap();
        let off = (seconds - (1 << 33)) * NANOSECONDS + nanoseconds;
        assert!(off.abs() < NANOSECONDS, "{off}");
    }
}
