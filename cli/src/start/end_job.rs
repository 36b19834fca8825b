//! Ends a whole job before MPI_Init for an error that only one of its ranks has detected.
//!
//! The other ranks will soon be in MPI_Init, or run a program that never calls it. Launchers differ in how they treat a
//! rank that just exits. mpirun of Open MPI ends the others and returns the code. Hydra leaves them waiting, but ends
//! them at the PMI-1 message that MPI_Abort sends. Under other launchers (srun) the lower half calls MPI_Abort, because
//! it has a library for that.
//!
//! # Safety
//! write reads bytes of a live string and writes them to the descriptor that the launcher has passed for that.
//! FIONREAD writes an integer to a local.
#![allow(unsafe_code)]

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use launcher::{preload, Library};

use crate::args::Running;
use crate::install::layout::Layout;
use crate::install::lower_registry::Preferred;
use crate::start::refusal;
use crate::ui::exit::{Code, Result, WithCode};

/// Time for Hydra to end this process after the request.
const LIMIT: Duration = Duration::from_secs(10);

/// Passes on a result that ranks get independently. On an error, a rank of several ends them all with the code.
pub fn on_error<T, E: Into<anyhow::Error>>(
    result: std::result::Result<T, E>,
    code: Code,
    running: &Running,
) -> Result<T> {
    let failure = match result.code(code) {
        Ok(value) => return Ok(value),
        Err(failure) => failure,
    };
    refusal::is_of_this_rank();
    let others = launcher::size().is_some_and(|size| size > 1);
    let library = launcher::launcher().map(|launcher| launcher.library);
    if !others || library == Some(Library::OpenMpi) {
        return Err(failure);
    }
    refusal::tell(&failure);
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
        command.arg("refuse").arg((code.number()).to_string());
        command.args(lower.mpi_library);
        preload::stash(&mut command);
        // exec does not return on success.
        let _ = command.exec();
    }
    // Every launcher ends the other ranks when one is killed by a signal.
    std::process::abort();
}

/// Requests Hydra with PMI-1's `abort` to end the job with this code. Returns whether the request was sent.
fn tell_hydra(code: Code) -> bool {
    let socket = std::env::var("PMI_FD").ok();
    let Some(socket) = socket.and_then(|fd| fd.parse().ok()) else {
        return false;
    };
    wait_until_stderr_is_read();
    let words = format!("cmd=abort exitcode={}\n", code.number());
    // SAFETY: `words` is initialised for its length; an invalid descriptor is an error only.
    let written = unsafe { libc::write(socket, words.as_ptr().cast(), words.len()) };
    written == words.len().cast_signed()
}

nix::ioctl_read_bad!(
    /// Bytes in a pipe that have not been read (FIONREAD, pipe(7)).
    fionread,
    libc::FIONREAD,
    libc::c_int
);

/// Waits, a second at most, until standard error has been read if it is a pipe. Hydra discards unread data in its pipes
/// at an abort, and with it the reason.
fn wait_until_stderr_is_read() {
    const ATTEMPTS: u32 = 1000;
    for _ in 0..ATTEMPTS {
        let mut unread = 0;
        // SAFETY: FIONREAD writes one c_int, to a local of that type.
        let told = unsafe { fionread(libc::STDERR_FILENO, &raw mut unread) };
        if told.is_err() || unread == 0 {
            return;
        }
        // The kernel has no event for a writer whose pipe becomes empty.
        std::thread::sleep(Duration::from_millis(1));
    }
}
