//! Sealed sets: changes without the key are detected, even if every checksum and every digest is adapted.

mod common;

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use common::*;
use stasis_ckpt_image::{
    explain, list_sets, newest_whole, prune, Damage, FileSystem, ImageError, SealKey, Set,
    SetState, SetWriter, MANIFEST_FILE, PAGE,
};

/// A directory with a sealed set `ckpt-1` of one rank, and its key.
fn sealed() -> (tempfile::TempDir, PathBuf, SealKey) {
    let dir = tempfile::tempdir().unwrap();
    let (ck, key) = (dir.path().join("ck"), key(dir.path(), 1));
    write_sealed_set(&ck, 1, 1, &key);
    (dir, ck, key)
}

/// Verifies set `name` to the last byte, as a restart does.
fn verify(ck: &Path, name: &str, key: Option<&SealKey>) -> Result<(), ImageError> {
    Set::open(ck, name, key)?.image(0, Some(1)).map(drop)
}

fn image(ck: &Path) -> PathBuf {
    ck.join("ckpt-1/rank-0.img")
}

fn manifest_file(ck: &Path) -> PathBuf {
    ck.join("ckpt-1").join(MANIFEST_FILE)
}

/// Changes the image by `change`, and corrects everything that needs no key: all checksums, the image's
/// digest and the manifest's own.
fn forge(ck: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(image(ck)).unwrap();
    change(&mut bytes);
    checksum_again(&mut bytes);
    fs::write(image(ck), &bytes).unwrap();
    let digest = digest(&bytes);
    let text = fs::read_to_string(manifest_file(ck)).unwrap();
    let (before, after) = text.split_once("\"digest\": \"").unwrap();
    forge_manifest(
        ck,
        &format!("{before}\"digest\": \"{digest}{}", &after[64..]),
    );
}

/// Writes a manifest with the right digest.
fn forge_manifest(ck: &Path, text: &str) {
    let (body, _) = text.rsplit_once("  \"blake3\": \"").unwrap();
    let digest = blake3::hash(body.as_bytes()).to_hex();
    fs::write(
        manifest_file(ck),
        format!("{body}  \"blake3\": \"{digest}\"\n}}\n"),
    )
    .unwrap();
}

/// The digest of an image as `docs/image-format.md` defines it.
fn digest(image: &[u8]) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher
        .update(&image[..256])
        .update(&image[sections_at(image)..]);
    hasher.finalize().to_hex().to_string()
}

fn sections_at(image: &[u8]) -> usize {
    u64::from_le_bytes(image[96..104].try_into().unwrap()) as usize
}

/// Changes memory without changing its CRC-32: a multiple of the polynomial is added.
fn change_memory_unseen(image: &mut [u8]) {
    let polynomial = 1 | 0xedb8_8320_u64 << 1;
    let at = PAGE as usize + 1000;
    let before = crc32(&image[at..at + 5]);
    for (byte, add) in image[at..].iter_mut().zip(&polynomial.to_le_bytes()[..5]) {
        *byte ^= add;
    }
    assert_eq!(crc32(&image[at..at + 5]), before);
}

#[test]
fn a_sealed_set_is_used_with_its_key_alone() {
    let (dir, ck, key) = sealed();
    let other = common::key(dir.path(), 2);
    verify(&ck, "ckpt-1", Some(&key)).unwrap();
    let set = newest_whole(&ck, Some(&key)).unwrap().set;
    assert_eq!(set.sealed(), Some(key.id()));
    for (key, says) in [
        (None, "--key-file"),
        (Some(&other), "not with the key that was given"),
    ] {
        let error = verify(&ck, "ckpt-1", key).unwrap_err().to_string();
        assert!(error.contains(says) && error.contains("ckpt-1"), "{error}");
        assert!(newest_whole(&ck, key).is_err());
    }
}

#[test]
fn with_a_key_a_set_without_a_seal_is_refused_and_an_older_one_named() {
    let (_dir, ck, key) = sealed();
    write_set(&ck, 2, 1);
    verify(&ck, "ckpt-2", None).unwrap();
    let error = verify(&ck, "ckpt-2", Some(&key)).unwrap_err();
    assert!(matches!(error, ImageError::NotSealed { .. }), "{error}");
    let explained = explain(&ck, "ckpt-2", Some(&key), error).to_string();
    assert!(explained.contains("ck/ckpt-1"), "{explained}");
    let newest = newest_whole(&ck, Some(&key)).unwrap();
    assert_eq!(newest.set.name(), "ckpt-1");
    assert!(newest.skipped[0].contains("ckpt-2") && newest.skipped.len() == 1);
    let gone = prune(
        &FileSystem::default(),
        &ck,
        NonZeroUsize::MIN,
        Some(&key),
        None,
        &[],
    )
    .unwrap();
    assert!(
        gone.is_empty(),
        "{gone:?} counted for one that the job has sealed"
    );
}

