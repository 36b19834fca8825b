//! The contents of a rank's run: what each crossing to the lower half has returned, so that the rank can be run alone.
//! `header` has what a run of the rank needs to begin, `writer` and `reader` the file. The lower half defines what an
//! event holds.
//!
//! The file is a header of [`HEADER_BYTES`] and events. An event begins at a multiple of 8: its length, how
//! often it was repeated, a CRC-32, its slot, all little-endian numbers of four bytes, and its bytes.

mod header;
mod reader;
mod writer;

pub use header::{Header, HEADER_BYTES};
pub use reader::{Event, Reader};
pub use writer::Writer;

use std::path::{Path, PathBuf};

/// Bytes before the content of an event.
const HEAD: usize = 16;
/// Alignment of events.
const ALIGNMENT: usize = 8;
/// Longest content of an event that is repeated in place.
const REPEATED: usize = 256;

/// Slot of the event with the reason why nothing follows. A record that was cut off has none.
pub const END: u32 = u32::MAX;
/// Slot of a call of a user-defined operation.
pub const CALLBACK: u32 = u32::MAX - 1;

/// The file of a rank.
pub fn path(directory: &Path, rank: u32) -> PathBuf {
    directory.join(format!("rank-{rank}.contents"))
}

/// Checksum of an event.
fn checksum(slot: u32, content: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&slot.to_le_bytes());
    hasher.update(content);
    hasher.finalize()
}

/// Bytes that an event takes.
fn space(content: usize) -> usize {
    (HEAD + content).next_multiple_of(ALIGNMENT)
}
