//! The pages that an increment inherits from its parent because they are unchanged (CRIU: `in_parent`). The
//! section *inherited* holds them.
//!
//! Every inherited page is listed. A page that is neither listed nor in a chunk is zero, or has the file's
//! content, whatever it was in the parent.

use std::ops::Range;

use crate::format::bytes::{array, hex, u64_at, unhex};
use crate::format::chunk::Chunk;
use crate::format::header::PAGE;
use crate::format::ids::SetId;
use crate::format::region::{Backing, Region};

const SET_ID_BYTES: usize = 16;
const HEAD_BYTES: usize = SET_ID_BYTES + blake3::OUT_LEN;
const RUN_BYTES: usize = 16;

/// The parent image of an increment: the image of the same rank in an older set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParentImage {
    /// Id of the older set.
    pub set_id: SetId,
    /// Digest of the rank's image in that set, in hexadecimal. No other image is accepted as parent.
    pub digest: String,
}

/// Pages whose content is that of the parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParentPages {
    /// The parent image.
    pub parent: ParentImage,
    /// The pages, in ascending order. Each run lies in one region and overlaps no chunk.
    pub runs: Vec<Range<u64>>,
}

impl ParentPages {
    /// Encodes the section; none if the parent's digest is invalid.
    pub(crate) fn encode(&self) -> Option<Vec<u8>> {
        let digest: [u8; blake3::OUT_LEN] = unhex(&self.parent.digest)?;
        let mut bytes = Vec::with_capacity(HEAD_BYTES + RUN_BYTES * self.runs.len());
        bytes.extend_from_slice(&self.parent.set_id.0);
        bytes.extend_from_slice(&digest);
        for run in &self.runs {
            bytes.extend_from_slice(&run.start.to_le_bytes());
            bytes.extend_from_slice(&run.end.to_le_bytes());
        }
        Some(bytes)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<ParentPages> {
        let (head, runs) = bytes.split_at_checked(HEAD_BYTES)?;
        let runs = runs.chunks_exact(RUN_BYTES);
        if !runs.remainder().is_empty() {
            return None;
        }
        let digest: [u8; blake3::OUT_LEN] = array(head, SET_ID_BYTES);
        Some(ParentPages {
            parent: ParentImage {
                set_id: SetId(array(head, 0)),
                digest: hex(&digest),
            },
            runs: runs.map(|run| u64_at(run, 0)..u64_at(run, 8)).collect(),
        })
    }

    /// Whether the runs lie in their regions and overlap no chunk; `chunks` belong to `regions`.
    pub(crate) fn fits(&self, regions: &[Region], chunks: &[Chunk]) -> bool {
        let (mut region, mut chunk, mut from) = (0, 0, 0);
        self.runs.iter().all(|run| {
            while regions.get(region).is_some_and(|r| r.end() <= run.start) {
                region += 1;
            }
            let ends_before = |c: &Chunk| c.address + u64::from(c.len) <= run.start;
            while chunks.get(chunk).is_some_and(ends_before) {
                chunk += 1;
            }
            let placed = regions.get(region).is_some_and(|r| {
                may_inherit(&r.backing) && r.start <= run.start && run.end <= r.end()
            });
            let free = chunks.get(chunk).is_none_or(|c| c.address >= run.end);
            let aligned = run.start.is_multiple_of(PAGE) && run.end.is_multiple_of(PAGE);
            let ascends = from <= run.start && run.start < run.end;
            from = run.end;
            placed && free && aligned && ascends
        })
    }

    /// Whether the parent, with the regions `parents`, has memory of the same kind for every run.
    pub(crate) fn is_of(&self, own: &[Region], parents: &[Region]) -> bool {
        let (mut at, mut below) = (0, 0);
        self.runs.iter().all(|run| {
            while own.get(at).is_some_and(|r| r.end() <= run.start) {
                at += 1;
            }
            while parents.get(below).is_some_and(|r| r.end() <= run.start) {
                below += 1;
            }
            let Some(own) = own.get(at) else { return false };
            let mut covered = run.start;
            for region in &parents[below..] {
                if covered >= run.end || region.start > covered {
                    break;
                }
                if !same_kind(&own.backing, &region.backing) {
                    return false;
                }
                covered = region.end();
            }
            covered >= run.end
        })
    }
}

/// Whether pages of such a region can be inherited. Changes are tracked in private memory only.
fn may_inherit(backing: &Backing) -> bool {
    matches!(backing, Backing::Anonymous | Backing::PrivateFile { .. })
}

/// Whether two backings are of the same kind. A file may have been renamed. Of its pages, only modified
/// ones are ever inherited, and these are all stored.
fn same_kind(own: &Backing, parents: &Backing) -> bool {
    may_inherit(own) && std::mem::discriminant(own) == std::mem::discriminant(parents)
}