#[test]
fn the_seal_can_be_neither_removed_nor_reused() {
    let (_dir, ck, key) = sealed();
    let text = fs::read_to_string(manifest_file(&ck)).unwrap();
    let (unsealed, _) = text.split_once("  \"key\": \"").unwrap();
    forge_manifest(&ck, &format!("{unsealed}  \"blake3\": \""));
    let error = verify(&ck, "ckpt-1", Some(&key)).unwrap_err();
    assert!(matches!(error, ImageError::NotSealed { .. }), "{error}");
    for (from, to) in [
        ("\"./app\"", "\"./bad\""),
        ("\"created\": 1", "\"created\": 2"),
        ("\"seal\": \"", "\"seal\": \"0"),
        ("\"key\": \"", "\"key\": \"x"),
    ] {
        forge_manifest(&ck, &text.replace(from, to));
        let error = verify(&ck, "ckpt-1", Some(&key)).unwrap_err();
        assert!(
            matches!(error, ImageError::BrokenSeal { .. }),
            "{from}: {error}"
        );
        let state = &list_sets(&ck, Some(&key)).unwrap()[0].state;
        assert!(matches!(state, SetState::Unusable(_)), "{state:?}");
    }
    forge_manifest(&ck, &text);
    verify(&ck, "ckpt-1", Some(&key)).unwrap();
}

#[test]
fn the_seal_detects_changes_with_adapted_checksums() {
    let (_dir, ck, key) = sealed();
    let process = |image: &mut Vec<u8>| {
        let place = image
            .windows(100)
            .rposition(|part| part == [0; 100])
            .unwrap();
        image[place + 50] = 1;
    };
    forge(&ck, process);
    let error = verify(&ck, "ckpt-1", Some(&key)).unwrap_err();
    assert!(matches!(error, ImageError::BrokenSeal { .. }), "{error}");

    // Without a key it cannot be detected.
    write_set(&ck, 2, 1);
    fs::remove_dir_all(ck.join("ckpt-1")).unwrap();
    fs::rename(ck.join("ckpt-2"), ck.join("ckpt-1")).unwrap();
    forge(&ck, process);
    verify(&ck, "ckpt-1", None).unwrap();
}

#[test]
fn memory_changed_under_its_checksum_is_detected() {
    let (_dir, ck, key) = sealed();
    let opened = Set::open(&ck, "ckpt-1", Some(&key)).unwrap();
    let opened = opened.image(0, Some(1)).unwrap();
    let mut bytes = fs::read(image(&ck)).unwrap();
    change_memory_unseen(&mut bytes);
    fs::write(image(&ck), &bytes).unwrap();
    let found = |error: ImageError| match error {
        ImageError::Damaged { damage, .. } => {
            matches!(damage, Damage::ChunkDigest { index: 0, .. })
        }
        _ => false,
    };
    assert!(found(verify(&ck, "ckpt-1", Some(&key)).unwrap_err()));
    // A restart that has opened it before detects it too.
    let chunk = opened.chunks()[0];
    let mut memory = vec![0; chunk.len as usize];
    let loaded = opened.loader().unwrap().load(&chunk, &mut memory);
    assert!(found(loaded.unwrap_err()));
    // A checksum does not detect it.
    let plain = write_set(&ck, 2, 1).join("rank-0.img");
    let mut bytes = fs::read(&plain).unwrap();
    change_memory_unseen(&mut bytes);
    fs::write(&plain, &bytes).unwrap();
    verify(&ck, "ckpt-2", None).unwrap();
}

#[test]
fn an_image_without_digests_is_not_sealed() {
    let dir = tempfile::tempdir().unwrap();
    let key = key(dir.path(), 1);
    let ck = dir.path().join("ck");
    let writer = SetWriter::begin(&FileSystem::default(), &ck, 1).unwrap();
    let id = writer.set_id();
    let summary = write_small(&writer.path().join("rank-0.img"), id, 0, 1);
    let error = writer
        .commit(&manifest(id, vec![summary]), Some(&key))
        .unwrap_err();
    let damage = matches!(
        error,
        ImageError::Damaged {
            damage: Damage::NoDigests,
            ..
        }
    );
    assert!(
        damage && list_sets(&ck, None).unwrap().is_empty(),
        "{error}"
    );
}
