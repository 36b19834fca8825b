//! Sets of older writers are read with the same meaning. `golden/` holds one for every version of a section
//! that any released writer has used. `cargo test --test golden -- --ignored` adds the missing sets of
//! `NEW`, to be committed when a version has changed. The others are never changed. A file `key-7` seals
//! its set.

mod common;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use common::{
    assert_has_changed, key, noise, write_increment, write_sealed_set, write_set, BASE,
    CLOSED_FILES,
};
use stasis_ckpt_image::{kind, FileSystem, SealKey, Set, PAGE, SHARED_CONTENT};

/// Makes sets in a directory.
type Write = fn(&Path);

/// The sets of the present writer: name, and function.
const NEW: [(&str, Write); 4] = [
    ("regions-2", |dir| drop(write_set(dir, 1, 1))),
    ("closed-files-1", |dir| drop(write_set(dir, 1, 1))),
    ("sealed-1", |dir| {
        write_sealed_set(dir, 1, 1, &key(dir, 7));
    }),
    ("inherited-1", |dir| {
        write_set(dir, 1, 1);
        write_increment(&FileSystem::default(), dir, 2, "ckpt-1", None).unwrap();
    }),
];

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// A copy that no other user can write, as a set requires.
fn private_copy(of: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(of).unwrap() {
        let (from, to) = {
            let entry = entry.unwrap();
            (entry.path(), to.join(entry.file_name()))
        };
        if from.is_dir() {
            private_copy(&from, &to);
        } else {
            fs::copy(&from, &to).unwrap();
            fs::set_permissions(&to, Permissions::from_mode(0o600)).unwrap();
        }
    }
    fs::set_permissions(to, Permissions::from_mode(0o700)).unwrap();
}

/// The byte that `common::write_small` stores at an address.
fn expected(address: u64) -> u8 {
    match address {
        SHARED_CONTENT.. => noise(address),
        _ => match (address - BASE) / PAGE {
            8..12 => (address % 7) as u8,
            21 => 0,
            _ => noise(address),
        },
    }
}

#[test]
fn sets_of_older_writers_are_read() {
    let mut read = Vec::new();
    for entry in fs::read_dir(golden()).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let ck = dir.path().join("ck");
        private_copy(&entry.path(), &ck);
        let file = ck.join("key-7");
        let key = file.exists().then(|| SealKey::read(&file).unwrap());
        let image = Set::open(&ck, "ckpt-1", key.as_ref());
        let image = image.and_then(|set| set.image(0, Some(1)));
        let image = image.unwrap_or_else(|e| panic!("{name}: {e}"));
        let regions = image.regions().iter();
        let places: Vec<_> = regions
            .map(|r| (r.start.wrapping_sub(BASE) / PAGE, r.len / PAGE))
            .collect();
        assert_eq!(places[..3], [(0, 8), (8, 4), (20, 4)], "{name}");
        assert_eq!(image.section(kind::PROCESS).unwrap().bytes, [0; 100]);
        let closed = image.section(kind::CLOSED_FILES);
        assert!(closed.is_none_or(|section| section.bytes == CLOSED_FILES));
        let mut loader = image.loader().unwrap();
        let mut memory = vec![0; 65536];
        for chunk in image.chunks() {
            let memory = &mut memory[..chunk.len as usize];
            loader.load(chunk, memory).unwrap();
            for (byte, address) in memory.iter().zip(chunk.address..) {
                assert_eq!(*byte, expected(address), "{name}: {address:#x}");
            }
        }
        if ck.join("ckpt-2").exists() {
            let increment = Set::open(&ck, "ckpt-2", key.as_ref());
            let image = increment.and_then(|set| set.image(0, Some(1)));
            assert_has_changed(&image.unwrap_or_else(|e| panic!("{name}: {e}")));
        }
        read.push(name);
    }
    assert!(read.len() >= 5);
    assert!(NEW
        .iter()
        .all(|(new, _)| read.iter().any(|name| name == new)));
}

#[test]
#[ignore = "writes a new file into the sources"]
fn write_golden() {
    for (name, write) in NEW {
        let dir = golden().join(name);
        if dir.exists() {
            continue;
        }
        fs::create_dir(&dir).unwrap();
        write(&dir);
    }
}
