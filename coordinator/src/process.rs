//! Whether a process of this machine lives.
//!
//! # Safety
//! `pidfd_open` takes two numbers and returns a descriptor that is nobody's yet.
#![allow(unsafe_code)]

use std::fs;
use std::os::fd::{FromRawFd, OwnedFd};
use std::time::Duration;

use crate::socket::{self, Watched};

/// The clock of /proc/PID/stat ticks so often in a second, on all machines.
const TICKS: u64 = 100;

/// Whether the process that had this number at a time (in seconds since 1970) does not end within `limit`.
pub fn outlives(pid: u32, at: u64, limit: Duration) -> bool {
    // SAFETY: see the head of this file.
    let opened = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::c_long::from(pid), 0) };
    let Ok(descriptor @ 0..) = i32::try_from(opened) else {
        return false;
    };
    // SAFETY: as above.
    let process = unsafe { OwnedFd::from_raw_fd(descriptor) };
    // The clocks of seconds and of ticks need not agree on the second.
    if begun(pid).is_none_or(|begun| begun > at + 2) {
        return false;
    }
    let ready = socket::wait(vec![Watched::new(&process)], Some(limit));
    !ready.contains(&true)
}

/// When a process began, in seconds since 1970.
fn begun(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Its name may hold anything, and is in parentheses.
    let fields = stat.rsplit_once(')')?.1;
    let ticks: u64 = fields.split_whitespace().nth(19)?.parse().ok()?;
    let machine = fs::read_to_string("/proc/stat").ok()?;
    let boot = machine.lines().find_map(|line| line.strip_prefix("btime "));
    Some(boot?.trim().parse::<u64>().ok()? + ticks / TICKS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};
    use std::time::SystemTime;

    #[test]
    fn a_process_that_ends_is_told_from_one_that_lives_and_from_the_next_of_its_number() {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.unwrap().as_secs();
        let own = std::process::id();
        assert!(outlives(own, now, Duration::ZERO));
        assert!(!outlives(own, now - 1_000_000, Duration::ZERO));
        let mut cat = Command::new("cat");
        let mut cat = cat.stdin(Stdio::piped()).spawn().unwrap();
        assert!(outlives(cat.id(), now, Duration::ZERO));
        drop(cat.stdin.take());
        assert!(!outlives(cat.id(), now, Duration::from_secs(20)));
        cat.wait().unwrap();
        assert!(!outlives(cat.id(), now, Duration::ZERO));
    }
}
