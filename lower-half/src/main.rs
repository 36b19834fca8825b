//! The proxy MPI program: the real MPI library, the checkpoint agent, and the upper half's host.
//!
//! Started by `stasis launch` and `stasis restart` in each rank's process, in the place of the
//! application; one build per MPI library. A fresh one replaces it at every restart.

#![cfg_attr(not(test), no_main)]

mod agent;
mod environment;
mod fetch;
mod grown;
mod job;
mod launch;
mod mpi;
mod options;
mod refuse;
mod reserve;
mod resume;
mod save;
mod share;
mod slowest;
#[cfg(not(test))]
mod start;
mod wire_up;
mod wrapper;

use std::fmt::Display;

use launcher::message;
use options::Command;

// Exit codes, as `stasis` has them.
/// The checkpoint directory is another job's.
const DIRECTORY: i32 = 1;
/// The rank's program or its image cannot be served.
const CANNOT_SERVE: i32 = 3;
/// An image set is missing, damaged, or does not fit this job.
const BAD_IMAGE: i32 = 5;

/// Does what the command line asks for; returns what the process ends with.
#[cfg_attr(test, expect(dead_code, reason = "tests begin elsewhere"))]
fn begin() -> i32 {
    if let Err(error) = loader::refuse_privileges() {
        tell(&error.into());
        return CANNOT_SERVE;
    }
    let (code, error) = match options::parse(std::env::args_os().skip(1)) {
        Ok(Command::Launch(options)) => (CANNOT_SERVE, launch::launch(options)),
        Ok(Command::Restart(options)) => {
            let error = resume::resume(options);
            (error.as_ref().err().map_or(BAD_IMAGE, restart_code), error)
        }
        Ok(Command::Refuse(code)) => refuse::refuse(code),
        Ok(Command::About) => {
            about();
            return 0;
        }
        Err(usage) => (2, Err(usage)),
    };
    let Err(error) = error;
    tell(&error);
    mpi::world::leave(code);
    match mpi::world::rank() {
        // The others wait for this one, which must not just end.
        Some(_) => mpi::world::abort(code),
        None => code,
    }
}

/// What a restart ends with that fails like this.
fn restart_code(error: &anyhow::Error) -> i32 {
    match error.is::<coordinator::job::Error>() {
        true => DIRECTORY,
        false => BAD_IMAGE,
    }
}

/// Tells people what a rank has to say.
fn say(rank: u32, text: impl Display) {
    message::say(format_args!("rank {rank}: {text}"));
}

/// Says what is wrong, and in which rank.
fn tell(error: &anyhow::Error) {
    message::say(format_args!(
        "{}{}",
        launcher::rank_label(),
        message::reasons(error.as_ref())
    ));
}

/// Tells `stasis build-lower` which library this is for, and that it can be started.
fn about() {
    let about = serde_json::json!({
        "library": mpi::world::library(),
        "kind": mpi::KIND.word(),
    });
    println!("{about}");
}
