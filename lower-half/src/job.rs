//! What a later lower half must know about the job, beside the process and its memory.

use std::sync::atomic::Ordering;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use ckpt_image::kind;

use crate::mpi::world;

/// The image's section of this kind, version [`VERSION`], postcard-encoded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobState {
    /// As `contract::Gate::mpi_state`: whether the application had initialised and finalised MPI.
    pub mpi_state: u32,
    /// The thread level that the library provided, as a standard value.
    pub thread_level: i32,
    /// The program and its arguments.
    pub command: Vec<String>,
}

/// Version of [`JobState`]'s encoding.
pub const VERSION: u32 = 1;

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
    };
    // Numbers and strings in memory always encode.
    postcard::to_stdvec(&state)
        .map(|bytes| vec![(kind::JOB, VERSION, bytes)])
        .unwrap_or_default()
}
