//! Correction of the checksums that a reader checks first, so that its later checks are reached.

use crate::common::{checksum_again, crc32};
use crate::golden::IMAGES;

const PAGE: usize = 4096;
/// Size of an entry of the section directory and of the table of chunks, in bytes.
const ENTRY: usize = 32;
const CHUNKS: u32 = 2;

fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..at + 8)?;
    usize::try_from(u64::from_le_bytes(bytes.try_into().ok()?)).ok()
}

fn put(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// The image with right checksums of header, directory and sections, if it ends with a directory.
pub fn put_right(image: &[u8]) -> Option<Vec<u8>> {
    let directory = number(image, 104)?;
    let rest = image.len().checked_sub(directory)?;
    if image.len() < PAGE || directory < 256 || !rest.is_multiple_of(ENTRY) {
        return None;
    }
    let mut image = image.to_vec();
    let length = image.len() as u64;
    put(&mut image, 120, length);
    checksum_again(&mut image);
    Some(image)
}

/// An image with these sections. The first byte is the number of zero pages of memory. Each section follows
/// with its kind, its version, the length of its content in two bytes, and the content. Chunks that lie in
/// the file get the right checksum.
pub fn assemble(parts: &[u8]) -> Vec<u8> {
    let (pages, mut parts) = parts.split_first().unwrap_or((&0, &[]));
    let mut image = IMAGES[1][..256].to_vec();
    let sections_at = PAGE * (1 + usize::from(*pages & 15));
    image.resize(sections_at, 0);
    let mut directory = Vec::new();
    while let [kind, version, low, high, rest @ ..] = parts {
        let len = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let (content, after) = rest.split_at(len);
        let mut content = content.to_vec();
        if u32::from(*kind) == CHUNKS {
            put_right_chunks(&mut content, &image[..sections_at]);
        }
        let mut entry = [0; ENTRY];
        entry[0] = *kind;
        entry[4] = *version;
        put(&mut entry, 8, image.len() as u64);
        put(&mut entry, 16, len as u64);
        directory.extend(entry);
        image.extend(content);
        parts = after;
    }
    put(&mut image, 96, sections_at as u64);
    let directory_at = image.len() as u64;
    put(&mut image, 104, directory_at);
    let entries = (directory.len() / ENTRY) as u32;
    image[112..116].copy_from_slice(&entries.to_le_bytes());
    image.extend(directory);
    let length = image.len() as u64;
    put(&mut image, 120, length);
    checksum_again(&mut image);
    image
}

/// The parts from which [`assemble`] makes an image with the same sections.
pub fn disassemble(image: &[u8]) -> Option<Vec<u8>> {
    let (sections_at, directory) = (number(image, 96)?, number(image, 104)?);
    let mut parts = vec![(sections_at / PAGE).checked_sub(1)? as u8];
    for entry in image.get(directory..)?.chunks_exact(ENTRY) {
        let (offset, len) = (number(entry, 8)?, number(entry, 16)?);
        let [low, high] = u16::try_from(len).ok()?.to_le_bytes();
        parts.extend([entry[0], entry[4], low, high]);
        parts.extend(image.get(offset..offset.checked_add(len)?)?);
    }
    Some(parts)
}

fn put_right_chunks(table: &mut [u8], memory: &[u8]) {
    for chunk in table.chunks_exact_mut(ENTRY) {
        let stored = u32::from_le_bytes([chunk[12], chunk[13], chunk[14], chunk[15]]) as usize;
        let Some(offset) = number(chunk, 16) else {
            continue;
        };
        let end = offset.checked_add(stored);
        if let Some(stored) = end.and_then(|end| memory.get(offset..end)) {
            chunk[24..28].copy_from_slice(&crc32(stored).to_le_bytes());
        }
    }
}

/// The manifest with the right digest, if its last member is a digest.
pub fn put_right_manifest(text: &[u8]) -> Option<Vec<u8>> {
    const MEMBER: &str = "  \"blake3\": \"";
    let (body, _) = std::str::from_utf8(text).ok()?.rsplit_once(MEMBER)?;
    let digest = blake3::hash(body.as_bytes()).to_hex();
    Some(format!("{body}{MEMBER}{digest}\"\n}}\n").into_bytes())
}
