//! What a later lower half must know about the job, beside the process and its memory.

use std::sync::atomic::Ordering;
use std::sync::OnceLock;

use anyhow::{ensure, Result};

use ckpt_image::kind;
use restart::JobState;

use crate::mpi::{self, world};
use crate::wrapper;

/// Makes sure that this lower half understands the MPI library in the image.
pub fn suits(job: &JobState) -> Result<()> {
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

/// Notes what runs here, for images and messages.
pub fn set_command(command: Vec<String>) {
    COMMAND.get_or_init(|| command);
}

/// The program and its arguments.
pub fn command() -> &'static [String] {
    COMMAND.get().map_or(&[], Vec::as_slice)
}

/// The sections that the image is to hold beside memory and the process's state. Called while all
/// threads of the upper half stand still.
pub fn sections() -> Vec<(u32, u32, Vec<u8>)> {
    let state = JobState {
        mpi_state: contract::gate().mpi_state.load(Ordering::Acquire),
        thread_level: world::thread_level(),
        command: command().to_vec(),
        table_hash: contract::gate().upper.table_hash.load(Ordering::Relaxed),
    };
    // Numbers and strings in memory always encode.
    let mut sections = postcard::to_stdvec(&state)
        .map(|bytes| vec![(kind::JOB, JobState::VERSION, bytes)])
        .unwrap_or_default();
    sections.extend(wrapper::section());
    sections
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
        suits(&of(mpi::TABLE_HASH)).unwrap();
        suits(&of(0)).unwrap();
        for older in mpi::OLDER_TABLE_HASHES {
            suits(&of(*older)).unwrap();
        }
        let said = suits(&of(mpi::TABLE_HASH ^ 1)).unwrap_err().to_string();
        assert!(said.contains("stasis inspect"), "{said}");
    }
}
