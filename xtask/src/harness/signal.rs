//! Signals to processes that the harness started.
//!
//! # Safety
//! Between fork and exec only `prctl(2)` is called, which is async-signal-safe and allocates nothing.
#![allow(unsafe_code)]

pub use nix::sys::signal::Signal;

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::kill;
use nix::unistd::{geteuid, Pid};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Send SIGKILL to one process.
pub fn kill_now(pid: i32) {
    send(pid, Signal::SIGKILL);
}

/// Send a signal to one process.
pub fn send(pid: i32, signal: Signal) {
    if pid > 1 {
        // ESRCH means that the process has ended, as intended.
        let _ = kill(Pid::from_raw(pid), signal);
    }
}

/// Whether this process runs as root.
pub fn is_root() -> bool {
    geteuid().is_root()
}

/// Let the command be killed when the thread that starts it ends: an interrupted harness must not
/// leave spinning ranks behind (their launcher's death ends them).
pub fn die_with_parent(command: &mut Command) {
    // SAFETY: the closure only calls prctl(2), which is async-signal-safe and allocates nothing.
    unsafe {
        command.pre_exec(|| Ok(set_pdeathsig(Signal::SIGKILL)?));
    }
}
