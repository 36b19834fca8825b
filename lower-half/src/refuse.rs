//! Ending a whole job for a reason that its first rank alone has seen before MPI_Init.
//!
//! The others are in MPI_Init soon, where some launchers leave them waiting when this one just ends (Hydra), and a
//! signal would hide the exit code. MPI_Abort ends all of them with it, under every launcher.

use std::time::Duration;

use contract::abi;

use crate::mpi::world;

/// How long the other ranks may take to come to MPI_Init: they may run programs that never call it.
const LIMIT: Duration = Duration::from_secs(60);

/// Ends the job with this code. Whoever asks for that has said why.
pub fn refuse(code: i32) -> ! {
    let watch = std::thread::Builder::new().spawn(|| {
        std::thread::sleep(LIMIT);
        // Every launcher ends the others when one of them ends by a signal.
        std::process::abort();
    });
    if watch.is_ok() && world::initialise(abi::THREAD_SINGLE).is_ok() {
        world::abort(code);
    }
    std::process::abort();
}
