//! The proxy MPI program: the real MPI library, the checkpoint agent, and the upper half's host.
//!
//! Started by `stasis launch` and `stasis restart` in each rank's process, in the place of the
//! application; one build per MPI library. A fresh one replaces it at every restart.

mod agent;
mod environment;
mod fetch;
mod grown;
mod job;
mod launch;
mod mpi;
mod options;
mod resume;
mod save;
mod share;
mod slowest;
mod wire_up;

use std::fmt::Display;

use options::Command;

/// The rank's program or its image cannot be served (also used by `stasis` itself).
const CANNOT_SERVE: i32 = 3;
/// An image set is missing, damaged, or does not fit this job.
pub const BAD_IMAGE: i32 = 5;

fn main() {
    let (code, error) = match options::parse(std::env::args_os().skip(1)) {
        Ok(Command::Launch(options)) => (CANNOT_SERVE, launch::launch(options)),
        Ok(Command::Restart(options)) => (BAD_IMAGE, resume::resume(options)),
        Ok(Command::About) => return about(),
        Err(usage) => (2, Err(usage)),
    };
    let Err(error) = error;
    tell(&error);
    std::process::exit(code);
}

/// Tells people what a rank has to say: in one piece, for all may have the same to say at once.
fn say(rank: u32, text: impl Display) {
    let said = format!("stasis: rank {rank}: {text}\n");
    eprint!("{said}");
}

/// Says what is wrong, and in which rank.
fn tell(error: &anyhow::Error) {
    eprintln!("stasis: {}{error:#}", launcher::rank_label());
}

/// Tells `stasis build-lower` which library this is for, and that it can be started.
fn about() {
    let about = serde_json::json!({
        "library": mpi::world::library(),
        "kind": mpi::KIND.word(),
    });
    println!("{about}");
}
