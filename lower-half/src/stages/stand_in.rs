//! The process that stands in for a rank with the launcher. A launcher that sees a rank die kills the others, and with
//! them the memory in which they are to go on. So the launcher's child is not the rank but its parent, which outlives
//! it. `stasis run` kills that process when the launcher may know. Of a rank that dies before it has connected to
//! `stasis run`, the launcher alone can know: then that process dies, too.
//!
//! # Safety
//! `fork` is called while the process has one thread. The handler of a signal only calls kill(2), with the number of
//! the child.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{kill, raise, signal, SigHandler, Signal};
use nix::sys::wait::{waitpid, WaitStatus};
use nix::unistd::{fork, getppid, pause, pipe2, setsid, ForkResult, Pid};

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

/// Where the rank tells the process that stands in for it that it is known.
static KNOWN: Mutex<Option<File>> = Mutex::new(None);

/// Goes on in a child of this process, which stays and stands in for it. Returns the number of that process.
pub fn leave_behind() -> Result<Pid> {
    let parent = Pid::this();
    let (reader, writer) = pipe2(OFlag::O_CLOEXEC).context("cannot make a pipe")?;
    // SAFETY: see the head of this file.
    match unsafe { fork() }.context("cannot make the process of the rank")? {
        ForkResult::Parent { child } => {
            drop(writer);
            stand_in(child, reader)
        }
        ForkResult::Child => {
            *known() = Some(writer.into());
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

fn known() -> MutexGuard<'static, Option<File>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `stasis run` knows the rank and the process that stands in for it.
pub fn is_known() {
    if let Some(mut stand_in) = known().take() {
        // Only a process that is dead does not hear it, and then this one dies.
        let _ = stand_in.write_all(b"k");
    }
}

extern "C" fn pass_on(number: i32) {
    if let Ok(number) = Signal::try_from(number) {
        let _ = kill(Pid::from_raw(RANK.load(Ordering::Relaxed)), number);
    }
}

fn stand_in(rank: Pid, known: OwnedFd) -> ! {
    let mut known = File::from(known);
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
            Ok(WaitStatus::Signaled(_, number, _))
                if known.read(&mut [0]).is_ok_and(|n| n == 0) =>
            {
                let _ = raise(number);
                // It is one of those that are passed on.
                std::process::abort()
            }
            // The launcher is not to know of a rank that was killed, until `stasis run` kills this process.
            Ok(WaitStatus::Signaled(..)) | Err(_) => loop {
                pause();
            },
            Ok(_) => {}
        }
    }
}
