//! What an increment leaves to the set before it: pages that are still what they were there.
//!
//! It is said of every page, so a page of which neither this nor a chunk tells anything is zero, or its
//! file's, whatever it was before.

use std::ops::Range;

use crate::bytes::{array, hex, u64_at, unhex};
use crate::chunk::Chunk;
use crate::header::{SetId, PAGE};
use crate::region::{Backing, Region};

const SET_ID_BYTES: usize = 16;
const HEAD_BYTES: usize = SET_ID_BYTES + blake3::OUT_LEN;
const RUN_BYTES: usize = 16;

/// The image that an increment builds upon: that of the same rank in an older set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    /// The set.
    pub set_id: SetId,
    /// The digest of the rank's image in it, in hexadecimal: another image is no parent.
    pub digest: String,
}

/// Pages that are what the parent says they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inherited {
    /// The parent.
    pub parent: Parent,
    /// The pages, in ascending order. Each run lies in one region and touches no chunk.
    pub runs: Vec<Range<u64>>,
}

impl Inherited {
    /// The section; none if the parent's digest is no digest.
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

    pub(crate) fn decode(bytes: &[u8]) -> Option<Inherited> {
        let (head, runs) = bytes.split_at_checked(HEAD_BYTES)?;
        let runs = runs.chunks_exact(RUN_BYTES);
        if !runs.remainder().is_empty() {
            return None;
        }
        let digest: [u8; blake3::OUT_LEN] = array(head, SET_ID_BYTES);
        Some(Inherited {
            parent: Parent {
                set_id: SetId(array(head, 0)),
                digest: hex(&digest),
            },
            runs: runs.map(|run| u64_at(run, 0)..u64_at(run, 8)).collect(),
        })
    }

    /// Whether the runs lie in their regions and beside the chunks; `chunks` belong to `regions`.
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

    /// Whether the parent, with these regions, has memory of the same kind wherever this says so.
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

/// Whether pages of such a region can be inherited: private memory, in which alone changes are seen.
fn may_inherit(backing: &Backing) -> bool {
    matches!(backing, Backing::Anonymous | Backing::PrivateFile { .. })
}

/// A file may have got another name meanwhile: of its pages only those that the process has changed, and
/// which are all stored, are ever inherited.
fn same_kind(own: &Backing, parents: &Backing) -> bool {
    may_inherit(own) && std::mem::discriminant(own) == std::mem::discriminant(parents)
}
