//! Ending a whole job, before MPI_Init, for what one of its ranks alone has seen.
//!
//! The others are in MPI_Init soon, or run a program that never calls it; and what launchers make of a rank that
//! just ends differs. mpirun of Open MPI ends the others and passes the code on. Hydra leaves them waiting, but ends
//! them at the word that MPI_Abort says to it. Elsewhere (srun) the lower half says it: it has a library that can.
//!
//! # Safety
//! The one unsafe call writes bytes to the descriptor that the launcher has handed over for that.
#![allow(unsafe_code)]

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use launcher::{preload, Library};

use crate::arguments::Running;
use crate::exit::{Code, Result, WithCode};
use crate::layout::Layout;
use crate::lowers::Preferred;
use crate::text;

/// How long Hydra may take to end this process once it was told to.
const LIMIT: Duration = Duration::from_secs(10);

/// What only one rank can tell: if it is an error, and others are, all end with its code.
pub fn for_all<T, E: Into<anyhow::Error>>(
    result: std::result::Result<T, E>,
    code: Code,
    running: &Running,
) -> Result<T> {
    let failure = match result.code(code) {
        Ok(value) => return Ok(value),
        Err(failure) => failure,
    };
    let others = launcher::size().is_some_and(|size| size > 1);
    let library = launcher::launcher().map(|launcher| launcher.library);
    if !others || library == Some(Library::OpenMpi) {
        return Err(failure);
    }
    text::tell(&failure.error);
    if library == Some(Library::Mpich) && tell_hydra(code) {
        std::thread::sleep(LIMIT);
    }
    let preferred = Preferred {
        library: None,
        abi: None,
    };
    let lower = Layout::find().and_then(|layout| layout.choose(running.mpi.as_deref(), preferred));
    if let Ok(lower) = lower {
        let mut command = Command::new(lower.path);
        command.arg("refuse").arg((code as i32).to_string());
        preload::put_aside(&mut command);
        // It does not come back.
        let _ = command.exec();
    }
    // Every launcher ends the others when one of them ends by a signal.
    std::process::abort();
}

/// Tells Hydra, in the words of PMI-1, to end the job with this code. Whether it was told.
fn tell_hydra(code: Code) -> bool {
    let socket = std::env::var("PMI_FD").ok();
    let Some(socket) = socket.and_then(|fd| fd.parse().ok()) else {
        return false;
    };
    until_heard();
    let words = format!("cmd=abort exitcode={}\n", code as i32);
    // SAFETY: see the head of this file; the bytes are there.
    let written = unsafe { libc::write(socket, words.as_ptr().cast(), words.len()) };
    written == words.len().cast_signed()
}

nix::ioctl_read_bad!(
    /// Bytes in a pipe that have not been read (FIONREAD, pipe(7)).
    fionread,
    libc::FIONREAD,
    libc::c_int
);

/// Waits, a second at most, until standard error, where that is a pipe, has been read: Hydra drops what is still
/// in its pipes then, the reason with it.
fn until_heard() {
    const ATTEMPTS: u32 = 1000;
    for _ in 0..ATTEMPTS {
        let mut unread = 0;
        // SAFETY: the kernel writes a number to the local.
        let told = unsafe { fionread(libc::STDERR_FILENO, &raw mut unread) };
        if told.is_err() || unread == 0 {
            return;
        }
        // Nothing tells a writer that its pipe is empty.
        std::thread::sleep(Duration::from_millis(1));
    }
}
