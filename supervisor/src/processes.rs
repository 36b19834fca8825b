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
pub fn adopt_orphans() -> nix::Result<()> {
    set_child_subreaper(true)
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
    let is_child = |pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name is in parentheses and may contain any character.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let lives = !matches!(fields.next()?, "Z" | "X");
        Some(lives && fields.next()?.parse::<u32>().ok()? == own)
    };
    let children = numbers.filter(|pid| is_child(pid).unwrap_or(false));
    children.map(Pid::from_raw).collect()
}

/// Sends a signal to a process that may have ended.
pub fn send(pid: Pid, signal: Signal) {
    let _ = kill(pid, signal);
}
