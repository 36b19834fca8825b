//! Signals to processes that the harness started.
//!
//! # Safety
//! `kill(2)` takes two integers, touches no memory of this process, and is only given ids that were
//! just read from `/proc` of processes carrying this run's mark, or that a job of this run names. Between fork and exec only
//! `prctl(2)` is called, which is async-signal-safe and allocates nothing.
#![allow(unsafe_code)]

use std::os::unix::process::CommandExt;
use std::process::Command;

/// Send SIGKILL to one process.
pub fn kill_now(pid: i32) {
    send(pid, libc::SIGKILL);
}

/// Send a signal to one process.
pub fn send(pid: i32, signal: i32) {
    if pid > 1 {
        // SAFETY: see the module's head; an id that is gone gives ESRCH, which is what is wanted.
        unsafe {
            libc::kill(pid, signal);
        }
    }
}

/// Whether this process runs as root.
pub fn is_root() -> bool {
    // SAFETY: takes nothing, cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Let the command be killed when the thread that starts it ends: an interrupted harness must not
/// leave spinning ranks behind (their launcher's death ends them).
pub fn die_with_parent(command: &mut Command) {
    // SAFETY: see the module's head.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        });
    }
}
