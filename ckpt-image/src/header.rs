//! The fixed header: 256 bytes outside any serializer, so that whatever wrote a file, every reader
//! can tell what it is, which version, and whose.

use crate::bytes::{all_zero, array, hex, put, u32_at, u64_at, unhex};
use crate::error::Damage;

/// Version of the file format. A reader refuses any other.
pub const FORMAT_VERSION: u32 = 1;

/// Unit of memory and of alignment in the file. Also the page size that images are written for.
pub const PAGE: u64 = 4096;

pub(crate) const HEADER_BYTES: usize = 256;
const MAGIC: [u8; 8] = *b"STASISIM";
const MACHINE: &[u8] = b"x86_64";
const CHECKED: usize = HEADER_BYTES - 4;
const USED: usize = 128;

/// Random id that all parts of one set share.
#[derive(Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SetId(pub [u8; 16]);

impl SetId {
    /// A fresh id from the kernel's generator.
    pub fn random() -> std::io::Result<SetId> {
        let mut id = [0; 16];
        getrandom::fill(&mut id)?;
        Ok(SetId(id))
    }
}

impl std::fmt::Display for SetId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl std::fmt::Debug for SetId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SetId({self})")
    }
}

impl From<SetId> for String {
    fn from(id: SetId) -> String {
        id.to_string()
    }
}

impl TryFrom<String> for SetId {
    type Error = &'static str;
    fn try_from(text: String) -> Result<SetId, &'static str> {
        unhex(&text)
            .map(SetId)
            .ok_or("a set id is 32 lower-case hexadecimal digits")
    }
}

/// What the writer of an image says about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The set that the image belongs to.
    pub set_id: SetId,
    /// How often the job had been restarted when the image was taken.
    pub epoch: u64,
    /// Rank in MPI_COMM_WORLD.
    pub rank: u32,
    /// Size of MPI_COMM_WORLD.
    pub world_size: u32,
    /// `contract::VERSION` of the build that wrote it.
    pub contract_version: u32,
    /// Page size of the machine.
    pub page_size: u32,
    /// MPI ABI that the program was compiled against: "openmpi", "mpich", "none"; at most 15 bytes.
    pub abi: String,
    /// When the image was begun, in nanoseconds since 1970.
    pub created_ns: u64,
}

/// Where things lie in the file; known once all has been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// End of the memory chunks, which start at [`PAGE`]; the sections follow.
    pub sections_at: u64,
    /// The section directory, which follows the sections and ends the file.
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

    /// Magic, version and checksum are judged in this order, so that a file of another version is
    /// called that and not damaged.
    pub(crate) fn decode(b: &[u8; HEADER_BYTES]) -> Result<(Header, Layout), Damage> {
        if b[..8] != MAGIC {
            return Err(Damage::NotAnImage);
        }
        let version = u32_at(b, 8);
        // A flipped bit in the version field is damage; a version with its own checksum is not.
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
