//! The processes below this one. Orphans among them become its children, since it is their reaper
//! (PR_SET_CHILD_SUBREAPER, prctl(2)): so no process of an incarnation on this machine is overlooked.

use std::fs;

use nix::errno::Errno;
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{kill, Signal};
use nix::sys::wait::{waitpid, WaitPidFlag, WaitStatus};
use nix::unistd::Pid;

use crate::recovery::LauncherEnd;

/// Makes this process the reaper of the orphans below it.
///
/// # Errors
/// The kernel refuses it.
pub fn adopt_orphans() -> nix::Result<()> {
    set_child_subreaper(true)
}

/// Whether this process ignores a signal, and so do the programs that it starts.
pub fn ignores(signal: Signal) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    ignored.is_some_and(|set| set >> (signal as u32 - 1) & 1 == 1)
}

/// Children that have ended, and how.
pub fn ended() -> Vec<(Pid, LauncherEnd)> {
    let mut all = Vec::new();
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, code)) => all.push((pid, LauncherEnd::Exited(code))),
            Ok(WaitStatus::Signaled(pid, signal, _)) => {
                all.push((pid, LauncherEnd::Killed(signal as i32)));
            }
            Err(Errno::EINTR) => {}
            Ok(WaitStatus::StillAlive) | Err(_) => return all,
            Ok(_) => {}
        }
    }
}

/// The children of this process that live.
pub fn children() -> Vec<Pid> {
    let own = std::process::id();
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_child =
        |pid: &Pid| Stat::of(*pid).is_some_and(|stat| stat.lives() && stat.parent == own);
    numbers.map(Pid::from_raw).filter(is_child).collect()
}

/// Whether a process is ending, although its end is not reported yet: the kernel frees its memory before.
pub fn is_ending(pid: Pid) -> bool {
    Stat::of(pid).is_none_or(|stat| !stat.lives() || stat.exits())
}

/// A process with its name and its state; none if it has ended.
pub fn described(pid: Pid) -> Option<String> {
    let stat = Stat::of(pid).filter(Stat::lives)?;
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(format!("{pid} ({}, state {})", name.trim_end(), stat.state))
}

/// What /proc/PID/stat tells of a process (proc_pid_stat(5)).
struct Stat {
    state: String,
    parent: u32,
    flags: u32,
}

impl Stat {
    fn of(pid: Pid) -> Option<Stat> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name is in parentheses and may contain any character.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        Some(Stat {
            state: fields.next()?.to_owned(),
            parent: fields.next()?.parse().ok()?,
            flags: fields.nth(4)?.parse().ok()?,
        })
    }

    fn lives(&self) -> bool {
        !matches!(self.state.as_str(), "Z" | "X")
    }

    /// Whether its first thread has begun to exit (`PF_EXITING` of the kernel).
    fn exits(&self) -> bool {
        const PF_EXITING: u32 = 4;
        self.flags & PF_EXITING != 0
    }
}

/// Sends a signal to a process that may have ended.
pub fn send(pid: Pid, signal: Signal) {
    let _ = kill(pid, signal);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_signal_is_ignored_that_was_ignored_at_the_start() {
        let test = std::env::current_exe().unwrap();
        let name = "processes::tests::a_signal_is_ignored_that_was_ignored_at_the_start";
        match std::env::var_os("BELOW_NOHUP") {
            Some(_) => assert!(ignores(Signal::SIGHUP) && !ignores(Signal::SIGTERM)),
            None => {
                let mut below = Command::new("nohup");
                below
                    .arg(test)
                    .args(["--exact", name])
                    .env("BELOW_NOHUP", "1");
                assert!(below.output().unwrap().status.success());
            }
        }
    }

    #[test]
    fn a_process_that_lives_is_told_from_one_that_ends() {
        let mut cat = Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let pid = Pid::from_raw(cat.id().cast_signed());
        assert!(!is_ending(pid));
        assert!(children().contains(&pid));
        drop(cat.stdin.take());
        while !is_ending(pid) {
            std::thread::yield_now();
        }
        cat.wait().unwrap();
        assert!(is_ending(pid));
        assert!(!children().contains(&pid));
    }
}
