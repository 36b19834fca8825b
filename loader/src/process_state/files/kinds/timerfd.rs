//! Timers of timerfd_create.
//!
//! # Safety
//! One ioctl on a descriptor made here, with a local for memory.
#![allow(unsafe_code)]

use crate::error::{CaptureError, RestoreError};
use crate::process_state::files::look::Look;
use crate::sys::descriptor::checked;
use crate::sys::{c_library, zeros};
use nix::time::{clock_gettime, ClockId};
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::OwnedFd;

const NANOSECONDS: i64 = 1_000_000_000;
/// ioctl TFD_IOC_SET_TICKS: sets the count of unread expirations.
const SET_TICKS: u64 = 0x4008_5400;

/// A timerfd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimerFd {
    clock: i32,
    /// Flags with which it was set.
    flags: i32,
    /// Unread expirations.
    ticks: u64,
    interval: [i64; 2],
    /// Seconds and nanoseconds until the expiration; 0 if the timer is not set.
    remaining: [i64; 2],
    /// Absolute expiration (TFD_TIMER_ABSTIME), if the application set one.
    deadline: Option<[i64; 2]>,
}

fn timespec([tv_sec, tv_nsec]: [i64; 2]) -> libc::timespec {
    libc::timespec { tv_sec, tv_nsec }
}

impl TimerFd {
    /// Captures the timer.
    pub fn capture(look: &Look) -> Result<TimerFd, CaptureError> {
        // This comes first: it lets an expired timer begin its next interval.
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
        Ok(TimerFd {
            clock,
            flags,
            ticks: look.need("ticks", |text| text.parse().ok())?,
            interval: pair(now.it_interval),
            remaining,
            deadline,
        })
    }

    /// Creates the timer again, not armed.
    pub fn make(&self) -> Result<OwnedFd, RestoreError> {
        let made = c_library::timerfd_create(self.clock, libc::TFD_CLOEXEC);
        let made = made.ok_or_else(io::Error::last_os_error);
        made.map_err(RestoreError::system("creating a timerfd"))
    }

    /// Arms the timer.
    pub fn start(&self, fd: i32) -> Result<(), RestoreError> {
        self.try_start(fd)
            .map_err(RestoreError::system("setting a timerfd"))
    }

    fn try_start(&self, fd: i32) -> io::Result<()> {
        match self.deadline {
            Some(deadline) => set(fd, self.flags, deadline, self.interval)?,
            None if self.remaining != [0, 0] => set(fd, 0, self.remaining, self.interval)?,
            None => {}
        }
        if self.ticks > 0 {
            // SAFETY: the kernel only reads these eight bytes.
            checked(unsafe { libc::ioctl(fd, SET_TICKS, &raw const self.ticks) })?;
        }
        Ok(())
    }
}

fn settings(fd: i32) -> io::Result<libc::itimerspec> {
    let mut now = zeros::value();
    checked(c_library::timerfd_gettime(fd, &mut now))?;
    Ok(now)
}

fn set(fd: i32, flags: i32, value: [i64; 2], interval: [i64; 2]) -> io::Result<()> {
    let new = libc::itimerspec {
        it_interval: timespec(interval),
        it_value: timespec(value),
    };
    checked(c_library::timerfd_settime(fd, flags, &new, None)).map(drop)
}

/// Time of day after the duration `time`.
fn after_now(time: [i64; 2]) -> io::Result<[i64; 2]> {
    let now = clock_gettime(ClockId::CLOCK_REALTIME)?;
    let nanoseconds = now.tv_nsec() + time[1];
    Ok([
        now.tv_sec() + time[0] + nanoseconds / NANOSECONDS,
        nanoseconds % NANOSECONDS,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    fn look(timer: &OwnedFd) -> TimerFd {
        TimerFd::capture(&Look::at(timer.as_raw_fd()).unwrap()).unwrap()
    }

    #[test]
    fn expirations_and_remaining_time_are_restored() {
        let timer = TimerFd {
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
        let saved = TimerFd { ticks: 3, ..saved };
        let second = saved.make().unwrap();
        saved.start(second.as_raw_fd()).unwrap();
        let again = look(&second);
        assert_eq!((again.ticks, again.interval), (3, [500, 0]));
        assert!(again.remaining <= saved.remaining && again.remaining[0] == 999);
    }

    #[test]
    fn absolute_deadline_stays_absolute() {
        let timer = TimerFd {
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
