//! Identity of a mapped file: its length, time and build-id (CRIU: `--file-validation build-id`).
//! Unmodified pages are not stored, so the restart needs the same file as the checkpoint.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::format::bytes::{array, hex, u32_at, u64_at};

const PT_NOTE: u32 = 4;
const NT_GNU_BUILD_ID: u32 = 3;
const MAX_PROGRAM_HEADERS: usize = 256;
const MAX_NOTES: u64 = 64 << 10;

/// Properties by which a file is recognised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileIdentity {
    /// Length in bytes.
    pub size: u64,
    /// Time of the last modification, in nanoseconds since 1970.
    pub mtime_ns: i64,
    /// GNU build-id, if it is an ELF file with one.
    pub build_id: Option<Vec<u8>>,
}

impl FileIdentity {
    /// The identity of an open file.
    ///
    /// # Errors
    /// The file's length and times cannot be read. A missing build id is no error.
    pub fn of(file: &File) -> io::Result<FileIdentity> {
        let meta = file.metadata()?;
        Ok(FileIdentity {
            size: meta.len(),
            mtime_ns: meta
                .mtime()
                .saturating_mul(1_000_000_000)
                .saturating_add(meta.mtime_nsec()),
            build_id: build_id(file),
        })
    }

    /// The difference between the file `now` and this one, if any. The build-id with the size is
    /// conclusive. Without a build-id, size and time of modification must suffice.
    pub fn difference(&self, now: &FileIdentity) -> Option<String> {
        if self.size != now.size {
            return Some(format!("it has {} bytes, had {}", now.size, self.size));
        }
        let id = |id: &Option<Vec<u8>>| id.as_deref().map_or("none".into(), hex);
        if self.build_id != now.build_id {
            return Some(format!(
                "it has build-id {}, had {}",
                id(&now.build_id),
                id(&self.build_id)
            ));
        }
        if self.build_id.is_none() && self.mtime_ns != now.mtime_ns {
            return Some("it was modified since".to_owned());
        }
        None
    }
}

/// Identities by path: a library has several mappings but is read once.
#[derive(Default)]
pub struct FileIdentityCache {
    known: HashMap<Vec<u8>, Option<(u64, FileIdentity)>>,
}

impl FileIdentityCache {
    /// Inode and identity of the regular file at `path`, if there is one to be read.
    pub fn at(&mut self, path: &[u8]) -> Option<&(u64, FileIdentity)> {
        if !self.known.contains_key(path) {
            let found = look_at(Path::new(OsStr::from_bytes(path)));
            self.known.insert(path.to_owned(), found);
        }
        self.known.get(path)?.as_ref()
    }
}

fn look_at(path: &Path) -> Option<(u64, FileIdentity)> {
    // The type is checked first: opening a device or a pipe can have effects.
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let file = File::open(path).ok()?;
    let meta = file.metadata().ok()?;
    Some((meta.ino(), FileIdentity::of(&file).ok()?))
}

fn build_id(file: &File) -> Option<Vec<u8>> {
    let mut header = [0; 64];
    file.read_exact_at(&mut header, 0).ok()?;
    let elf64_little_endian = [0x7f, b'E', b'L', b'F', 2, 1];
    if header[..6] != elf64_little_endian {
        return None;
    }
    let table_at = u64_at(&header, 32);
    let entry_bytes = u16::from_le_bytes(array(&header, 54)) as usize;
    let entries = u16::from_le_bytes(array(&header, 56)) as usize;
    if entry_bytes != 56 || entries > MAX_PROGRAM_HEADERS {
        return None;
    }
    let mut table = vec![0; entries * entry_bytes];
    file.read_exact_at(&mut table, table_at).ok()?;
    table
        .chunks_exact(entry_bytes)
        .filter(|entry| u32_at(entry, 0) == PT_NOTE)
        .find_map(|entry| {
            let (offset, size) = (u64_at(entry, 8), u64_at(entry, 32));
            let align = if u64_at(entry, 48) == 8 { 8 } else { 4 };
            let mut notes = vec![0; size.min(MAX_NOTES) as usize];
            file.read_exact_at(&mut notes, offset).ok()?;
            build_id_note(&notes, align)
        })
}

fn build_id_note(mut notes: &[u8], align: usize) -> Option<Vec<u8>> {
    while notes.len() >= 12 {
        let name_len = u32_at(notes, 0) as usize;
        let id_len = u32_at(notes, 4) as usize;
        let kind = u32_at(notes, 8);
        let id_at = 12usize
            .checked_add(name_len)?
            .checked_next_multiple_of(align)?;
        let next = id_at.checked_add(id_len)?;
        let id = notes.get(id_at..next)?;
        if kind == NT_GNU_BUILD_ID && notes.get(12..12 + name_len)? == b"GNU\0" {
            return Some(id.to_owned());
        }
        notes = notes.get(next.checked_next_multiple_of(align)?..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_has_its_own_identity() {
        let me = FileIdentity::of(&File::open("/proc/self/exe").unwrap()).unwrap();
        assert_eq!(me.difference(&me), None);
        let longer = FileIdentity {
            size: me.size + 1,
            ..me.clone()
        };
        assert!(me.difference(&longer).unwrap().contains("bytes"));
        let other = FileIdentity {
            build_id: Some(vec![1]),
            ..me.clone()
        };
        assert!(me.difference(&other).unwrap().contains("build-id"));
    }

    #[test]
    fn libc_has_a_build_id() {
        let libc = "/lib/x86_64-linux-gnu/libc.so.6";
        if let Ok(file) = File::open(libc) {
            assert_eq!(FileIdentity::of(&file).unwrap().build_id.unwrap().len(), 20);
        }
    }

    #[test]
    fn malformed_notes_have_no_build_id() {
        assert_eq!(build_id_note(&[0xff; 64], 4), None);
        let mut note = vec![
            4, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, b'G', b'N', b'U', 0, 7, 9,
        ];
        assert_eq!(build_id_note(&note, 4), Some(vec![7, 9]));
        note.pop();
        assert_eq!(build_id_note(&note, 4), None);
    }
}
