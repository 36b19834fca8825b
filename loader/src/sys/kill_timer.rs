//! A timer at which the kernel kills this process. It needs no thread of the process: the kernel does so, too, while
//! all threads are stopped by a signal, or wait in a call.
//!
//! It is a POSIX timer (timer_create(2)) of the lower half. The application's timers have ids of their own
//! (`interpose/posix_timers.rs`), so it neither sees this one nor can change it. A forked child has no timers, and
//! execve removes them.

use std::io;
use std::time::Duration;

use super::syscall::{self, is_err};
use super::timespec::Timespec;

/// Clocks, the best first. The first one also counts the time during which the machine is suspended.
const CLOCKS: [i32; 2] = [libc::CLOCK_BOOTTIME, libc::CLOCK_MONOTONIC];

/// Words of `struct sigevent`: two of the value, the signal, and the way of the notification (SIGEV_SIGNAL).
const EVENT: [i32; 16] = {
    let mut event = [0; 16];
    event[2] = libc::SIGKILL;
    event[3] = libc::SIGEV_SIGNAL;
    event
};

/// The timer. It exists until the process ends.
#[derive(Clone, Copy, Debug)]
pub struct KillTimer {
    id: i32,
    clock: i32,
}

impl KillTimer {
    /// Creates the timer, not armed.
    ///
    /// # Errors
    /// If the kernel has no timer left for this user.
    pub fn new() -> io::Result<KillTimer> {
        let mut last = 0;
        for clock in CLOCKS {
            last = syscall::timer_create(clock, &EVENT);
            if !is_err(last) {
                let id = last as i32;
                return Ok(KillTimer { id, clock });
            }
        }
        Err(syscall::io_error(last))
    }

    /// Present time of its clock.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(
            syscall::clock_gettime(self.clock)
                .ns()
                .max(0)
                .cast_unsigned(),
        )
    }

    /// Lets the kernel kill the process at this time instead of an earlier one. If the time is over, it does so now.
    ///
    /// # Errors
    /// If the kernel refuses the time.
    pub fn arm(&self, at: Duration) -> io::Result<()> {
        // A time of 0 would disarm the timer.
        let at = i64::try_from(at.as_nanos()).unwrap_or(i64::MAX).max(1);
        let times = [Timespec::default(), Timespec::new(at)];
        match syscall::timer_settime(self.id, libc::TIMER_ABSTIME, &times) {
            error if is_err(error) => Err(syscall::io_error(error)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;
    use std::time::Instant;

    const IN_CHILD: &str = "STASIS_TEST_KILL_TIMER";
    const LIMIT: Duration = Duration::from_secs(60);

    #[test]
    fn the_kernel_kills_a_process_that_is_stopped() {
        if std::env::var_os(IN_CHILD).is_some() {
            let timer = KillTimer::new().unwrap();
            timer.arm(timer.now() + Duration::from_millis(500)).unwrap();
            let own = std::process::id().to_string();
            Command::new("kill").args(["-STOP", &own]).status().unwrap();
            unreachable!("it goes on after SIGSTOP");
        }
        let name = "sys::kill_timer::tests::the_kernel_kills_a_process_that_is_stopped";
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", name]).env(IN_CHILD, "1");
        let mut child = command.spawn().unwrap();
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            assert!(begun.elapsed() < LIMIT, "it lives");
            std::thread::sleep(Duration::from_millis(5));
        };
        assert_eq!(status.signal(), Some(libc::SIGKILL));
    }
}
