//! Commands that are started with no signal blocked. `stasis run` blocks the signals that it reads, and a child
//! inherits that: a launcher would not hear of SIGTERM, nor of the interrupt of its terminal.
//!
//! # Safety
//! Between fork and exec only pthread_sigmask(3) is called, which is async-signal-safe and allocates nothing.
#![allow(unsafe_code)]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use nix::sys::signal::SigSet;

/// Starts the command.
///
/// # Errors
/// It cannot be started.
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    // SAFETY: see the head of this file.
    unsafe { command.pre_exec(|| Ok(SigSet::empty().thread_set_mask()?)) };
    command.spawn()
}
