//! Increments: read with their chain, refused without it, and merged.

mod common;

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;

use common::*;
use stasis_ckpt_image::{
    compact, explain, image_file, kind, list_sets, newest_whole, prune, Expect, Fault, FaultAt,
    FileSystem, Image, ImageError, SealKey, Set, SetState,
};

/// A full set and two increments, the second with the first as parent.
fn chain(dir: &Path, key: Option<&SealKey>) {
    let fs = FileSystem::default();
    write_set_on(&fs, dir, 1, 2, key).unwrap();
    write_increment(&fs, dir, 2, "ckpt-1", key).unwrap();
    write_increment(&fs, dir, 3, "ckpt-2", key).unwrap();
}

fn images(dir: &Path, name: &str, key: Option<&SealKey>) -> Result<Vec<Image>, ImageError> {
    let set = Set::open(dir, name, key)?;
    (0..2).map(|rank| set.image(rank, Some(1))).collect()
}

/// The reason why the set cannot be used, with the usable set.
fn refusal(dir: &Path, name: &str) -> String {
    let reason = images(dir, name, None).unwrap_err();
    explain(dir, name, None, reason).to_string()
}

fn sets(dir: &Path) -> Vec<(String, Option<String>, bool)> {
    let all = list_sets(dir, None).unwrap().into_iter();
    all.map(|set| {
        let parent = set.parent().map(str::to_owned);
        (set.name, parent, set.state == SetState::Whole)
    })
    .collect()
}

#[test]
fn a_chain_is_read_like_one_set() {
    let dir = tempfile::tempdir().unwrap();
    let (ck, key) = (dir.path().join("ck"), key(dir.path(), 7));
    for (ck, key) in [(&ck, None), (&dir.path().join("sealed"), Some(&key))] {
        chain(ck, key);
        for name in ["ckpt-2", "ckpt-3"] {
            let images = images(ck, name, key).unwrap();
            images.iter().for_each(assert_has_changed);
            images.iter().for_each(assert_holds_together);
        }
    }
    let size = |name: &str| {
        fs::metadata(ck.join(name).join("rank-0.img"))
            .unwrap()
            .len()
    };
    assert!(size("ckpt-3") < size("ckpt-1"));
    let parent = |name: &str| Some(name.to_owned());
    assert_eq!(
        sets(&ck),
        [
            ("ckpt-3".to_owned(), parent("ckpt-2"), true),
            ("ckpt-2".to_owned(), parent("ckpt-1"), true),
            ("ckpt-1".to_owned(), None, true),
        ]
    );
}

#[test]
fn an_increment_alone_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    chain(dir.path(), None);
    let path = dir.path().join("ckpt-2").join(image_file(0));
    let alone = Image::open_verified(&path, &Expect::default()).unwrap();
    let Err(why) = alone.memory() else {
        panic!("its memory can be read");
    };
    assert!(
        why.to_string().contains("which is needed to read it"),
        "{why}"
    );
}

#[test]
fn a_bad_link_and_an_independent_set_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write_set(dir, 1, 2);
    for number in 2..=4 {
        let parent = if number == 2 {
            "ckpt-1".to_owned()
        } else {
            format!("ckpt-{}", number - 1)
        };
        write_increment(&FileSystem::default(), dir, number, &parent, None).unwrap();
    }
    // The same content, written again: whole, but not the parent of the next set.
    let link = dir.join("ckpt-3");
    fs::rename(&link, dir.join("aside")).unwrap();
    write_increment(&FileSystem::default(), dir, 3, "ckpt-2", None).unwrap();
    let said = refusal(dir, "ckpt-4");
    assert!(said.contains("ckpt-4 needs ckpt-3"), "{said}");
    assert!(
        said.contains("not the parent set of the next increment"),
        "{said}"
    );
    assert!(
        said.contains("ckpt-2") && !said.contains("restart ckpt-3"),
        "{said}"
    );
    // A search without a name passes it over, for the newest set that does not need it.
    assert_eq!(newest_whole(dir, None).unwrap().set.name(), "ckpt-3");

    fs::remove_dir_all(&link).unwrap();
    fs::rename(dir.join("aside"), &link).unwrap();
    images(dir, "ckpt-4", None).unwrap();
    let image = link.join(image_file(1));
    let mut bytes = fs::read(&image).unwrap();
    bytes[5000] ^= 1;
    fs::write(&image, bytes).unwrap();
    let said = refusal(dir, "ckpt-4");
    assert!(
        said.contains("ckpt-3/rank-1.img (rank 1): memory chunk"),
        "{said}"
    );
    assert!(said.ends_with("ckpt-2"), "{said}");

    fs::remove_dir_all(dir.join("ckpt-1")).unwrap();
    let said = refusal(dir, "ckpt-4");
    assert!(
        said.contains("ckpt-4 needs ckpt-1") && said.contains("no set ckpt-1"),
        "{said}"
    );
    assert!(said.contains("no older whole checkpoint"), "{said}");
    assert!(newest_whole(dir, None).is_err());
}

