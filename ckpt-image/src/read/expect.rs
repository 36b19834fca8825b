//! Expectations about an image, compared with its header.

use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::Arc;

use crate::error::{ImageError, Result};
use crate::format::header::Header;
use crate::format::ids::SetId;

/// Expected properties of an image. `None` means no comparison.
#[derive(Clone, Debug, Default)]
pub struct Expect {
    /// Id of its set.
    pub set_id: Option<SetId>,
    /// Rank of the image.
    pub rank: Option<u32>,
    /// Number of ranks of the job.
    pub world_size: Option<u32>,
    /// `contract::VERSION` of this build.
    pub contract_version: Option<u32>,
    /// Page size of this machine.
    pub page_size: Option<u32>,
    /// Length in the manifest.
    pub bytes: Option<u64>,
    /// Digest in the manifest, in hexadecimal.
    pub digest: Option<String>,
    /// Whether a digest of every memory chunk is required, because the set is sealed.
    pub sealed: bool,
    /// Counter of the verified bytes of memory; not a comparison.
    pub verified: Option<Arc<AtomicU64>>,
}

impl Expect {
    /// Compares the header. Swapped files are checked first, because other differences follow from them.
    pub(crate) fn check(&self, header: &Header, path: &Path) -> Result<()> {
        if let Some(expected) = self.set_id.filter(|id| *id != header.set_id) {
            return Err(ImageError::MixedSet {
                path: path.to_owned(),
                rank: self.rank.unwrap_or(header.rank),
                expected,
                found: header.set_id,
            });
        }
        if let Some(expected) = self.rank.filter(|rank| *rank != header.rank) {
            return Err(ImageError::OtherRank {
                path: path.to_owned(),
                expected,
                found: header.rank,
            });
        }
        if let Some(job) = self.world_size.filter(|size| *size != header.world_size) {
            return Err(ImageError::WorldSize {
                set: path.display().to_string(),
                taken: header.world_size,
                job,
            });
        }
        let found = header.contract_version;
        if let Some(expected) = self.contract_version.filter(|version| *version != found) {
            return Err(ImageError::Contract { expected, found });
        }
        let found = header.page_size;
        if let Some(expected) = self.page_size.filter(|size| *size != found) {
            return Err(ImageError::PageSize { expected, found });
        }
        Ok(())
    }
}
