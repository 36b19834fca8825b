//! The state of the job that a restart needs in addition to the process and its memory.

use std::sync::atomic::Ordering;
use std::sync::OnceLock;

use ::restart::JobState;
use anyhow::{ensure, Result};
use ckpt_image::{kind, Section};

use crate::mpi::{self, world};

/// Checks that this lower half numbers MPI functions as the MPI library in the image does.
pub fn check_table(job: &JobState) -> Result<()> {
    let here = mpi::TABLE_HASH;
    ensure!(
        [0, here].contains(&job.table_hash) || mpi::OLDER_TABLE_HASHES.contains(&job.table_hash),
        "its MPI functions are numbered otherwise than this Stasis numbers them (table {:016x}, here \
         {here:016x}): restart with the version that took it, which `stasis inspect` names",
        job.table_hash
    );
    Ok(())
}

static COMMAND: OnceLock<Vec<String>> = OnceLock::new();

/// Stores the command line, for images and messages.
pub fn set_command(command: Vec<String>) {
    COMMAND.get_or_init(|| command);
}

/// The program and its arguments.
pub fn command() -> &'static [String] {
    COMMAND.get().map_or(&[], Vec::as_slice)
}

/// The section of the image with the job's state. Called while all threads of the upper half are stopped.
pub fn section() -> Option<Section> {
    let state = JobState {
        mpi_state: contract::gate().mpi_state.load(Ordering::Acquire),
        thread_level: world::thread_level(),
        command: command().to_vec(),
        table_hash: contract::gate().upper.table_hash.load(Ordering::Relaxed),
    };
    // Numbers and strings in memory always encode.
    kind::JOB.encode(&state).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_numbering_of_the_functions_is_refused() {
        let of = |table_hash| JobState {
            mpi_state: 1,
            thread_level: 0,
            command: Vec::new(),
            table_hash,
        };
        check_table(&of(mpi::TABLE_HASH)).unwrap();
        check_table(&of(0)).unwrap();
        for older in mpi::OLDER_TABLE_HASHES {
            check_table(&of(*older)).unwrap();
        }
        let said = check_table(&of(mpi::TABLE_HASH ^ 1))
            .unwrap_err()
            .to_string();
        assert!(said.contains("stasis inspect"), "{said}");
    }
}
