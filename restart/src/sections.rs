//! The decoded sections of an image. A restart decodes them before it restores anything or changes any file.
//! `stasis verify` decodes them in the same way.

use ckpt_image::{kind, GuardPages, Image, SectionKind};
use loader::{ClosedFileList, ProcessState, SavedRegisters, ThreadNumbers};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{RestartError, Result};

/// The state of the job that a later lower half needs: the section of kind [`kind::JOB`], encoded with postcard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobState {
    /// Whether the application had initialised or finalised MPI, as in `contract::Gate::mpi_state`.
    pub mpi_state: u32,
    /// The thread level that the library provided, as a standard value.
    pub thread_level: i32,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Hash of the table of MPI functions with which the image's front was compiled. A lower half
    /// accepts its own hash and those of older compatible tables. It is 0 if the application had loaded no front yet.
    pub table_hash: u64,
}

/// The sections of a rank's image.
#[derive(Debug)]
pub struct Sections {
    /// State of the process.
    pub process: ProcessState,
    /// Registers in the threads' frames; an older Stasis does not write it.
    pub registers: Option<SavedRegisters>,
    /// Numbers of the threads; an older Stasis does not write them.
    pub numbers: ThreadNumbers,
    /// Files that the process had written to and closed.
    pub closed: ClosedFileList,
    /// State of the job.
    pub job: JobState,
    /// Place of the cut in the record of the run, if that is recorded or replayed.
    pub record: Option<record::Place>,
    /// The same of its clocks.
    pub clocks: Option<record::Position>,
}

impl Sections {
    /// Decodes the sections, and checks that the image holds the memory to which they refer.
    ///
    /// # Errors
    /// [`RestartError::Section`] names the section that cannot be decoded or does not fit the memory.
    pub fn of(image: &Image) -> Result<Sections> {
        let mut sections = Sections {
            process: decoded(image, kind::PROCESS)?,
            registers: optional(image, kind::REGISTERS)?,
            numbers: optional(image, kind::THREAD_NUMBERS)?.unwrap_or_default(),
            // No file was closed, or an older Stasis wrote the image and did not record closed files.
            closed: optional(image, kind::CLOSED_FILES)?.unwrap_or_default(),
            job: decoded(image, kind::JOB)?,
            record: optional(image, kind::RECORD)?,
            clocks: optional(image, kind::CLOCKS)?,
        };
        sections.process.locked = optional(image, kind::LOCKED_MEMORY)?.unwrap_or_default();
        sections.process.files.owners = optional(image, kind::FILE_OWNERS)?.unwrap_or_default();
        sections.process.proc_files = optional(image, kind::PROC_FILES)?.unwrap_or_default();
        // They are made when the memory is mapped.
        guards(image)?;
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
            .map_err(|why| unreadable(image, kind::PROCESS.name, why.to_string()))?;
        Ok(sections)
    }
}

/// The guard pages of an image.
pub(crate) fn guards(image: &Image) -> Result<GuardPages> {
    Ok(optional(image, kind::GUARD_PAGES)?.unwrap_or_default())
}

/// Decodes a section that an image may lack.
pub(crate) fn optional<T: DeserializeOwned>(image: &Image, kind: SectionKind) -> Result<Option<T>> {
    let section = image.section(kind);
    section.map(|_| decoded(image, kind)).transpose()
}

/// Decodes a section. The encoding has no field names, so only versions that [`SectionKind::decodes`] accepts are read.
fn decoded<T: DeserializeOwned>(image: &Image, kind: SectionKind) -> Result<T> {
    let why = match image.section(kind) {
        None => "it is missing".to_owned(),
        Some(section) if !kind.decodes(section.version) => {
            format!(
                "it has version {}, this Stasis reads {}",
                section.version, kind.version
            )
        }
        Some(section) => match postcard::from_bytes(&section.bytes) {
            Ok(decoded) => return Ok(decoded),
            Err(why) => why.to_string(),
        },
    };
    Err(unreadable(image, kind.name, why))
}

fn unreadable(image: &Image, section: &'static str, why: String) -> RestartError {
    RestartError::Section {
        path: image.path().to_owned(),
        rank: image.header().rank,
        section,
        why,
    }
}
