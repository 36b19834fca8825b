//! The tables of an image (regions, shared objects, chunks): decoded, and compared with each other.

use std::ops::Range;

use crate::error::Damage;
use crate::format::bytes::round_up;
use crate::format::chunk::{self, Chunk, Encoding, CHUNK_BYTES};
use crate::format::header::PAGE;
use crate::format::region::{Backing, Region};
use crate::format::section::kind;
use crate::format::shared_object::{SharedKind, SharedObject, SHARED_CONTENT};

/// End of the addresses of a program.
const USER_END: u64 = 1 << 47;

/// Decodes the section of regions.
pub(super) fn decode_regions(bytes: &[u8]) -> Result<Vec<Region>, Damage> {
    let (regions, rest): (Vec<Region>, _) =
        postcard::take_from_bytes(bytes).map_err(|_| Damage::Section(kind::REGIONS.name))?;
    if !rest.is_empty() {
        return Err(Damage::Section(kind::REGIONS.name));
    }
    let mut from = 0;
    for region in &regions {
        let end = region.start.checked_add(region.len);
        let placed = region.start.is_multiple_of(PAGE)
            && region.len.is_multiple_of(PAGE)
            && region.len > 0
            && region.start >= from
            && end.is_some_and(|end| end <= USER_END);
        if !placed || region.prot > 7 {
            return Err(Damage::Layout("the regions"));
        }
        from = region.end();
        if let Backing::PrivateFile { path, offset, .. }
        | Backing::SharedFile { path, offset, .. } = &region.backing
        {
            let named = path.first() == Some(&b'/') && !path.contains(&0);
            let inside = offset.is_multiple_of(PAGE)
                && offset
                    .checked_add(region.len)
                    .is_some_and(|end| i64::try_from(end).is_ok());
            if !named || !inside {
                return Err(Damage::Layout("the file of a region"));
            }
        }
    }
    Ok(regions)
}

/// Decodes the section of shared objects.
pub(super) fn decode_shared(bytes: &[u8]) -> Result<Vec<SharedObject>, Damage> {
    let (objects, rest): (Vec<SharedObject>, _) =
        postcard::take_from_bytes(bytes).map_err(|_| Damage::Section(kind::SHARED.name))?;
    if !rest.is_empty() {
        return Err(Damage::Section(kind::SHARED.name));
    }
    for (index, object) in objects.iter().enumerate() {
        let named = match &object.kind {
            SharedKind::Named { path, .. } | SharedKind::File { path } => {
                path.first() == Some(&b'/') && !path.contains(&0)
            }
            SharedKind::Memory { .. } | SharedKind::SystemV { .. } => true,
        };
        let twice = objects[..index].iter().any(|other| other.id == object.id);
        if !named || twice || i64::try_from(object.size).is_err() {
            return Err(Damage::Layout("the shared objects"));
        }
    }
    Ok(objects)
}

/// Checks that regions refer to existing objects, and lie in the right range: memory below, content above.
pub(super) fn check_shared(regions: &[Region], objects: &[SharedObject]) -> Result<(), Damage> {
    for region in regions {
        let (named, above) = match &region.backing {
            Backing::Shared { object, offset, .. } => (Some((object, offset)), false),
            Backing::SharedContent { object, offset } => (Some((object, offset)), true),
            _ => (None, false),
        };
        let exists = named.is_none_or(|(object, offset)| {
            let end = offset.checked_add(region.len);
            (*object as usize) < objects.len()
                && offset.is_multiple_of(PAGE)
                && end.is_some_and(|end| i64::try_from(end).is_ok())
        });
        if !exists || above != (region.start >= SHARED_CONTENT) {
            return Err(Damage::Layout("the shared objects of the regions"));
        }
    }
    Ok(())
}

/// Decodes the section of chunks.
pub(super) fn decode_chunks(bytes: &[u8]) -> Result<Vec<Chunk>, Damage> {
    let entries = bytes.chunks_exact(chunk::ENTRY_BYTES);
    if !entries.remainder().is_empty() {
        return Err(Damage::Section(kind::CHUNKS.name));
    }
    entries
        .map(|entry| Chunk::decode(entry).ok_or(Damage::Section(kind::CHUNKS.name)))
        .collect()
}

/// Checks that the chunks fill the file up to `end` and lie in their regions. Returns the range of chunks
/// of each region.
pub(super) fn place_chunks(
    regions: &[Region],
    chunks: &[Chunk],
    end: u64,
) -> Result<Vec<Range<usize>>, Damage> {
    let mut chunks_of = Vec::with_capacity(regions.len());
    let mut next = 0;
    let mut offset = PAGE;
    for region in regions {
        let first = next;
        let mut from = region.start;
        while let Some(chunk) = chunks.get(next).filter(|c| c.address < region.end()) {
            let len = u64::from(chunk.len);
            let stored_right = match chunk.encoding {
                Encoding::Raw => chunk.stored == chunk.len,
                Encoding::Zstd => chunk.stored > 0 && chunk.stored < chunk.len,
                Encoding::Zero => chunk.stored == 0 && chunk.crc == 0,
            };
            let placed = chunk.address >= from
                && chunk.address.is_multiple_of(PAGE)
                && len > 0
                && len.is_multiple_of(PAGE)
                && len <= CHUNK_BYTES as u64
                && len <= region.end() - chunk.address
                && chunk.offset == offset;
            if !placed || !stored_right || !region.backing.has_content() {
                return Err(Damage::Layout("the memory chunks"));
            }
            from = chunk.address + len;
            // Both are far below 2^63: the offset is compared with the file's length below.
            let stored = round_up(chunk.stored.into(), PAGE).unwrap_or(0);
            offset = match offset.checked_add(stored).filter(|offset| *offset <= end) {
                Some(offset) => offset,
                None => return Err(Damage::Layout("a memory chunk reaches into the sections")),
            };
            next += 1;
        }
        chunks_of.push(first..next);
    }
    if next != chunks.len() {
        return Err(Damage::Layout("a memory chunk is outside all regions"));
    }
    if offset != end {
        return Err(Damage::Layout(
            "there are bytes between memory and sections",
        ));
    }
    Ok(chunks_of)
}
