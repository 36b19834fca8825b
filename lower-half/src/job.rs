//! What a later lower half must know about the job, beside the process and its memory.

use std::sync::atomic::Ordering;
use std::sync::OnceLock;

use anyhow::{ensure, Result};
use serde::{Deserialize, Serialize};

use ckpt_image::kind;

use crate::mpi::{self, world};

/// The image's section of this kind, version [`VERSION`], postcard-encoded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobState {
    /// As `contract::Gate::mpi_state`: whether the application had initialised and finalised MPI.
    pub mpi_state: u32,
    /// The thread level that the library provided, as a standard value.
    pub thread_level: i32,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Of the table of MPI functions by which the application's MPI library, which is in the image, and the
    /// lower half understand each other; 0 where the application had no MPI library yet.
    pub table_hash: u64,
}

impl JobState {
    /// Makes sure that this lower half understands the MPI library in the image.
    pub fn suits(&self) -> Result<()> {
        let here = mpi::TABLE_HASH;
        ensure!(
            [0, here].contains(&self.table_hash),
            "its MPI functions are numbered otherwise than this Stasis numbers them (table {:016x}, here \
             {here:016x}): restart with the version that took it, which `stasis inspect` names",
            self.table_hash
        );
        Ok(())
    }
}

/// Version of [`JobState`]'s encoding.
pub const VERSION: u32 = 2;

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
    postcard::to_stdvec(&state)
        .map(|bytes| vec![(kind::JOB, VERSION, bytes)])
        .unwrap_or_default()
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
        of(mpi::TABLE_HASH).suits().unwrap();
        of(0).suits().unwrap();
        let said = of(mpi::TABLE_HASH ^ 1).suits().unwrap_err().to_string();
        assert!(said.contains("stasis inspect"), "{said}");
    }
}
