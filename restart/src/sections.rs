//! What an image holds beside memory, decoded as a restart needs it: before anything of the image is used and any
//! file is touched, and by `stasis verify` just so.

use ckpt_image::{kind, Image};
use loader::{ClosedFiles, ProcessState};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{RestartError, Result};

/// What a later lower half must know about the job, beside the process and its memory: the section of kind
/// [`kind::JOB`], postcard-encoded.
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
    /// Version of its encoding.
    pub const VERSION: u32 = 2;
}

/// The sections of a rank's image.
#[derive(Debug)]
pub struct Sections {
    /// The process.
    pub process: ProcessState,
    /// Files that it had written to and closed.
    pub closed: ClosedFiles,
    /// The job.
    pub job: JobState,
}

impl Sections {
    /// Decodes them, and makes sure that what they say of memory is in the image.
    pub fn of(image: &Image) -> Result<Sections> {
        let sections = Sections {
            process: decoded(image, kind::PROCESS, "process", ProcessState::VERSION)?,
            closed: match image.section(kind::CLOSED_FILES) {
                Some(_) => decoded(
                    image,
                    kind::CLOSED_FILES,
                    "closed files",
                    ClosedFiles::VERSION,
                )?,
                // None were, or whoever took it did not look.
                None => ClosedFiles::default(),
            },
            job: decoded(image, kind::JOB, "job", JobState::VERSION)?,
        };
        let regions = image.regions();
        let holds = |address: usize| {
            let address = address as u64;
            let holds =
                |region: &ckpt_image::Region| region.start <= address && address < region.end();
            regions.iter().any(holds)
        };
        sections
            .process
            .check(&holds)
            .map_err(|why| unreadable(image, "process", why.to_string()))?;
        Ok(sections)
    }
}

/// Decodes a section. Its encoding names no fields: only the very version can be read.
fn decoded<T: DeserializeOwned>(
    image: &Image,
    kind: u32,
    name: &'static str,
    version: u32,
) -> Result<T> {
    let why = match image.section(kind) {
        None => "it is missing".to_owned(),
        Some(section) if section.version != version => {
            format!(
                "it has version {}, this Stasis reads {version}",
                section.version
            )
        }
        Some(section) => match postcard::from_bytes(&section.bytes) {
            Ok(decoded) => return Ok(decoded),
            Err(why) => why.to_string(),
        },
    };
    Err(unreadable(image, name, why))
}

fn unreadable(image: &Image, section: &'static str, why: String) -> RestartError {
    RestartError::Section {
        path: image.path().to_owned(),
        rank: image.header().rank,
        section,
        why,
    }
}