/// The image of one rank with other runs in its section of inherited pages; all checksums are right.
fn with_runs(image: &[u8], runs: &[[u64; 2]]) -> Vec<u8> {
    let number = |at: usize| u64::from_le_bytes(image[at..at + 8].try_into().unwrap()) as usize;
    let mut entries = image[number(104)..].chunks_exact(32);
    let entry = entries
        .find(|entry| entry[0] == kind::INHERITED.number as u8)
        .unwrap();
    let at = u64::from_le_bytes(entry[8..16].try_into().unwrap()) as usize + 48;
    let mut image = image.to_vec();
    for (index, value) in runs.iter().flatten().enumerate() {
        image[at + 8 * index..at + 8 * (index + 1)].copy_from_slice(&value.to_le_bytes());
    }
    checksum_again(&mut image);
    image
}

#[test]
fn inherited_pages_must_fit_their_regions() {
    let dir = tempfile::tempdir().unwrap();
    chain(dir.path(), None);
    let path = dir.path().join("ckpt-2").join(image_file(0));
    let good = fs::read(&path).unwrap();
    let run = |pages: std::ops::Range<u64>| [BASE + pages.start * 4096, BASE + pages.end * 4096];
    let rest = [run(8..10), run(11..12), run(22..23)];
    let open = |first: [u64; 2]| {
        fs::write(&path, with_runs(&good, &[first, rest[0], rest[1], rest[2]])).unwrap();
        Image::open_verified(&path, &Expect::default())
    };
    assert!(open(run(1..2)).is_ok());
    assert!(open(run(0..5)).is_ok());
    let misplaced = [
        run(5..6),
        run(4..7),
        run(7..9),
        run(2..2),
        [BASE + 1, BASE + 4096],
        [BASE + 8192, BASE + 4096],
        [0, 4096],
        [u64::MAX - 4095, u64::MAX],
        run(8..9),
        run(30..31),
    ];
    for first in misplaced {
        let why = open(first).unwrap_err().to_string();
        assert!(why.contains("the inherited pages"), "{first:x?}: {why}");
    }
}

#[test]
fn a_chain_that_names_itself_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    chain(dir, None);
    // By names alone 3 would come before 2.
    for (from, to) in [("ckpt-3", "x"), ("ckpt-2", "ckpt-3"), ("x", "ckpt-2")] {
        fs::rename(dir.join(from), dir.join(to)).unwrap();
    }
    let said = refusal(dir, "ckpt-2");
    assert!(said.contains("no set ckpt-2"), "{said}");
}

#[test]
fn needed_sets_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let keep = |number| {
        let number = NonZeroUsize::new(number).unwrap();
        prune(&FileSystem::default(), dir, number, None, None, &[]).unwrap()
    };
    write_set(dir, 1, 1);
    write_set(dir, 2, 1);
    for (number, parent) in [(3, "ckpt-2"), (4, "ckpt-3"), (5, "ckpt-3")] {
        write_increment(&FileSystem::default(), dir, number, parent, None).unwrap();
    }
    assert_eq!(keep(1), ["ckpt-4", "ckpt-1"]);
    assert!(images_of_one(dir, "ckpt-5"));
    write_set(dir, 6, 1);
    assert!(keep(2).is_empty());
    write_increment(&FileSystem::default(), dir, 7, "ckpt-6", None).unwrap();
    assert_eq!(keep(2), ["ckpt-5", "ckpt-3", "ckpt-2"]);
    assert!(images_of_one(dir, "ckpt-7"));
}

fn images_of_one(dir: &Path, name: &str) -> bool {
    Set::open(dir, name, None).is_ok_and(|set| set.image(0, None).is_ok())
}

#[test]
fn a_chain_is_merged_to_a_full_set() {
    let dir = tempfile::tempdir().unwrap();
    let (ck, key) = (dir.path().join("ck"), key(dir.path(), 7));
    chain(&ck, Some(&key));
    let merged = compact(&FileSystem::default(), &ck, Some(&key)).unwrap();
    assert_eq!(merged.made, Some(ck.join("ckpt-4")));
    assert_eq!(merged.from.set.name(), "ckpt-3");
    for gone in ["ckpt-1", "ckpt-2", "ckpt-3"] {
        fs::remove_dir_all(ck.join(gone)).unwrap();
    }
    let images = images(&ck, "ckpt-4", Some(&key)).unwrap();
    images.iter().for_each(assert_has_changed);
    assert_eq!(images[1].section(kind::PROCESS).unwrap().bytes, [1; 100]);
    let again = compact(&FileSystem::default(), &ck, Some(&key)).unwrap();
    assert_eq!(again.made, None);
}

#[test]
fn a_failed_merge_leaves_the_chain() {
    for fault in [Fault::Halt, Fault::Full] {
        for at in 1.. {
            let dir = tempfile::tempdir().unwrap();
            let dir = dir.path();
            chain(dir, None);
            let fs = FileSystem::watched(Some(FaultAt { fault, at }), |_| ());
            let merged = compact(&fs, dir, None);
            let newest = newest_whole(dir, None).unwrap().set;
            assert!(["ckpt-3", "ckpt-4"].contains(&newest.name()));
            (0..2).for_each(|rank| assert_has_changed(&newest.image(rank, None).unwrap()));
            assert!(Set::open(dir, "ckpt-3", None)
                .unwrap()
                .check_images()
                .is_ok());
            // There is no step left to fail.
            if merged.is_ok() {
                assert!(at > 10, "{at} steps");
                break;
            }
        }
    }
}
