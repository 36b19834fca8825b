//! Check whether a process of this machine is alive.
//!
//! # Safety
//! `pidfd_open` takes two numbers and returns a new descriptor. `pidfd_send_signal` reads no memory if its third
//! argument is null.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;
use std::{fs, io};

use crate::net::socket::{self, Watched};

/// Units per second of the times in /proc/PID/stat (USER_HZ), the same on all machines.
const TICKS: u64 = 100;

/// A descriptor of the process with this number, which is ready to read when the process has ended (pidfd_open(2),
/// Linux 5.3 and later).
///
/// # Errors
/// That of pidfd_open(2): there is no such process, or no descriptor is free.
pub fn open(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: `pidfd_open` takes two numbers and no pointer.
    let opened = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::c_long::from(pid), 0) };
    match i32::try_from(opened) {
        // SAFETY: `pidfd_open` has returned this descriptor as a new one, and nothing else owns it.
        Ok(descriptor @ 0..) => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Kills the process of a descriptor, if it lives: its number may be that of another process already.
pub fn kill(process: BorrowedFd<'_>) {
    let descriptor = libc::c_long::from(process.as_raw_fd());
    let kill = libc::c_long::from(libc::SIGKILL);
    const NONE: libc::c_long = 0;
    // SAFETY: see the head of this file.
    unsafe { libc::syscall(libc::SYS_pidfd_send_signal, descriptor, kill, NONE, NONE) };
}

/// Whether the process with this number at the time `at` (seconds since 1970) does not end within `limit`.
pub fn outlives(pid: u32, at: u64, limit: Duration) -> bool {
    let Ok(process) = open(pid) else {
        return false;
    };
    // The clocks of seconds and of ticks may differ by a second.
    if begun(pid).is_none_or(|begun| begun > at + 2) {
        return false;
    }
    let ready = socket::wait(vec![Watched::new(&process)], Some(limit));
    !ready.contains(&true)
}

/// A stop of a process, by a signal or a debugger. Two equal ones are one stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// How often the first thread has given its processor away. A tracer such as strace stops it at each system call,
    /// and lets it go on.
    switches: u64,
}

impl Stop {
    /// The stop in which the process with this number is.
    pub fn of(pid: u32) -> Option<Stop> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let values = |name: &'static str| {
            let named = status.lines().filter_map(|line| line.split_once(':'));
            named.filter(move |(field, _)| field.ends_with(name))
        };
        let state = values("State").next()?.1.trim_start().chars().next()?;
        let switches = values("voluntary_ctxt_switches");
        let switches = switches.filter_map(|(_, number)| number.trim().parse::<u64>().ok());
        matches!(state, 'T' | 't').then(|| Stop {
            switches: switches.sum(),
        })
    }
}

/// What /proc/PID/stat says behind the name of a process. The name is in parentheses and may contain any character.
fn fields(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(stat.rsplit_once(')')?.1.to_owned())
}

/// Start time of a process in seconds since 1970.
fn begun(pid: u32) -> Option<u64> {
    let fields = fields(pid)?;
    let ticks: u64 = fields.split_whitespace().nth(19)?.parse().ok()?;
    let machine = fs::read_to_string("/proc/stat").ok()?;
    let boot = machine.lines().find_map(|line| line.strip_prefix("btime "));
    Some(boot?.trim().parse::<u64>().ok()? + ticks / TICKS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::signal::{kill, Signal};
    use nix::unistd::Pid;
    use std::process::{Command, Stdio};
    use std::time::SystemTime;

    #[test]
    fn a_live_process_is_distinguished_from_an_ended_one_and_a_reused_number() {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.unwrap().as_secs();
        let own = std::process::id();
        assert!(outlives(own, now, Duration::ZERO));
        assert!(!outlives(own, now - 1_000_000, Duration::ZERO));
        let mut cat = Command::new("cat");
        let mut cat = cat.stdin(Stdio::piped()).spawn().unwrap();
        assert!(outlives(cat.id(), now, Duration::ZERO));
        assert_eq!(Stop::of(cat.id()), None);
        drop(cat.stdin.take());
        assert!(!outlives(cat.id(), now, Duration::from_secs(20)));
        cat.wait().unwrap();
        assert!(!outlives(cat.id(), now, Duration::ZERO));
    }

    #[test]
    fn a_process_that_is_stopped_again_is_in_another_stop() {
        let mut cat = Command::new("cat");
        let mut cat = cat.stdin(Stdio::piped()).spawn().unwrap();
        let pid = Pid::from_raw(cat.id().cast_signed());
        let signal = |signal| kill(pid, signal).unwrap();
        let stop = || {
            signal(Signal::SIGSTOP);
            std::iter::repeat_with(|| Stop::of(cat.id()))
                .find_map(|stop| stop)
                .unwrap()
        };
        let first = stop();
        assert_eq!(Stop::of(cat.id()), Some(first));
        signal(Signal::SIGCONT);
        while Stop::of(cat.id()).is_some() {}
        assert_ne!(stop(), first);
        signal(Signal::SIGKILL);
        cat.wait().unwrap();
    }
}
