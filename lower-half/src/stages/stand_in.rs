//! The process that stands in for a rank with the launcher. A launcher that sees a rank die kills the others, and with
//! them the memory in which they are to go on. So the launcher's child is not the rank but its parent, which outlives
//! it. `stasis run` kills that process when the launcher may know.
//!
//! # Safety
//! `fork` is called while the process has one thread. The handler of a signal only calls kill(2), with the number of
//! the child.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicI32, Ordering};

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{kill, signal, SigHandler, Signal};
use nix::sys::wait::{waitpid, WaitStatus};
use nix::unistd::{fork, getppid, pause, setsid, ForkResult, Pid};

/// Signals that are passed on to the rank.
const PASSED_ON: [Signal; 8] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGHUP,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGCONT,
    Signal::SIGTSTP,
];

static RANK: AtomicI32 = AtomicI32::new(0);

/// Goes on in a child of this process, which stays and stands in for it. Returns the number of that process.
pub fn leave_behind() -> Result<Pid> {
    let parent = Pid::this();
    // SAFETY: see the head of this file.
    match unsafe { fork() }.context("cannot make the process of the rank")? {
        ForkResult::Parent { child } => stand_in(child),
        ForkResult::Child => {
            // A signal to the launcher's group does not reach it, nor does a launcher that kills its own group.
            setsid().context("cannot leave the launcher's session")?;
            set_pdeathsig(Signal::SIGKILL).context("cannot end with the launcher")?;
            if getppid() != parent {
                // It has died already.
                std::process::exit(1);
            }
            Ok(parent)
        }
    }
}

extern "C" fn pass_on(number: i32) {
    if let Ok(number) = Signal::try_from(number) {
        let _ = kill(Pid::from_raw(RANK.load(Ordering::Relaxed)), number);
    }
}

fn stand_in(rank: Pid) -> ! {
    RANK.store(rank.as_raw(), Ordering::Relaxed);
    for number in PASSED_ON {
        // SAFETY: see the head of this file. A signal that cannot be caught is not passed on.
        let _ = unsafe { signal(number, SigHandler::Handler(pass_on)) };
    }
    loop {
        match waitpid(rank, None) {
            // SAFETY: no conditions. Exit handlers are the rank's.
            Ok(WaitStatus::Exited(_, code)) => unsafe { libc::_exit(code) },
            Err(Errno::EINTR) => {}
            // The launcher is not to know of a rank that was killed, until `stasis run` kills this process.
            Ok(WaitStatus::Signaled(..)) | Err(_) => loop {
                pause();
            },
            Ok(_) => {}
        }
    }
}
