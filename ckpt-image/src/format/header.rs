//! The fixed header of an image: 256 bytes. No serializer encodes it, so every reader finds the file type,
//! its version and its set, whichever version wrote the file.

use serde::{Deserialize, Serialize};

use crate::error::Damage;
use crate::format::bytes::{all_zero, array, put, u32_at, u64_at};
use crate::format::ids::SetId;
use crate::limits::FORMAT_VERSION;

/// Unit of memory and of alignment in the file. Also the page size that images are written for.
pub const PAGE: u64 = 4096;

pub(crate) const HEADER_BYTES: usize = 256;
const MAGIC: [u8; 8] = *b"STASISIM";
const MACHINE: &[u8] = b"x86_64";
const CHECKED: usize = HEADER_BYTES - 4;
const USED: usize = 128;

/// Properties of an image that its writer supplies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Id of the set that the image belongs to.
    pub set_id: SetId,
    /// Number of restarts of the job before the image.
    pub epoch: u64,
    /// Rank in MPI_COMM_WORLD.
    pub rank: u32,
    /// Size of MPI_COMM_WORLD.
    pub world_size: u32,
    /// `contract::VERSION` of the build that wrote the image.
    pub contract_version: u32,
    /// Page size of the machine in bytes.
    pub page_size: u32,
    /// MPI ABI that the program was compiled for: "openmpi", "mpich", "none"; at most 15 bytes.
    pub abi: String,
    /// Start of the image, in nanoseconds since 1970.
    pub created_ns: u64,
}

/// Offsets in the file; known once all data is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// End of the memory chunks, which start at [`PAGE`]; the sections follow.
    pub sections_at: u64,
    /// Offset of the section directory, which follows the sections and ends the file.
    pub directory_at: u64,
    pub directory_entries: u32,
    pub directory_crc: u32,
    pub file_bytes: u64,
}

impl Header {
    pub(crate) fn encode(&self, layout: &Layout) -> [u8; HEADER_BYTES] {
        let mut b = [0; HEADER_BYTES];
        put(&mut b, 0, &MAGIC);
        put(&mut b, 8, &FORMAT_VERSION.to_le_bytes());
        put(&mut b, 12, &(HEADER_BYTES as u32).to_le_bytes());
        put(&mut b, 16, MACHINE);
        put(&mut b, 32, &self.contract_version.to_le_bytes());
        put(&mut b, 36, &self.page_size.to_le_bytes());
        put(&mut b, 40, &self.world_size.to_le_bytes());
        put(&mut b, 44, &self.rank.to_le_bytes());
        put(&mut b, 48, &self.set_id.0);
        put(&mut b, 64, &self.epoch.to_le_bytes());
        put(&mut b, 72, &self.created_ns.to_le_bytes());
        let abi = self.abi.as_bytes();
        put(&mut b, 80, &abi[..abi.len().min(15)]);
        put(&mut b, 96, &layout.sections_at.to_le_bytes());
        put(&mut b, 104, &layout.directory_at.to_le_bytes());
        put(&mut b, 112, &layout.directory_entries.to_le_bytes());
        put(&mut b, 116, &layout.directory_crc.to_le_bytes());
        put(&mut b, 120, &layout.file_bytes.to_le_bytes());
        let crc = crc32fast::hash(&b[..CHECKED]);
        put(&mut b, CHECKED, &crc.to_le_bytes());
        b
    }

    /// Magic, version and checksum are checked in this order: a file of another version then counts as
    /// such, not as damaged.
    pub(crate) fn decode(b: &[u8; HEADER_BYTES]) -> Result<(Header, Layout), Damage> {
        if b[..8] != MAGIC {
            return Err(Damage::NotAnImage);
        }
        let version = u32_at(b, 8);
        // A flipped bit in the version field is damage; another version with a valid checksum is not.
        if u32_at(b, CHECKED) != crc32fast::hash(&b[..CHECKED]) {
            return Err(if version == FORMAT_VERSION {
                Damage::HeaderChecksum
            } else {
                Damage::VersionOrChecksum(version)
            });
        }
        if version != FORMAT_VERSION {
            return Err(Damage::Version(version));
        }
        if u32_at(b, 12) != HEADER_BYTES as u32 || !all_zero(&b[USED..CHECKED]) {
            return Err(Damage::Layout("the header has fields of another version"));
        }
        if text(&b[16..32]) != Some("x86_64") {
            return Err(Damage::Layout(
                "it was written for another kind of processor",
            ));
        }
        let abi = text(&b[80..96]).ok_or(Damage::Layout("the ABI name is not text"))?;
        let header = Header {
            contract_version: u32_at(b, 32),
            page_size: u32_at(b, 36),
            world_size: u32_at(b, 40),
            rank: u32_at(b, 44),
            set_id: SetId(array(b, 48)),
            epoch: u64_at(b, 64),
            created_ns: u64_at(b, 72),
            abi: abi.to_owned(),
        };
        let layout = Layout {
            sections_at: u64_at(b, 96),
            directory_at: u64_at(b, 104),
            directory_entries: u32_at(b, 112),
            directory_crc: u32_at(b, 116),
            file_bytes: u64_at(b, 120),
        };
        Ok((header, layout))
    }
}

/// The text in a NUL-padded field.
fn text(field: &[u8]) -> Option<&str> {
    let len = field.iter().position(|b| *b == 0)?;
    if !all_zero(&field[len..]) {
        return None;
    }
    std::str::from_utf8(&field[..len]).ok()
}
