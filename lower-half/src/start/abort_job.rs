//! The end of a whole job for a reason that only its first rank has seen, before MPI_Init.
//!
//! The other ranks call MPI_Init soon. If this rank only exits, some launchers (Hydra) leave them waiting there, and a
//! signal would hide the exit code. MPI_Abort ends all ranks with the exit code, under every launcher.

use std::path::Path;
use std::time::Duration;

use contract::abi;

use crate::mpi::{self, world};

/// Time in which the other ranks must call MPI_Init. They may run programs that never call it.
const LIMIT: Duration = Duration::from_secs(60);

/// Ends the job with this code. The caller has printed the reason.
pub fn abort_job(code: i32, library: Option<&Path>) -> ! {
    let watch = std::thread::Builder::new().spawn(|| {
        std::thread::sleep(LIMIT);
        // Every launcher ends the other ranks when one rank is ended by a signal.
        std::process::abort();
    });
    let loaded = mpi::load(library);
    if watch.is_ok() && loaded.is_ok() && world::initialise(abi::THREAD_SINGLE).is_ok() {
        world::abort(code);
    }
    std::process::abort();
}
