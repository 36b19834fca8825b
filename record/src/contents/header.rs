//! The header: what a run of the rank alone needs to begin.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Version of the format. It increases with every change of the file, and of what an event holds.
const VERSION: u32 = 1;
/// Bytes before the first event.
pub const HEADER_BYTES: usize = 1 << 16;
/// Offset of the number of bytes of events.
pub(super) const END_AT: usize = 16;
/// Offset of the header's own length.
const LENGTH_AT: usize = 24;
const BEGIN: usize = 32;
const MAGIC: [u8; 8] = *b"STASISCO";

/// The properties of the recorded run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The rank.
    pub rank: u32,
    /// Number of ranks.
    pub size: u32,
    /// Version of Stasis. What crosses depends on it.
    pub stasis: String,
    /// Hash of the table of MPI functions.
    pub table_hash: u64,
    /// Kind of the MPI library, such as `mpich`.
    pub kind: String,
    /// The choice of the lower half: its name, or the library that it loads.
    pub lower: Vec<u8>,
    /// Thread level that it provided, as a standard value.
    pub thread_level: i32,
    /// Its largest tag.
    pub tag_ub: i32,
    /// Properties of the lower half that the upper half acts on (`contract::LowerInfo::features`), without tools.
    pub features: u32,
    /// The tools that were on, as `job_spec` writes them.
    pub tools: String,
    /// The program's words, the path of its file first.
    pub command: Vec<Vec<u8>>,
    /// Its name in its command line.
    pub name: Vec<u8>,
    /// Its working directory.
    pub directory: Vec<u8>,
}

impl Header {
    /// The header's bytes, with no events.
    ///
    /// # Errors
    /// [`Error::LongCommand`].
    pub(super) fn encode(&self, path: &Path) -> Result<Vec<u8>> {
        let too_long = || Error::LongCommand(path.to_owned());
        let content = postcard::to_stdvec(self).map_err(|_| too_long())?;
        let mut bytes = vec![0; HEADER_BYTES];
        let place = bytes.get_mut(BEGIN..BEGIN + content.len());
        place.ok_or_else(too_long)?.copy_from_slice(&content);
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[LENGTH_AT..BEGIN].copy_from_slice(&(content.len() as u64).to_le_bytes());
        Ok(bytes)
    }

    /// The header of a file that begins with `bytes`, and the number of bytes of events.
    ///
    /// # Errors
    /// [`Error::NoContents`], [`Error::Version`].
    pub(super) fn decode(bytes: &[u8], path: &Path) -> Result<(Header, u64)> {
        let no_contents = || Error::NoContents(path.to_owned());
        let page = bytes.get(..HEADER_BYTES).ok_or_else(no_contents)?;
        let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| page[at + i]));
        if page[..8] != MAGIC {
            return Err(no_contents());
        }
        let found = u32::from_le_bytes(std::array::from_fn(|i| page[8 + i]));
        if found != VERSION {
            return Err(Error::Version {
                path: path.to_owned(),
                found,
            });
        }
        let length = usize::try_from(long(LENGTH_AT)).map_err(|_| no_contents())?;
        let content = BEGIN
            .checked_add(length)
            .and_then(|end| page.get(BEGIN..end));
        let header = postcard::from_bytes(content.ok_or_else(no_contents)?);
        Ok((header.map_err(|_| no_contents())?, long(END_AT)))
    }
}
